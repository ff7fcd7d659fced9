//! One model request, streamed and folded into a reply.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures::StreamExt;

use crate::assemble::Assembler;
use crate::error::{ModelError, ModelErrorKind, StepError};
use crate::event::{AgentEvent, Lane, Prompt, Role, Update, Urgency};
use crate::fold::Tail;
use crate::hooks::{
    BeforeEnd, EndCheck, FnHandleBeforeEnd, FnHandleStepTextPart, PrepareTools, TextAction, TextPart, boxed,
};
use crate::limits::Limit;
use crate::memory::Item;
use crate::message::{Body, Message, ResultStatus, StopReason, Usage};
use crate::model::{BlockKind, ChatModel, ChatRequest, ModelEvent, OutputSchema, ThinkingLevel, ToolChoice, ToolList};
use crate::pattern::StepEnd;
use crate::session::{Mail, Partial, Session};

/// What a request asks for, where it differs from what the agent always asks for.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Ask {
    model: Option<String>,
    system: Option<Arc<str>>,
    messages: Option<Vec<Body>>,
    tools: Option<Vec<String>>,
    tool_choice: ToolChoice,
    thinking: Option<ThinkingLevel>,
    output: Option<Arc<OutputSchema>>,
    aside: bool,
    text_part: Option<FnHandleStepTextPart>,
    before_end: Option<FnHandleBeforeEnd>,
}

impl Ask {
    /// What the agent always asks for.
    pub fn new() -> Self {
        Self::default()
    }
    /// A request whose reply stays out of the conversation: for a critic, a router, a summary. It is
    /// counted against the limits and logged all the same. It offers no tools unless [`Ask::tools`]
    /// names some, and its calls, if any, are not run.
    pub fn aside() -> Self {
        Ask { aside: true, tools: Some(Vec::new()), ..Self::default() }
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
    pub fn messages(mut self, messages: impl IntoIterator<Item = Body>) -> Self {
        self.messages = Some(messages.into_iter().collect());
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
    pub fn on_text_part(mut self, hook: impl Fn(TextPart<'_>) -> TextAction + Send + Sync + 'static) -> Self {
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
}

/// One reply of a model.
#[derive(Debug, Clone)]
pub struct Reply {
    message: Option<Arc<Message>>,
    error: Option<ModelError>,
    ended_by_hook: bool,
}

impl Reply {
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
        self.message.as_ref().and_then(|m| m.as_assistant()).is_some_and(|m| m.calls().next().is_some())
    }
    /// Whether the step is over with it: the model failed, or a hook ended the run. Then
    /// `return reply.into()` ends the step.
    pub fn ended(&self) -> bool {
        self.error.is_some() || self.ended_by_hook
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

impl From<Reply> for Result<StepEnd, StepError> {
    fn from(reply: Reply) -> Self {
        reply.error.map_or(Ok(StepEnd::Done), |error| Err(StepError::Model(error)))
    }
}

/// JSON that a model has put into one fenced block, as many do.
pub(crate) fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|t| t.strip_suffix("```"));
    inner.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner).trim())
}

/// What comes next while a reply streams.
enum Next {
    Mail(Mail),
    Event(ModelEvent),
}

/// How a stream ended.
struct Streamed {
    stop: StopReason,
    usage: Usage,
    error: Option<ModelError>,
}

impl Session {
    /// Asks the model, streams its reply and puts it into the conversation.
    pub(crate) async fn ask(&mut self, ask: Ask) -> Result<Reply, StepError> {
        self.hear_all().await?;
        let open = self.fold.calls().iter().filter(|c| c.result.is_none()).count();
        if self.fold.batch.is_some() {
            return Err(StepError::BatchOpen(open));
        }
        if !ask.aside && ask.messages.is_none() {
            match self.tail() {
                Tail::Empty => return Err(StepError::NothingToAnswer),
                // It was answered before a restart, or before the pattern was entered again.
                Tail::Replied => return Ok(self.given_back()),
                Tail::Answerable => {}
            }
        }
        let model = self.config.model(ask.model.as_deref())?.clone();
        self.check_limits(&*model)?;
        let request = self.request(&ask).await?;
        if ask.aside { self.ask_aside(&*model, request).await } else { self.ask_aloud(ask, &*model, request).await }
    }

