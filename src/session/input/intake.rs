//! The intake of a session: the inputs that handles send, and how they become entries of the log.
//!
//! An input takes the same path whether the session is idle or a run is in progress.
//! [`Intake::accept`] checks it and stages its entry. The receipt is sent when the entry is
//! durable. Inputs that start or stop a run (`Continue`, `Abort`, `Reset`) are separated before, by
//! [`Command::sort`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;

use crate::compaction::Compaction;
use crate::error::InputError;
use crate::event::input::{AbortRequest, ActionResult, InputEvent, Prompt, QueueKind, Urgency};
use crate::extensions::Extensions;
use crate::log::entry::LogEntry;
use crate::log::session_info::SessionInfo;
use crate::log::waits::{MAX_KEY_BYTES, MAX_SIGNALS, is_key};
use crate::message::InputId;
use crate::principal::Principal;
use crate::session::config::Config;
use crate::session::input::command::{Ack, Caller, Command, InputCommand, Receipt};
use crate::session::input::decisions;
use crate::session::journal::Journal;
use crate::tool::Toolbox;
use crate::tool::schema::Schema;

/// Maximum number of requests that wait for a run.
pub(crate) const MAX_QUEUED_REQUESTS: usize = 32;

/// Maximum queue of steers and follow-ups: the number of messages, and the bytes of their content.
const MAX_QUEUED_MESSAGES: usize = 1_000;
const MAX_QUEUED_BYTES: usize = 1024 * 1024;

/// Maximum bytes of the JSON of a signal's value.
const MAX_SIGNAL_BYTES: usize = 64 * 1024;

/// The effect of an accepted input on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// A steer of this urgency is queued.
    Steer(Urgency),
    /// A request is queued.
    Request,
    /// A pending action is resolved.
    Decision,
    /// The run is not affected.
    Other,
}

/// The parts of a queued request that are not in the log.
#[derive(Default)]
pub(crate) struct RequestParts {
    /// The host's values.
    pub(crate) extensions: Extensions,
    pub(crate) caller: Option<Caller>,
}

/// A request to compact the conversation, with the sender's channel.
pub(crate) struct CompactionRequest {
    pub(crate) instructions: Option<Arc<str>>,
    /// The client's id of the input.
    pub(crate) id: Option<InputId>,
    pub(crate) ack: Ack<Result<Receipt, InputError>>,
}

impl CompactionRequest {
    /// Answers the caller, once the staged entries are written.
    pub(crate) fn answer(
        self,
        journal: &mut Journal,
        done: Result<Vec<Arc<Compaction>>, InputError>,
    ) {
        let done = match done {
            Ok(done) => done,
            Err(why) => return journal.refuse(self.id, why, self.ack),
        };
        if let Some(input) = self.id.clone() {
            journal.stage(LogEntry::Handled { input });
        }
        let id = self.id.unwrap_or_else(|| journal.state.make_input_id());
        journal.acknowledge(self.ack, Receipt { compacted: done, ..Receipt::new(id) });
    }
}

/// The inputs that the session has received and not yet acted on.
pub(crate) struct Intake {
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    /// Answered when the session is idle.
    pub(crate) idle: Vec<Ack<()>>,
    pub(crate) compactions: VecDeque<CompactionRequest>,
    requests: HashMap<InputId, RequestParts>,
}

impl Intake {
    pub(crate) fn new(commands: mpsc::UnboundedReceiver<Command>) -> Self {
        Intake {
            commands,
            idle: Vec::new(),
            compactions: VecDeque::new(),
            requests: HashMap::new(),
        }
    }

