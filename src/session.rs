//! The state of one session and the one way to change it: stage, flush, apply.
//!
//! One task owns it and lends it to the pattern as a `StepContext`. There is no lock: whoever holds
//! `&mut Session` is the single writer. A change is *staged* without awaiting, *flushed* (the write
//! itself is kept here, so that dropping the pattern cannot drop it half-way), and everything that
//! follows from it happens when it is *applied*, at once.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::assemble::Assembler;
use crate::batch::Crew;
use crate::config::Config;
use crate::error::{InputError, MemoryError, StepError};
use crate::event::{
    ActionResult, AgentEvent, Decision, ExternalAction, InputEvent, Lane, Prompt, QueueMode, Update, Urgency,
};
use crate::fold::{Fold, Phase, Tail};
use crate::hub::{Hub, Subscriber};
use crate::memory::{InputId, Item, Memory};
use crate::message::{AssistantMessage, Body, CallId, History, Message, MessageId, Part, RunId, StopReason, Usage};
use crate::model::{ThinkingLevel, ToolList};
use crate::tool::{Extensions, ToolSpec};
use crate::toolbox::Toolbox;

/// Requests that may wait for a run of their own.
pub(crate) const MOST_REQUESTS: usize = 32;

pub(crate) type Ack<T> = oneshot::Sender<T>;

/// What the session hears, at rest and while a verb waits.
pub(crate) enum Mail {
    Input(Box<Input>),
    State(Ack<AgentState>),
    Subscribe(Subscriber),
}

/// An input event and who waits for its receipt.
pub(crate) struct Input {
    pub(crate) event: InputEvent,
    pub(crate) ack: Ack<Result<Receipt, InputError>>,
}

/// An input is durable.
#[derive(Debug, Clone)]
pub(crate) struct Receipt {
    pub(crate) id: InputId,
    /// Texts that the input took back.
    pub(crate) taken_back: Vec<String>,
}

/// A snapshot of a session.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentState {
    /// The session's id.
    pub session_key: Arc<str>,
    /// The system prompt.
    pub system_prompt: Arc<str>,
    /// The model, as `provider/name`.
    pub model: Arc<str>,
    /// How much it thinks.
    pub thinking_level: ThinkingLevel,
    /// Everything that was said.
    pub messages: History,
    /// The tools of the present or last run.
    pub tools: Vec<Arc<ToolSpec>>,
    /// Whether a run goes on.
    pub is_running: bool,
    /// Whether a reply streams.
    pub is_streaming: bool,
    /// The reply that streams, as far as it has come.
    pub streaming_message: Option<AssistantMessage>,
    /// Calls that have no result yet.
    pub pending_tool_calls: Vec<CallId>,
    /// Calls that wait for an answer from outside.
    pub pending_actions: Vec<ExternalAction>,
    /// The error of the last run.
    pub error: Option<Arc<str>>,
    /// Steering messages that wait.
    pub steering_queue: Vec<Arc<Message>>,
    /// How many of them are taken at a look.
    pub steering_mode: QueueMode,
    /// Follow-ups that wait.
    pub follow_up_queue: Vec<Arc<Message>>,
    /// How many of them are taken at a look.
    pub follow_up_mode: QueueMode,
    /// A run that a crash interrupted; `Continue` goes on with it.
    pub interrupted_run: Option<RunId>,
}

/// A reply that streams.
pub(crate) struct Partial {
    pub(crate) id: MessageId,
    pub(crate) model: Arc<str>,
    pub(crate) reply: Assembler,
}

/// Items on their way into the log, and who waits for them.
struct Write {
    items: Arc<[Item]>,
    then: Vec<Then>,
    done: BoxFuture<'static, Result<(), MemoryError>>,
}
type Then = Box<dyn FnOnce(Result<(), MemoryError>) + Send>;

pub(crate) struct Session {
    pub(crate) config: Arc<Config>,
    pub(crate) id: Arc<str>,
    pub(crate) fold: Fold,
    pub(crate) hub: Hub,
    pub(crate) mail: mpsc::UnboundedReceiver<Mail>,
    /// The tools of the present run.
    pub(crate) tools: Toolbox,
    /// The host's values, for the present run.
    pub(crate) extensions: Extensions,
    /// The host's values that came with requests which wait.
    riders: HashMap<InputId, Extensions>,
    pub(crate) partial: Option<Partial>,
    /// A complete reply that a hook still looks at: written together with what the hook says.
    pub(crate) heard_out: Option<Item>,
    pub(crate) crew: Crew,
    /// Cancelled when the run is aborted or cut off.
    pub(crate) cancel: CancellationToken,
    /// An interrupted run was found at opening and nothing has been done about it.
    pub(crate) interrupted: bool,
    /// The tools that the last request offered; kept, so that they are encoded once.
    pub(crate) offered: Arc<ToolList>,
    memory: Arc<dyn Memory>,
    numbered: u64,
    staged: Vec<Item>,
    then: Vec<Then>,
    write: Option<Write>,
}

