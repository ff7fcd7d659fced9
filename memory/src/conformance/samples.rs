//! Log entries of every kind, with unusual texts and numbers.

use std::sync::Arc;
use std::time::Duration;

use loopwright_core::compaction::CompactionCause;
use loopwright_core::event::{
    Decision, ExternalAction, OwnerNote, Parent, Provided, QueueKind, RunCause, RunStatus, Urgency,
};
use loopwright_core::limits::{Budget, Limit, Resource};
use loopwright_core::log::{Estimate, LogEntry, Reservation, StateScope, Used};
use loopwright_core::message::{
    AssistantMessage, Content, ContentPart, CustomMessage, MessageId, MessageKind, ResultStatus,
    RunId, StopReason, ToolCall, ToolResult, Usage, UserMessage,
};
use loopwright_core::model::{ModelErrorKind, OutputSchema};
use loopwright_core::tool::{ActionRequest, ActionTerms, DecisionKind, DefaultDecision};
use loopwright_core::{Message, Principal, ToolOutput, TraceContext};
use serde_json::{Value, json};

/// Characters that break a format which joins lines, quotes or cuts texts.
pub(super) const ODD: &str = "a\nb\r\nc\0d\u{1}\u{7f}\u{85}\u{2028}\u{2029}\u{feff}\"'\\`%${};-- \
    👩‍👩‍👧‍👦 e\u{301} \u{10ffff} \u{fffd}\t";

fn message(id: u64, body: impl Into<MessageKind>) -> Arc<Message> {
    Arc::new(Message::new(MessageId(id), body))
}

/// Returns a remembered message of the user.
pub(super) fn remembered(text: &str) -> LogEntry {
    LogEntry::Remembered { message: message(1, UserMessage::from(text)) }
}

/// Returns a reply with a cost.
pub(super) fn replied(text: &str, cost: f64) -> LogEntry {
    let parts = vec![ContentPart::Text { text: text.into(), signature: None }];
    let usage = Usage::new(7, 3).cache(2, 1).reasoning(1);
    let reply = AssistantMessage::new(parts).model("offline/m").usage(usage);
    LogEntry::Replied { message: message(2, reply), cost: Some(cost) }
}

/// Returns the start of a run: a request, up to its reply.
pub(super) fn run(number: u64, time: u64, text: &str) -> Vec<LogEntry> {
    let input: Arc<str> = format!("i{number}").into();
    vec![
        LogEntry::Queued {
            input: input.clone(),
            kind: QueueKind::Request,
            urgency: Urgency::default(),
            message: message(number * 10, UserMessage::from(text)),
            output: None,
            principal: None,
        },
        LogEntry::RunStarted {
            run: RunId(number),
            cause: RunCause::UserRequest(input.clone()),
            time,
            trace: None,
        },
        LogEntry::Delivered { input },
        LogEntry::RequestStarted {
            message: MessageId(number * 10 + 1),
            model: "offline/m".into(),
            tools: None,
            request_digest: None,
            estimate: Estimate::new(5, Some(0.125)),
            wrap_up: None,
        },
    ]
}

/// Returns the end of a run.
pub(super) fn ended(number: u64, time: u64, end: RunStatus) -> LogEntry {
    LogEntry::RunEnded {
        run: RunId(number),
        end,
        time,
        error: None,
        model_error: None,
        limit: None,
        value: None,
        handed_back: vec![],
    }
}

/// Returns a reply that calls a tool.
pub(super) fn calling(call: &str) -> LogEntry {
    let call = ToolCall::new(call, "send", "{}");
    let parts = vec![ContentPart::ToolCall(call)];
    let reply = AssistantMessage::new(parts).stop(StopReason::ToolCalls).model("m");
    LogEntry::Replied { message: message(11, reply), cost: None }
}

fn arguments(call: &str) -> Arc<Value> {
    Arc::new(json!({ "to": call }))
}

/// Returns the digest of a call of this tool that awaits a decision.
pub(super) fn digest(call: &str, tool: &str) -> Arc<str> {
    ExternalAction::new(call, tool, arguments(call), "").computed_digest()
}

/// Returns a call of this tool that awaits a decision since `time`.
pub(super) fn awaiting(call: &str, tool: &str, time: u64) -> LogEntry {
    LogEntry::CallAwaiting {
        call: call.into(),
        name: tool.into(),
        arguments: arguments(call),
        digest: digest(call, tool),
        request: None,
        terms: Arc::default(),
        time,
    }
}

/// Returns action terms that are hard to store.
pub(super) fn odd_terms() -> Arc<ActionTerms> {
    let mut terms = ActionTerms::default();
    (terms.description, terms.roles) = (Some(ODD.into()), vec![ODD.into()]);
    (terms.deadline, terms.quorum) = (Some(u64::MAX), u32::MAX);
    terms.default_decision = DefaultDecision::Approve;
    terms.decisions = vec![DecisionKind::ApproveWith];
    terms.data = Some(odd_json());
    Arc::new(terms)
}

