//! The queue of a session's task: commands from handles, inputs that other processes have posted to
//! the session's mailbox, and the deadlines and timers that pass.
//!
//! A posted input becomes a command like any other. The mailbox is read before an input of a handle
//! is forwarded, so that earlier posts come first, and each id has one answer. All futures here can
//! be dropped while they wait; the next call continues.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::error::{InputError, MemoryError};
use crate::event::input::InputEvent;
use crate::log::mailbox::{InputReceipt, PostedInput};
use crate::log::memory::Memory;
use crate::message::InputId;
use crate::session::input::command::{Ack, Command, InputCommand, Receipt};
use crate::session::input::deadlines::Deadlines;
use crate::session::panics::without_panic;

/// Delay before the mailbox is read or written again after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Interval between reads of the mailbox without a hint that an input was posted: hints can be
/// lost.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// The commands of a session, in the order in which they are handled.
pub(crate) struct CommandQueue {
    commands: mpsc::UnboundedReceiver<Command>,
    /// No handle is left.
    is_closed: bool,
    /// Commands of handles that have arrived, and are not read yet.
    arrived: VecDeque<Command>,
    /// The next commands.
    ready: VecDeque<Command>,
    mail: Option<Mail>,
    /// Number of mailbox inputs that are known to wait for a person; `None` if inputs are not held.
    known_held: Option<u64>,
    /// The held inputs at the last read of the mailbox: all before the first decision.
    waiting: Vec<PostedInput>,
    deadlines: Deadlines,
}

/// The mailbox of the session. Reads and writes are tasks of their own, because they may hold a
/// lock of the memory that the session waits for.
struct Mail {
    memory: Arc<dyn Memory>,
    /// A future that resolves when there may be something new.
    posted: BoxFuture<'static, ()>,
    reading: Option<JoinHandle<Result<Read, MemoryError>>>,
    /// The input of a handle that comes after the inputs being read.
    held: Option<Box<InputCommand>>,
    /// The posted inputs that are being handled, each with copies of it that handles have sent.
    in_progress: HashMap<InputId, Vec<InputCommand>>,
    /// The answers to the posted inputs in progress.
    answers: JoinSet<(InputId, Result<(), InputError>)>,
    /// Cancelled at the end of the session, to stop waiting for answers.
    closing: CancellationToken,
}

/// The result of reading a mailbox: the inputs without a receipt, and the receipt of the held
/// input.
struct Read {
    /// The time before the read, by the clock of the store; `None` unless a deadline has passed.
    now: Option<u64>,
    unread: Vec<PostedInput>,
    receipt: Option<InputReceipt>,
}

impl CommandQueue {
    /// Creates the queue for these commands of handles, and for the mailbox of the memory.
    pub(crate) fn new(
        commands: mpsc::UnboundedReceiver<Command>,
        memory: Option<Arc<dyn Memory>>,
        deadlines: Deadlines,
    ) -> Self {
        CommandQueue {
            commands,
            is_closed: false,
            arrived: VecDeque::new(),
            ready: VecDeque::new(),
            mail: memory.map(Mail::new),
            known_held: None,
            waiting: Vec::new(),
            deadlines,
        }
    }

    /// Waits for the next command. Returns `None` when no handle is left.
    pub(crate) async fn recv(&mut self) -> Option<Command> {
        loop {
            if let Some(command) = self.next_collected().await {
                return Some(command);
            }
            if self.is_closed {
                return None;
            }
            self.wait().await;
        }
    }

    /// Waits for the next command, even when no handle is left: a command can be posted.
    pub(crate) async fn recv_always(&mut self) -> Command {
        loop {
            if let Some(command) = self.next_collected().await {
                return command;
            }
            self.wait().await;
        }
    }

    /// Returns the next command that has arrived.
    pub(crate) async fn next(&mut self) -> Option<Command> {
        loop {
            if let Some(command) = self.next_collected().await {
                return Some(command);
            }
            let command = self.commands.try_recv().ok()?;
            self.arrived.push_back(command);
        }
    }

    /// Returns the next command that was [collected](CommandQueue::collect) or read from the
    /// mailbox.
    pub(crate) async fn next_collected(&mut self) -> Option<Command> {
        loop {
            if let Some(command) = self.ready.pop_front() {
                return Some(command);
            }
            self.finish_reading().await;
            if self.ready.is_empty() {
                let command = self.arrived.pop_front()?;
                self.admit(command);
            }
        }
    }

