//! The task of a session: it handles commands while idle, and starts runs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::mpsc;

use crate::agent::pass::Channels;
use crate::agent::run::{self, AfterRun};
use crate::compaction::Compaction;
use crate::error::{InputError, MemoryError, StepError};
use crate::event::action::ExternalAction;
use crate::event::input::{AbortRequest, InputEvent, Prompt, QueueKind, Urgency};
use crate::event::outcome::{RunCause, RunStatus};
use crate::event::owner_note::OwnerNote;
use crate::extensions::Extensions;
use crate::log::entry::LogEntry;
use crate::log::state::Tail;
use crate::log::waits::Wait;
use crate::message::{InputId, RunId};
use crate::pattern::BehaviorPattern;
use crate::session::Session;
use crate::session::close::{self, Ending};
use crate::session::config::WhileAwaiting;
use crate::session::input::command::{Caller, Command, InputCommand, Receipt, Sorted};
use crate::session::input::command_queue::CommandQueue;
use crate::session::input::deadlines::Deadlines;
use crate::session::input::hold;
use crate::session::input::intake::{self, Accepted, CompactionRequest};
use crate::session::panics::panic_text;
use crate::session::request::compaction;
use crate::tool::DefaultDecision;

/// The task of a session, which owns the session as long as a handle exists.
pub(crate) struct Task {
    session: Session,
    pattern: Arc<dyn BehaviorPattern>,
    channels: Channels,
    /// The host's values of the run context.
    extensions: Extensions,
    /// A steer came too late for the last run and starts another one.
    late_steer: bool,
    /// The memory failed. No run starts until an input arrives.
    log_failed: bool,
    /// Another process has asked for the session.
    is_released: bool,
    /// An interrupted run is continued at once.
    continues: bool,
}

impl Task {
    pub(crate) fn new(
        session: Session,
        pattern: Arc<dyn BehaviorPattern>,
        commands: mpsc::UnboundedReceiver<Command>,
        to_session: mpsc::UnboundedSender<Command>,
        extensions: Extensions,
        continues: bool,
    ) -> Self {
        let deadlines = Deadlines::new(&session);
        let commands = CommandQueue::new(commands, session.mailbox_memory(), deadlines);
        Task {
            session,
            pattern,
            channels: Channels { commands, to_session },
            extensions,
            late_steer: false,
            log_failed: false,
            is_released: false,
            continues,
        }
    }

    /// Runs until no handle is left. An uncaught panic (of the environment, for example) ends the
    /// session, and ends a run in progress with an error.
    pub(crate) async fn run_to_end(&mut self) {
        let ended = AssertUnwindSafe(self.run()).catch_unwind().await;
        if ended.is_ok() && !self.session.journal.is_lost() {
            let left = AssertUnwindSafe(hold::note_left(&mut self.session)).catch_unwind();
            let _ = Box::pin(left).await;
        }
        let session = &mut self.session;
        if let Err(panic) = ended {
            let (id, panic) = (&*session.id, panic_text(&*panic));
            tracing::error!(session = id, panic, "the session has ended because of a panic");
            let end_run = || {
                if session.journal.hub().run_is_open() {
                    let _ = close::emit_unwritten_end(session, &StepError::Panicked(panic));
                }
            };
            let _ = catch_unwind(AssertUnwindSafe(end_run)); // if it panics, too, streams just end
        }
        if session.journal.is_lost() || self.is_released {
            self.leave();
        }
        let closed = AssertUnwindSafe(self.channels.commands.close()).catch_unwind();
        let _ = Box::pin(closed).await;
        let snapshot = AssertUnwindSafe(self.session.journal.store_snapshot()).catch_unwind();
        let _ = Box::pin(snapshot).await;
        let memory = self.session.journal.memory().clone();
        let close = AssertUnwindSafe(async move { memory.close().await }).catch_unwind();
        let _ = Box::pin(close).await; // a panic cannot do more harm at the end
    }

