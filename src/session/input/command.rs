//! Commands from a handle to its session, and the answers.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::compaction::Compaction;
use crate::error::InputError;
use crate::event::hub::Subscriber;
use crate::event::input::{AbortRequest, InputEvent};
use crate::event::outcome::RunOutcome;
use crate::log::entry::LogEntry;
use crate::log::mailbox::InputReceipt;
use crate::log::memory::Memory;
use crate::message::{InputId, RunId};
use crate::session::panics::without_panic;
use crate::session::state::{AgentState, Examined};

pub(crate) type Ack<T> = oneshot::Sender<T>;

/// A command from a handle to its session. All commands use one channel, so that the session
/// handles a caller's commands in the order of sending.
pub(crate) enum Command {
    Input(Box<InputCommand>),
    State(Ack<AgentState>),
    Subscribe(Subscriber),
    /// A late subscription. The subscriber gets the streaming reply from its start, and the caller
    /// the length of the log.
    Join(Subscriber, Ack<u64>),
    /// Answered when the session is idle.
    Idle(Ack<()>),
    /// No further command is accepted. The session ends as if the last handle were dropped.
    Close,
    /// A deadline or a timer has passed. Up to this time of the store, in milliseconds since 1970,
    /// all decisions have been passed on.
    TimePassed(u64),
    /// More inputs in the mailbox wait for a person.
    MailHeld,
    /// From here on, the end of the process does not count as the loss of an owner.
    NoteLeft,
    /// A request for the state that the parent of a sub-agent needs.
    Examine(Ack<Examined>),
}

/// An input and its sender.
pub(crate) struct InputCommand {
    pub(crate) event: InputEvent,
    /// The client's id.
    pub(crate) id: Option<InputId>,
    pub(crate) ack: Ack<Result<Receipt, InputError>>,
    /// Set if the caller waits for the outcome of the run that the input starts.
    pub(crate) caller: Option<Caller>,
    /// Time of sending in milliseconds since 1970, by the store's clock if the input was posted.
    /// `None` means now.
    pub(crate) received: Option<u64>,
    /// The input stays in the mailbox while its queue is full.
    pub(crate) waits: bool,
}

/// A caller that waits for the outcome of a run.
pub(crate) struct Caller {
    pub(crate) outcome: Ack<Result<RunOutcome, InputError>>,
    /// A subscriber to the events of the run, from its start.
    pub(crate) stream: Option<Subscriber>,
}

/// Confirmation that an input is durable.
#[derive(Debug, Clone)]
pub(crate) struct Receipt {
    pub(crate) id: InputId,
    /// The texts of queued messages that the input took back.
    pub(crate) withdrawn: Vec<String>,
    /// The compactions made for the input.
    pub(crate) compacted: Vec<Arc<Compaction>>,
}

impl Receipt {
    pub(crate) fn new(id: InputId) -> Self {
        Receipt { id, withdrawn: Vec::new(), compacted: Vec::new() }
    }
}

impl InputCommand {
    /// Returns the client's id for the entry of an abort. A reset aborts too, but its id is written
    /// when the conversation is reset.
    pub(crate) fn abort_id(&self) -> Option<InputId> {
        let is_reset = matches!(self.event, InputEvent::Reset);
        self.id.clone().filter(|_| !is_reset)
    }

    /// Answers the sender of an input whose id was accepted before. A run is not repeated.
    pub(crate) fn acknowledge_copy(self, id: InputId) {
        let _ = self.ack.send(match self.caller {
            Some(_) => Err(InputError::Known(id)),
            None => Ok(Receipt::new(id)),
        });
    }

    /// Returns whether the input is an abort that names a run other than this one.
    pub(crate) fn aborts_other_than(&self, run: Option<RunId>) -> bool {
        let InputEvent::Abort(AbortRequest { run: Some(named) }) = &self.event else {
            return false;
        };
        run != Some(*named)
    }
}

/// Refuses the input with this id, without the session, which a pattern may occupy for long.
///
/// If another process has opened the session since entry `from`, the reason `why` is out of date.
/// To detect this, a mailbox checks the owner when it records the refusal; without a mailbox the
/// log is read.
pub(crate) async fn refuse(
    id: Option<InputId>,
    ack: Ack<Result<Receipt, InputError>>,
    why: InputError,
    memory: Arc<dyn Memory>,
    from: u64,
) {
    let is_opening = |entry: &LogEntry| matches!(entry, LogEntry::Opened { .. });
    let refused = InputReceipt::Refused(why.clone());
    let checked = match (id, memory.mailbox()) {
        (Some(id), Some(mailbox)) => {
            without_panic(mailbox.acknowledge(&id, &refused)).await.map(|()| false)
        }
        _ => {
            let later = without_panic(memory.load(from)).await;
            later.map(|later| later.iter().any(is_opening))
        }
    };
    let error = match checked {
        Ok(true) => InputError::Moved,
        Ok(false) => why,
        Err(error) => InputError::Memory(error),
    };
    let _ = ack.send(Err(error));
}

/// A command, sorted by its handler.
pub(crate) enum Sorted {
    /// `Abort` or `Reset`: ends the run.
    Stop(Box<InputCommand>),
    /// `Continue` or `Release`: handled if the session is idle, and refused during a run.
    WhenIdle(Box<InputCommand>),
    /// Everything else: handled by the session, idle or not.
    Other(Command),
}

impl Command {
    /// Answers the sender of an input that another process has taken over the session.
    pub(crate) fn answer_moved(self) {
        if let Command::Input(input) = self {
            let _ = input.ack.send(Err(InputError::Moved));
        }
    }

    pub(crate) fn sort(self) -> Sorted {
        match self {
            Command::Input(input) => match &input.event {
                InputEvent::Abort(_) | InputEvent::Reset => Sorted::Stop(input),
                InputEvent::Continue(_) | InputEvent::Release { .. } => Sorted::WhenIdle(input),
                _ => Sorted::Other(Command::Input(input)),
            },
            other => Sorted::Other(other),
        }
    }
}
