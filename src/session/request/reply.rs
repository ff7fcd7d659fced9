//! A model's reply: [`StreamingReply`] in progress, [`Reply`] when complete.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::error::{ModelError, ModelErrorKind, StepError};
use crate::event::AgentEvent;
use crate::event::hub::Hub;
use crate::hooks::{HookContext, TextAction, TextPart};
use crate::limits::LimitReached;
use crate::log::entry::LogEntry;
use crate::message::{AssistantMessage, ContentPart, Message, MessageId, StopReason, Usage};
use crate::model::assemble::Assembler;
use crate::model::{ModelEvent, ModelInfo, OutputSchema, RetryNotice, Update};
use crate::session::journal::Journal;
use crate::session::request::layers::HookLayers;
use crate::step_end::StepEnd;
use crate::tool::ToolList;
use crate::tool::schema::Schema;

/// A reply of a model, or its error.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(crate) message: Option<Arc<Message>>,
    pub(crate) error: Option<ModelError>,
    pub(crate) limit: Option<LimitReached>,
    pub(crate) ended_by_hook: bool,
}

impl Reply {
    /// Returns a complete reply.
    pub(crate) fn of(message: Arc<Message>) -> Self {
        Reply { message: Some(message), ..Self::empty(None) }
    }

    /// Returns a reply without a message: the request failed, or was interrupted before any text.
    pub(crate) fn empty(error: Option<ModelError>) -> Self {
        Reply { message: None, error, limit: None, ended_by_hook: false }
    }

    /// Returns the reply of a request that was not sent, or was cut off, because a budget was used
    /// up.
    pub(crate) fn not_sent(limit: LimitReached) -> Self {
        Reply { limit: Some(limit), ..Self::empty(None) }
    }

    /// Returns the message, or `None` if the reply was cut off before any text.
    pub fn message(&self) -> Option<&Arc<Message>> {
        self.message.as_ref()
    }

    /// Returns the text of the whole reply.
    pub fn text(&self) -> String {
        self.message.as_ref().map(|m| m.text()).unwrap_or_default()
    }

    /// Returns whether the reply calls tools.
    pub fn has_calls(&self) -> bool {
        let message = self.message.as_ref().and_then(|m| m.as_assistant());
        message.is_some_and(|m| m.calls().next().is_some())
    }

    /// Returns whether the step must end here, because the model failed, a budget was used up or a
    /// hook ended the run. Use `return reply.finish()` to end it.
    pub fn should_stop(&self) -> bool {
        self.error.is_some() || self.limit.is_some() || self.ended_by_hook
    }

    /// Returns the reply, or ends the step: with the model's error, because a budget was used up or
    /// a hook ended the run, or because a steer interrupted the reply. After a steer, the engine
    /// delivers it and enters the pattern again.
    ///
    /// ```
    /// use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
    ///
    /// /// Answers, with as many rounds of tools as that needs.
    /// struct Answer;
    ///
    /// #[async_trait::async_trait]
    /// impl BehaviorPattern for Answer {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         step.take_input().await?;
    ///         loop {
    ///             step.take_messages().await?;
    ///             let reply = step.ask().await?.or_end()?;
    ///             let batch = step.call_tools(&reply).await?.or_end()?;
    ///             if !batch.wants_reply() && !step.has_messages() {
    ///                 return Ok(StepEnd::Done);
    ///             }
    ///         }
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use loopwright_core::testing::{Harness, Script, TestTool};
    /// # let call = Script::calls([("a", "clock", serde_json::json!({}))]);
    /// # let replies = [call, Script::text("3.")];
    /// # let clock = TestTool::new("clock");
    /// # let harness = Harness::new(Answer, replies, |agent| agent.tool(clock)).await;
    /// # assert_eq!(harness.handle.prompt("?").await.unwrap().text, "3.");
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::Model`], [`StepError::Limit`], [`StepError::Ended`] or
    /// [`StepError::Steered`].
    pub fn or_end(self) -> Result<Reply, StepError> {
        match (&self.error, &self.limit) {
            (Some(error), _) => Err(error.clone().into()),
            (None, Some(limit)) => Err(StepError::Limit(limit.clone())),
            _ if self.ended_by_hook => Err(StepEnd::Done.into()),
            _ if self.interrupted() => Err(StepError::Steered),
            _ => Ok(self),
        }
    }

    /// Returns the model's error, if it failed.
    pub fn error(&self) -> Option<&ModelError> {
        self.error.as_ref()
    }

    /// Returns the budget that was used up, if the request was therefore not sent, or was cut off
    /// when the time of a [part](crate::StepContext::with_budget) was up. Only replies of
    /// [`StepContext::ask_all`](crate::StepContext::ask_all) have it.
    pub fn limit(&self) -> Option<&LimitReached> {
        self.limit.as_ref()
    }

    /// Returns whether a steer interrupted the reply.
    pub fn interrupted(&self) -> bool {
        match self.message.as_ref().and_then(|m| m.as_assistant()) {
            Some(message) => message.stop == StopReason::Interrupted,
            None => self.error.is_none() && self.limit.is_none(),
        }
    }

    /// Returns whether neither a steer nor the end of a part's time has cut off the reply.
    pub(crate) fn is_complete(&self) -> bool {
        let message = self.message.as_ref().and_then(|m| m.as_assistant());
        self.error.is_some() || message.is_some_and(|message| !message.stop.is_cut_off())
    }

    /// Parses the text as JSON of this type, as requested with [`Ask::output`](crate::Ask::output).
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::Output`], whose text tells the model what to correct: either that
    /// the text is not JSON, or the expected value at each path that does not fit the type. Without
    /// the feature `schema` only the first path is named.
    pub fn output<T: DeserializeOwned + JsonSchema>(&self) -> Result<T, StepError> {
        let text = self.text();
        let schema = Schema::compile(&OutputSchema::of::<T>().schema).map_err(StepError::Output)?;
        let value = schema.read_answer(json_of_answer(&text)).map_err(StepError::Output)?;
        T::deserialize(value).map_err(|error| StepError::Output(error.to_string()))
    }
}