/// Returns the approval of a call.
pub(super) fn approved(call: &str) -> LogEntry {
    LogEntry::Decided {
        input: format!("approval of {call}").into(),
        call: call.into(),
        name: None,
        digest: None,
        decision: Arc::new(Decision::Approve),
        by: None,
        source: None,
        change: None,
        time: 3,
    }
}

/// Returns the result of a call.
pub(super) fn finished(call: &str) -> LogEntry {
    LogEntry::CallFinished { result: result(call, "done", None) }
}

fn result(call: &str, text: &str, details: Option<Value>) -> Arc<Message> {
    let content = vec![Content::text(text), Content::image("image/png", "AAAA")];
    let result = ToolResult::new(call, "send", ResultStatus::Ok, content)
        .details(details.map(Arc::new))
        .terminate();
    message(12, result)
}

/// Returns JSON with unusual keys, extreme numbers and a hundred levels.
pub(super) fn odd_json() -> Arc<Value> {
    let mut deep = json!(["bottom"]);
    for level in 0..100 {
        deep = if level % 2 == 0 { json!({ "d": deep }) } else { json!([deep]) };
    }
    Arc::new(json!({
        "": [], ODD: ODD, "$ref": {}, "type": "entry", "\u{0}": null, "deep": deep,
        "true": [true, false],
        "numbers": [
            0, -0.0, 0.1, 0.30000000000000004, 1e-7, 5e-324, 1.7976931348623157e308,
            9007199254740993i64, 123456789.12345679, 2.225073858507201e-308,
            1.0715086071862673e301, i64::MIN, i64::MAX, u64::MAX
        ],
    }))
}