impl Session {
    pub(crate) fn new(
        config: Arc<Config>,
        hub: Hub,
        id: Arc<str>,
        memory: Arc<dyn Memory>,
        mail: mpsc::UnboundedReceiver<Mail>,
    ) -> Self {
        let tools = config.tools.clone();
        Session {
            config,
            id,
            fold: Fold::default(),
            hub,
            mail,
            tools,
            extensions: Extensions::new(),
            riders: HashMap::new(),
            partial: None,
            heard_out: None,
            crew: Crew::default(),
            cancel: CancellationToken::new(),
            interrupted: false,
            offered: Arc::default(),
            memory,
            numbered: 0,
            staged: Vec::new(),
            then: Vec::new(),
            write: None,
        }
    }

    /// What is kept of the session.
    pub(crate) fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// Folds the log and takes the session over.
    pub(crate) async fn open(&mut self) -> Result<(), MemoryError> {
        for item in self.memory.load(0).await? {
            if let Item::RunStarted { run, .. } = &item {
                self.hub.set_run(*run);
            }
            let hub = &mut self.hub;
            self.fold.apply(&item, &mut |_| hub.pass_over());
        }
        self.interrupted = self.fold.run.is_some();
        self.stage(Item::Opened { epoch: self.fold.epoch + 1 });
        self.flush()
            .await
            .map_err(|e| if let StepError::Memory(e) = e { e } else { MemoryError::Failed(e.to_string()) })?;
        if let Some(message_id) = self.fold.requested.take() {
            self.hub.overlay(AgentEvent::MessageUpdate { message_id, update: Update::Withdrawn });
        }
        Ok(())
    }

    // ---- the one way to change anything -------------------------------------------------------

    /// Never awaits: between taking something from a channel and staging it nothing can be lost.
    pub(crate) fn stage(&mut self, item: Item) {
        self.staged.push(item);
    }

    pub(crate) fn stage_heard_out(&mut self) {
        self.staged.extend(self.heard_out.take());
    }

    /// Called once what has been staged is in the log, or could not be written.
    fn when_written(&mut self, then: impl FnOnce(Result<(), MemoryError>) + Send + 'static) {
        self.then.push(Box::new(then));
    }

    /// Memory first, then RAM, then the events that tell of it. Dropped, it goes on at the next call.
    pub(crate) async fn flush(&mut self) -> Result<(), StepError> {
        while self.write.is_some() || !self.staged.is_empty() || !self.then.is_empty() {
            let result = self.write().await;
            self.written(result)?;
        }
        Ok(())
    }

    /// The first half of a flush: one append of all that is staged. [`Session::written`] is the other.
    pub(crate) async fn write(&mut self) -> Result<(), MemoryError> {
        let write = self.write.get_or_insert_with(|| {
            let items: Arc<[Item]> = std::mem::take(&mut self.staged).into();
            let (memory, at, append) = (self.memory.clone(), self.fold.len, items.clone());
            let done =
                Box::pin(async move { if append.is_empty() { Ok(()) } else { memory.append(at, append).await } });
            Write { items, then: std::mem::take(&mut self.then), done }
        });
        (&mut write.done).await
    }

    /// What follows from a write, all at once.
    pub(crate) fn written(&mut self, result: Result<(), MemoryError>) -> Result<(), StepError> {
        let Some(write) = self.write.take() else { return Ok(()) };
        if result.is_ok() {
            write.items.iter().for_each(|item| self.apply(item));
        }
        write.then.into_iter().for_each(|then| then(result.clone()));
        Ok(result?)
    }

    /// After a panic: a write that cannot be asked how it went. If it took place the next append finds out.
    pub(crate) fn forget_write(&mut self) {
        if self.write.is_some() {
            let _ = self.written(Err(MemoryError::Failed("the session's memory panicked".into())));
        }
    }

    pub(crate) async fn commit(&mut self, item: Item) -> Result<(), StepError> {
        self.stage(item);
        self.flush().await
    }

