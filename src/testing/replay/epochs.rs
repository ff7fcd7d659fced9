//! [`Epoch`]: the outside of a log, with the openings by processes and the positions of their
//! inputs.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::compaction_step::{CompactionStep, is_interrupted};
use crate::compaction::CompactionCause;
use crate::error::StepError;
use crate::event::input::{
    AbortRequest, ActionResult, Decision, Input, InputEvent, Prompt, QueueKind, SYSTEM,
};
use crate::event::outcome::{RunCause, RunStatus};
use crate::log::entry::LogEntry;
use crate::log::state::SessionState;
use crate::message::{MessageId, MessageKind};

/// A section of a log that one process wrote.
pub(super) struct Epoch {
    /// Position of its first entry. The process found the entries before.
    pub(super) start: usize,
    /// Position after its last entry.
    pub(super) end: usize,
    /// `true` if the process died within a run.
    pub(super) is_cut_off: bool,
    /// The inputs, by the position of the first entry to which they led.
    pub(super) inputs: BTreeMap<usize, InputGroup>,
    /// The compactions requested within runs, in order.
    pub(super) compactions: Vec<RequestedCompaction>,
}

impl Epoch {
    /// Returns the position of the next entry, from `from` on, that does not stem from an input.
    pub(super) fn next(&self, log: &[LogEntry], from: usize) -> Option<usize> {
        (from..self.end).find(|at| !is_from_input(&log[*at]))
    }
}

/// The inputs at one position.
#[derive(Default)]
pub(super) struct InputGroup {
    pub(super) inputs: Vec<Input>,
    /// `true` if they are sent after the end of the last run and start none.
    pub(super) at_rest: bool,
    /// `true` if a run starts with the last input before another is received.
    starts_run: bool,
    /// `true` if no run was in progress when they reached the log.
    between_runs: bool,
}

/// A compaction requested within a run.
pub(super) struct RequestedCompaction {
    /// Position before which all entries must be appended first.
    pub(super) not_before: usize,
    /// Position of the first entry to which it led.
    pub(super) at: usize,
    /// The instructions for the summary.
    pub(super) instructions: Option<Arc<str>>,
    /// `true` if it was certainly requested. Otherwise the entry may also be a failed detached
    /// request of the pattern.
    pub(super) is_certain: bool,
}

/// Returns whether the entry stems from an input, and so can be between any two other entries.
fn is_from_input(entry: &LogEntry) -> bool {
    use LogEntry::{AbortRequested, Approved, Decided, Queued, Reset, Withdrawn};
    is_silent(entry)
        || matches!(
            entry,
            Queued { .. }
                | Approved { .. }
                | Decided { .. }
                | Withdrawn { .. }
                | AbortRequested { .. }
                | Reset
        )
}

/// Returns whether the entry has no counterpart in a replay.
pub(super) fn is_silent(entry: &LogEntry) -> bool {
    use LogEntry::{ChildEnded, ChildStarted, Handled, Opened, Owner, Settings};
    matches!(
        entry,
        // Sub-agents are replayed as tools.
        Opened { .. }
            | Settings { .. }
            | Handled { .. }
            | Owner { .. }
            | ChildStarted { .. }
            | ChildEnded { .. }
    ) || is_accounting(entry)
}

/// Returns each process's detached requests in sending order: requests with a reply, and requests
/// that the end of the process cut off.
pub(super) fn detached_requests(log: &[LogEntry]) -> Vec<Vec<MessageId>> {
    let (mut epochs, mut replied) = (Vec::<Vec<MessageId>>::new(), HashSet::new());
    for entry in log {
        if epochs.is_empty() || matches!(entry, LogEntry::Opened { .. }) {
            epochs.push(Vec::new());
        }
        let Some(started) = epochs.last_mut() else { continue };
        match entry {
            LogEntry::DetachedStarted { requests } => {
                started.extend(requests.iter().map(|request| request.message));
            }
            LogEntry::NotSent { messages } => started.retain(|id| !messages.contains(id)),
            LogEntry::Detached { message, .. } => drop(replied.insert(message.id)),
            // The others were aborted.
            LogEntry::RunEnded { .. } => started.retain(|id| replied.contains(id)),
            _ => {}
        }
    }
    epochs
}

