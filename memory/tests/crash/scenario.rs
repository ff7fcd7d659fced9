//! Scenarios, a model whose reply is a function of the conversation, and tools of every effect.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use loopwright_core::ToolError;
use loopwright_core::session::WhileAwaiting;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{compaction::*, event::*, message::*, model::*, tool::*};
use serde_json::{Value, json};

/// A script of inputs; see [`SCENARIOS`].
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The requests in order: an id, and a text whose words after `do:` are the tools to call.
    pub(crate) requests: &'static [(&'static str, &'static str)],
    pub(crate) extra_inputs: &'static [ExtraInput],
    /// `true` if a kill changes nothing in the conversation except "outcome unknown".
    pub(crate) exact: bool,
    /// The effect of a user request while an action is pending.
    pub(crate) while_awaiting: WhileAwaiting,
    /// `true` if the next request is sent instead of `Continue` after a kill.
    pub(crate) requests_before_continue: bool,
}

/// An input sent during a run, or at the end if its trigger did not occur.
pub(crate) struct ExtraInput {
    pub(crate) trigger: Trigger,
    pub(crate) kind: InputKind,
    pub(crate) id: &'static str,
    pub(crate) text: &'static str,
}

/// The event that triggers an extra input.
#[derive(PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The start of this tool.
    ToolStarts(&'static str),
    /// The first delta of the message with this number.
    Streams(u64),
    /// A pending action.
    Awaiting,
}

/// The kind of an extra input.
pub(crate) enum InputKind {
    Steer(Urgency),
    FollowUp,
    Request,
    Abort,
    Compact,
}

impl InputKind {
    /// Returns `true` if the input has an id, so that it may be sent twice.
    pub(crate) fn has_id(&self) -> bool {
        !matches!(self, InputKind::Abort | InputKind::Compact)
    }
}

const fn extra(
    trigger: Trigger,
    kind: InputKind,
    id: &'static str,
    text: &'static str,
) -> ExtraInput {
    ExtraInput { trigger, kind, id, text }
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "work",
        requests: &[
            ("r1", "r1 do: read put once | login pay refuse outside | once edit"),
            ("r2", "r2 do: write write read | pay"),
        ],
        extra_inputs: &[],
        exact: true,
        while_awaiting: WhileAwaiting::Supersede,
        requests_before_continue: false,
    },
    Scenario {
        name: "follow-ups",
        requests: &[("r1", "r1 do: read put")],
        extra_inputs: &[
            extra(Trigger::ToolStarts("read"), InputKind::FollowUp, "f1", "f1 do: once"),
            extra(Trigger::ToolStarts("read"), InputKind::FollowUp, "f2", "f2 do: pay put"),
            extra(Trigger::ToolStarts("pay"), InputKind::FollowUp, "f3", "f3 and that is all"),
        ],
        exact: true,
        while_awaiting: WhileAwaiting::Supersede,
        requests_before_continue: false,
    },
    Scenario {
        name: "steers",
        requests: &[
            ("r1", "r1 do: put slow read once | edit once pay"),
            ("r2", "r2 do: write slow write"),
        ],
        extra_inputs: &[
            extra(
                Trigger::Streams(2),
                InputKind::Steer(Urgency::Interrupt),
                "s1",
                "s1 in the middle of a word",
            ),
            extra(
                Trigger::ToolStarts("slow"),
                InputKind::Steer(Urgency::AfterTurn),
                "s2",
                "s2 in good time",
            ),
            extra(
                Trigger::ToolStarts("write"),
                InputKind::Steer(Urgency::SkipPending),
                "s3",
                "s3 skips the rest do: read",
            ),
            extra(
                Trigger::Awaiting,
                InputKind::Steer(Urgency::SkipPending),
                "s4",
                "s4 instead of an answer",
            ),
            extra(
                Trigger::ToolStarts("once"),
                InputKind::Steer(Urgency::Interrupt),
                "s5",
                "s5 stop that",
            ),
        ],
        exact: false,
        while_awaiting: WhileAwaiting::Supersede,
        requests_before_continue: false,
    },
    Scenario {
        name: "abort",
        requests: &[
            ("r1", "r1 do: read put | slow once pay"),
            ("r2", "r2 do: read once"),
            ("r3", "r3 do: pay"),
        ],
        extra_inputs: &[
            extra(Trigger::ToolStarts("put"), InputKind::FollowUp, "f1", "f1 is handed back"),
            extra(
                Trigger::ToolStarts("put"),
                InputKind::Request,
                "q1",
                "q1 waits its turn do: put",
            ),
            extra(Trigger::ToolStarts("slow"), InputKind::Abort, "abort", ""),
        ],
        exact: false,
        while_awaiting: WhileAwaiting::Supersede,
        requests_before_continue: false,
    },
    Scenario {
        name: "hush",
        requests: &[("r1", "r1 do: read"), ("r2", "r2 do: once")],
        extra_inputs: &[extra(Trigger::Streams(2), InputKind::Abort, "abort", "")],
        exact: false,
        while_awaiting: WhileAwaiting::Supersede,
        requests_before_continue: false,
    },
    Scenario {
        name: "impatience",
        requests: &[
            ("r1", "r1 do: read once pay"),
            ("r2", "r2 do: put login"),
            ("r3", "r3 do: slow once"),
            ("r4", "r4 do: edit"),
        ],
        extra_inputs: &[
            extra(Trigger::ToolStarts("read"), InputKind::FollowUp, "f1", "f1 after that"),
            extra(
                Trigger::ToolStarts("slow"),
                InputKind::Steer(Urgency::AfterTurn),
                "s1",
                "s1 in good time",
            ),
        ],
        exact: false,
        while_awaiting: WhileAwaiting::Supersede,
        requests_before_continue: true,
    },
    Scenario {
        name: "compaction",
        requests: &[
            ("r1", "r1 do: read put | once"),
            ("r2", "r2 do: once | pay read"),
            ("r3", "r3 do: read | put once"),
            ("r4", "r4 do: put"),
        ],
        extra_inputs: &[extra(Trigger::ToolStarts("pay"), InputKind::Compact, "compact", "")],
        exact: true,
        while_awaiting: WhileAwaiting::Supersede,
        requests_before_continue: false,
    },
    Scenario {
        name: "payment",
        requests: &[("r1", "r1 do: read pay")],
        extra_inputs: &[],
        exact: true,
        while_awaiting: WhileAwaiting::Supersede,
        requests_before_continue: false,
    },
];