    /// Leaves the session to the process that has taken it over, or has asked for it. Posted inputs
    /// that were not handled stay in the mailbox.
    fn leave(&mut self) {
        let session = &mut self.session;
        let what = if self.is_released { "asked for" } else { "taken over" };
        tracing::info!(session = &*session.id, "another process has {what} the session");
        session.journal.hub().close_as_moved();
        self.channels.commands.leave();
        session.intake.leave();
    }

    /// Runs until no handle is left. The work is boxed to keep the future of an idle session small.
    pub(crate) async fn run(&mut self) {
        if self.session.interrupted && self.session.journal.state.abort_requested {
            Box::pin(self.end(RunStatus::Aborted.into())).await;
        }
        let continues = self.continues && self.session.interrupted;
        if Box::pin(hold::hold_if_lost(&mut self.session, continues)).await.is_err() {
            return; // the next owner looks once more
        }
        self.guard_mailbox().await;
        if continues && !self.is_held() {
            Box::pin(self.resume(None, None)).await;
        }
        self.channels.commands.read_mailbox().await;
        while !self.session.journal.is_lost() && !self.is_released {
            self.guard_mailbox().await;
            if let Some(command) = self.channels.commands.next_collected().await {
                Box::pin(self.handle(command)).await;
                continue;
            }
            if let Some(request) = self.session.intake.compactions.pop_front() {
                Box::pin(self.compact_for(request)).await;
                continue;
            }
            if let Some(cause) = self.next_run() {
                let caller = self.prepare(&cause);
                Box::pin(self.resume(Some(cause), caller)).await;
                continue;
            }
            close::answer_waiting(&mut self.session);
            for ack in self.session.intake.idle.drain(..) {
                let _ = ack.send(());
            }
            let memory = self.session.journal.memory().clone();
            let command = tokio::select! { biased;
                command = self.channels.commands.recv() => command,
                () = memory.lost() => {
                    self.session.journal.note_loss();
                    continue;
                }
            };
            match command {
                Some(command) => Box::pin(self.handle(command)).await,
                // No handle is left. Inputs posted meanwhile are handled first.
                None if self.channels.commands.read_mailbox().await => {}
                None => return,
            }
        }
    }

    /// Returns the cause of the next run, according to the log.
    fn next_run(&mut self) -> Option<RunCause> {
        let state = &self.session.journal.state;
        if self.session.interrupted || self.log_failed || self.is_held() {
            return None;
        }
        let holds = self.session.config.while_awaiting == WhileAwaiting::Hold;
        let late = state.batch.is_none()
            && std::mem::take(&mut self.late_steer)
            && state.queue.has(QueueKind::Steering);
        let now = self.session.config.environment.now();
        let wait = || state.info.due_wait(now).map(Wait::cause);
        state.next_run(holds).or(late.then_some(RunCause::Steer)).or_else(wait)
    }

    /// Returns whether the work waits for a person.
    fn is_held(&self) -> bool {
        self.session.journal.state.info.held.is_some()
    }

    async fn guard_mailbox(&mut self) {
        Box::pin(hold::guard_mailbox(&mut self.session, &mut self.channels.commands)).await;
    }

    /// Applies the values of the request that causes the next run, and returns its caller.
    fn prepare(&mut self, cause: &RunCause) -> Option<Caller> {
        let RunCause::UserRequest(input) = cause else { return None };
        let request = self.session.intake.take_request(input);
        self.session.extensions = request.extensions.over(&self.extensions);
        request.caller
    }

    /// Runs the pattern. Without a cause, runs the rest of an interrupted run.
    async fn resume(&mut self, cause: Option<RunCause>, mut caller: Option<Caller>) {
        self.late_steer = false;
        self.guard_mailbox().await;
        if let Some(stream) = caller.as_mut().and_then(|caller| caller.stream.take()) {
            self.session.journal.hub().subscribe(stream);
        }
        let Task { session, pattern, channels, .. } = self;
        let after = run::run(session, &**pattern, channels, cause, caller).await;
        self.note_end(after);
    }

    fn note_end(&mut self, after: AfterRun) {
        self.late_steer |= after.late_steer;
        self.log_failed |= after.log_failed;
    }