    /// Checks an input and stages its entry. The receipt is sent when the entry is durable. An
    /// input that was accepted before is acknowledged and changes nothing. Never awaits.
    pub(crate) fn accept(
        &mut self,
        input: InputCommand,
        journal: &mut Journal,
        config: &Config,
        tools: &Toolbox,
    ) -> Accepted {
        let InputCommand { event, id, ack, caller, received, waits } = input;
        if let Some(id) = journal.state.seen(id.as_ref()) {
            match caller {
                Some(_) => journal.refuse(None, InputError::Known(id), ack),
                None => journal.acknowledge(ack, Receipt::new(id)),
            }
            return Accepted::Other;
        }
        let client_id = id.clone();
        let staged = match event {
            InputEvent::UserRequest(prompt) => self.request(prompt, id, caller, journal),
            InputEvent::Steer(prompt) => {
                let urgency = prompt.urgency.unwrap_or(config.urgency);
                queue(journal, prompt, id, QueueKind::Steering, urgency)
                    .map(|receipt| (receipt, Accepted::Steer(urgency)))
            }
            InputEvent::FollowUp(prompt) => {
                queue(journal, prompt, id, QueueKind::FollowUp, Urgency::default())
                    .map(|receipt| (receipt, Accepted::Other))
            }
            InputEvent::ExternalActionResult(result) => {
                resolve(journal, config, tools, result, id, received)
            }
            InputEvent::Signal { key, value } => {
                let time = config.environment.now();
                signal(journal, key, value, id, time).map(|receipt| (receipt, Accepted::Other))
            }
            InputEvent::ClearQueues => Ok((clear_queues(journal, id), Accepted::Other)),
            InputEvent::Compact(_) if config.compaction.is_none() => Err(InputError::NoCompaction),
            InputEvent::Compact(instructions) => {
                // Answered after the compaction: before the next request, or after the run.
                let instructions = instructions.map(Into::into);
                self.compactions.push_back(CompactionRequest { instructions, id, ack });
                return Accepted::Other;
            }
            // Of a run that has ended.
            InputEvent::Abort(AbortRequest { run: Some(run) }) => {
                Err(InputError::NothingToAbort(run))
            }
            // `Command::sort` has separated these.
            InputEvent::Continue(_)
            | InputEvent::Abort(_)
            | InputEvent::Reset
            | InputEvent::Release { .. } => Err(InputError::Busy),
            // `Session::receive` forwards it.
            InputEvent::SteerTo { call, .. } => Err(InputError::NoSubAgent(call)),
        };
        match staged {
            Ok((receipt, accepted)) => {
                journal.acknowledge(ack, receipt);
                accepted
            }
            Err(error) => {
                // It stays in the mailbox.
                let client_id = client_id.filter(|_| !(waits && error.is_full()));
                journal.refuse(client_id, error, ack);
                Accepted::Other
            }
        }
    }

    fn request(
        &mut self,
        prompt: Prompt,
        id: Option<InputId>,
        caller: Option<Caller>,
        journal: &mut Journal,
    ) -> Result<(Receipt, Accepted), InputError> {
        let extensions = prompt.extensions.clone();
        let receipt = queue(journal, prompt, id, QueueKind::Request, Urgency::default())?;
        self.requests.insert(receipt.id.clone(), RequestParts { extensions, caller });
        Ok((receipt, Accepted::Request))
    }

    /// Takes the parts of a request whose run begins.
    pub(crate) fn take_request(&mut self, input: &InputId) -> RequestParts {
        self.requests.remove(input).unwrap_or_default()
    }

    /// Answers all callers that another process has taken over the session.
    pub(crate) fn leave(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            command.answer_moved();
        }
        for request in self.compactions.drain(..) {
            let _ = request.ack.send(Err(InputError::Moved));
        }
        for caller in self.requests.drain().filter_map(|(_, request)| request.caller) {
            let _ = caller.outcome.send(Err(InputError::Moved));
        }
    }

    /// Returns the callers that wait for the outcome of a request, because no request can run now.
    /// The requests stay queued. Streams stay open, since their events come later.
    pub(crate) fn take_waiting(&mut self) -> Vec<Caller> {
        let waits = |caller: &Caller| caller.stream.is_none();
        let requests = self.requests.values_mut();
        let waiting = requests.filter(|request| request.caller.as_ref().is_some_and(waits));
        waiting.filter_map(|request| request.caller.take()).collect()
    }

    /// Removes the requests that a reset has dropped, and returns their callers.
    pub(crate) fn take_dropped(&mut self, journal: &Journal) -> Vec<Caller> {
        let is_dropped = |input: &InputId| journal.state.waiting().all(|w| w.input != *input);
        let dropped = self.requests.extract_if(|input, _| is_dropped(input));
        dropped.filter_map(|(_, request)| request.caller).collect()
    }
}