    /// Collects all commands that have arrived or were posted. Returns whether they include a
    /// steer.
    pub(crate) async fn collect(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            self.arrived.push_back(command);
        }
        self.read_mailbox().await;
        let is_steer = |command: &Command| match command {
            Command::Input(input) => matches!(input.event, InputEvent::Steer(_)),
            _ => false,
        };
        self.ready.iter().chain(&self.arrived).any(is_steer)
    }

    /// Reads the mailbox. Returns whether there is something to handle.
    pub(crate) async fn read_mailbox(&mut self) -> bool {
        self.finish_reading().await;
        self.start_reading();
        self.finish_reading().await;
        !self.ready.is_empty()
    }

    /// Sets whether inputs stay in the mailbox, except for decisions of a person. `known` is the
    /// number of inputs that are known to wait, or `None` to hold nothing. Returns the number
    /// found.
    pub(crate) fn hold_mail(&mut self, known: Option<u64>) -> u64 {
        let before = std::mem::replace(&mut self.known_held, known);
        if let (Some(_), None, Some(mail)) = (before, known, &mut self.mail) {
            self.waiting.clear();
            mail.posted = std::future::ready(()).boxed();
        }
        let waiting = self.waiting.len() as u64;
        // The caller notes additional inputs only once, because the log may fail.
        self.known_held = known.map(|known| known.max(waiting));
        waiting
    }

    /// Refuses the inputs that wait for a person. An input that was accepted in another way is left
    /// out, and answered at the next read of the mailbox: it is in the log, possibly in a
    /// sub-agent's, or a handle has sent it too. After a failure, the remaining inputs still wait.
    pub(crate) async fn refuse_waiting(
        &mut self,
        is_logged: impl Fn(&InputId) -> bool,
    ) -> Result<(), MemoryError> {
        let Some(mail) = &self.mail else { return Ok(()) };
        let memory = mail.memory.clone();
        let Some(mailbox) = memory.mailbox() else { return Ok(()) };
        let ready = self.ready.iter().filter_map(|command| match command {
            Command::Input(input) => Some(&**input),
            _ => None,
        });
        let sent = ready.chain(mail.held.as_deref()).filter_map(|input| input.id.clone());
        let sent: HashSet<InputId> = sent.collect();
        let refused = InputReceipt::Refused(InputError::Dropped);
        while let Some(PostedInput { id, event, .. }) = self.waiting.last() {
            let is_passed_on = matches!(event, InputEvent::SteerTo { .. });
            if !is_passed_on && !is_logged(id) && !sent.contains(id) {
                without_panic(mailbox.acknowledge(id, &refused)).await?;
            }
            self.waiting.pop();
        }
        Ok(())
    }

    /// Returns whether the command is an input of another process.
    pub(crate) fn is_posted(&self, command: &Command) -> bool {
        let (Command::Input(input), Some(mail)) = (command, &self.mail) else { return false };
        input.id.as_ref().is_some_and(|id| mail.in_progress.contains_key(id))
    }

    /// Returns the unread inputs that are taken now. Others may wait for a person.
    fn taken(&mut self, mut unread: Vec<PostedInput>) -> Vec<PostedInput> {
        let Some(known) = self.known_held else { return unread };
        let first = unread.iter().position(|input| is_decision(&input.event));
        let decision = first.map(|first| unread.drain(first..).next());
        self.waiting = unread;
        if self.waiting.len() as u64 > known {
            self.ready.push_back(Command::MailHeld);
        }
        decision.flatten().into_iter().collect()
    }

    /// Answers all senders that another process has taken over the session.
    pub(crate) fn leave(&mut self) {
        self.commands.close();
        let held = self.mail.as_mut().and_then(|mail| mail.held.take()).map(Command::Input);
        let waiting = self.ready.drain(..).chain(held).chain(self.arrived.drain(..));
        waiting.for_each(Command::answer_moved);
        while let Ok(command) = self.commands.try_recv() {
            command.answer_moved();
        }
    }

    /// Writes the receipts that are due, and releases the memory. The remaining commands stay
    /// unanswered, and posted ones stay in the mailbox.
    pub(crate) async fn close(&mut self) {
        let Some(mut mail) = self.mail.take() else { return };
        mail.closing.cancel();
        if let Some(reading) = mail.reading.take() {
            let _ = reading.await; // it has the memory
        }
        while let Some(answered) = mail.answers.join_next().await {
            mail.answer_copies(answered.ok());
        }
    }

    /// Waits until something happens.
    async fn wait(&mut self) {
        let CommandQueue { commands, is_closed, arrived, mail, deadlines, .. } = self;
        let mail_event = async {
            match mail {
                Some(mail) => mail.next_event().await,
                None => std::future::pending().await,
            }
        };
        let starts_reading = tokio::select! { biased;
            command = commands.recv(), if !*is_closed => {
                match command {
                    Some(command) => arrived.push_back(command),
                    None => *is_closed = true,
                }
                false
            }
            is_posted = mail_event => is_posted,
            // Boxed to keep the future of an idle session small.
            () = Box::pin(deadlines.wait()) => true,
        };
        if starts_reading {
            self.start_reading();
        }
    }

    /// Starts to read the mailbox. If a deadline has passed, the defaults are due after the inputs
    /// posted before it.
    fn start_reading(&mut self) {
        let has_passed = self.deadlines.note_passed();
        match &mut self.mail {
            Some(mail) => mail.start_reading(has_passed),
            None if has_passed => {
                self.ready.push_back(Command::TimePassed(self.deadlines.now()));
            }
            None => {}
        }
    }

    /// Forwards a command, or holds it until the mailbox is read.
    fn admit(&mut self, command: Command) {
        let mut input = match command {
            Command::Input(input) => input,
            Command::Close => return self.commands.close(),
            command => return self.ready.push_back(command),
        };
        if matches!(input.event, InputEvent::ExternalActionResult(_)) {
            input.received.get_or_insert_with(|| self.deadlines.now());
        }
        if let Some(mail) = &mut self.mail {
            mail.held = Some(input);
            return self.start_reading();
        }
        self.start_reading();
        self.ready.push_back(Command::Input(input));
    }

    /// Waits for a read of the mailbox in progress, and forwards its inputs.
    async fn finish_reading(&mut self) {
        let Some(reading) = self.mail.as_mut().and_then(|mail| mail.reading.as_mut()) else {
            return;
        };
        let read = reading.await.unwrap_or_else(|error| Err(MemoryError::failed(error)));
        let read = read.map(|read| Read { unread: self.taken(read.unread), ..read });
        let Some(mail) = &mut self.mail else { return };
        mail.reading = None;
        let held = mail.held.take();
        let receipt = match read {
            Ok(Read { now, unread, receipt }) => {
                self.ready.extend(unread.into_iter().filter_map(|input| mail.take(input)));
                if let Some(now) = now {
                    self.ready.push_back(Command::TimePassed(now));
                }
                receipt
            }
            Err(error) => {
                // Without the earlier inputs, this input cannot be handled.
                tracing::warn!(%error, "the mailbox of a session cannot be read");
                mail.posted = tokio::time::sleep(RETRY_DELAY).boxed();
                if let Some(input) = held {
                    let _ = input.ack.send(Err(InputError::Memory(error)));
                }
                return;
            }
        };
        let Some(input) = held else { return };
        let id = input.id.clone();
        let copies = id.as_ref().and_then(|id| mail.in_progress.get_mut(id));
        match (receipt, copies) {
            (Some(InputReceipt::Refused(why)), _) => {
                let (id, why) = (id.unwrap_or_default(), Box::new(why));
                let _ = input.ack.send(Err(InputError::AlreadyRefused { id, why }));
            }
            (_, Some(copies)) => copies.push(*input),
            _ => self.ready.push_back(Command::Input(input)),
        }
    }
}