/// Returns the index of a scenario.
pub(crate) fn number(name: &str) -> usize {
    SCENARIOS.iter().position(|scenario| scenario.name == name).expect("a scenario of that name")
}

/// Returns the decision for a pending action.
pub(crate) fn decision(action: &ExternalAction) -> Decision {
    match &*action.name {
        "edit" => Decision::ApproveWith(json!({"n": 99})),
        "refuse" => Decision::Deny("no".into()),
        "outside" => Decision::Provide(Provided::Result(ToolOutput::text("done by hand"))),
        "login" => Decision::Provide(Provided::Input(json!("open sesame"))),
        _ => Decision::Approve,
    }
}

/// A model that calls the tools named in the user's messages, one group after another, and then
/// replies that it is done. It refuses requests that no provider would accept.
pub(crate) struct Model(ScriptedModel);

impl Model {
    pub(crate) fn new() -> Self {
        Model(ScriptedModel::new([]).discard_requests())
    }
}

impl ChatModel for Model {
    fn info(&self) -> &ModelInfo {
        ChatModel::info(&self.0)
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        self.0.push(reply(&request.messages));
        ChatModel::stream(&self.0, request)
    }
}

fn reply(messages: &[Arc<Message>]) -> Script {
    let has_calls =
        |m: &&Arc<Message>| m.as_assistant().is_some_and(|reply| reply.calls().next().is_some());
    let at = messages.iter().filter(has_calls).count();
    let users: Vec<String> =
        messages.iter().filter(|m| m.role() == Role::User).map(|m| m.text()).collect();
    let mut groups = users
        .iter()
        .filter_map(|text| text.split_once("do:"))
        .flat_map(|(_, tools)| tools.split('|'));
    let pause = Duration::from_millis(1);
    let Some(group) = groups.nth(at) else {
        let last =
            users.last().and_then(|text| text.split(' ').next()).unwrap_or_default().to_owned();
        return Script::new().stream(["Done ".into(), "with ".into(), last, ".".into()], pause);
    };
    let script = Script::new().think("hm", Some("signed")).stream(["Let ", "me ", "see."], pause);
    // Every group has the same ids, since some models reuse them.
    let calls = ["a", "b", "c", "d"].into_iter().zip(group.split_whitespace()).enumerate();
    calls.fold(script, |script, (n, (id, tool))| {
        script.call(id, tool, &json!({"n": n}).to_string()).wait(pause)
    })
}