/// Stages a message for a queue. Its input is new.
pub(crate) fn queue(
    journal: &mut Journal,
    prompt: Prompt,
    id: Option<InputId>,
    kind: QueueKind,
    urgency: Urgency,
) -> Result<Receipt, InputError> {
    let input = id.unwrap_or_else(|| journal.state.make_input_id());
    let receipt = Receipt::new(input.clone());
    check_room(journal, kind)?;
    if let Some(output) = &prompt.output {
        Schema::compile_output(&output.schema).map_err(InputError::OutputSchema)?;
    }
    let principal = Principal::of(&prompt.extensions).cloned();
    let message = journal.message(prompt.message);
    let output = prompt.output;
    journal.stage(LogEntry::Queued { input, kind, urgency, message, output, principal });
    Ok(receipt)
}

/// Fails if the queue for this kind of message is full.
fn check_room(journal: &Journal, kind: QueueKind) -> Result<(), InputError> {
    let queue = &journal.state.queue;
    if kind == QueueKind::Request {
        return match queue.of(kind).count() {
            MAX_QUEUED_REQUESTS.. => Err(InputError::Full(MAX_QUEUED_REQUESTS)),
            _ => Ok(()),
        };
    }
    let (mut messages, mut bytes) = (0, 0);
    for queued in queue.iter().filter(|w| w.kind != QueueKind::Request) {
        messages += 1;
        bytes += queued.message.content_bytes();
    }
    if messages >= MAX_QUEUED_MESSAGES || bytes >= MAX_QUEUED_BYTES {
        return Err(InputError::QueueFull { messages, bytes });
    }
    Ok(())
}

/// Stages the withdrawal of all steers and follow-ups.
fn clear_queues(journal: &mut Journal, id: Option<InputId>) -> Receipt {
    let messages = journal.state.queue.iter().filter(|w| w.kind != QueueKind::Request);
    let (inputs, withdrawn): (Vec<InputId>, Vec<String>) =
        messages.map(|w| (w.input.clone(), w.message.text())).unzip();
    if !inputs.is_empty() {
        journal.stage(LogEntry::Withdrawn { inputs });
    }
    if let Some(input) = id.clone() {
        journal.stage(LogEntry::Handled { input });
    }
    Receipt { withdrawn, ..Receipt::new(id.unwrap_or_else(|| journal.state.make_input_id())) }
}

/// Checks a signal and stages it.
fn signal(
    journal: &mut Journal,
    key: Arc<str>,
    value: Value,
    id: Option<InputId>,
    time: u64,
) -> Result<Receipt, InputError> {
    if !is_key(&key) {
        let bytes = key.len();
        let why = format!("its key has {bytes} bytes, and 1 to {MAX_KEY_BYTES} are allowed");
        return Err(InputError::BadSignal(why));
    }
    let bytes = value.to_string().len();
    if bytes > MAX_SIGNAL_BYTES {
        let why =
            format!("its value has {bytes} bytes, and at most {MAX_SIGNAL_BYTES} are allowed");
        return Err(InputError::BadSignal(why));
    }
    let SessionInfo { waits, signals, .. } = &journal.state.info;
    let is_taken = waits.iter().any(|wait| wait.takes(&key));
    if !is_taken && signals.len() >= MAX_SIGNALS {
        return Err(InputError::SignalsFull(MAX_SIGNALS));
    }
    let input = id.unwrap_or_else(|| journal.state.make_input_id());
    let value = Arc::new(value);
    journal.stage(LogEntry::Signalled { input: input.clone(), key, value, time });
    Ok(Receipt::new(input))
}

/// Checks a decision and stages it.
fn resolve(
    journal: &mut Journal,
    config: &Config,
    tools: &Toolbox,
    result: ActionResult,
    id: Option<InputId>,
    received: Option<u64>,
) -> Result<(Receipt, Accepted), InputError> {
    let input = id.unwrap_or_else(|| journal.state.make_input_id());
    let receipt = Receipt::new(input.clone());
    let received = received.unwrap_or_else(|| config.environment.now());
    let entry = decisions::check(journal, config, tools, result, input, received)?;
    let accepted = match entry {
        LogEntry::Decided { .. } => Accepted::Decision,
        _ => Accepted::Other,
    };
    journal.stage(entry);
    Ok((receipt, accepted))
}
