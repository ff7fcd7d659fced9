//! Log entries made from bytes. Each has a valid form, but their order and ids are arbitrary.

use std::sync::Arc;

use loopwright_core::compaction::CompactionCause;
use loopwright_core::error::{ActionRequest, ModelErrorKind};
use loopwright_core::event::{
    Decision, ExternalAction, Parent, Provided, QueueKind, RunCause, RunStatus, Urgency,
};
use loopwright_core::limits::{Budget, Limit as BudgetName, Resource};
use loopwright_core::log::{Estimate, LogEntry, Reservation, StateScope, Used};
use loopwright_core::message::{
    AssistantMessage, Content, ContentPart, CustomMessage, MessageId, MessageKind, ResultStatus,
    RunId, StopReason, ToolCall, ToolResult, Usage, UserMessage,
};
use loopwright_core::model::OutputSchema;
use loopwright_core::tool::ToolOutput;
use loopwright_core::{Message, Principal, TraceContext};
use serde_json::{Value, json};

/// The maximum number of entries in one log, so that a check takes milliseconds.
const MAX_ENTRIES: usize = 400;

/// Returns the log that these bytes describe: JSON lines if they begin with `{`, otherwise one
/// entry for every few bytes.
pub(crate) fn entries(bytes: &[u8]) -> Vec<LogEntry> {
    if bytes.starts_with(b"{") {
        let lines = bytes.split(|byte| *byte == b'\n');
        let entries = lines.filter_map(|line| serde_json::from_slice(line).ok());
        return entries.take(MAX_ENTRIES).collect();
    }
    let mut source = Source { rest: bytes, messages: 0, runs: 0, inputs: 0, calls: 0 };
    let mut entries = Vec::new();
    while !source.rest.is_empty() && entries.len() < MAX_ENTRIES {
        entries.push(stored(&source.entry()));
    }
    entries
}

/// Returns the entry as read from a store, where `null` in an optional value becomes `None`.
fn stored(entry: &LogEntry) -> LogEntry {
    let text = serde_json::to_string(entry).expect("JSON");
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{text}: {why}"))
}

/// Numbers around which arithmetic can go wrong.
const NUMBERS: [u64; 10] = [
    u64::MAX,
    u64::MAX - 1,
    i64::MAX as u64,
    1 << 63,
    1 << 53,
    (1 << 53) - 1,
    (1 << 53) + 1,
    u32::MAX as u64,
    1 << 32,
    1_700_000_000_000,
];

const COSTS: [f64; 6] = [0.0, 0.5, -1.0, f64::MAX, f64::MIN, f64::MIN_POSITIVE];

const TEXTS: [&str; 8] =
    ["", " \n", "x", "first\nsecond", "\u{0}\u{1b}[31m", "é 👩‍👩‍👧‍👦", "{\"a\":1}", "{\"cut"];