    fn given_back(&self) -> Reply {
        Reply { message: self.fold.context.last().cloned(), error: None, ended_by_hook: false }
    }

    fn check_limits(&self, model: &dyn ChatModel) -> Result<(), StepError> {
        let (limits, spent) = (&self.config.limits, &self.fold.spent);
        let turn = self.fold.turn.number + u32::from(!self.fold.turn.open) + spent.asides;
        if turn > limits.turns {
            return Err(StepError::Limit(Limit::Turns));
        }
        if limits.tokens.is_some_and(|most| spent.usage.total() >= most) {
            return Err(StepError::Limit(Limit::Tokens));
        }
        match limits.cost {
            Some(_) if model.info().prices.is_none() => Err(StepError::NoPrices(model.info().id.clone())),
            Some(most) if spent.cost >= most => Err(StepError::Limit(Limit::Cost)),
            _ => Ok(()),
        }
    }

    /// The request as the model will get it.
    pub(crate) async fn request(&mut self, ask: &Ask) -> Result<ChatRequest, StepError> {
        let hooks = &self.config.hooks;
        let (transform, convert) = (hooks.transform_context.clone(), hooks.convert_to_llm.clone());
        let messages = match &ask.messages {
            Some(given) => {
                Arc::new(given.iter().map(|body| Arc::new(Message::new(Default::default(), body.clone()))).collect())
            }
            None if transform.is_none() && convert.is_none() => self.fold.context.clone(),
            None => {
                let mut messages = self.fold.history.to_vec();
                if let Some(hook) = transform {
                    messages = self.hearing(hook(messages)).await?;
                }
                match convert {
                    Some(hook) => messages = hook(messages),
                    None => messages.retain(|m| m.is_for_model()),
                }
                Arc::new(messages)
            }
        };
        let tools = self.offer(ask, &messages);
        let output = ask.output.clone().or_else(|| if ask.aside { None } else { self.output_schema() });
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
        })
    }

    /// The schema that the answer to the user must fit.
    pub(crate) fn output_schema(&self) -> Option<Arc<OutputSchema>> {
        self.fold.output.clone().or_else(|| self.config.output.clone())
    }

    /// The tools that the request offers; the same list as last time where they are the same.
    fn offer(&mut self, ask: &Ask, messages: &[Arc<Message>]) -> Arc<ToolList> {
        let all = self.tools.list();
        let hook = self.config.hooks.prepare_tools.as_ref();
        if hook.is_none() && ask.tools.is_none() {
            return all.clone();
        }
        let info = PrepareTools { turn: self.fold.turn.number + 1, messages, extensions: &self.extensions };
        let named = |name: &str| ask.tools.as_ref().is_none_or(|names| names.iter().any(|n| n == name));
        let some = all.iter().filter(|spec| named(&spec.name) && hook.is_none_or(|hook| hook(&info, spec)));
        let some: Vec<_> = some.cloned().collect();
        let same = self.offered.len() == some.len() && self.offered.iter().zip(&some).all(|(a, b)| Arc::ptr_eq(a, b));
        if !same {
            self.offered = Arc::new(ToolList::new(some));
        }
        self.offered.clone()
    }

    async fn ask_aloud(&mut self, ask: Ask, model: &dyn ChatModel, request: ChatRequest) -> Result<Reply, StepError> {
        let id = self.next_message();
        let name = model.info().id.clone();
        self.commit(Item::RequestStarted { message: id, model: name.clone() }).await?;
        self.partial = Some(Partial { id, model: name, reply: Assembler::default() });
        self.hub.overlay(AgentEvent::MessageStart { message_id: id, role: Role::Assistant });
        let text_hook = ask.text_part.or_else(|| self.config.hooks.text_part.clone());
        let Streamed { stop, usage, error } = self.stream(model, request, text_hook).await?;
        let Some(partial) = self.partial.take() else {
            return Ok(Reply { message: None, error, ended_by_hook: false });
        };
        let Some(message) = self.close_reply(partial, stop, usage) else {
            return Ok(Reply { message: None, error, ended_by_hook: false });
        };
        let cost = model.info().prices.map(|prices| prices.cost(&usage));
        self.heard_out = Some(Item::Replied { message: message.clone(), cost });
        let verdict = match ask.before_end.or_else(|| self.config.hooks.before_end.clone()) {
            Some(hook) if error.is_none() && stop != StopReason::Interrupted => self.verdict(hook, &message).await?,
            _ => BeforeEnd::Default,
        };
        self.stage_heard_out();
        if let BeforeEnd::Continue(more) = &verdict {
            // Refused only if its id were known or the lane full, and it has no id and the lane no bound.
            let _ = self.queue(Prompt::from(more.clone()), Lane::Steering, Urgency::AfterTurn);
        }
        self.flush().await?;
        let ended_by_hook = verdict == BeforeEnd::End;
        if ended_by_hook {
            self.finish_unstarted(ResultStatus::Skipped, "Skipped: a hook ended the run.").await?;
        }
        Ok(Reply { message: Some(message), error, ended_by_hook })
    }

    /// Asks the hook. The reply is in `heard_out` meanwhile, so an abort keeps it.
    async fn verdict(&mut self, hook: FnHandleBeforeEnd, message: &Arc<Message>) -> Result<BeforeEnd, StepError> {
        let check =
            EndCheck { session_id: self.id.clone(), reply: message.clone(), extensions: self.extensions.clone() };
        self.hearing(hook(check)).await
    }

    async fn ask_aside(&mut self, model: &dyn ChatModel, request: ChatRequest) -> Result<Reply, StepError> {
        let mut reply = Assembler::default();
        let id = self.next_message();
        let mut stream = model.stream(request);
        let (stop, usage) = loop {
            let event = self.hearing(stream.next()).await?;
            match event.unwrap_or_else(unfinished) {
                ModelEvent::BlockStart { block, kind } => drop(reply.start(block, kind)),
                ModelEvent::Delta { block, delta } => drop(reply.delta(block, delta)?),
                ModelEvent::BlockEnd { block, signature } => reply.end(block, signature)?,
                ModelEvent::Withdrawn => reply = Assembler::default(),
                ModelEvent::Done { stop, usage } => break (stop, usage),
                ModelEvent::Error(error) => {
                    return Ok(Reply { message: None, error: Some(error), ended_by_hook: false });
                }
            }
        };
        drop(stream);
        let reply = reply.finish(stop, model.info().id.clone(), usage);
        let Some(message) = reply.map(|reply| Arc::new(Message::new(id, reply))) else {
            return Ok(Reply { message: None, error: None, ended_by_hook: false });
        };
        let cost = model.info().prices.map(|prices| prices.cost(&usage));
        self.commit(Item::Aside { message: message.clone(), cost }).await?;
        Ok(Reply { message: Some(message), error: None, ended_by_hook: false })
    }

    /// Streams a reply into `partial` and to the subscribers, hearing all the while.
    async fn stream(
        &mut self,
        model: &dyn ChatModel,
        request: ChatRequest,
        text_hook: Option<FnHandleStepTextPart>,
    ) -> Result<Streamed, StepError> {
        let mut stream = model.stream(request);
        let mut held = String::new();
        loop {
            let next = match self.mail.try_recv() {
                Ok(mail) => Next::Mail(mail),
                // Where the stream has something to give, nobody waits for mail: to wait costs more than to look.
                Err(_) => {
                    poll_fn(|cx| match stream.poll_next_unpin(cx) {
                        Poll::Ready(event) => Poll::Ready(Next::Event(event.unwrap_or_else(unfinished))),
                        Poll::Pending => match self.mail.poll_recv(cx) {
                            Poll::Ready(Some(mail)) => Poll::Ready(Next::Mail(mail)),
                            _ => Poll::Pending,
                        },
                    })
                    .await
                }
            };
            match next {
                Next::Mail(mail) => {
                    if self.hear(mail).await? == Some(Urgency::Interrupt) {
                        return Ok(Streamed { stop: StopReason::Interrupted, usage: Usage::default(), error: None });
                    }
                }
                Next::Event(ModelEvent::Done { stop, usage }) => return Ok(Streamed { stop, usage, error: None }),
                Next::Event(ModelEvent::Error(error)) => {
                    return Ok(Streamed { stop: StopReason::Error, usage: Usage::default(), error: Some(error) });
                }
                Next::Event(event) => {
                    if let Err(error) = self.take_event(event, text_hook.as_ref(), &mut held) {
                        return Ok(Streamed { stop: StopReason::Error, usage: Usage::default(), error: Some(error) });
                    }
                }
            }
            // A stream that is always ready must not deafen the session.
            tokio::task::coop::consume_budget().await;
        }
    }

    fn take_event(
        &mut self,
        event: ModelEvent,
        hook: Option<&FnHandleStepTextPart>,
        held: &mut String,
    ) -> Result<(), ModelError> {
        let Some(Partial { id, reply, .. }) = &mut self.partial else { return Ok(()) };
        let (id, hub) = (*id, &mut self.hub);
        let mut tell = |update| hub.overlay(AgentEvent::MessageUpdate { message_id: id, update });
        match event {
            ModelEvent::Delta { block, delta } => match hook {
                Some(hook) if reply.is_text(block) => {
                    held.push_str(&delta);
                    text_part(hook, reply, block, held, false, &mut tell)?;
                }
                _ => tell(reply.delta(block, delta)?),
            },
            ModelEvent::BlockStart { block, kind } => {
                if let (BlockKind::Text, Some(_)) = (&kind, hook) {
                    held.clear();
                }
                if let Some(update) = reply.start(block, kind) {
                    tell(update);
                }
            }
            ModelEvent::BlockEnd { block, signature } => {
                if let Some(hook) = hook
                    && reply.is_text(block)
                {
                    text_part(hook, reply, block, held, true, &mut tell)?;
                }
                reply.end(block, signature)?;
            }
            ModelEvent::Withdrawn => {
                *reply = Assembler::default();
                held.clear();
                tell(Update::Withdrawn);
            }
            ModelEvent::Done { .. } | ModelEvent::Error(_) => {}
        }
        Ok(())
    }
}

/// Lets the hook see what is held of a text block, and does what it says.
fn text_part(
    hook: &FnHandleStepTextPart,
    reply: &mut Assembler,
    block: u32,
    held: &mut String,
    last: bool,
    tell: &mut dyn FnMut(Update),
) -> Result<(), ModelError> {
    let action = hook(TextPart { text: held, last });
    let (text, calls) = match action {
        TextAction::Hold if !last => return Ok(()),
        TextAction::Show | TextAction::Hold => (std::mem::take(held), Vec::new()),
        TextAction::Replace(text) => (text, Vec::new()),
        TextAction::Calls { text, calls } => (text, calls),
    };
    held.clear();
    if !text.is_empty() {
        tell(reply.delta(block, text)?);
    }
    for (name, arguments) in calls {
        let (block, started) = reply.add_call(name.into(), arguments.clone());
        started.into_iter().for_each(&mut *tell);
        tell(Update::ToolCall { block, delta: arguments });
    }
    Ok(())
}

fn unfinished() -> ModelEvent {
    let why = "the model's stream ended before the reply was complete; send the request again";
    ModelEvent::Error(ModelError::new(ModelErrorKind::Network, why))
}