    fn apply(&mut self, item: &Item) {
        if let Item::RunStarted { run, .. } = item {
            self.hub.set_run(*run);
        }
        let hub = &mut self.hub;
        self.fold.apply(item, &mut |event| hub.tell(event));
    }

    /// The number of the next message. One that is never written leaves a gap.
    pub(crate) fn next_message(&mut self) -> MessageId {
        self.numbered = self.numbered.max(self.fold.messages) + 1;
        MessageId(self.numbered)
    }

    pub(crate) fn message(&mut self, body: impl Into<Body>) -> Arc<Message> {
        Arc::new(Message::new(self.next_message(), body))
    }

    // ---- what comes in ------------------------------------------------------------------------

    /// Takes one message in; says how urgent it is, if it is a steer.
    pub(crate) async fn hear(&mut self, mail: Mail) -> Result<Option<Urgency>, StepError> {
        match mail {
            Mail::State(ack) => drop(ack.send(self.state())),
            Mail::Subscribe(subscriber) => self.hub.subscribe(subscriber),
            Mail::Input(input) => {
                let urgency = self.take_in(*input);
                self.flush().await?;
                return Ok(urgency);
            }
        }
        Ok(None)
    }

    /// All that has come so far.
    pub(crate) async fn hear_all(&mut self) -> Result<(), StepError> {
        while let Ok(mail) = self.mail.try_recv() {
            self.hear(mail).await?;
        }
        Ok(())
    }