/// A source of values made from bytes. After the last byte, all values are zero.
struct Source<'a> {
    rest: &'a [u8],
    /// The last message number that continued the sequence. The other counters are alike.
    messages: u64,
    runs: u64,
    inputs: u64,
    calls: u64,
}

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        *first
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.byte() as usize % all.len()].clone()
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.byte() % 4 == 3).then(|| value(self))
    }

    fn number(&mut self) -> u64 {
        match self.byte() {
            byte @ 0..200 => u64::from(byte),
            byte => NUMBERS[byte as usize % NUMBERS.len()],
        }
    }

    /// Returns the next message number in most cases, as in a session. Otherwise returns any
    /// number.
    fn message_id(&mut self) -> MessageId {
        match self.byte() {
            0..160 => {
                self.messages += 1;
                MessageId(self.messages)
            }
            _ => MessageId(self.number()),
        }
    }

    /// Returns a recent message.
    fn known_message(&mut self) -> MessageId {
        MessageId(self.messages.wrapping_sub(u64::from(self.byte() % 8)))
    }

    fn run(&mut self, is_new: bool) -> RunId {
        match self.byte() {
            0..200 => {
                self.runs += u64::from(is_new);
                RunId(self.runs)
            }
            _ => RunId(self.number()),
        }
    }

    fn new_input(&mut self) -> Arc<str> {
        self.inputs += u64::from(self.byte() < 200);
        format!("input-{}", self.inputs).into()
    }

    fn input(&mut self) -> Arc<str> {
        match self.byte() {
            byte @ 0..240 => {
                format!("input-{}", self.inputs.saturating_sub(u64::from(byte % 4))).into()
            }
            _ => self.one_of(&TEXTS).into(),
        }
    }

    fn inputs(&mut self) -> Vec<Arc<str>> {
        (0..self.byte() % 4).map(|_| self.input()).collect()
    }

    fn call(&mut self) -> Arc<str> {
        match self.byte() {
            byte @ 0..240 => {
                format!("call_{}", self.calls.saturating_sub(u64::from(byte % 4))).into()
            }
            _ => self.one_of(&TEXTS).into(),
        }
    }

    fn value(&mut self) -> Value {
        match self.byte() % 8 {
            0 => Value::Null,
            1 => json!(self.number()),
            2 => json!([self.number(), { "type": "entry", "id": "m1" }]),
            3 => json!(self.one_of(&COSTS)),
            4 => json!({ "": [], "kind": self.one_of(&TEXTS) }),
            _ => json!(self.one_of(&TEXTS)),
        }
    }

    fn content(&mut self) -> Vec<Content> {
        let one = |source: &mut Self| match source.byte() % 8 {
            0 => Content::image("image/png", source.one_of(&TEXTS)),
            _ => Content::text(source.one_of(&TEXTS)),
        };
        (0..self.byte() % 3).map(|_| one(self)).collect()
    }

    fn usage(&mut self) -> Usage {
        Usage::new(self.number(), self.number())
            .cache(self.number(), self.number())
            .reasoning(self.number())
            .outside_context(self.number())
    }

    fn part(&mut self) -> ContentPart {
        let signature = self.maybe(|source| source.one_of(&TEXTS).into());
        match self.byte() % 4 {
            0 => ContentPart::Thinking { text: self.one_of(&TEXTS).to_owned(), signature },
            1 => ContentPart::Text { text: self.one_of(&TEXTS).to_owned(), signature },
            _ => {
                self.calls += u64::from(self.byte() < 220);
                let call = format!("call_{}", self.calls);
                ContentPart::ToolCall(
                    ToolCall::new(call, "tool", self.one_of(&TEXTS)).signature(signature),
                )
            }
        }
    }

    fn reply(&mut self) -> AssistantMessage {
        use StopReason::*;
        let parts = (0..self.byte() % 4).map(|_| self.part()).collect();
        let stops = [Stop, ToolCalls, Length, ContentFilter, Interrupted, Aborted, Error];
        let reply = AssistantMessage::new(parts).stop(self.one_of(&stops)).model("m");
        match self.maybe(Self::usage) {
            Some(usage) => reply.usage(usage),
            None => reply,
        }
    }

    fn result(&mut self) -> ToolResult {
        use ResultStatus::*;
        let all = [Ok, Error, Denied, Skipped, Aborted, OutcomeUnknown];
        ToolResult::new(self.call(), "tool", self.one_of(&all), self.content())
    }

    fn user(&mut self) -> MessageKind {
        UserMessage::new(self.content()).into()
    }

    /// Returns a message, in most cases of the kind that belongs in the entry.
    fn message(&mut self, usual: fn(&mut Self) -> MessageKind) -> Arc<Message> {
        let id = self.message_id();
        let body = match self.byte() {
            0..200 => usual(self),
            byte if byte % 4 == 0 => self.user(),
            byte if byte % 4 == 1 => self.reply().into(),
            byte if byte % 4 == 2 => self.result().into(),
            _ => CustomMessage::new(self.one_of(&TEXTS), self.value()).into(),
        };
        Arc::new(Message::new(id, body))
    }

    fn cause(&mut self) -> RunCause {
        match self.byte() % 9 {
            0 => RunCause::ActionResult(self.call()),
            1 => RunCause::Continue(self.maybe(Self::input)),
            2 => RunCause::Steer,
            3 => RunCause::Abort,
            4 => RunCause::Compact { instructions: self.maybe(|s| s.one_of(&TEXTS).into()) },
            5 => RunCause::Signal(self.one_of(&TEXTS).into()),
            6 => RunCause::Timer(self.one_of(&TEXTS).into()),
            _ => RunCause::UserRequest(self.input()),
        }
    }

    fn estimate(&mut self) -> Estimate {
        let cost = self.maybe(|source| source.one_of(&COSTS));
        Estimate::new(self.number(), cost)
    }

    fn reservations(&mut self) -> Vec<Reservation> {
        let reservation = |source: &mut Self| {
            let message = source.message_id();
            let speaker = source.maybe(|source| source.one_of(&TEXTS).into());
            Reservation::new(message, source.estimate()).speaker(speaker)
        };
        (0..self.byte() % 4).map(|_| reservation(self)).collect()
    }

    fn run_ended(&mut self) -> LogEntry {
        use RunStatus::*;
        let all = [Done, AwaitingAction, Sleeping, Aborted, Error, Limit, Incomplete];
        LogEntry::RunEnded {
            run: self.run(false),
            end: self.one_of(&all),
            time: self.number(),
            error: self.maybe(|source| source.one_of(&TEXTS).into()),
            model_error: self.maybe(|_| ModelErrorKind::Network),
            limit: self.maybe(|_| BudgetName::Run(Resource::Turns)),
            value: self.maybe(|source| source.value().into()),
            handed_back: self.inputs(),
        }
    }

    fn queued(&mut self) -> LogEntry {
        let kinds = [QueueKind::Request, QueueKind::Steering, QueueKind::FollowUp];
        let urgencies = [Urgency::AfterTurn, Urgency::SkipPending, Urgency::Interrupt];
        LogEntry::Queued {
            input: self.new_input(),
            kind: self.one_of(&kinds),
            urgency: self.one_of(&urgencies),
            message: self.message(Self::user),
            output: self.maybe(|source| OutputSchema::new("answer", source.value()).into()),
            principal: self.maybe(|source| Principal::new(source.one_of(&TEXTS))),
        }
    }

    fn compacted(&mut self) -> LogEntry {
        let instructions = self.maybe(|source| source.one_of(&TEXTS).into());
        let whys = [
            CompactionCause::Threshold,
            CompactionCause::Overflow,
            CompactionCause::Asked { instructions },
        ];
        LogEntry::Compacted {
            first: self.known_message(),
            last: self.known_message(),
            message: self.message(Self::user),
            details: self.value().into(),
            summary: self.maybe(Self::message_id),
            error: self.maybe(|source| source.one_of(&TEXTS).into()),
            why: self.one_of(&whys),
        }
    }

    fn awaiting(&mut self) -> LogEntry {
        LogEntry::CallAwaiting {
            call: self.call(),
            name: "tool".into(),
            arguments: self.value().into(),
            digest: self.one_of(&TEXTS).into(),
            request: self.maybe(|source| ActionRequest::new("login", source.value()).into()),
            terms: Default::default(),
            time: self.number(),
        }
    }

    fn child_awaits(&mut self) -> LogEntry {
        let call = self.call();
        let action = |source: &mut Self| {
            let inner = format!("{call}~{}", source.byte() % 4);
            Arc::new(ExternalAction::new(inner, "tool", source.value(), source.one_of(&TEXTS)))
        };
        let actions = (0..self.byte() % 3).map(|_| action(self)).collect();
        let (time, idle) = (self.number(), self.byte() % 2 == 0);
        LogEntry::ChildAwaits { call, actions, time, idle }
    }

    fn decided(&mut self) -> LogEntry {
        let decision = match self.byte() % 5 {
            0 => Decision::Approve,
            1 => Decision::ApproveWith(self.value()),
            2 => Decision::Deny(self.one_of(&TEXTS).to_owned()),
            3 => Decision::Provide(Provided::Input(self.value())),
            _ => Decision::Provide(Provided::Result(ToolOutput::text(self.one_of(&TEXTS)))),
        };
        let call = match self.byte() % 4 {
            0 => format!("{}~{}", self.call(), self.byte() % 4).into(),
            _ => self.call(),
        };
        LogEntry::Decided {
            input: self.new_input(),
            call,
            name: None,
            digest: None,
            decision: decision.into(),
            by: self.maybe(|source| source.one_of(&TEXTS).into()),
            source: None,
            change: self.maybe(|source| source.one_of(&TEXTS).into()),
            time: self.number(),
        }
    }

    fn called(&mut self) -> LogEntry {
        LogEntry::Called {
            message: self.message(|source| source.reply().into()),
            keys: self
                .maybe(|source| (source.call(), source.one_of(&TEXTS).into()))
                .into_iter()
                .collect(),
            hidden: self.byte() % 2 == 0,
            at_most: self.maybe(|source| source.number() as u32),
            first: self.byte() % 2 == 0,
        }
    }

    fn entry(&mut self) -> LogEntry {
        match self.byte() % 34 {
            0 => LogEntry::Opened {
                epoch: self.number(),
                time: self.number(),
                parent: self.maybe(|source| Parent::new("parent", source.call()).into()),
                owner: self.maybe(|source| Principal::new(source.one_of(&TEXTS))),
            },
            1 => LogEntry::Settings { settings: self.value().into() },
            2 => LogEntry::RunStarted {
                run: self.run(true),
                cause: self.cause(),
                time: self.number(),
                trace: self.maybe(|source| TraceContext::new(source.number().into()).into()),
            },
            3 | 4 => self.run_ended(),
            5 | 6 => self.queued(),
            7 | 8 => LogEntry::Delivered { input: self.input() },
            9 => LogEntry::Withdrawn { inputs: self.inputs() },
            10 => LogEntry::RequestStarted {
                message: self.message_id(),
                model: "m".into(),
                tools: self.maybe(|source| [source.one_of(&TEXTS).into()].into()),
                request_digest: self.maybe(|source| source.one_of(&TEXTS).into()),
                estimate: self.estimate(),
                wrap_up: self.maybe(|_| BudgetName::Run(Resource::Turns)),
            },
            11 | 12 => LogEntry::Replied {
                message: self.message(|source| source.reply().into()),
                cost: self.maybe(|source| source.one_of(&COSTS)),
            },
            13 => LogEntry::Detached {
                message: self.message(|source| source.reply().into()),
                cost: self.maybe(|source| source.one_of(&COSTS)),
                key: self.maybe(|source| source.one_of(&TEXTS).into()),
                request_digest: self.maybe(|source| source.one_of(&TEXTS).into()),
                speaker: self.maybe(|source| source.one_of(&TEXTS).into()),
            },
            14 => self.compacted(),
            15 => LogEntry::Remembered { message: self.message(Self::user) },
            16 => LogEntry::State {
                scope: self.one_of(&[StateScope::Request, StateScope::Session]),
                key: self.one_of(&TEXTS).into(),
                value: self.value().into(),
            },
            17 => LogEntry::Emitted { kind: self.one_of(&TEXTS).into(), data: self.value().into() },
            18 => self.awaiting(),
            19 => self.decided(),
            20 => LogEntry::CallStarted { call: self.call(), arguments: self.value().into() },
            21 | 22 => {
                LogEntry::CallFinished { result: self.message(|source| source.result().into()) }
            }
            23 | 24 => self.called(),
            25 => LogEntry::DetachedStarted { requests: self.reservations() },
            26 => LogEntry::Rewound { to: self.known_message() },
            27 => LogEntry::Charged {
                message: self.message_id(),
                usage: self.reply().usage,
                cost: self.maybe(|source| source.one_of(&COSTS)),
                ended: self.byte() % 2 == 0,
            },
            28 => LogEntry::NotSent {
                messages: self.reservations().iter().map(|request| request.message).collect(),
            },
            29 => LogEntry::ChildStarted {
                call: self.call(),
                session: self.one_of(&TEXTS).into(),
                share: Budget::default().turns(self.byte().into()),
            },
            30 => self.child_awaits(),
            31 => {
                let mut used = Used::default();
                (used.usage, used.cost) = (self.reply().usage, self.one_of(&COSTS));
                LogEntry::ChildEnded { call: self.call(), used }
            }
            32 => {
                let key = self.one_of(&TEXTS).into();
                match self.byte() % 4 {
                    0 | 1 => {
                        LogEntry::WaitStarted { key, until: Some(self.number()), for_signal: true }
                    }
                    2 => LogEntry::WaitEnded { key },
                    _ => LogEntry::WaitCancelled { key, drops_signals: true },
                }
            }
            _ if self.byte() % 8 == 0 => LogEntry::Reset,
            _ => LogEntry::AbortRequested { input: self.new_input() },
        }
    }
}
