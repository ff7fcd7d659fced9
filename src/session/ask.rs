//! One model request, streamed and folded into a reply.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{ModelError, ModelErrorKind, StepError};
use crate::log::compaction::CompactionCause;
use crate::log::entry::LogEntry;
use crate::log::event::{AgentEvent, Role};
use crate::log::fold::Tail;
use crate::log::input::{Prompt, QueueKind, Urgency};
use crate::log::queue::Waiting;
use crate::message::{Message, MessageKind, ResultStatus, StopReason};
use crate::model::assemble::Assembler;
use crate::model::{ChatModel, ChatRequest, OutputSchema, ThinkingLevel, ToolChoice};
use crate::session::compaction::{Compacted, Occasion};
use crate::session::detached::Said;
use crate::session::hooks::{
    BeforeEnd, EndCheck, FnHandleBeforeEnd, FnHandleStepTextPart, PrepareTools, TextAction,
    TextPart, boxed,
};
use crate::session::stream::Streamed;
use crate::session::{Partial, Session};
use crate::tool::ToolList;

/// What a request asks for, where it differs from what the agent always asks for.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Ask {
    model: Option<String>,
    system: Option<Arc<str>>,
    messages: Option<Vec<MessageKind>>,
    also: Vec<MessageKind>,
    tools: Option<Vec<String>>,
    tool_choice: ToolChoice,
    thinking: Option<ThinkingLevel>,
    output: Option<Arc<OutputSchema>>,
    detached: bool,
    text_part: Option<FnHandleStepTextPart>,
    before_end: Option<FnHandleBeforeEnd>,
}

impl Ask {
    /// What the agent always asks for.
    pub fn new() -> Self {
        Self::default()
    }

    /// A request whose reply stays out of the conversation: for a critic, a router, a summary. It
    /// is counted against the limits and logged all the same. It offers no tools unless
    /// [`Ask::tools`] names some, and its calls, if any, are not run. Cut off by an interrupt it is
    /// empty.
    pub fn detached() -> Self {
        Ask { detached: true, tools: Some(Vec::new()), ..Self::default() }
    }

    /// To the model that the agent was given under this name.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// With another system prompt.
    pub fn system(mut self, prompt: impl Into<Arc<str>>) -> Self {
        self.system = Some(prompt.into());
        self
    }

    /// With these messages instead of the conversation.
    pub fn messages(mut self, messages: impl IntoIterator<Item = MessageKind>) -> Self {
        self.messages = Some(messages.into_iter().collect());
        self
    }

    /// With one more message at the end, for this request only.
    pub fn also(mut self, message: impl Into<MessageKind>) -> Self {
        self.also.push(message.into());
        self
    }

    /// Offering only the tools of these names.
    pub fn tools<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.tools = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// With a rule for which tool must be called.
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = choice;
        self
    }

    /// Thinking this much.
    pub fn thinking(mut self, level: ThinkingLevel) -> Self {
        self.thinking = Some(level);
        self
    }

    /// Asking for JSON that fits `T`. The pattern reads it with [`Reply::output`].
    pub fn output<T: schemars::JsonSchema>(mut self) -> Self {
        self.output = Some(Arc::new(OutputSchema::of::<T>()));
        self
    }

    /// With its own [`FnHandleStepTextPart`] instead of the agent's.
    pub fn on_text_part(
        mut self,
        hook: impl Fn(TextPart<'_>) -> TextAction + Send + Sync + 'static,
    ) -> Self {
        self.text_part = Some(Arc::new(hook));
        self
    }

    /// With its own [`FnHandleBeforeEnd`] instead of the agent's.
    pub fn before_end<Fut>(mut self, hook: impl Fn(EndCheck) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = BeforeEnd> + Send + 'static,
    {
        self.before_end = Some(boxed(hook));
        self
    }

    /// An estimate of what it adds to the conversation.
    fn tokens(&self) -> u64 {
        self.also.iter().map(|body| alone(body).tokens()).sum()
    }
}

/// A message of one request only.
fn alone(body: &MessageKind) -> Arc<Message> {
    Arc::new(Message::new(Default::default(), body.clone()))
}

/// How often in a row a request that is too large is compacted and sent again.
const OVERFLOWS: u32 = 2;

/// One reply of a model.
#[derive(Debug, Clone)]
pub struct Reply {
    message: Option<Arc<Message>>,
    error: Option<ModelError>,
    ended_by_hook: bool,
}

impl Reply {
    /// Nothing was said: the request failed, or was cut off before a word.
    fn nothing(error: Option<ModelError>) -> Self {
        Reply { message: None, error, ended_by_hook: false }
    }

    /// The message; nothing if it was cut off before a word was said.
    pub fn message(&self) -> Option<&Arc<Message>> {
        self.message.as_ref()
    }

    /// All its text.
    pub fn text(&self) -> String {
        self.message.as_ref().map(|m| m.text()).unwrap_or_default()
    }

    /// Whether it calls tools.
    pub fn has_calls(&self) -> bool {
        self.message
            .as_ref()
            .and_then(|m| m.as_assistant())
            .is_some_and(|m| m.calls().next().is_some())
    }

    /// Returns whether the step must end here: the model failed, or a hook ended the run. Then
    /// `return reply.finish()` ends the step.
    pub fn should_stop(&self) -> bool {
        self.error.is_some() || self.ended_by_hook
    }

    /// Why the model failed, if it did.
    pub fn error(&self) -> Option<&ModelError> {
        self.error.as_ref()
    }

    /// Whether a steer cut it off.
    pub fn interrupted(&self) -> bool {
        match self.message.as_ref().and_then(|m| m.as_assistant()) {
            Some(message) => message.stop == StopReason::Interrupted,
            None => self.error.is_none(),
        }
    }

    /// Its text read as JSON, if it fits `T`.
    pub fn output<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(without_fence(&self.text())).ok()
    }
}

