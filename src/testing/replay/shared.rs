//! [`SharedReplay`]: the state that the model, the tools and the memory of a replay share: the log,
//! the progress, and the next inputs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::difference::{Difference, summary};
use super::epochs::{self, Epoch, InputGroup};
use super::progress::{Baseline, Progress, SentRequest};
use crate::error::InputError;
use crate::event::input::{Input, InputEvent};
use crate::log::entry::LogEntry;
use crate::log::memory::InMemory;
use crate::message::{CallId, MessageId};
use crate::session::handle::AgentHandle;

/// A log, and an agent's progress in following it.
pub(super) struct SharedReplay {
    pub(super) log: Vec<LogEntry>,
    pub(super) epochs: Vec<Epoch>,
    /// For each epoch, the detached requests that were sent, as far as the log has them.
    pub(super) detached: Vec<Vec<MessageId>>,
    progress: Mutex<Progress>,
    changed: watch::Sender<()>,
}

/// The status of a replay, which tells its driver what to wait for.
pub(super) enum Status {
    /// More entries are expected.
    InProgress,
    /// The next inputs are sent once the agent is idle.
    SendsWhenIdle,
    /// All entries of the epoch have been appended, and the agent should become idle.
    AtEnd,
    /// All entries of the epoch have been appended, and its process was cut off within a run.
    CutOff,
}