    /// Awaits anything else while the session goes on hearing.
    pub(crate) async fn hearing<F: Future + Send>(&mut self, work: F) -> Result<F::Output, StepError> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! { biased;
                Some(mail) = self.mail.recv() => { self.hear(mail).await?; }
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Stages what an input asks for. Its receipt goes out when that is durable.
    fn take_in(&mut self, input: Input) -> Option<Urgency> {
        let Input { event, ack } = input;
        let mut urgency = None;
        let staged = match event {
            InputEvent::UserRequest(prompt) => self.queue(prompt, Lane::Request, Urgency::default()),
            InputEvent::FollowUp(prompt) => self.queue(prompt, Lane::FollowUp, Urgency::default()),
            InputEvent::Steer(prompt) => {
                let how = prompt.urgency.unwrap_or(self.config.urgency);
                urgency = Some(how);
                self.queue(prompt, Lane::Steering, how)
            }
            InputEvent::ExternalActionResult(answer) => self.decide(answer),
            InputEvent::ClearQueues => {
                let both = |w: &&crate::fold::Waiting| w.lane != Lane::Request;
                let taken_back = self.fold.queue.iter().filter(both).map(|w| w.message.text()).collect();
                let inputs: Vec<InputId> = self.fold.queue.iter().filter(both).map(|w| w.input.clone()).collect();
                if !inputs.is_empty() {
                    self.stage(Item::Withdrawn { inputs });
                }
                Ok(Receipt { id: self.fold.make_input_id(), taken_back })
            }
            // The session task keeps these to itself.
            InputEvent::Continue(_) | InputEvent::Abort | InputEvent::Reset => Err(InputError::Busy),
        };
        match staged {
            Ok(receipt) => self.when_written(move |written| {
                let _ = ack.send(written.map(|()| receipt).map_err(InputError::Memory));
            }),
            Err(refused) => drop(ack.send(Err(refused))),
        }
        urgency
    }

    /// Stages a message for a queue; one that came before is acknowledged and changes nothing.
    pub(crate) fn queue(&mut self, prompt: Prompt, lane: Lane, urgency: Urgency) -> Result<Receipt, InputError> {
        let input = prompt.id.unwrap_or_else(|| self.fold.make_input_id());
        let receipt = Receipt { id: input.clone(), taken_back: Vec::new() };
        if self.fold.has_seen(&input) {
            return Ok(receipt);
        }
        if lane == Lane::Request && self.fold.lane(Lane::Request).count() >= MOST_REQUESTS {
            return Err(InputError::Full(MOST_REQUESTS));
        }
        if lane == Lane::Request {
            self.riders.insert(input.clone(), prompt.extensions);
        }
        let message = self.message(prompt.message);
        self.stage(Item::Queued { input, lane, urgency, message, output: prompt.output });
        Ok(receipt)
    }

    fn decide(&mut self, answer: ActionResult) -> Result<Receipt, InputError> {
        let input = answer.id.clone().unwrap_or_else(|| self.fold.make_input_id());
        let receipt = Receipt { id: input.clone(), taken_back: Vec::new() };
        if self.fold.has_seen(&input) {
            return Ok(receipt);
        }
        let decision = self.check_answer(&answer)?;
        self.stage(Item::Decided { input, call: answer.call, decision: Arc::new(decision), by: answer.by });
        Ok(receipt)
    }

    /// The decision as it will be carried out, or why it is refused.
    fn check_answer(&self, answer: &ActionResult) -> Result<Decision, InputError> {
        let call = self.fold.call(&answer.call);
        let Some(Phase::Awaiting(action)) = call.map(|c| &c.phase) else {
            return Err(InputError::NotPending(answer.call.clone()));
        };
        if action.digest != answer.digest {
            return Err(InputError::DigestDiffers(answer.call.clone()));
        }
        match (&answer.decision, &action.need) {
            (Decision::ApproveWith(edited), None) => {
                let valid = self.tools.validate_value(&action.name, edited.clone());
                valid.map(Decision::ApproveWith).map_err(InputError::BadArguments)
            }
            (Decision::ApproveWith(_), Some(_)) => Err(InputError::BadDecision(
                "the tool has seen its arguments already: answer what it asks, or deny".into(),
            )),
            (Decision::Answer(_), None) => Err(InputError::BadDecision(
                "the call waits for a confirmation, not for data: approve it, deny it, or give its result".into(),
            )),
            (decision, _) => Ok(decision.clone()),
        }
    }

    /// The host's values of a request whose run begins.
    pub(crate) fn take_rider(&mut self, input: &InputId) -> Extensions {
        self.riders.remove(input).unwrap_or_default()
    }

    /// What a model could say next. A custom message counts where a hook may turn it into another.
    pub(crate) fn tail(&self) -> Tail {
        let custom = matches!(self.fold.history.last().map(|m| &m.body), Some(Body::Custom(_)));
        if custom && self.config.hooks.convert_to_llm.is_some() { Tail::Answerable } else { self.fold.tail() }
    }

    /// Asks the sources for their tools, at the start of a run.
    pub(crate) async fn load_tools(&mut self) -> Result<(), StepError> {
        let config = self.config.clone();
        if config.sources.is_empty() {
            return Ok(());
        }
        let mut tools = config.tools.clone();
        for (prefix, source) in &config.sources {
            let failed = |why: String| StepError::ToolSource { source_name: prefix.clone(), why };
            let listed = self.hearing(source.tools()).await?.map_err(|e| failed(e.to_string()))?;
            tools = tools.with_source(prefix, listed, &self.tools).map_err(|e| failed(e.to_string()))?;
        }
        self.tools = tools;
        Ok(())
    }

    // ---- what is told --------------------------------------------------------------------------

    pub(crate) fn state(&self) -> AgentState {
        let lane = |lane| self.fold.lane(lane).map(|w| w.message.clone()).collect();
        AgentState {
            session_key: self.id.clone(),
            system_prompt: self.config.system.clone(),
            model: self.config.model.info().id.clone(),
            thinking_level: self.config.thinking,
            messages: self.fold.history.clone(),
            tools: self.tools.list().to_vec(),
            is_running: self.fold.run.is_some() && !self.interrupted,
            is_streaming: self.partial.is_some(),
            streaming_message: self.partial.as_ref().map(|p| p.reply.so_far(p.model.clone())),
            pending_tool_calls: self
                .fold
                .calls()
                .iter()
                .filter(|c| c.result.is_none())
                .map(|c| c.call.id.clone())
                .collect(),
            pending_actions: self.fold.pending().map(|action| (**action).clone()).collect(),
            error: self.fold.last_error.clone(),
            steering_queue: lane(Lane::Steering),
            steering_mode: self.config.steering_mode,
            follow_up_queue: lane(Lane::FollowUp),
            follow_up_mode: self.config.follow_up_mode,
            interrupted_run: self.fold.run.filter(|_| self.interrupted),
        }
    }

    /// The reply that streamed as a message, as far as it came; withdrawn if nothing was said.
    pub(crate) fn close_reply(&mut self, partial: Partial, stop: StopReason, usage: Usage) -> Option<Arc<Message>> {
        let Partial { id, model, reply } = partial;
        let Some(mut reply) = reply.finish(stop, model, usage) else {
            self.hub.overlay(AgentEvent::MessageUpdate { message_id: id, update: Update::Withdrawn });
            return None;
        };
        let mut taken = Vec::new();
        for part in &mut reply.parts {
            if let Part::ToolCall(call) = part {
                call.id = self.fold.unique_call_id(&call.id, &taken);
                taken.push(call.id.clone());
            }
        }
        Some(Arc::new(Message::new(id, reply)))
    }
}