/// Returns every kind of entry with all its fields. No session has them in this order.
pub(super) fn every_entry() -> Vec<LogEntry> {
    let big = "0123456789abcdé\n".repeat(65_536);
    let reply = AssistantMessage::new(vec![
        ContentPart::Thinking { text: ODD.into(), signature: Some(ODD.into()) },
        ContentPart::Text { text: ODD.into(), signature: Some("".into()) },
        ContentPart::ToolCall(
            ToolCall::new(ODD, "tool", "{\"cut off\": [1,\n").signature(Some(ODD.into())),
        ),
    ])
    .stop(StopReason::Length)
    .model(ODD)
    .usage(Usage::new(u64::MAX, 1).cache(2, 3).reasoning(1));
    let custom = CustomMessage::new(ODD, (*odd_json()).clone());
    let output = OutputSchema::new("answer", json!({"type": "object", "const": ODD}));
    let need = ActionRequest::new("login", (*odd_json()).clone());
    let handed = ToolOutput::text(ODD).details((*odd_json()).clone()).terminate();
    let decisions = [
        Decision::Approve,
        Decision::ApproveWith((*odd_json()).clone()),
        Decision::Deny(ODD.into()),
        Decision::Provide(Provided::Result(handed)),
        Decision::Provide(Provided::Input(Value::Null)),
    ];
    let causes = [
        RunCause::UserRequest(ODD.into()),
        RunCause::ActionResult("".into()),
        RunCause::Continue(Some("i".into())),
        RunCause::Continue(None),
        RunCause::Steer,
        RunCause::Abort,
        RunCause::Timer(ODD.into()),
        RunCause::Signal(ODD.into()),
        RunCause::Compact { instructions: None },
        RunCause::Compact { instructions: Some(ODD.into()) },
    ];
    let mut entries = vec![
        LogEntry::Opened { epoch: u64::MAX, time: u64::MAX, parent: None, owner: None },
        LogEntry::Opened {
            epoch: 2,
            time: 0,
            parent: Some(Parent::new(ODD, ODD).into()),
            owner: None,
        },
        LogEntry::Settings { settings: odd_json() },
        LogEntry::WaitStarted { key: ODD.into(), until: Some(u64::MAX), for_signal: true },
        LogEntry::Signalled {
            input: ODD.into(),
            key: ODD.into(),
            value: odd_json(),
            time: u64::MAX,
        },
        LogEntry::WaitEnded { key: ODD.into() },
        LogEntry::WaitCancelled { key: ODD.into(), drops_signals: true },
        LogEntry::RunEnded {
            run: RunId(0),
            end: RunStatus::Limit,
            time: u64::MAX,
            error: Some(ODD.into()),
            model_error: Some(ModelErrorKind::ContextOverflow),
            limit: Some(Limit::Run(Resource::Time)),
            value: Some(odd_json()),
            handed_back: vec!["".into(), ODD.into()],
        },
        LogEntry::Queued {
            input: ODD.into(),
            kind: QueueKind::Steering,
            urgency: Urgency::Interrupt,
            message: message(
                u64::MAX,
                UserMessage::new(vec![Content::text(ODD), Content::text("")]),
            ),
            output: Some(Arc::new(output)),
            principal: Some(Principal::new(ODD)),
        },
        LogEntry::Delivered { input: ODD.into() },
        LogEntry::Withdrawn { inputs: vec![] },
        LogEntry::Withdrawn { inputs: vec!["a".into(), ODD.into()] },
        LogEntry::RequestStarted {
            message: MessageId(0),
            model: "m".into(),
            tools: None,
            request_digest: None,
            estimate: Estimate::default(),
            wrap_up: None,
        },
        LogEntry::RequestStarted {
            message: MessageId(1),
            model: ODD.into(),
            tools: Some(["".into(), ODD.into()].into()),
            request_digest: Some(ODD.into()),
            estimate: Estimate::new(u64::MAX, Some(0.1 + 0.2)),
            wrap_up: Some(Limit::Session(Resource::Cost)),
        },
        LogEntry::DetachedStarted { requests: vec![] },
        LogEntry::DetachedStarted {
            requests: vec![
                Reservation::new(MessageId(4), Estimate::new(1, None)),
                Reservation::new(MessageId(u64::MAX), Estimate::default()),
            ],
        },
        LogEntry::Charged {
            message: MessageId(1),
            usage: Usage::new(7, 3).cache(2, 1).cache_write_1h(1).reasoning(1),
            cost: Some(0.30000000000000004),
            ended: false,
        },
        LogEntry::Charged {
            message: MessageId(2),
            usage: Usage::default(),
            cost: None,
            ended: true,
        },
        LogEntry::NotSent { messages: vec![MessageId(4), MessageId(u64::MAX)] },
        LogEntry::Replied { message: message(3, reply.clone()), cost: Some(0.30000000000000004) },
        LogEntry::Replied { message: message(3, AssistantMessage::default()), cost: None },
        LogEntry::Detached {
            key: Some(ODD.into()),
            request_digest: Some(ODD.into()),
            message: message(4, AssistantMessage::default()),
            cost: Some(1.23456789e-7),
            speaker: Some(ODD.into()),
        },
        LogEntry::Called {
            message: message(3, reply.clone()),
            keys: [("a".into(), ODD.into())].into(),
            hidden: true,
            at_most: Some(2),
            first: true,
        },
        LogEntry::Called {
            message: message(3, reply.clone()),
            keys: [].into(),
            hidden: false,
            at_most: None,
            first: false,
        },
        LogEntry::Compacted {
            first: MessageId(1),
            last: MessageId(3),
            message: message(5, UserMessage::from(ODD)),
            details: odd_json(),
            summary: Some(MessageId(4)),
            error: Some(ODD.into()),
            why: CompactionCause::Asked { instructions: Some(ODD.into()) },
        },
        LogEntry::Remembered { message: message(5, custom) },
        LogEntry::Rewound { to: MessageId(0) },
        LogEntry::Rewound { to: MessageId(u64::MAX) },
        remembered(&big),
        LogEntry::State { scope: StateScope::Session, key: ODD.into(), value: odd_json() },
        LogEntry::State {
            scope: StateScope::Session,
            key: "".into(),
            value: Arc::new(Value::Null),
        },
        LogEntry::State { scope: StateScope::Request, key: ODD.into(), value: odd_json() },
        LogEntry::Emitted { kind: ODD.into(), data: odd_json() },
        LogEntry::CallAwaiting {
            call: ODD.into(),
            name: "tool".into(),
            arguments: odd_json(),
            digest: "".into(),
            request: Some(Arc::new(need)),
            terms: odd_terms(),
            time: u64::MAX,
        },
        LogEntry::Approved {
            input: ODD.into(),
            call: ODD.into(),
            name: ODD.into(),
            digest: ODD.into(),
            by: ODD.into(),
            source: Some(ODD.into()),
            change: Some(ODD.into()),
            time: u64::MAX,
        },
        LogEntry::CallStarted { call: ODD.into(), arguments: odd_json() },
        LogEntry::CallFinished { result: result(ODD, ODD, Some((*odd_json()).clone())) },
        LogEntry::ChildStarted {
            call: ODD.into(),
            session: ODD.into(),
            share: Budget::default().turns(u32::MAX).tokens(1).cost(0.1).time(Duration::MAX),
        },
        LogEntry::ChildAwaits {
            call: ODD.into(),
            actions: vec![Arc::new(ExternalAction::new(ODD, ODD, odd_json(), ODD))],
            time: u64::MAX,
            idle: true,
        },
        LogEntry::ChildEnded { call: ODD.into(), used: Used::default() },
        LogEntry::AbortRequested { input: ODD.into() },
        LogEntry::Handled { input: ODD.into() },
        LogEntry::Owner { note: OwnerNote::Left },
        LogEntry::Reset,
    ];
    entries.extend(causes.map(|cause| LogEntry::RunStarted {
        run: RunId(u64::MAX),
        cause,
        time: u64::MAX,
        trace: Some(TraceContext::new(u128::MAX).into()),
    }));
    entries.extend(decisions.map(|decision| LogEntry::Decided {
        input: "d".into(),
        call: "c".into(),
        name: Some(ODD.into()),
        digest: Some(ODD.into()),
        decision: Arc::new(decision),
        by: Some(ODD.into()),
        source: Some(ODD.into()),
        change: Some(ODD.into()),
        time: u64::MAX,
    }));
    entries
}