    // ---- while idle -----------------------------------------------------------------------------

    async fn handle(&mut self, command: Command) {
        if matches!(command, Command::Input(_) | Command::TimePassed(_)) {
            self.log_failed = false;
        }
        if let Ok(Some(_)) = self.session.recover().await {
            self.session.interrupted = self.session.journal.state.info.run.is_some();
            if self.session.interrupted && self.session.journal.state.abort_requested {
                // The abort was written although the append failed.
                self.end(RunStatus::Aborted.into()).await;
            }
        }
        if self.channels.commands.is_posted(&command) {
            hold::note_mail(&mut self.session).await;
        }
        if self.session.journal.is_lost() {
            return command.answer_moved();
        }
        match command.sort() {
            Sorted::Stop(input) => self.stop(*input).await,
            Sorted::WhenIdle(input) => match input.event {
                InputEvent::Release { epoch } => self.release(epoch, *input).await,
                _ => self.continue_from_end(*input).await,
            },
            Sorted::Other(command) => self.receive(command).await,
        }
    }

    async fn receive(&mut self, command: Command) {
        self.load_tools_to_check(&command).await;
        match self.session.receive(command).await {
            Ok(Accepted::Request) if self.session.interrupted => {
                self.end(StepError::Interrupted.into()).await;
            }
            Ok(Accepted::Decision) if self.session.interrupted => self.resume(None, None).await,
            // The sender has the answer, and the failure if there was one.
            _ => {}
        }
    }

    /// Loads the tools if the command is a decision that runs an unknown tool: without the tool,
    /// the decision would be refused. After a restart no source has been asked for its tools.
    async fn load_tools_to_check(&mut self, command: &Command) {
        let state = &self.session.journal.state;
        let call = match command {
            Command::Input(input) => match &input.event {
                InputEvent::ExternalActionResult(result) if result.decision.runs_the_tool() => {
                    state.call(&result.call)
                }
                _ => None,
            },
            Command::TimePassed(now) => {
                let is_approved = |action: &&Arc<ExternalAction>| {
                    action.terms.is_overdue(*now)
                        && action.terms.default_decision == DefaultDecision::Approve
                };
                state.pending().find(is_approved).and_then(|action| state.call(&action.call))
            }
            _ => None,
        };
        if let Some(call) = call
            && self.session.executor.tools.entry(&call.call.name).is_err()
        {
            let _ = self.session.load_tools().await; // without the tool the decision is refused
        }
    }

    async fn continue_from_end(&mut self, input: InputCommand) {
        if self.session.interrupted && self.session.journal.state.abort_requested {
            // The run's end could not be written before.
            self.end(RunStatus::Aborted.into()).await;
        }
        if let Some(id) = self.session.journal.state.seen(input.id.as_ref()) {
            return input.acknowledge_copy(id);
        }
        let InputCommand { event: InputEvent::Continue(prompt), id, ack, caller, .. } = input
        else {
            return;
        };
        let queued = match prompt {
            None if !self.can_continue() => Err(InputError::NothingToContinue),
            prompt => prompt.map(|prompt| self.queue_continuation(prompt, id.clone())).transpose(),
        };
        let owners = self.session.journal.state.info.owners;
        let receipt = match queued {
            Ok(receipt) => receipt,
            Err(error) => return self.session.refuse(id, ack, error).await,
        };
        let message = receipt.as_ref().map(|receipt| receipt.id.clone());
        let journal = &mut self.session.journal;
        if let Some(input) = id.clone().filter(|_| message.is_none()) {
            journal.stage(LogEntry::Handled { input });
        }
        if owners.has_lost() {
            journal.stage(LogEntry::Owner { note: OwnerNote::Resumed });
        }
        let new_id = || Receipt::new(id.unwrap_or_else(|| journal.state.make_input_id()));
        let receipt = receipt.unwrap_or_else(new_id);
        journal.acknowledge(ack, receipt);
        // Without a message, the start of the run and the input are one write.
        let is_alone = self.session.interrupted || message.is_some() || owners.held().is_some();
        if is_alone && self.session.journal.flush().await.is_err() {
            return; // the sender is answered with the failure
        }
        if owners.held().is_some() && !self.session.interrupted && message.is_none() {
            return self.continue_queued(caller).await;
        }
        let cause = (!self.session.interrupted).then_some(RunCause::Continue(message));
        self.resume(cause, caller).await;
    }