/// Returns the entry without a parent, since a session under replay is a root.
pub(super) fn without_parent(entry: LogEntry) -> LogEntry {
    match entry {
        LogEntry::Opened { epoch, time, .. } => {
            LogEntry::Opened { epoch, time, parent: None, owner: None }
        }
        entry => entry,
    }
}

/// Returns whether the entry only accounts for charges, which a replay does not repeat.
pub(super) fn is_accounting(entry: &LogEntry) -> bool {
    use LogEntry::{Charged, DetachedStarted, NotSent};
    matches!(entry, DetachedStarted { .. } | Charged { .. } | NotSent { .. })
}

/// Splits a log into epochs. The entries that a fork appends are between two epochs.
pub(super) fn epochs(log: &[LogEntry]) -> Vec<Epoch> {
    let mut starts: Vec<usize> =
        (0..log.len()).filter(|i| matches!(log[*i], LogEntry::Opened { .. })).collect();
    if starts.first() != Some(&0) && !log.is_empty() {
        starts.insert(0, 0);
    }
    let mut state = SessionState::default();
    let mut epochs = Vec::new();
    for (n, start) in starts.iter().copied().enumerate() {
        let next = starts.get(n + 1).copied().unwrap_or(log.len());
        let was_interrupted = state.info.run.is_some() && !state.abort_requested;
        let mut end = next;
        let mut between_runs = Vec::new();
        for (at, entry) in log.iter().enumerate().take(next).skip(start) {
            let is_fork = match entry {
                // An abort has no error, and only a fork withdraws a request.
                LogEntry::RunEnded { end: RunStatus::Aborted, error: Some(_), .. } => true,
                LogEntry::Withdrawn { inputs } => {
                    let mut waiting = state.waiting().filter(|w| w.kind == QueueKind::Request);
                    waiting.any(|w| inputs.contains(&w.input))
                }
                _ => false,
            };
            if is_fork {
                end = end.min(at);
            }
            if at == end {
                break;
            }
            between_runs.push(state.info.run.is_none());
            state.apply(entry, &mut |_| {});
        }
        let is_cut_off = state.info.run.is_some();
        let reader = EpochReader { log, start, end, between_runs };
        let epoch = reader.epoch(is_cut_off, was_interrupted);
        log[end..next].iter().for_each(|entry| state.apply(entry, &mut |_| {}));
        epochs.push(epoch);
    }
    epochs
}

/// A reader that finds the inputs of an epoch.
struct EpochReader<'a> {
    log: &'a [LogEntry],
    start: usize,
    end: usize,
    /// For each entry, `true` if no run was in progress before it.
    between_runs: Vec<bool>,
}