/// Returns the JSON of an answer: without thinking in tags before it, and without the fence of a
/// block.
pub(crate) fn json_of_answer(text: &str) -> &str {
    let text = text.trim();
    let is_json = text.starts_with(['{', '[', '"']);
    let answer = text.rsplit_once("</think>").filter(|_| !is_json);
    let text = answer.map_or(text, |(_, answer)| answer.trim());
    let inner = text.strip_prefix("```").and_then(|t| t.strip_suffix("```"));
    inner.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner).trim())
}

/// The reply in progress.
#[derive(Default)]
pub(crate) struct StreamingReply {
    partial: Option<Partial>,
    /// A complete reply that hooks still check. It is written together with their verdict.
    pending: Option<LogEntry>,
    /// The last reply that a pattern has asked for since the session was opened.
    pub(crate) returned: Option<MessageId>,
    /// The tools of the last request, kept so that the same list is encoded only once.
    pub(crate) offered: Option<Arc<ToolList>>,
}

/// The text that hooks hold back, by block and layer. Text held by a later layer came first.
type HeldText = BTreeMap<(u32, Reverse<usize>), String>;

/// A reply as far as it has streamed.
pub(crate) struct Partial {
    pub(crate) id: MessageId,
    pub(crate) model: Arc<ModelInfo>,
    assembler: Assembler,
    held: HeldText,
    /// Set while the request waits for a retry: the notice, and the time of the retry in
    /// milliseconds since 1970.
    retry: Option<(Arc<RetryNotice>, u64)>,
}

impl Partial {
    pub(crate) fn new(id: MessageId, model: Arc<ModelInfo>) -> Self {
        let assembler = Assembler::default();
        Partial { id, model, assembler, held: BTreeMap::new(), retry: None }
    }

    /// Returns the updates that have been emitted, merged.
    pub(crate) fn updates_so_far(&self) -> Vec<Update> {
        self.assembler.updates_so_far()
    }

    /// Adds an event of the model to the reply and emits the resulting updates.
    pub(crate) fn take_event(
        &mut self,
        event: ModelEvent,
        hooks: &ReplyHooks,
        emit: &mut dyn FnMut(Update),
    ) -> Result<(), ModelError> {
        let Partial { model, assembler, held, retry, .. } = self;
        *retry = None;
        match event {
            ModelEvent::Delta { block, delta } if hooks.exist() && assembler.is_text(block) => {
                return hooks.pass(assembler, held, block, delta, false, emit);
            }
            ModelEvent::BlockEnd { block, .. } if hooks.exist() && assembler.is_text(block) => {
                hooks.pass(assembler, held, block, String::new(), true, emit)?;
            }
            ModelEvent::Withdrawn => held.clear(),
            ModelEvent::AnsweredBy(ref info) => *model = info.clone(),
            _ => {}
        }
        assembler.take(event)?.into_iter().for_each(emit);
        Ok(())
    }

    /// Ends the reply, and emits the text that hooks still hold. Without content there is no
    /// message.
    pub(crate) fn finish(
        self,
        stop: StopReason,
        usage: Usage,
        mut emit: impl FnMut(Update),
    ) -> Option<AssistantMessage> {
        let Partial { model, mut assembler, held, .. } = self;
        for ((block, _), text) in held.into_iter().filter(|(_, text)| !text.is_empty()) {
            if let Ok(update) = assembler.delta(block, text) {
                emit(update);
            }
        }
        assembler.finish(stop, model.id.clone(), usage)
    }
}

impl StreamingReply {
    /// Starts a reply.
    pub(crate) fn start(&mut self, id: MessageId, model: Arc<ModelInfo>) {
        self.partial = Some(Partial::new(id, model));
    }

    pub(crate) fn is_streaming(&self) -> bool {
        self.partial.is_some()
    }

    /// Returns the id of the streaming reply.
    pub(crate) fn message_id(&self) -> Option<MessageId> {
        self.partial.as_ref().map(|partial| partial.id)
    }