    /// Starts the run that was held or queued, for the caller. The mailbox is read later.
    async fn continue_queued(&mut self, caller: Option<Caller>) {
        let nothing = |it: Caller| drop(it.outcome.send(Err(InputError::NothingToContinue)));
        let Some(cause) = self.next_run() else { return caller.map(nothing).unwrap_or_default() };
        let caller = caller.or(self.prepare(&cause));
        self.resume(Some(cause), caller).await
    }

    fn queue_continuation(
        &mut self,
        prompt: Prompt,
        id: Option<InputId>,
    ) -> Result<Receipt, InputError> {
        let session = &mut self.session;
        let kind = if session.interrupted { QueueKind::FollowUp } else { QueueKind::Request };
        let extensions = prompt.extensions.clone();
        let receipt = intake::queue(&mut session.journal, prompt, id, kind, Urgency::default())?;
        if kind == QueueKind::Request {
            session.extensions = extensions.over(&session.extensions);
        }
        Ok(receipt)
    }

    fn can_continue(&self) -> bool {
        let state = &self.session.journal.state;
        let has = |kind| state.queue.has(kind);
        match self.session.tail() {
            _ if self.session.interrupted || state.batch.is_some() || self.is_held() => true,
            Tail::Answerable => true,
            Tail::Replied => {
                has(QueueKind::Steering) || has(QueueKind::FollowUp) || state.failed_after_reply()
            }
            Tail::Empty => has(QueueKind::Steering),
        }
    }

    /// Leaves the session if the release names this owner, unless there is work to do.
    async fn release(&mut self, epoch: u64, input: InputCommand) {
        let state = &self.session.journal.state;
        if let Some(id) = state.seen(input.id.as_ref()) {
            return input.acknowledge_copy(id);
        }
        let InputCommand { id, ack, .. } = input;
        let is_meant = state.epoch == epoch;
        if is_meant && self.has_work() {
            return self.session.refuse(id, ack, InputError::Busy).await;
        }
        let journal = &mut self.session.journal;
        if let Some(input) = id.clone() {
            journal.stage(LogEntry::Handled { input });
        }
        let receipt = Receipt::new(id.unwrap_or_else(|| journal.state.make_input_id()));
        journal.acknowledge(ack, receipt);
        self.is_released = journal.flush().await.is_ok() && is_meant;
    }

    /// Returns whether a run or a compaction is about to start.
    fn has_work(&mut self) -> bool {
        let late_steer = self.late_steer;
        let starts_run = self.next_run().is_some();
        self.late_steer = late_steer;
        starts_run || !self.session.intake.compactions.is_empty()
    }

    /// Compacts for a caller, because no request came that would have compacted. Starts a run if
    /// there is something to compact.
    async fn compact_for(&mut self, request: CompactionRequest) {
        let refuse = |why: &str| Err(InputError::NotCompacted(why.into()));
        let state = &self.session.journal.state;
        if let Some(id) = state.seen(request.id.as_ref()) {
            return drop(request.ack.send(Ok(Receipt::new(id)))); // a copy of the one before
        }
        let cause = RunCause::Compact { instructions: request.instructions.clone() };
        let is_interrupted = self.session.interrupted && state.cause.as_ref() == Some(&cause);
        let done = if is_interrupted {
            self.run_compaction(None).await // a process that had the session was killed
        } else if self.session.journal.state.batch.is_some() {
            refuse("calls wait for a decision: resolve them first")
        } else if self.session.interrupted {
            refuse("a run was interrupted: continue it first, or abort it")
        } else {
            let instructions = request.instructions.clone();
            let plan = || compaction::can_compact(&mut self.session, instructions.clone());
            match catch_unwind(AssertUnwindSafe(plan)) {
                Ok(true) => self.run_compaction(Some(cause)).await,
                Ok(false) => Ok(Vec::new()),
                Err(panic) => refuse(&StepError::Panicked(panic_text(&*panic)).to_string()),
            }
        };
        request.answer(&mut self.session.journal, done);
        let _ = self.session.journal.flush().await; // the caller is answered with a failure
    }