/// JSON that a model has put into one fenced block, as many do.
pub(crate) fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|t| t.strip_suffix("```"));
    inner.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner).trim())
}

impl Session {
    /// Asks the model, streams its reply and puts it into the conversation.
    pub(crate) async fn ask(&mut self, ask: Ask) -> Result<Reply, StepError> {
        let before = self.fold.len;
        self.hear_all().await?;
        let open = self.fold.calls().iter().filter(|c| c.result.is_none()).count();
        if self.fold.batch.is_some() {
            return Err(StepError::BatchOpen(open));
        }
        if ask.messages.is_none() && ask.also.is_empty() {
            match self.tail() {
                Tail::Answerable => {}
                // It was answered before a restart, or before the pattern was entered again.
                Tail::Replied if !ask.detached => return Ok(self.given_back()),
                Tail::Replied | Tail::Empty => return Err(StepError::NothingToAnswer),
            }
        }
        let model = self.config.model(ask.model.as_deref())?.clone();
        let interrupt = |w: &Waiting| {
            w.at > before && w.lane == QueueKind::Steering && w.urgency == Urgency::Interrupt
        };
        let compacts = ask.messages.is_none() && !ask.detached;
        let mut overflows = 0;
        loop {
            self.check_limits(&*model, 0)?;
            if self.fold.queue.iter().any(interrupt) {
                return Ok(Reply::nothing(None));
            }
            if compacts && self.make_room(ask.model.as_deref(), ask.tokens()).await? {
                self.check_limits(&*model, 0)?;
            }
            let request = self.request(&ask).await?;
            if self.fold.queue.iter().any(interrupt) {
                return Ok(Reply::nothing(None));
            }
            if ask.detached {
                let Said { item, message, error } = self.say_aside(&*model, request).await?;
                self.commit(item).await?;
                return Ok(Reply { message, error, ended_by_hook: false });
            }
            let reply = self.ask_aloud(&ask, &*model, request).await?;
            let too_large = reply
                .error
                .as_ref()
                .is_some_and(|error| error.kind == ModelErrorKind::ContextOverflow);
            if !compacts || !too_large || reply.message.is_some() || overflows == OVERFLOWS {
                return Ok(reply);
            }
            overflows += 1;
            let (why, model) = (CompactionCause::Overflow, ask.model.as_deref());
            match self.compact(&Occasion { why, model, also: ask.tokens() }).await? {
                Compacted::Done(made) if made.is_empty() => return Ok(reply),
                _ => {}
            }
        }
    }

    fn given_back(&self) -> Reply {
        Reply { message: self.fold.context.last().cloned(), error: None, ended_by_hook: false }
    }

    /// The request as the model will get it.
    pub(crate) async fn request(&mut self, ask: &Ask) -> Result<ChatRequest, StepError> {
        let hooks = &self.config.hooks;
        let (transform, convert) = (hooks.transform_context.clone(), hooks.convert_to_llm.clone());
        let mut messages = match &ask.messages {
            Some(given) => Arc::new(given.iter().map(alone).collect()),
            None if transform.is_none() && convert.is_none() => self.fold.context.clone(),
            None => {
                let mut messages = self.fold.history_for_hooks();
                if let Some(hook) = transform {
                    messages = self.wait_for(hook(messages)).await?;
                }
                match convert {
                    Some(hook) => messages = hook(messages),
                    None => messages.retain(|m| m.is_for_model()),
                }
                Arc::new(messages)
            }
        };
        if !ask.also.is_empty() {
            Arc::make_mut(&mut messages).extend(ask.also.iter().map(alone));
        }
        let tools = self.offer(ask, &messages);
        let output =
            ask.output.clone().or_else(|| if ask.detached { None } else { self.output_schema() });
        Ok(ChatRequest {
            system: ask.system.clone().unwrap_or_else(|| self.config.system.clone()),
            messages,
            tools,
            tool_choice: ask.tool_choice.clone(),
            thinking: ask.thinking.unwrap_or(self.config.thinking),
            output,
            max_tokens: self.config.max_tokens,
            temperature: self.config.temperature,
            session: self.id.clone(),
            compacted: self
                .fold
                .standing
                .as_ref()
                .filter(|_| ask.messages.is_none())
                .map(|s| s.told.message.id),
        })
    }

