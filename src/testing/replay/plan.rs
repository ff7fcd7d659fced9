//! What a log tells of the outside: when it was opened, what was said to the agent and where.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::compaction::{self, Step};
use crate::error::StepError;
use crate::log::compaction::CompactionCause;
use crate::log::entry::LogEntry;
use crate::log::event::{RunCause, RunStatus};
use crate::log::fold::Fold;
use crate::log::input::{ActionResult, InputEvent, Prompt, QueueKind};
use crate::message::MessageKind;

/// What one process did with the session.
pub(super) struct Life {
    /// Its first item. What is before is what it found in the log.
    pub(super) start: usize,
    /// After its last item.
    pub(super) end: usize,
    /// It was cut off in the middle of a run.
    pub(super) cut_off: bool,
    /// What was said, by the first item that it brought.
    pub(super) said: BTreeMap<usize, Said>,
    /// The compactions that were asked for in a run, in order.
    pub(super) wishes: Vec<Wish>,
}

impl Life {
    /// The next item from here on that the agent writes of itself.
    pub(super) fn next(&self, log: &[LogEntry], from: usize) -> Option<usize> {
        (from..self.end).find(|at| !is_from_outside(&log[*at]))
    }
}

/// What was said to the agent at one place.
#[derive(Default)]
pub(super) struct Said {
    pub(super) events: Vec<InputEvent>,
    /// Said after the last run had ended, so that nothing began with it.
    pub(super) at_rest: bool,
    /// A run begins with the last of it, before anything else is heard.
    starts: bool,
    resting: bool,
}

/// A compaction that somebody asked for in a run.
pub(super) struct Wish {
    /// Said once all that is before this item has come.
    pub(super) from: usize,
    /// The first item that came of it.
    pub(super) at: usize,
    /// What the summary should mind.
    pub(super) instructions: Option<Arc<str>>,
    /// It was asked for. Otherwise it may as well have been an aside of the pattern that failed.
    pub(super) certain: bool,
}

/// Whether it comes of what is said to the agent, and may come between any two other items.
fn is_from_outside(item: &LogEntry) -> bool {
    use LogEntry::*;
    is_silent(item)
        || matches!(
            item,
            Queued { .. } | Decided { .. } | Withdrawn { .. } | AbortRequested { .. } | Reset
        )
}

pub(super) fn is_silent(item: &LogEntry) -> bool {
    matches!(item, LogEntry::Opened { .. } | LogEntry::Settings { .. })
}

/// The lives of a session: a fork writes a few items of its own between two of them.
pub(super) fn lives(log: &[LogEntry]) -> Vec<Life> {
    let mut starts: Vec<usize> =
        (0..log.len()).filter(|i| matches!(log[*i], LogEntry::Opened { .. })).collect();
    if starts.first() != Some(&0) && !log.is_empty() {
        starts.insert(0, 0);
    }
    let mut fold = Fold::default();
    let mut lives = Vec::new();
    for (n, start) in starts.iter().copied().enumerate() {
        let next = starts.get(n + 1).copied().unwrap_or(log.len());
        let interrupted = fold.run.is_some() && !fold.abort_requested;
        let mut end = next;
        let mut resting = Vec::new();
        for (at, item) in log.iter().enumerate().take(next).skip(start) {
            let forked = match item {
                // An abort has no error, and nobody but a fork takes a request back.
                LogEntry::RunEnded { end: RunStatus::Aborted, error: Some(_), .. } => true,
                LogEntry::Withdrawn { inputs } => {
                    let mut waiting = fold.waiting().filter(|w| w.kind == QueueKind::Request);
                    waiting.any(|w| inputs.contains(&w.input))
                }
                _ => false,
            };
            if forked {
                end = end.min(at);
            }
            if at == end {
                break;
            }
            resting.push(fold.run.is_none());
            fold.apply(item, &mut |_| {});
        }
        let cut_off = fold.run.is_some();
        let life = Plan { log, start, end, resting }.life(cut_off, interrupted);
        log[end..next].iter().for_each(|item| fold.apply(item, &mut |_| {}));
        lives.push(life);
    }
    lives
}

