//! [`ScriptedSession`]: a session that tests repeat.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::compaction::CompactionCause;
use crate::event::action::ExternalAction;
use crate::event::input::{AbortRequest, Decision, Input, InputEvent, Prompt, Provided};
use crate::event::outcome::RunCause;
use crate::log::entry::LogEntry;
use crate::model::ChatRequest;
use crate::testing::script::Script;
use crate::testing::scripted_model::{ReplyFn, ScriptedModel};
use crate::tool::question::AnswerForm;

/// A session that tests repeat: the replies of the model, the inputs, and the decisions on pending
/// actions. [`crash_at_every_append`](super::crash_at_every_append) repeats it with crashes.
///
/// The inputs are sent in order, each once the agent is idle, or as soon as the condition of
/// [`ScriptedSession::when`] holds.
///
/// ```
/// use loopwright_core::log::LogEntry;
/// use loopwright_core::testing::{ScriptedSession, Script};
/// use serde_json::json;
///
/// let replies = [Script::calls([("a", "search", json!({}))]), Script::text("Nothing found.")];
/// let session = ScriptedSession::new(replies)
///     .request("Search the archive.")
///     .steer("Only this year.")
///     .when(|entry| matches!(entry, LogEntry::CallStarted { .. }))
///     .compact();
/// assert_eq!(session.inputs().len(), 3);
/// ```
#[derive(Clone)]
pub struct ScriptedSession {
    pub(super) replies: Vec<Script>,
    pub(super) inputs: Vec<ScriptedInput>,
    pub(super) default_reply: Option<ReplyFn>,
    pub(super) decide: Arc<dyn Fn(&ExternalAction) -> Decision + Send + Sync>,
    pub(super) effects: Option<EffectCount>,
    pub(super) joins_appends: bool,
}

/// A function that returns the number of side effects so far.
pub(super) type EffectCount = Arc<dyn Fn() -> u64 + Send + Sync>;

/// One input of a [`ScriptedSession`].
#[derive(Clone)]
pub struct ScriptedInput {
    pub(super) number: usize,
    pub(super) input: Input,
    pub(super) when: Option<Condition>,
}

type Condition = Arc<dyn Fn(&LogEntry) -> bool + Send + Sync>;

impl ScriptedSession {
    /// Creates a session in which the model gives these replies in turn, also to detached
    /// requests. After a crash it replies to each request as without the crash.
    pub fn new(replies: impl IntoIterator<Item = Script>) -> Self {
        ScriptedSession {
            replies: replies.into_iter().collect(),
            inputs: Vec::new(),
            default_reply: None,
            decide: Arc::new(default_decision),
            effects: None,
            joins_appends: false,
        }
    }

    /// Sets the reply to requests after the last scripted reply, as a function of the request.
    /// Without it, such a request is an error.
    pub fn reply_with(
        mut self,
        reply: impl Fn(&ChatRequest) -> Script + Send + Sync + 'static,
    ) -> Self {
        self.default_reply = Some(Arc::new(reply));
        self
    }

    /// Sets a function that returns the number of side effects so far, apart from tool effects: for
    /// example, the messages that a pattern has sent to a service. A test counts them where it
    /// replaces the service.
    ///
    /// No effect may take place before a crash and again after it, so an agent must log an effect
    /// before it happens.
    pub fn effects(mut self, count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.effects = Some(Arc::new(count));
        self
    }

    /// Joins appends as sessions do outside of tests, where successive changes without a wait are
    /// one append. By default each change is written at once, for more crashes.
    pub fn join_appends(mut self) -> Self {
        self.joins_appends = true;
        self
    }

    /// Appends a user request.
    pub fn request(self, prompt: impl Into<Prompt>) -> Self {
        self.input(InputEvent::UserRequest(prompt.into()))
    }

    /// Appends a steer.
    pub fn steer(self, prompt: impl Into<Prompt>) -> Self {
        self.input(InputEvent::Steer(prompt.into()))
    }

    /// Appends a follow-up.
    pub fn follow_up(self, prompt: impl Into<Prompt>) -> Self {
        self.input(InputEvent::FollowUp(prompt.into()))
    }

    /// Appends a signal.
    pub fn signal(self, key: &str, value: impl Into<Value>) -> Self {
        self.input(InputEvent::Signal { key: key.into(), value: value.into() })
    }

    /// Appends an abort.
    pub fn abort(self) -> Self {
        self.input(InputEvent::Abort(AbortRequest::new()))
    }