    /// Returns the message as far as it has streamed.
    pub(crate) fn message_so_far(&self) -> Option<AssistantMessage> {
        let partial = self.partial.as_ref()?;
        Some(partial.assembler.message_so_far(partial.model.id.clone()))
    }

    /// Returns the updates that have been emitted, merged.
    pub(crate) fn updates_so_far(&self) -> Option<(MessageId, Vec<Update>)> {
        let partial = self.partial.as_ref()?;
        Some((partial.id, partial.updates_so_far()))
    }

    /// Returns the last retry notice with the remaining delay, while the request waits for a retry.
    pub(crate) fn retry(&self, now: u64) -> Option<Arc<RetryNotice>> {
        let (notice, until) = self.partial.as_ref()?.retry.as_ref()?;
        let delay_ms = until.saturating_sub(now);
        Some(Arc::new(RetryNotice { delay_ms, ..RetryNotice::clone(notice) }))
    }

    /// Notes that the request waits for a retry.
    pub(crate) fn note_retry(&mut self, notice: Arc<RetryNotice>, now: u64) {
        if let Some(partial) = &mut self.partial {
            let until = now.saturating_add(notice.delay_ms);
            partial.retry = Some((notice, until));
        }
    }

    /// Adds an event of the model to the reply and emits the resulting updates.
    pub(crate) fn take_event(
        &mut self,
        event: ModelEvent,
        hooks: &ReplyHooks,
        hub: &mut Hub,
    ) -> Result<(), ModelError> {
        let Some(partial) = &mut self.partial else { return Ok(()) };
        let message_id = partial.id;
        partial.take_event(event, hooks, &mut |update| {
            hub.emit_transient(AgentEvent::MessageUpdate { message_id, update })
        })
    }

    /// Ends the reply in progress, and returns its message with the cost of the request. Without
    /// content there is no message, and the reply is withdrawn.
    pub(crate) fn close(
        &mut self,
        journal: &mut Journal,
        stop: StopReason,
        usage: Usage,
    ) -> Option<(Arc<Message>, Option<f64>)> {
        let partial = self.partial.take()?;
        let (id, model) = (partial.id, partial.model.clone());
        let mut emit = |update| {
            journal.emit_transient(AgentEvent::MessageUpdate { message_id: id, update });
        };
        let Some(mut reply) = partial.finish(stop, usage, &mut emit) else {
            emit(Update::Withdrawn);
            return None;
        };
        let mut taken = Vec::new();
        for part in &mut reply.parts {
            if let ContentPart::ToolCall(call) = part {
                call.id = journal.state.unique_call_id(&call.id, &taken);
                taken.push(call.id.clone());
            }
        }
        Some((Arc::new(Message::new(id, reply)), model.cost(&usage)))
    }

    /// Keeps a complete reply until the hooks have decided, or the run ends.
    pub(crate) fn hold(&mut self, entry: LogEntry) {
        self.pending = Some(entry);
    }

    /// Stages the complete reply, if one is held.
    pub(crate) fn stage_pending(&mut self, journal: &mut Journal) {
        if let Some(entry) = self.pending.take() {
            journal.stage(entry);
        }
    }
}

/// The layers that see a reply, and their context.
pub(crate) struct ReplyHooks {
    pub(crate) layers: HookLayers,
    pub(crate) cx: HookContext,
}

impl ReplyHooks {
    pub(crate) fn exist(&self) -> bool {
        !self.layers.is_empty()
    }

    /// Passes text of a block through the layers, and adds the resulting text to the reply.
    fn pass(
        &self,
        assembler: &mut Assembler,
        held: &mut HeldText,
        block: u32,
        mut text: String,
        last: bool,
        emit: &mut dyn FnMut(Update),
    ) -> Result<(), ModelError> {
        let mut found = Vec::new();
        for (layer, hook) in self.layers.iter().enumerate() {
            let held = held.entry((block, Reverse(layer))).or_default();
            // Held while the hook runs, so that a panic does not lose the text.
            if held.is_empty() {
                *held = text;
            } else {
                held.push_str(&text);
            }
            text = match hook.on_text_part(&self.cx, TextPart { text: held, last }) {
                TextAction::Hold if !last => String::new(),
                TextAction::Show | TextAction::Hold => std::mem::take(held),
                TextAction::Replace(text) => {
                    held.clear();
                    text
                }
                TextAction::Calls { text, calls } => {
                    held.clear();
                    found.extend(calls);
                    text
                }
            };
            if text.is_empty() && !last {
                break;
            }
        }
        if !text.is_empty() {
            emit(assembler.delta(block, text)?);
        }
        for (name, arguments) in found {
            let (block, started) = assembler.add_call(name.into(), arguments.clone());
            started.into_iter().for_each(&mut *emit);
            emit(Update::ToolCall { block, delta: arguments });
        }
        Ok(())
    }
}

/// Returns the error of a stream that ended early.
pub(crate) fn unfinished() -> ModelEvent {
    let why = "the model's stream ended before the reply was complete; send the request again";
    ModelEvent::Error(ModelError::new(ModelErrorKind::Network, why))
}