impl EpochReader<'_> {
    fn epoch(self, is_cut_off: bool, was_interrupted: bool) -> Epoch {
        let mut groups: BTreeMap<usize, InputGroup> = BTreeMap::new();
        let mut resets = HashSet::new();
        let mut resumed_at = self.start;
        if was_interrupted && let Some((at, inputs)) = self.resumption(&mut resets) {
            resumed_at = at;
            let group = InputGroup { inputs, at_rest: false, starts_run: true, between_runs: true };
            groups.insert(at, group);
        }
        for at in self.start..self.end {
            if let Some((input, starts_run)) = self.input(at, &mut resets) {
                let group = groups.entry(at).or_default();
                group.starts_run |= starts_run;
                group.between_runs |= self.between_runs[at - self.start];
                group.inputs.push(input);
            }
        }
        Epoch {
            start: self.start,
            end: self.end,
            is_cut_off,
            inputs: self.joined(groups, is_cut_off),
            compactions: self.compactions(resumed_at),
        }
    }

    /// Returns the compactions requested within the runs of the epoch. An interrupted run is
    /// resumed at `resumed_at`.
    fn compactions(&self, resumed_at: usize) -> Vec<RequestedCompaction> {
        let mut compactions: Vec<RequestedCompaction> = Vec::new();
        let mut last: Option<&CompactionCause> = None;
        let compacts = |entry: &LogEntry| match entry {
            LogEntry::Detached { message, .. } => !is_interrupted(message),
            entry => matches!(entry, LogEntry::Compacted { .. }),
        };
        for at in (self.start..self.end).filter(|at| !is_from_input(&self.log[*at])) {
            let step = CompactionStep::at(&self.log[..self.end], at);
            let cause = step.as_ref().and_then(CompactionStep::cause);
            let previous = std::mem::replace(&mut last, cause);
            let is_continued = previous.is_some() && previous == cause;
            let instructions = match (cause, step) {
                (Some(CompactionCause::Asked { instructions }), _) if !is_continued => {
                    instructions.clone()
                }
                (None, Some(CompactionStep::Abandoned { failed: true })) => None,
                _ => continue,
            };
            if self.is_compaction_run(at) {
                continue;
            }
            let mut not_before = at;
            while not_before > resumed_at
                && (is_from_input(&self.log[not_before - 1]) || compacts(&self.log[not_before - 1]))
            {
                not_before -= 1;
            }
            let is_certain = cause.is_some();
            compactions.push(RequestedCompaction { not_before, at, instructions, is_certain });
        }
        compactions
    }

    /// Returns whether the run of the entry at `at` was started for a compaction.
    fn is_compaction_run(&self, at: usize) -> bool {
        let compacts = |entry: &LogEntry| {
            matches!(entry, LogEntry::Detached { .. } | LogEntry::Compacted { .. })
        };
        let before =
            self.log[..at].iter().rev().find(|entry| !is_from_input(entry) && !compacts(entry));
        matches!(before, Some(LogEntry::RunStarted { cause: RunCause::Compact { .. }, .. }))
    }

    /// Joins successive inputs between runs into one group, because the agent does nothing in
    /// between.
    fn joined(
        &self,
        mut inputs: BTreeMap<usize, InputGroup>,
        is_cut_off: bool,
    ) -> BTreeMap<usize, InputGroup> {
        let mut out: BTreeMap<usize, InputGroup> = BTreeMap::new();
        let mut last = 0;
        while let Some((at, next)) = inputs.pop_first() {
            let adjacent = self.log[last..at].iter().skip(1).all(is_silent);
            match out.last_entry() {
                Some(mut before)
                    if adjacent
                        && before.get().between_runs
                        && next.between_runs
                        && !before.get().starts_run =>
                {
                    before.get_mut().inputs.extend(next.inputs);
                    before.get_mut().starts_run = next.starts_run;
                }
                _ => drop(out.insert(at, next)),
            }
            last = at;
        }
        let nothing_follows = self.log[last.min(self.end)..self.end].iter().skip(1).all(is_silent);
        if let Some(mut final_) = out.last_entry() {
            final_.get_mut().at_rest = final_.get().between_runs && nothing_follows && !is_cut_off;
        }
        out
    }

    /// Returns the inputs that resumed or ended a run after a crash, and their position.
    fn resumption(&self, resets: &mut HashSet<usize>) -> Option<(usize, Vec<Input>)> {
        let waits = |entry: &LogEntry| {
            matches!(entry, LogEntry::Queued { kind, .. } if *kind != QueueKind::Request)
                || is_silent(entry)
        };
        let first = (self.start..self.end).find(|at| !waits(&self.log[*at]))?;
        let end = self.end_of_run(first);
        let aborted = (first..end.unwrap_or(self.end))
            .any(|at| matches!(self.log[at], LogEntry::AbortRequested { .. }));
        match (&self.log[first], end.map(|end| &self.log[end])) {
            // A new request ends the run, and a decision resumes it.
            (LogEntry::Approved { .. } | LogEntry::Decided { .. }, _) => None,
            (_, Some(LogEntry::RunEnded { error: Some(error), .. }))
                if **error == *StepError::Interrupted.to_string() =>
            {
                None
            }
            (_, Some(LogEntry::RunEnded { end: RunStatus::Aborted, .. })) if !aborted => {
                Some((first, vec![self.stop(first, resets)]))
            }
            _ => Some((first, vec![InputEvent::Continue(None).into()])),
        }
    }

    /// Returns the input that led to the entry at `at`, and whether a run starts with it before
    /// another input is received. Returns `None` if no input led to the entry.
    fn input(&self, at: usize, resets: &mut HashSet<usize>) -> Option<(Input, bool)> {
        let (event, starts_run) = match &self.log[at] {
            LogEntry::Queued { input, kind, urgency, message, output, principal } => {
                let MessageKind::User(text) = &message.body else {
                    return None;
                };
                let mut prompt = Prompt::from(text.clone());
                prompt.output = output.clone();
                if let Some(principal) = principal {
                    prompt = prompt.with(principal.clone());
                }
                match kind {
                    QueueKind::Steering => (InputEvent::Steer(prompt.urgency(*urgency)), false),
                    QueueKind::FollowUp => (InputEvent::FollowUp(prompt), false),
                    QueueKind::Request => {
                        let continues = |entry: &LogEntry| {
                            matches!(
                                entry,
                                LogEntry::RunStarted { cause: RunCause::Continue(Some(by)), .. }
                                    if by == input
                            )
                        };
                        match self.log[at..self.end].iter().any(continues) {
                            true => (InputEvent::Continue(Some(prompt)), true),
                            false => (InputEvent::UserRequest(prompt), false),
                        }
                    }
                }
            }
            LogEntry::Decided { call, decision, by, source, change, .. } => {
                let digest = self.log[..at].iter().rev().find_map(|entry| match entry {
                    LogEntry::CallAwaiting { call: id, digest, .. } if id == call => {
                        Some(digest.clone())
                    }
                    _ => None,
                });
                let digest = digest.unwrap_or_default();
                let mut result = ActionResult::new(call.clone(), digest, (**decision).clone());
                // A replay has no deadlines. It sends their decisions as inputs, which `system`
                // cannot do.
                result.by = by.clone().filter(|by| **by != *SYSTEM);
                (result.source, result.change) = (source.clone(), change.clone());
                (InputEvent::ExternalActionResult(result), false)
            }
            LogEntry::Approved { call, digest, by, source, change, .. } => {
                let mut result = ActionResult::new(call.clone(), digest.clone(), Decision::Approve);
                (result.source, result.change) = (source.clone(), change.clone());
                (InputEvent::ExternalActionResult(result.by(by.clone())), false)
            }
            LogEntry::RunStarted { cause: RunCause::Continue(None), .. } => {
                (InputEvent::Continue(None), true)
            }
            LogEntry::RunStarted { cause: RunCause::Compact { instructions }, .. } => {
                (InputEvent::Compact(instructions.as_deref().map(str::to_owned)), true)
            }
            LogEntry::RunStarted { cause: RunCause::Abort, .. } => {
                return Some((self.stop(at, resets), true));
            }
            LogEntry::AbortRequested { .. } if !resets.contains(&at) => {
                return Some((self.stop(at, resets), false));
            }
            LogEntry::Signalled { key, value, .. } => {
                (InputEvent::Signal { key: key.clone(), value: (**value).clone() }, false)
            }
            LogEntry::Withdrawn { .. } => (InputEvent::ClearQueues, false),
            LogEntry::Reset if !resets.contains(&at) => (InputEvent::Reset, false),
            _ => return None,
        };
        let id = match &self.log[at] {
            LogEntry::Queued { input, .. }
            | LogEntry::Decided { input, .. }
            | LogEntry::Approved { input, .. }
            | LogEntry::Signalled { input, .. } => Some(input.clone()),
            _ => None,
        };
        Some((Input { id, event }, starts_run))
    }

    fn end_of_run(&self, from: usize) -> Option<usize> {
        (from..self.end).find(|at| matches!(self.log[*at], LogEntry::RunEnded { .. }))
    }

    /// Returns an abort, or a reset if a reset follows the end of the run.
    fn stop(&self, at: usize, resets: &mut HashSet<usize>) -> Input {
        let mut id = None;
        if let (LogEntry::RunStarted { .. }, Some(LogEntry::AbortRequested { input })) =
            (&self.log[at], self.log[..self.end].get(at + 1))
        {
            resets.insert(at + 1); // the same input
            id = Some(input.clone());
        }
        let reset = self.end_of_run(at).map(|end| end + 1).filter(|next| *next < self.end);
        match reset.filter(|next| self.log[*next] == LogEntry::Reset) {
            Some(reset) => {
                resets.insert(reset);
                InputEvent::Reset.into()
            }
            None => Input { id, event: InputEvent::Abort(AbortRequest::new()) },
        }
    }
}