/// A policy that replaces all messages before the user's last one, on demand and when they are
/// many.
pub(crate) struct Compactor;

impl CompactionPolicy for Compactor {
    fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
        let max_messages = if matches!(context.why, CompactionCause::Asked { .. }) { 1 } else { 9 };
        let last = context.messages.iter().rposition(|m| m.role() == Role::User)?;
        let message = format!("Summarise {last} messages.");
        let summary = SummaryRequest::new("You summarise.", message);
        (last > max_messages).then_some(CompactionPlan::new(0..last).summary(summary))
    }

    fn finish(
        &self,
        _: &CompactionContext<'_>,
        _: &CompactionPlan,
        summary: Option<&str>,
    ) -> Replacement {
        let summary = summary.expect("the model never fails");
        Replacement::new(format!("What was before: {summary}"))
    }
}

/// A tool whose effect is a record of its start and its end.
struct RecordingTool {
    spec: Arc<ToolSpec>,
    duration: Duration,
    suspends: bool,
    tool_runs: Arc<File>,
}

impl RecordingTool {
    fn record(&self, what: &str, arguments: &Value, cx: &ToolContext) {
        let call = cx.call_id();
        let line = json!({
            "what": what,
            "call": call,
            "tool": self.spec.name,
            "arguments": arguments,
            "pid": std::process::id()
        });
        let mut file = &*self.tool_runs;
        file.write_all(format!("{line}\n").as_bytes()).expect("the run is recorded");
    }
}

#[async_trait]
impl Tool for RecordingTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, arguments: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        if self.suspends && cx.decision().is_none() {
            return Err(ToolError::Suspend(ActionRequest::new("login", json!("who?"))));
        }
        self.record("start", arguments, &cx);
        cx.update("half").await;
        tokio::select! {
            () = cx.cancelled() => return Err(ToolError::Cancelled),
            () = tokio::time::sleep(self.duration) => {}
        }
        self.record("end", arguments, &cx);
        let provided = cx.decision().map(|decision| decision.data.to_string()).unwrap_or_default();
        Ok(format!("{} {arguments} {provided}", self.spec.name).into())
    }
}

/// The tools: name, effect, whether approval is needed, and duration in milliseconds.
const TOOLS: &[(&str, Effect, bool, u64)] = &[
    ("read", Effect::ReadOnly, false, 2),
    ("slow", Effect::ReadOnly, false, 15),
    ("put", Effect::Idempotent, false, 4),
    ("write", Effect::Idempotent, false, 3),
    ("edit", Effect::Idempotent, true, 3),
    ("once", Effect::AtMostOnce, false, 5),
    ("login", Effect::AtMostOnce, false, 2),
    ("pay", Effect::AtMostOnce, true, 4),
    ("refuse", Effect::AtMostOnce, true, 1),
    ("outside", Effect::AtMostOnce, true, 1),
];

/// Returns the effect of a tool.
pub(crate) fn effect(tool: &str) -> Effect {
    TOOLS
        .iter()
        .find(|(name, ..)| *name == tool)
        .map(|(_, effect, ..)| *effect)
        .expect("a tool of that name")
}

/// Returns `true` if a tool needs a decision before it runs.
pub(crate) fn asks(tool: &str) -> bool {
    tool == "login" || TOOLS.iter().any(|(name, _, asks, _)| *name == tool && *asks)
}

/// Returns all tools, which record their runs in this file.
pub(crate) fn tools(tool_runs: &Arc<File>) -> Vec<Arc<dyn Tool>> {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tool = |(name, effect, asks, millis): &(&'static str, Effect, bool, u64)| {
        let approval = if *asks { Approval::Always } else { Approval::Never };
        let spec = ToolSpec::with_schema(*name, "Does something.", schema.clone())
            .effect(*effect)
            .approval(approval);
        let spec = Arc::new(if *name == "write" { spec.sequential() } else { spec });
        let tool = RecordingTool {
            spec,
            duration: Duration::from_millis(*millis),
            suspends: *name == "login",
            tool_runs: tool_runs.clone(),
        };
        Arc::new(tool) as Arc<dyn Tool>
    };
    TOOLS.iter().map(tool).collect()
}