impl Mail {
    fn new(memory: Arc<dyn Memory>) -> Self {
        Mail {
            posted: posted(memory.clone(), POLL_INTERVAL),
            memory,
            reading: None,
            held: None,
            in_progress: HashMap::new(),
            answers: JoinSet::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Waits for an answer, which is forwarded, or a posted input. Returns `true` for a posted
    /// input.
    async fn next_event(&mut self) -> bool {
        tokio::select! { biased;
            Some(answered) = self.answers.join_next() => {
                self.answer_copies(answered.ok());
                false
            }
            () = &mut self.posted => true,
        }
    }

    /// Starts to read the mailbox, and the receipt of the held input. With `has_passed`, a deadline
    /// has passed, and everything is read that was posted before now.
    fn start_reading(&mut self, has_passed: bool) {
        let memory = self.memory.clone();
        let id = self.held.as_ref().and_then(|input| input.id.clone());
        let read = async move {
            let Some(mailbox) = memory.mailbox() else {
                return Ok(Read { now: None, unread: Vec::new(), receipt: None });
            };
            let now = match has_passed {
                true => Some(mailbox.now().await?),
                false => None,
            };
            let receipt = match id {
                Some(id) => mailbox.receipt(&id).await?,
                None => None,
            };
            Ok(Read { now, unread: mailbox.unread().await?, receipt })
        };
        self.reading = Some(tokio::spawn(without_panic(read)));
        self.posted = posted(self.memory.clone(), POLL_INTERVAL);
    }

    /// Turns a posted input into a command, unless it is already being handled.
    fn take(&mut self, input: PostedInput) -> Option<Command> {
        let PostedInput { id, event, time, waits } = input;
        if self.in_progress.contains_key(&id) {
            return None;
        }
        let (ack, answer) = oneshot::channel();
        self.in_progress.insert(id.clone(), Vec::new());
        let (memory, closing) = (self.memory.clone(), self.closing.clone());
        self.answers.spawn(acknowledge(memory, id.clone(), answer, closing));
        // An input without a time was posted before there were deadlines.
        let received = Some(time.unwrap_or_default());
        let input = InputCommand { event, id: Some(id), ack, caller: None, received, waits };
        Some(Command::Input(Box::new(input)))
    }

    /// Answers the copies of a posted input that handles have sent.
    fn answer_copies(&mut self, answered: Option<(InputId, Result<(), InputError>)>) {
        let Some((id, answer)) = answered else { return };
        if answer.as_ref().is_err_and(|why| *why == InputError::Gone || why.is_full()) {
            // It was forwarded to a sub-agent that ended before it handled the input, or it waits
            // for room.
            self.posted = posted(self.memory.clone(), RETRY_DELAY);
        }
        for InputCommand { ack, caller, .. } in self.in_progress.remove(&id).into_iter().flatten() {
            answer_copy(ack, caller.is_some(), &id, answer.clone());
        }
    }
}

/// Returns whether an input is a decision of a person about held work.
pub(crate) fn is_decision(event: &InputEvent) -> bool {
    use InputEvent::{Abort, Continue, ExternalActionResult, Release};
    matches!(event, Abort(_) | Continue(_) | ExternalActionResult(_) | Release { .. })
}

/// Answers a copy. If its sender waits for a run, the run is not repeated.
fn answer_copy(
    ack: Ack<Result<Receipt, InputError>>,
    waits: bool,
    id: &InputId,
    answer: Result<(), InputError>,
) {
    let answer = match answer {
        Ok(()) if waits => Err(InputError::Known(id.clone())),
        answer => answer.map(|()| Receipt::new(id.clone())),
    };
    let _ = ack.send(answer);
}

/// Waits for a hint that an input was posted, but at most this long.
fn posted(memory: Arc<dyn Memory>, at_most: Duration) -> BoxFuture<'static, ()> {
    async move {
        let Some(mailbox) = memory.mailbox() else { return std::future::pending().await };
        let _ = tokio::time::timeout(at_most, mailbox.posted()).await;
    }
    .boxed()
}

/// Writes the receipt of a posted input that the session has accepted: first the log, then the
/// receipt. The journal writes refusals. An input without a receipt is read again.
async fn acknowledge(
    memory: Arc<dyn Memory>,
    id: InputId,
    answer: oneshot::Receiver<Result<Receipt, InputError>>,
    closing: CancellationToken,
) -> (InputId, Result<(), InputError>) {
    let answer = tokio::select! { biased;
        answer = answer => answer.unwrap_or(Err(InputError::Gone)).map(drop),
        () = closing.cancelled() => Err(InputError::Gone),
    };
    while let (Ok(()), Some(mailbox)) = (&answer, memory.mailbox()) {
        let written = without_panic(mailbox.acknowledge(&id, &InputReceipt::Accepted)).await;
        let Err(error) = written else { break };
        tracing::warn!(input = &*id, %error, "the receipt of a posted input is not written");
        let retry = tokio::time::timeout(RETRY_DELAY, closing.cancelled()).await.is_err();
        if error.is_lost() || !retry {
            break;
        }
    }
    (id, answer)
}
