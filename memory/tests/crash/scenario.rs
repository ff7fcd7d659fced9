//! What is played: the scenarios, a model whose reply is a function of the conversation, tools of
//! every effect.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{
    agent::*, compaction::*, event::*, hooks::*, log::*, message::*, model::*, pattern::*, tool::*,
};
use serde_json::{Value, json};

/// A script of inputs; see [`SCENARIOS`].
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Requests, one after the other: an id, and a text whose words after `do:` are the tools to
    /// call.
    pub(crate) requests: &'static [(&'static str, &'static str)],
    pub(crate) detached: &'static [Detached],
    /// A kill changes nothing in the conversation but "outcome unknown".
    pub(crate) exact: bool,
    /// What is said while something is asked.
    pub(crate) while_awaiting: WhileAwaiting,
    /// A request that was not sent yet comes instead of `Continue`.
    pub(crate) impatient: bool,
}

/// Said while work goes on, and at the end where its moment never came.
pub(crate) struct Detached {
    pub(crate) when: When,
    pub(crate) what: What,
    pub(crate) id: &'static str,
    pub(crate) text: &'static str,
}

/// The moment of an aside.
#[derive(PartialEq, Eq)]
pub(crate) enum When {
    /// This tool starts.
    Starts(&'static str),
    /// The message with this number streams its first word.
    Word(u64),
    /// Something is asked.
    Asked,
}

pub(crate) enum What {
    Steer(Urgency),
    FollowUp,
    Request,
    Abort,
    CompactionPolicy,
}

impl What {
    /// Whether it is an input with an id, which may be sent again.
    pub(crate) fn has_id(&self) -> bool {
        !matches!(self, What::Abort | What::Compact)
    }
}

const fn detached(when: When, what: What, id: &'static str, text: &'static str) -> Detached {
    Detached { when, what, id, text }
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "work",
        requests: &[
            ("r1", "r1 do: read put once | login pay refuse outside | once edit"),
            ("r2", "r2 do: write write read | pay"),
        ],
        detached: &[],
        exact: true,
        while_awaiting: WhileAwaiting::Supersede,
        impatient: false,
    },
    Scenario {
        name: "follow-ups",
        requests: &[("r1", "r1 do: read put")],
        detached: &[
            detached(When::Starts("read"), What::FollowUp, "f1", "f1 do: once"),
            detached(When::Starts("read"), What::FollowUp, "f2", "f2 do: pay put"),
            detached(When::Starts("pay"), What::FollowUp, "f3", "f3 and that is all"),
        ],
        exact: true,
        while_awaiting: WhileAwaiting::Supersede,
        impatient: false,
    },
    Scenario {
        name: "steers",
        requests: &[
            ("r1", "r1 do: put slow read once | edit once pay"),
            ("r2", "r2 do: write slow write"),
        ],
        detached: &[
            detached(
                When::Word(2),
                What::Steer(Urgency::Interrupt),
                "s1",
                "s1 in the middle of a word",
            ),
            detached(
                When::Starts("slow"),
                What::Steer(Urgency::AfterTurn),
                "s2",
                "s2 in good time",
            ),
            detached(
                When::Starts("write"),
                What::Steer(Urgency::SkipPending),
                "s3",
                "s3 skips the rest do: read",
            ),
            detached(
                When::Asked,
                What::Steer(Urgency::SkipPending),
                "s4",
                "s4 instead of an answer",
            ),
            detached(When::Starts("once"), What::Steer(Urgency::Interrupt), "s5", "s5 stop that"),
        ],
        exact: false,
        while_awaiting: WhileAwaiting::Supersede,
        impatient: false,
    },
    Scenario {
        name: "abort",
        requests: &[
            ("r1", "r1 do: read put | slow once pay"),
            ("r2", "r2 do: read once"),
            ("r3", "r3 do: pay"),
        ],
        detached: &[
            detached(When::Starts("put"), What::FollowUp, "f1", "f1 is handed back"),
            detached(When::Starts("put"), What::Request, "q1", "q1 waits its turn do: put"),
            detached(When::Starts("slow"), What::Abort, "abort", ""),
        ],
        exact: false,
        while_awaiting: WhileAwaiting::Supersede,
        impatient: false,
    },
    Scenario {
        name: "hush",
        requests: &[("r1", "r1 do: read"), ("r2", "r2 do: once")],
        detached: &[detached(When::Word(2), What::Abort, "abort", "")],
        exact: false,
        while_awaiting: WhileAwaiting::Supersede,
        impatient: false,
    },
    Scenario {
        name: "impatience",
        requests: &[
            ("r1", "r1 do: read once pay"),
            ("r2", "r2 do: put login"),
            ("r3", "r3 do: slow once"),
            ("r4", "r4 do: edit"),
        ],
        detached: &[
            detached(When::Starts("read"), What::FollowUp, "f1", "f1 after that"),
            detached(
                When::Starts("slow"),
                What::Steer(Urgency::AfterTurn),
                "s1",
                "s1 in good time",
            ),
        ],
        exact: false,
        while_awaiting: WhileAwaiting::Supersede,
        impatient: true,
    },
    Scenario {
        name: "compaction",
        requests: &[
            ("r1", "r1 do: read put | once"),
            ("r2", "r2 do: once | pay read"),
            ("r3", "r3 do: read | put once"),
            ("r4", "r4 do: put"),
        ],
        detached: &[detached(When::Starts("pay"), What::Compact, "compact", "")],
        exact: true,
        while_awaiting: WhileAwaiting::Supersede,
        impatient: false,
    },
    Scenario {
        name: "payment",
        requests: &[("r1", "r1 do: read pay")],
        detached: &[],
        exact: true,
        while_awaiting: WhileAwaiting::Supersede,
        impatient: false,
    },
];