struct Plan<'a> {
    log: &'a [LogEntry],
    start: usize,
    end: usize,
    /// Of each item: whether no run went on before it.
    resting: Vec<bool>,
}

impl Plan<'_> {
    fn life(self, cut_off: bool, interrupted: bool) -> Life {
        let mut said: BTreeMap<usize, Said> = BTreeMap::new();
        let mut resets = HashSet::new();
        let mut goes_on = self.start;
        if interrupted && let Some((at, events)) = self.taken_up(&mut resets) {
            goes_on = at;
            let found = Said { events, at_rest: false, starts: true, resting: true };
            said.insert(at, found);
        }
        for at in self.start..self.end {
            if let Some((event, starts)) = self.event(at, &mut resets) {
                let entry = said.entry(at).or_default();
                entry.starts |= starts;
                entry.resting |= self.resting[at - self.start];
                entry.events.push(event);
            }
        }
        let wishes = self.wishes(goes_on);
        Life { start: self.start, end: self.end, cut_off, said: self.joined(said, cut_off), wishes }
    }

    /// The compactions that were asked for in the life's runs, the first of which goes on with this
    /// item.
    fn wishes(&self, goes_on: usize) -> Vec<Wish> {
        let mut wishes: Vec<Wish> = Vec::new();
        let mut last: Option<&CompactionCause> = None;
        let compacts = |item: &LogEntry| match item {
            LogEntry::Detached { message, .. } => !compaction::is_interrupted(message),
            item => matches!(item, LogEntry::Compacted { .. }),
        };
        for at in (self.start..self.end).filter(|at| !is_from_outside(&self.log[*at])) {
            let step = compaction::step(&self.log[..self.end], at);
            let made = if let Some(Step::Made { why, .. }) = &step { Some(*why) } else { None };
            let goes_on_with =
                std::mem::replace(&mut last, made).is_some_and(|last| Some(last) == made);
            let instructions = match (made, step) {
                (Some(CompactionCause::Asked { instructions }), _) if !goes_on_with => {
                    instructions.clone()
                }
                (None, Some(Step::Unmade { failed: true })) => None,
                _ => continue,
            };
            if self.is_run_of_its_own(at) {
                continue;
            }
            let mut from = at;
            while from > goes_on
                && (is_from_outside(&self.log[from - 1]) || compacts(&self.log[from - 1]))
            {
                from -= 1;
            }
            wishes.push(Wish { from, at, instructions, certain: made.is_some() });
        }
        wishes
    }

    /// Whether the run was started for what comes here.
    fn is_run_of_its_own(&self, at: usize) -> bool {
        let compacts = |item: &LogEntry| {
            matches!(item, LogEntry::Detached { .. } | LogEntry::Compacted { .. })
        };
        let before =
            self.log[..at].iter().rev().find(|item| !is_from_outside(item) && !compacts(item));
        matches!(before, Some(LogEntry::RunStarted { cause: RunCause::Compact { .. }, .. }))
    }

    /// What is said at rest, one thing after the other, is said at once: nothing else happens in
    /// between.
    fn joined(&self, mut said: BTreeMap<usize, Said>, cut_off: bool) -> BTreeMap<usize, Said> {
        let mut out: BTreeMap<usize, Said> = BTreeMap::new();
        let mut last = 0;
        while let Some((at, next)) = said.pop_first() {
            let adjacent = self.log[last..at].iter().skip(1).all(is_silent);
            match out.last_entry() {
                Some(mut before)
                    if adjacent && before.get().resting && next.resting && !before.get().starts =>
                {
                    before.get_mut().events.extend(next.events);
                    before.get_mut().starts = next.starts;
                }
                _ => drop(out.insert(at, next)),
            }
            last = at;
        }
        let nothing_follows = self.log[last.min(self.end)..self.end].iter().skip(1).all(is_silent);
        if let Some(mut final_) = out.last_entry() {
            final_.get_mut().at_rest = final_.get().resting && nothing_follows && !cut_off;
        }
        out
    }

    /// How a run that a crash had interrupted went on.
    fn taken_up(&self, resets: &mut HashSet<usize>) -> Option<(usize, Vec<InputEvent>)> {
        let waits = |item: &LogEntry| {
            matches!(item, LogEntry::Queued { kind, .. } if *kind != QueueKind::Request)
                || is_silent(item)
        };
        let first = (self.start..self.end).find(|at| !waits(&self.log[*at]))?;
        let end = self.end_of_run(first);
        let aborted = (first..end.unwrap_or(self.end))
            .any(|at| matches!(self.log[at], LogEntry::AbortRequested { .. }));
        match (&self.log[first], end.map(|end| &self.log[end])) {
            // A new request settles the run, and an answer goes on with it.
            (LogEntry::Decided { .. }, _) => None,
            (_, Some(LogEntry::RunEnded { error: Some(error), .. }))
                if **error == *StepError::Interrupted.to_string() =>
            {
                None
            }
            (_, Some(LogEntry::RunEnded { end: RunStatus::Aborted, .. })) if !aborted => {
                Some((first, vec![self.stop(first, resets)]))
            }
            _ => Some((first, vec![InputEvent::Continue(None)])),
        }
    }

    /// What brought this item, if it came from outside, and whether a run begins with it before
    /// anything else is heard.
    fn event(&self, at: usize, resets: &mut HashSet<usize>) -> Option<(InputEvent, bool)> {
        Some(match &self.log[at] {
            LogEntry::Queued { input, kind, urgency, message, output } => {
                let MessageKind::User(said) = &message.body else {
                    return None;
                };
                let mut prompt = Prompt::from(said.clone()).id(input.clone());
                prompt.output = output.clone();
                match kind {
                    QueueKind::Steering => (InputEvent::Steer(prompt.urgency(*urgency)), false),
                    QueueKind::FollowUp => (InputEvent::FollowUp(prompt), false),
                    QueueKind::Request => {
                        let continued = |item: &LogEntry| matches!(item, LogEntry::RunStarted { cause: RunCause::Continue(Some(by)), .. } if by == input);
                        match self.log[at..self.end].iter().any(continued) {
                            true => (InputEvent::Continue(Some(prompt)), true),
                            false => (InputEvent::UserRequest(prompt), false),
                        }
                    }
                }
            }
            LogEntry::Decided { input, call, decision, by } => {
                let shown = self.log[..at].iter().rev().find_map(|item| match item {
                    LogEntry::CallAwaiting { call: asked, digest, .. } if asked == call => {
                        Some(digest.clone())
                    }
                    _ => None,
                });
                let answer = ActionResult::new(
                    call.clone(),
                    shown.unwrap_or_default(),
                    (**decision).clone(),
                );
                (
                    InputEvent::ExternalActionResult(ActionResult {
                        by: by.clone(),
                        ..answer.id(input.clone())
                    }),
                    false,
                )
            }
            LogEntry::RunStarted { cause: RunCause::Continue(None), .. } => {
                (InputEvent::Continue(None), true)
            }
            LogEntry::RunStarted { cause: RunCause::Compact { instructions }, .. } => {
                (InputEvent::Compact(instructions.as_deref().map(str::to_owned)), true)
            }
            LogEntry::RunStarted { cause: RunCause::Abort, .. } => (self.stop(at, resets), true),
            LogEntry::AbortRequested { .. } => (self.stop(at, resets), false),
            LogEntry::Withdrawn { .. } => (InputEvent::ClearQueues, false),
            LogEntry::Reset if !resets.contains(&at) => (InputEvent::Reset, false),
            _ => return None,
        })
    }

    fn end_of_run(&self, from: usize) -> Option<usize> {
        (from..self.end).find(|at| matches!(self.log[*at], LogEntry::RunEnded { .. }))
    }

    /// An abort, or a reset where the run's end is followed by one.
    fn stop(&self, at: usize, resets: &mut HashSet<usize>) -> InputEvent {
        let reset = self.end_of_run(at).map(|end| end + 1).filter(|next| *next < self.end);
        match reset.filter(|next| self.log[*next] == LogEntry::Reset) {
            Some(reset) => {
                resets.insert(reset);
                InputEvent::Reset
            }
            None => InputEvent::Abort,
        }
    }
}