    /// Appends a reset.
    pub fn reset(self) -> Self {
        self.input(InputEvent::Reset)
    }

    /// Appends a request to compact the conversation.
    pub fn compact(self) -> Self {
        self.input(InputEvent::Compact(None))
    }

    /// Sends the last input as soon as an entry is logged for which `holds` returns true, for
    /// example the start of a call. The input is sent at the latest when the agent is idle.
    pub fn when(mut self, holds: impl Fn(&LogEntry) -> bool + Send + Sync + 'static) -> Self {
        if let Some(last) = self.inputs.last_mut() {
            last.when = Some(Arc::new(holds));
        }
        self
    }

    /// Sets the decision on pending actions; the default is [`default_decision`].
    pub fn decisions(
        mut self,
        decide: impl Fn(&ExternalAction) -> Decision + Send + Sync + 'static,
    ) -> Self {
        self.decide = Arc::new(decide);
        self
    }

    /// Returns the scripted replies.
    pub fn replies(&self) -> &[Script] {
        &self.replies
    }

    /// Returns a model that gives the replies.
    pub fn model(&self) -> ScriptedModel {
        let model = ScriptedModel::new(self.replies.iter().cloned());
        match self.default_reply.clone() {
            Some(reply) => model.reply_with(move |request| reply(request)),
            None => model,
        }
    }

    /// Returns the inputs, in order.
    pub fn inputs(&self) -> &[ScriptedInput] {
        &self.inputs
    }

    /// Returns the decision on a pending action.
    pub fn decision(&self, action: &ExternalAction) -> Decision {
        (self.decide)(action)
    }

    fn input(mut self, event: InputEvent) -> Self {
        let number = self.inputs.len();
        let input = match event {
            InputEvent::Reset | InputEvent::Compact(_) => event.into(),
            event => event.with_id(input_id(number)),
        };
        self.inputs.push(ScriptedInput { number, input, when: None });
        self
    }
}

impl ScriptedInput {
    /// Returns the input, without the id under which crash tests find it again.
    pub fn event(&self) -> InputEvent {
        self.input.event.clone()
    }

    /// Returns whether the input is sent while the agent works, when its condition holds.
    pub fn has_condition(&self) -> bool {
        self.when.is_some()
    }

    /// Returns whether its condition holds for one of these entries.
    pub fn is_due(&self, entries: &[LogEntry]) -> bool {
        self.when.as_ref().is_some_and(|when| entries.iter().any(|entry| when(entry)))
    }

    /// Returns whether the input is an abort or a reset.
    pub(super) fn stops_the_run(&self) -> bool {
        matches!(self.input.event, InputEvent::Abort(_) | InputEvent::Reset)
    }

    /// Returns whether `entry` can be the first entry to which this input leads.
    pub(super) fn leads_to(&self, entry: &LogEntry) -> bool {
        match &self.input.event {
            InputEvent::Abort(_) => matches!(
                entry,
                LogEntry::AbortRequested { .. }
                    | LogEntry::RunStarted { cause: RunCause::Abort, .. }
            ),
            InputEvent::Reset => matches!(entry, LogEntry::Reset),
            InputEvent::Compact(_) => matches!(
                entry,
                LogEntry::RunStarted { cause: RunCause::Compact { .. }, .. }
                    | LogEntry::Compacted { why: CompactionCause::Asked { .. }, .. }
            ),
            _ => matches!(
                entry,
                LogEntry::Queued { input, .. } | LogEntry::Signalled { input, .. }
                    if **input == *input_id(self.number)
            ),
        }
    }
}

/// Returns a decision that the agent accepts. It approves a call, and answers a question with its
/// first option, the text "yes" or JSON `null`. Any other suspended call gets the input `null`.
pub fn default_decision(action: &ExternalAction) -> Decision {
    if action.request.is_none() {
        return Decision::Approve;
    }
    let first = |options: &[String]| options.first().cloned().unwrap_or_default();
    let input = match action.question().map(|question| question.form) {
        Some(AnswerForm::Choice { options }) => json!(first(&options)),
        Some(AnswerForm::Several { options }) => json!([first(&options)]),
        Some(AnswerForm::Text | AnswerForm::Secret) => json!("yes"),
        Some(AnswerForm::Json { .. }) | None => Value::Null,
    };
    Decision::Provide(Provided::Input(input))
}

fn input_id(number: usize) -> String {
    format!("scripted-{number}")
}