/// The number of a scenario.
pub(crate) fn number(name: &str) -> usize {
    SCENARIOS.iter().position(|scenario| scenario.name == name).expect("a scenario of that name")
}

/// What the outside answers.
pub(crate) fn answer(action: &ExternalAction) -> Decision {
    match &*action.name {
        "edit" => Decision::ApproveWith(json!({"n": 99})),
        "refuse" => Decision::Deny("no".into()),
        "outside" => Decision::Provide(Provided::Result(ToolOutput::text("done elsewhere"))),
        "login" => Decision::Provide(Provided::Input(json!("open sesame"))),
        _ => Decision::Approve,
    }
}

/// Calls the tools that the user's messages name, a group after the other, then says that it is
/// done. It refuses what no provider would take.
pub(crate) struct Model(ScriptedModel);

impl Model {
    pub(crate) fn new() -> Self {
        Model(ScriptedModel::new([]).forgetful())
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
    // The same ids in each group, as careless models give them.
    let calls = ["a", "b", "c", "d"].into_iter().zip(group.split_whitespace()).enumerate();
    calls.fold(script, |script, (n, (id, tool))| {
        script.call(id, tool, &json!({"n": n}).to_string()).wait(pause)
    })
}

/// Replaces all before the last message of the user: where somebody asks for it, and where there
/// are many messages.
pub(crate) struct Compactor;

impl CompactionPolicy for Compactor {
    fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
        let most = if matches!(context.why, CompactionCause::Asked { .. }) { 1 } else { 9 };
        let last = context.messages.iter().rposition(|m| m.role() == Role::User)?;
        let message = format!("Summarise {last} messages.");
        let summary = SummaryRequest::new("You summarise.", message);
        (last > most).then_some(CompactionPlan::new(0..last).summary(summary))
    }

    fn finish(
        &self,
        _: &CompactionContext<'_>,
        _: &CompactionPlan,
        summary: Option<&str>,
    ) -> Replacement {
        let said = summary.expect("the model never fails");
        Replacement::new(format!("What was before: {said}"))
    }
}

/// A tool that writes down when it begins and when it has ended, since that is its effect on the
/// world.
struct Work {
    spec: Arc<ToolSpec>,
    takes: Duration,
    suspends: bool,
    ran: Arc<File>,
}

impl Work {
    fn note(&self, what: &str, arguments: &Value, cx: &ToolContext) {
        let call = cx.call_id();
        let line = json!({"what": what, "call": call, "tool": self.spec.name, "arguments": arguments, "pid": std::process::id()});
        (&*self.ran).write_all(format!("{line}\n").as_bytes()).expect("the run is written down");
    }
}

#[async_trait]
impl Tool for Work {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, arguments: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        if self.suspends && cx.decision().is_none() {
            return Err(ToolError::Suspend(ActionRequest {
                kind: "login".into(),
                data: json!("who?"),
            }));
        }
        self.note("begin", arguments, &cx);
        cx.update("half").await;
        tokio::select! {
            () = cx.cancelled() => return Err(ToolError::Cancelled),
            () = tokio::time::sleep(self.takes) => {}
        }
        self.note("end", arguments, &cx);
        let answer = cx.decision().map(|answer| answer.data.to_string()).unwrap_or_default();
        Ok(format!("{} {arguments} {answer}", self.spec.name).into())
    }
}

/// A tool's name, effect, whether it asks first, and the milliseconds that it takes.
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

/// What a tool does to the world.
pub(crate) fn effect(tool: &str) -> Effect {
    TOOLS
        .iter()
        .find(|(name, ..)| *name == tool)
        .map(|(_, effect, ..)| *effect)
        .expect("a tool of that name")
}

/// Whether a tool must not run before somebody has said so.
pub(crate) fn asks(tool: &str) -> bool {
    tool == "login" || TOOLS.iter().any(|(name, _, asks, _)| *name == tool && *asks)
}

/// All tools; what they do is written to `ran`.
pub(crate) fn tools(ran: &Arc<File>) -> Vec<Arc<dyn Tool>> {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tool = |(name, effect, asks, takes): &(&'static str, Effect, bool, u64)| {
        let approval = if *asks { Approval::Always } else { Approval::Never };
        let spec = ToolSpec::with_schema(*name, "Does something.", schema.clone())
            .effect(*effect)
            .needs_approval(approval);
        let spec = Arc::new(if *name == "write" { spec.sequential() } else { spec });
        let (takes, suspends) = (Duration::from_millis(*takes), *name == "login");
        Arc::new(Work { spec, takes, suspends, ran: ran.clone() }) as Arc<dyn Tool>
    };
    TOOLS.iter().map(tool).collect()
}