    /// Runs a compaction and returns the replacements. Without a cause, continues the interrupted
    /// run.
    async fn run_compaction(
        &mut self,
        cause: Option<RunCause>,
    ) -> Result<Vec<Arc<Compaction>>, InputError> {
        let interrupted = self.session.journal.state.info.run;
        self.session.compaction.result = None;
        self.resume(cause, None).await;
        if let Some(result) = self.session.compaction.result.take() {
            return result;
        }
        let state = &self.session.journal.state;
        let summary = state.active_summary().filter(|summary| summary.run == interrupted);
        let why = match state.outcome.as_ref().filter(|_| !self.log_failed) {
            None => "the session's memory failed",
            Some(outcome) => match (summary, outcome.error.as_deref()) {
                (Some(summary), None) if interrupted.is_some() => {
                    return Ok(vec![summary.compaction.clone()]); // written before the interruption
                }
                (_, error) => error.unwrap_or("the run was aborted"),
            },
        };
        Err(InputError::NotCompacted(why.into()))
    }

    /// Aborts or resets what is open.
    async fn stop(&mut self, input: InputCommand) {
        if let Some(id) = self.session.journal.state.seen(input.id.as_ref()) {
            return input.acknowledge_copy(id);
        }
        if let InputEvent::Abort(AbortRequest { run: Some(run) }) = &input.event
            && self.open_run() != Some(*run)
        {
            let error = InputError::NothingToAbort(*run);
            return self.session.refuse(input.id, input.ack, error).await;
        }
        self.late_steer = false;
        let withdrawn = self.session.queued_texts();
        if self.is_held() {
            let commands = &mut self.channels.commands;
            if let Err(error) = Box::pin(hold::drop_held(&mut self.session, commands)).await {
                return drop(input.ack.send(Err(InputError::Memory(error))));
            }
        }
        if self.session.interrupted {
            self.end(RunStatus::Aborted.into()).await;
            if self.log_failed {
                let why = "the end of the run could not be written: send the abort again";
                let error = InputError::Memory(MemoryError::Failed(why.into()));
                return drop(input.ack.send(Err(error)));
            }
        } else if self.session.journal.state.waits() {
            if let Err(error) = run::begin_abort(&mut self.session, input.abort_id()).await {
                self.log_failed = true;
                return drop(input.ack.send(Err(InputError::Memory(error))));
            }
            self.end(RunStatus::Aborted.into()).await;
        }
        run::finish_stop(&mut self.session, input, withdrawn).await;
    }

    /// Returns the run that an abort stops while no run is in progress: the interrupted run, or
    /// else the last run if its calls wait for decisions, the session sleeps or work is held.
    fn open_run(&self) -> Option<RunId> {
        let state = &self.session.journal.state;
        let is_open = state.waits() || self.is_held();
        state.info.run.or_else(|| is_open.then_some(RunId(state.runs)))
    }

    /// Ends an interrupted run, or a run whose calls wait for decisions, without continuing it.
    async fn end(&mut self, ending: Ending) {
        self.session.interrupted = false;
        let after = run::end(&mut self.session, &mut self.channels, ending, None).await;
        self.note_end(after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server may hold thousands of idle sessions.
    #[test]
    fn the_future_of_an_idle_session_has_no_room_for_work() {
        fn size<F>(_: impl FnOnce(Task) -> F) -> usize {
            size_of::<F>()
        }
        let size = size(|mut task| async move { task.run_to_end().await });
        assert!(size < size_of::<Task>() + 512, "{size} bytes, {} of the task", size_of::<Task>());
    }
}