    /// The schema that the answer to the user must fit.
    pub(crate) fn output_schema(&self) -> Option<Arc<OutputSchema>> {
        self.fold.output.clone().or_else(|| self.config.output.clone())
    }

    /// The tools that the request offers; the same list as last time where they are the same, so
    /// that it is encoded once.
    fn offer(&self, ask: &Ask, messages: &[Arc<Message>]) -> Arc<ToolList> {
        let all = self.tools.list();
        let hook = self.config.hooks.prepare_tools.as_ref();
        if hook.is_none() && ask.tools.is_none() {
            all.clone()
        } else {
            let turn = self.fold.turn.number + u32::from(!self.fold.turn.open);
            let info = PrepareTools { turn, messages, extensions: &self.extensions };
            let named =
                |name: &str| ask.tools.as_ref().is_none_or(|names| names.iter().any(|n| n == name));
            let some = all
                .iter()
                .filter(|spec| named(&spec.name) && hook.is_none_or(|hook| hook(&info, spec)));
            let some: Vec<_> = some.cloned().collect();
            let same = |last: &&Arc<ToolList>| {
                last.len() == some.len() && last.iter().zip(&some).all(|(a, b)| Arc::ptr_eq(a, b))
            };
            self.offered
                .as_ref()
                .filter(same)
                .cloned()
                .unwrap_or_else(|| Arc::new(ToolList::new(some)))
        }
    }

    async fn ask_aloud(
        &mut self,
        ask: &Ask,
        model: &dyn ChatModel,
        request: ChatRequest,
    ) -> Result<Reply, StepError> {
        self.offered = Some(request.tools.clone());
        let id = self.next_message();
        let info = Arc::new(model.info().clone());
        let some = !Arc::ptr_eq(&request.tools, self.tools.list());
        let tools = some.then(|| request.tools.iter().map(|spec| spec.name.clone()).collect());
        self.commit(LogEntry::RequestStarted { message: id, model: info.id.clone(), tools })
            .await?;
        self.partial =
            Some(Partial { id, model: info, reply: Assembler::default(), held: BTreeMap::new() });
        self.hub.overlay(AgentEvent::MessageStart { message_id: id, role: Role::Assistant });
        let text_hook = ask.text_part.clone().or_else(|| self.config.hooks.text_part.clone());
        let Streamed { stop, usage, error } = self.stream(model, request, text_hook).await?;
        let Some(partial) = self.partial.take() else {
            return Ok(Reply::nothing(error));
        };
        let cost = partial.model.cost(&usage);
        let Some(message) = self.close_reply(partial, stop, usage) else {
            return Ok(Reply::nothing(error));
        };
        self.heard_out = Some(LogEntry::Replied { message: message.clone(), cost });
        let verdict = match ask.before_end.clone().or_else(|| self.config.hooks.before_end.clone())
        {
            Some(hook) if error.is_none() && stop != StopReason::Interrupted => {
                self.verdict(hook, &message).await?
            }
            _ => BeforeEnd::Default,
        };
        self.stage_heard_out();
        if let BeforeEnd::Continue(more) = &verdict {
            // Refused only if its id were known or the lane full, and it has no id and the lane no
            // bound.
            let _ = self.queue(Prompt::from(more.clone()), QueueKind::Steering, Urgency::AfterTurn);
        }
        self.flush().await?;
        let ended_by_hook = verdict == BeforeEnd::End;
        if ended_by_hook {
            self.finish_unstarted(ResultStatus::Skipped, "Skipped: a hook ended the run.").await?;
        }
        Ok(Reply { message: Some(message), error, ended_by_hook })
    }

    /// Asks the hook. The reply is in `heard_out` meanwhile, so an abort keeps it.
    async fn verdict(
        &mut self,
        hook: FnHandleBeforeEnd,
        message: &Arc<Message>,
    ) -> Result<BeforeEnd, StepError> {
        let check = EndCheck {
            session_id: self.id.clone(),
            reply: message.clone(),
            extensions: self.extensions.clone(),
        };
        self.wait_for(hook(check)).await
    }
}
