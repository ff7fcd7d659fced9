//! What a log tells of the outside: when it was opened, what was said to the agent and where, which tools there were.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::event::{EndKind, RunCause};
use crate::fold::Fold;
use crate::input::{ActionResult, InputEvent, Lane, Prompt};
use crate::item::Item;
use crate::message::{AssistantMessage, Body, CallId, ResultStatus, ToolCall};
use crate::tool::{Approval, Effect, ToolSpec};

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

pub(super) fn is_silent(item: &Item) -> bool {
    matches!(item, Item::Opened { .. } | Item::Settings { .. })
}

/// The lives of a session: a fork writes a few items of its own between two of them.
pub(super) fn lives(log: &[Item]) -> Vec<Life> {
    let mut starts: Vec<usize> = (0..log.len()).filter(|i| matches!(log[*i], Item::Opened { .. })).collect();
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
                Item::RunEnded { end: EndKind::Aborted, error: Some(_), .. } => true,
                Item::Withdrawn { inputs } => {
                    let mut waiting = fold.queue.lane(Lane::Request);
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
    log: &'a [Item],
    start: usize,
    end: usize,
    /// Of each item: whether no run went on before it.
    resting: Vec<bool>,
}

impl Plan<'_> {
    fn life(self, cut_off: bool, interrupted: bool) -> Life {
        let mut said: BTreeMap<usize, Said> = BTreeMap::new();
        let mut resets = HashSet::new();
        if interrupted && let Some((at, events)) = self.taken_up(&mut resets) {
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
        Life { start: self.start, end: self.end, cut_off, said: self.joined(said, cut_off) }
    }

    /// What is said at rest, one thing after the other, is said at once: nothing else happens in between.
    fn joined(&self, mut said: BTreeMap<usize, Said>, cut_off: bool) -> BTreeMap<usize, Said> {
        let mut out: BTreeMap<usize, Said> = BTreeMap::new();
        let mut last = 0;
        while let Some((at, next)) = said.pop_first() {
            let adjacent = self.log[last..at].iter().skip(1).all(is_silent);
            match out.last_entry() {
                Some(mut before) if adjacent && before.get().resting && next.resting && !before.get().starts => {
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
        let waits =
            |item: &Item| matches!(item, Item::Queued { lane, .. } if *lane != Lane::Request) || is_silent(item);
        let first = (self.start..self.end).find(|at| !waits(&self.log[*at]))?;
        let end = self.end_of_run(first);
        let aborted = (first..end.unwrap_or(self.end)).any(|at| matches!(self.log[at], Item::AbortRequested { .. }));
        match (&self.log[first], end.map(|end| &self.log[end])) {
            // A new request settles the run, and an answer goes on with it.
            (Item::Decided { .. }, _) => None,
            (_, Some(Item::RunEnded { error: Some(error), .. })) if **error == *crate::task::INTERRUPTED => None,
            (_, Some(Item::RunEnded { end: EndKind::Aborted, .. })) if !aborted => {
                Some((first, vec![self.stop(first, resets)]))
            }
            _ => Some((first, vec![InputEvent::Continue(None)])),
        }
    }

    /// What brought this item, if it came from outside, and whether a run begins with it before anything else is heard.
    fn event(&self, at: usize, resets: &mut HashSet<usize>) -> Option<(InputEvent, bool)> {
        Some(match &self.log[at] {
            Item::Queued { input, lane, urgency, message, output } => {
                let Body::User(said) = &message.body else { return None };
                let mut prompt = Prompt::from(said.clone()).id(input.clone());
                prompt.output = output.clone();
                match lane {
                    Lane::Steering => (InputEvent::Steer(prompt.urgency(*urgency)), false),
                    Lane::FollowUp => (InputEvent::FollowUp(prompt), false),
                    Lane::Request => {
                        let continued = |item: &Item| matches!(item, Item::RunStarted { cause: RunCause::Continue(Some(by)), .. } if by == input);
                        match self.log[at..self.end].iter().any(continued) {
                            true => (InputEvent::Continue(Some(prompt)), true),
                            false => (InputEvent::UserRequest(prompt), false),
                        }
                    }
                }
            }
            Item::Decided { input, call, decision, by } => {
                let shown = self.log[..at].iter().rev().find_map(|item| match item {
                    Item::CallAwaiting { call: asked, digest, .. } if asked == call => Some(digest.clone()),
                    _ => None,
                });
                let answer = ActionResult::new(call.clone(), shown.unwrap_or_default(), (**decision).clone());
                (InputEvent::ExternalActionResult(ActionResult { by: by.clone(), ..answer.id(input.clone()) }), false)
            }
            Item::RunStarted { cause: RunCause::Continue(None), .. } => (InputEvent::Continue(None), true),
            Item::RunStarted { cause: RunCause::Abort, .. } => (self.stop(at, resets), true),
            Item::AbortRequested { .. } => (self.stop(at, resets), false),
            Item::Withdrawn { .. } => (InputEvent::ClearQueues, false),
            Item::Reset if !resets.contains(&at) => (InputEvent::Reset, false),
            _ => return None,
        })
    }

    fn end_of_run(&self, from: usize) -> Option<usize> {
        (from..self.end).find(|at| matches!(self.log[*at], Item::RunEnded { .. }))
    }

    /// An abort, or a reset where the run's end is followed by one.
    fn stop(&self, at: usize, resets: &mut HashSet<usize>) -> InputEvent {
        let reset = self.end_of_run(at).map(|end| end + 1).filter(|next| *next < self.end);
        match reset.filter(|next| self.log[*next] == Item::Reset) {
            Some(reset) => {
                resets.insert(reset);
                InputEvent::Reset
            }
            None => InputEvent::Abort,
        }
    }
}

/// What a log lets us know of a tool.
#[derive(Default)]
struct Known {
    /// It was there: it ran, was asked about or was offered.
    exists: bool,
    asked: Vec<Value>,
    /// Arguments of calls that nobody asked about: of those that ran, and of those that had not run when they were answered.
    unasked: Vec<Value>,
    unstarted: Vec<Value>,
    /// It ran again after a crash.
    again: bool,
    /// It was in a batch whose calls ran at once.
    at_once: bool,
    /// It was in a batch whose calls ran one after the other.
    in_turn: bool,
}

/// A spec for each tool that the log tells of: it takes any object, and the same calls of it ask.
pub(super) fn tools(log: &[Item]) -> Vec<ToolSpec> {
    let mut known: BTreeMap<Arc<str>, Known> = BTreeMap::new();
    let mut calls: HashMap<CallId, ToolCall> = HashMap::new();
    let mut asked: HashSet<CallId> = HashSet::new();
    let mut batch = BatchSeen::default();
    let mut started: HashSet<CallId> = HashSet::new();
    for item in log {
        match item {
            Item::RequestStarted { tools: Some(tools), .. } => {
                tools.iter().for_each(|name| known.entry(name.clone()).or_default().exists = true);
            }
            Item::Replied { message, .. } => {
                std::mem::take(&mut batch).note(&mut known);
                for call in message.as_assistant().into_iter().flat_map(AssistantMessage::calls) {
                    calls.insert(call.id.clone(), call.clone());
                    batch.names.insert(call.name.clone());
                }
            }
            Item::CallAwaiting { call, name, arguments, need, .. } => {
                let tool = known.entry(name.clone()).or_default();
                tool.exists = true;
                (batch.waited, batch.running) = (true, batch.running.saturating_sub(usize::from(need.is_some())));
                if need.is_none() && !tool.asked.contains(arguments) {
                    tool.asked.push((**arguments).clone());
                }
                asked.insert(call.clone());
                started.remove(call);
            }
            Item::CallStarted { call, arguments } => {
                let Some(name) = calls.get(call).map(|call| call.name.clone()) else { continue };
                let tool = known.entry(name).or_default();
                if !asked.contains(call) {
                    tool.unasked.push((**arguments).clone());
                }
                (tool.exists, tool.again) = (true, tool.again || !started.insert(call.clone()));
                (batch.started, batch.running) = (batch.started + 1, batch.running + 1);
                batch.most = batch.most.max(batch.running);
            }
            Item::CallFinished { result } => {
                let Some(result) = result.as_tool_result() else { continue };
                if started.contains(&result.call) {
                    batch.running = batch.running.saturating_sub(1);
                } else if result.status != ResultStatus::Error {
                    let tool = known.entry(result.name.clone()).or_default();
                    tool.exists = true;
                    let arguments = calls.get(&result.call).and_then(|call| serde_json::from_str(&call.arguments).ok());
                    tool.unstarted.extend(arguments.filter(|_| !asked.contains(&result.call)));
                }
            }
            Item::Opened { .. } => batch.waited = true, // what ran is cut off
            _ => {}
        }
    }
    batch.note(&mut known);
    known.into_iter().filter(|(_, tool)| tool.exists).map(|(name, tool)| tool.spec(name)).collect()
}

/// How the calls of a batch ran.
#[derive(Default)]
struct BatchSeen {
    names: BTreeSet<Arc<str>>,
    started: usize,
    running: usize,
    most: usize,
    waited: bool,
}

impl BatchSeen {
    fn note(self, known: &mut BTreeMap<Arc<str>, Known>) {
        for name in self.names {
            let tool = known.entry(name).or_default();
            tool.at_once |= self.most > 1;
            tool.in_turn |= self.started > 1 && self.most == 1 && !self.waited;
        }
    }
}

impl Known {
    fn spec(self, name: Arc<str>) -> ToolSpec {
        let spec = ToolSpec::with_schema(name, "A tool of a session's log.", json!({"type": "object"}));
        let spec = spec.effect(if self.again { Effect::Idempotent } else { Effect::AtMostOnce });
        let spec = if self.in_turn && !self.at_once { spec.sequential() } else { spec };
        let mut asked = self.asked;
        asked.extend(self.unstarted.into_iter().filter(|arguments| !self.unasked.contains(arguments)));
        match asked {
            asked if asked.is_empty() => spec.needs_approval(Approval::Never),
            asked => spec.needs_approval_when(move |arguments, _| asked.contains(arguments)),
        }
    }
}