impl SharedReplay {
    pub(super) fn new(log: Vec<LogEntry>, detached: Vec<Vec<MessageId>>) -> Self {
        let epochs = epochs::epochs(&log);
        let (progress, changed) = (Mutex::default(), watch::Sender::new(()));
        SharedReplay { log, epochs, detached, progress, changed }
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a token that is cancelled when the current epoch is over.
    pub(super) fn cancellation(&self) -> CancellationToken {
        self.progress().cancellation.clone()
    }

    /// Returns the id of the first request's model.
    pub(super) fn first_model(&self) -> Arc<str> {
        let mut models = self.log.iter().filter_map(|entry| match entry {
            LogEntry::RequestStarted { model, .. } => Some(model.clone()),
            LogEntry::Detached { message, .. } => {
                message.as_assistant().map(|reply| reply.model.clone())
            }
            _ => None,
        });
        models.next().unwrap_or_else(|| "replay/model".into())
    }

    /// Returns a receiver that is notified of each change of the progress.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    // ---- epochs ---------------------------------------------------------------------------------

    /// Starts the replay from the beginning of the log.
    pub(super) fn start(&self, baseline: Baseline) {
        *self.progress() = Progress { baseline, ..Progress::default() };
    }

    /// Starts an epoch, and returns the log as its process found it.
    pub(super) fn open(&self, epoch: usize) -> InMemory {
        let Epoch { start, end, .. } = self.epochs[epoch];
        self.progress().enter_epoch(epoch, &self.log, start, end);
        InMemory::from_entries(self.log[..start].to_vec())
    }

    /// Sets the handle for sending inputs, and sends the inputs that are due.
    pub(super) fn attach(self: &Arc<Self>, handle: AgentHandle) {
        self.progress().handle = Some(handle);
        self.send_due_inputs(false);
    }

    /// Ends the epoch: all further work of the agent fails.
    pub(super) fn close(&self) {
        let mut progress = self.progress();
        progress.handle = None;
        progress.cancellation.cancel();
    }

    /// Returns the sent requests, or the first difference.
    pub(super) fn finish(&self) -> Result<Vec<SentRequest>, Difference> {
        let mut progress = self.progress();
        match progress.divergence.take().or(progress.first_difference.take()) {
            Some(difference) => Err(difference),
            None => Ok(std::mem::take(&mut progress.sent_requests)),
        }
    }

    pub(super) fn status(&self) -> Result<Status, Difference> {
        let progress = self.progress();
        if let Some(divergence) = &progress.divergence {
            return Err(divergence.clone());
        }
        let epoch = &self.epochs[progress.epoch];
        let waits_for_idle = |(at, group): (&usize, &InputGroup)| {
            group.at_rest && *at == progress.at && !progress.sent_inputs.contains(at)
        };
        Ok(match progress.at >= epoch.end {
            true if epoch.is_cut_off || progress.is_past_end => Status::CutOff,
            true => Status::AtEnd,
            false if epoch.inputs.last_key_value().is_some_and(waits_for_idle) => {
                Status::SendsWhenIdle
            }
            false => Status::InProgress,
        })
    }

    /// Returns the difference to report after `timeout` without progress.
    pub(super) fn stalled(&self, timeout: Duration) -> Difference {
        let progress = self.progress();
        let epoch = &self.epochs[progress.epoch];
        if let Some(divergence) = progress.divergence.clone() {
            return divergence;
        }
        match self.log.get(progress.at).filter(|_| progress.at < epoch.end) {
            Some(LogEntry::RequestStarted { .. }) => Difference::of_request(
                progress.requests + 1,
                format!(" was not sent: nothing has happened for {timeout:?}"),
            ),
            Some(entry) => {
                let text = format!(
                    "entry {} of the log was not appended, `{}`: nothing has happened for \
                     {timeout:?}",
                    progress.at,
                    summary(entry)
                );
                let first = progress.first_difference.clone();
                first.unwrap_or_else(|| Difference::at_entry(progress.at, text))
            }
            None => Difference::other(format!(
                "the log has ended, and after {timeout:?} the agent is not idle"
            )),
        }
    }

    // ---- what the agent does --------------------------------------------------------------------

    /// Compares entries that the agent has appended with the log. Returns whether inputs were sent
    /// in response.
    pub(super) fn entries_appended(self: &Arc<Self>, entries: &[LogEntry]) -> bool {
        let mut progress = self.progress();
        let epoch = &self.epochs[progress.epoch];
        entries.iter().for_each(|entry| progress.compare(entry, &self.log, epoch));
        drop(progress);
        self.changed.send_replace(());
        self.send_due_inputs(false)
    }

    /// Stops following the log.
    pub(super) fn diverge(&self, difference: Difference) {
        self.progress().diverge(difference);
        self.changed.send_replace(());
    }

    /// Records that a model starts to stream its reply.
    pub(super) fn reply_started(&self) {
        self.progress().is_streaming = true;
    }

    /// Records that the model has streamed its reply up to its end or its cut. Returns whether
    /// inputs were sent in response.
    pub(super) fn reply_streamed(self: &Arc<Self>, is_detached: bool) -> bool {
        let mut progress = self.progress();
        progress.is_streaming = false;
        progress.is_detached_streamed = is_detached;
        drop(progress);
        self.send_due_inputs(false)
    }

    /// Records that a call has reached its tool.
    pub(super) fn call_reached_tool(self: &Arc<Self>, call: &CallId) {
        self.progress().starting_calls.remove(call);
        self.send_due_inputs(false);
    }

    /// Waits until all entries before `at` have been appended. Returns `false` if the epoch ends
    /// first.
    pub(super) async fn reached(&self, at: usize) -> bool {
        let (mut changes, cancellation) = (self.changes(), self.cancellation());
        loop {
            if cancellation.is_cancelled() {
                return false;
            }
            if self.progress().at >= at {
                return true;
            }
            tokio::select! {
                () = cancellation.cancelled() => return false,
                _ = changes.changed() => {}
            }
        }
    }

    // ---- inputs ---------------------------------------------------------------------------------

    /// Sends the log's next inputs if they are due. Returns whether any was sent. `at_rest` is true
    /// if the agent is idle.
    pub(super) fn send_due_inputs(self: &Arc<Self>, at_rest: bool) -> bool {
        let mut progress = self.progress();
        let epoch = &self.epochs[progress.epoch];
        let Some(handle) = progress.handle.clone() else {
            return false;
        };
        if progress.is_streaming || !progress.starting_calls.is_empty() {
            return false;
        }
        let (mut was_sent, at) = (false, progress.at);
        if let Some(group) = self.due_inputs(&progress, at_rest) {
            progress.sent_inputs.insert(at);
            for input in &group.inputs {
                self.send(&handle, &progress, input.clone(), Some(at));
            }
            was_sent = true;
        }
        while let Some(compaction) = epoch
            .compactions
            .get(progress.requested_compactions)
            .filter(|compaction| compaction.not_before <= at)
        {
            progress.requested_compactions += 1;
            if compaction.is_certain || progress.compacts_as_logged {
                let instructions = compaction.instructions.as_deref().map(str::to_owned);
                let at = compaction.is_certain.then_some(compaction.at);
                self.send(&handle, &progress, InputEvent::Compact(instructions).into(), at);
                was_sent = true;
            }
        }
        was_sent
    }

    fn due_inputs(&self, progress: &Progress, at_rest: bool) -> Option<&InputGroup> {
        let (at, epoch) = (progress.at, &self.epochs[progress.epoch]);
        let group = epoch
            .inputs
            .get(&at)
            .filter(|group| group.at_rest == at_rest && !progress.sent_inputs.contains(&at))?;
        // Inputs that came during a detached request are sent during that request.
        let detached = epoch
            .next(&self.log, at)
            .filter(|next| matches!(self.log[*next], LogEntry::Detached { .. }));
        let waits = detached.is_some_and(|next| !epoch.inputs.contains_key(&next))
            && !progress.is_detached_streamed;
        (!waits).then_some(group)
    }

    /// Sends an input to the agent. If the input certainly led to the entry at `at`, its refusal is
    /// a difference.
    fn send(
        self: &Arc<Self>,
        handle: &AgentHandle,
        progress: &Progress,
        input: Input,
        at: Option<usize>,
    ) {
        let accepted = handle.post(input, None);
        let (replay, cancellation) = (self.clone(), progress.cancellation.clone());
        tokio::spawn(async move {
            if let Ok(Err(why)) = accepted.await
                && let Some(at) = at.filter(|_| !cancellation.is_cancelled())
                && !matches!(why, InputError::NotCompacted(_))
            {
                let entry = summary(&replay.log[at]);
                let text = format!("entry {at} of the log, `{entry}`, was refused: {why}");
                replay.diverge(Difference::at_entry(at, text));
            }
        });
    }
}
