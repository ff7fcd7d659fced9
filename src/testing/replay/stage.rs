//! Where a replay stands in its log: what has come, what may come now, what is said next.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::difference::{Difference, plain, tell};
use super::plan::{self, Life, is_silent};
use crate::fold::Fold;
use crate::handle::{AgentHandle, Control};
use crate::item::Item;
use crate::memory::InMemory;
use crate::message::CallId;
use crate::model::ChatRequest;
use crate::session::{Input, Mail};

/// A log, and how far an agent has followed it.
pub(super) struct Stage {
    pub(super) log: Vec<Item>,
    pub(super) lives: Vec<Life>,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

/// What requests are compared with.
#[derive(Default)]
pub(super) enum Against {
    /// The conversation that the log had then.
    #[default]
    Log,
    Nothing,
    /// What another agent has sent.
    Sent(Vec<Sent>),
}

/// A request, and the model that it went to.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) model: Arc<str>,
    pub(super) request: ChatRequest,
}

/// What whoever drives the agent has to do.
pub(super) enum Status {
    Waits,
    /// Something is said once the agent rests.
    SpeaksAtRest,
    /// All has come that the log has of this life, and the agent should rest.
    AtEnd,
    /// The same, where the log's process was cut off in the middle of a run.
    CutOff,
}

#[derive(Default)]
pub(super) struct State {
    life: usize,
    /// The next item of the log that has not come.
    pub(super) at: usize,
    /// What the log said before that.
    pub(super) fold: Fold,
    handle: Option<AgentHandle>,
    pub(super) over: CancellationToken,
    /// Requests that the log has before `at`.
    pub(super) asked: usize,
    /// The item of a request that was announced and has not reached its model.
    pub(super) announced: Option<usize>,
    /// A model has not said yet all that it says before it is cut off or ends.
    speaking: bool,
    /// The aside that comes next has been said.
    aside_said: bool,
    /// Calls that were announced and have not reached their tools.
    starting: HashSet<CallId>,
    /// Where each call was started.
    pub(super) started: HashMap<CallId, usize>,
    /// The agent does what comes after the log's end.
    beyond: bool,
    spoken: HashSet<usize>,
    pub(super) against: Against,
    pub(super) sent: Vec<Sent>,
    /// The first item that differs, though the log could be followed on.
    first: Option<Difference>,
    /// Why the log is not followed any further.
    found: Option<Difference>,
}

impl Stage {
    pub(super) fn new(log: Vec<Item>) -> Self {
        let lives = plan::lives(&log);
        Stage { log, lives, state: Mutex::default(), changed: watch::Sender::new(()) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancelled when the present life is over.
    pub(super) fn over(&self) -> CancellationToken {
        self.state().over.clone()
    }

    /// The model of the first request.
    pub(super) fn model(&self) -> Arc<str> {
        let mut models = self.log.iter().filter_map(|item| match item {
            Item::RequestStarted { model, .. } => Some(model.clone()),
            Item::Aside { message, .. } => message.as_assistant().map(|reply| reply.model.clone()),
            _ => None,
        });
        models.next().unwrap_or_else(|| "replay/model".into())
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    // ---- lives ----------------------------------------------------------------------------------

    pub(super) fn begin(&self, against: Against) {
        *self.state() = State { against, ..State::default() };
    }

    /// The log as a process found it.
    pub(super) fn open(&self, life: usize) -> InMemory {
        let (start, mut state) = (self.lives[life].start, self.state());
        (state.life, state.over) = (life, CancellationToken::new());
        state.catch_up(&self.log, start);
        (state.announced, state.speaking, state.aside_said, state.beyond) = (None, false, false, false);
        state.starting.clear();
        state.skip_silent(&self.log, self.lives[life].end);
        InMemory::from_items(self.log[..start].to_vec())
    }

    /// The agent can be spoken to.
    pub(super) fn enter(self: &Arc<Self>, handle: AgentHandle) {
        self.state().handle = Some(handle);
        self.speak(false);
    }

    /// The process dies: whatever it still does fails.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.handle = None;
        state.over.cancel();
    }

    pub(super) fn end(&self) -> Result<Vec<Sent>, Difference> {
        let mut state = self.state();
        match state.found.take().or(state.first.take()) {
            Some(difference) => Err(difference),
            None => Ok(std::mem::take(&mut state.sent)),
        }
    }

    pub(super) fn status(&self) -> Result<Status, Difference> {
        let state = self.state();
        if let Some(found) = &state.found {
            return Err(found.clone());
        }
        let life = &self.lives[state.life];
        let waits = |(at, said): (&usize, &plan::Said)| said.at_rest && *at == state.at && !state.spoken.contains(at);
        Ok(match state.at >= life.end {
            true if life.cut_off || state.beyond => Status::CutOff,
            true => Status::AtEnd,
            false if life.said.last_key_value().is_some_and(waits) => Status::SpeaksAtRest,
            false => Status::Waits,
        })
    }

    /// Nothing has come for this long.
    pub(super) fn stalled(&self, patience: Duration) -> Difference {
        let state = self.state();
        let life = &self.lives[state.life];
        if let Some(difference) = state.found.clone() {
            return difference;
        }
        match self.log.get(state.at).filter(|_| state.at < life.end) {
            Some(Item::RequestStarted { .. }) => {
                Difference::of_request(state.asked + 1, format!(" never came: nothing has happened for {patience:?}"))
            }
            Some(item) => {
                let text = format!(
                    "item {} of the log never came, `{}`: nothing has happened for {patience:?}",
                    state.at,
                    tell(item)
                );
                state.first.clone().unwrap_or_else(|| Difference::at_item(state.at, text))
            }
            None => Difference::elsewhere(format!("the log has ended, and {patience:?} later the agent still works")),
        }
    }

    // ---- what comes -------------------------------------------------------------------------------

    /// Items of the agent are in its log. Whether something was said in answer.
    pub(super) fn written(self: &Arc<Self>, items: &[Item]) -> bool {
        let mut state = self.state();
        let life = &self.lives[state.life];
        items.iter().for_each(|item| state.take(item, &self.log, life));
        drop(state);
        self.changed.send_replace(());
        self.speak(false)
    }

    /// A request is not as it was, or what was said was refused: the log is not followed any further.
    pub(super) fn found(&self, difference: Difference) {
        self.state().give_up(difference);
        self.changed.send_replace(());
    }

    /// A model begins to say what it says before it is cut off or ends.
    pub(super) fn speaks(&self) {
        self.state().speaking = true;
    }

    /// The model has said it.
    pub(super) fn has_spoken(self: &Arc<Self>, aside: bool) {
        let mut state = self.state();
        (state.speaking, state.aside_said) = (false, aside);
        drop(state);
        self.speak(false);
    }

    /// A call has reached its tool.
    pub(super) fn has_begun(self: &Arc<Self>, call: &CallId) {
        self.state().starting.remove(call);
        self.speak(false);
    }

    /// Resolves when all that the log has before this item has come, or the life is over.
    pub(super) async fn reached(&self, at: usize) -> bool {
        let (mut changes, over) = (self.changes(), self.over());
        loop {
            if over.is_cancelled() {
                return false;
            }
            if self.state().at >= at {
                return true;
            }
            tokio::select! {
                () = over.cancelled() => return false,
                _ = changes.changed() => {}
            }
        }
    }

    // ---- what is said -----------------------------------------------------------------------------

    /// Says what comes next in the log, if it is its time. Whether it did.
    pub(super) fn speak(self: &Arc<Self>, at_rest: bool) -> bool {
        let mut state = self.state();
        let (at, life) = (state.at, &self.lives[state.life]);
        let Some(said) = life.said.get(&at).filter(|said| said.at_rest == at_rest) else { return false };
        let Some(handle) = state.handle.clone() else { return false };
        if state.speaking || !state.starting.is_empty() || state.spoken.contains(&at) {
            return false;
        }
        // What was said while an aside went on is said while it goes on.
        let next = (at..life.end).find(|at| !life.said.contains_key(at) && !is_silent(&self.log[*at]));
        if next.is_some_and(|next| matches!(self.log[next], Item::Aside { .. })) && !state.aside_said {
            return false;
        }
        state.spoken.insert(at);
        for event in said.events.clone() {
            let (ack, told) = oneshot::channel();
            let _ = handle.control.send(Control::Mail(Mail::Input(Box::new(Input { event, ack }))));
            let (stage, over) = (self.clone(), state.over.clone());
            tokio::spawn(async move {
                if let Ok(Err(why)) = told.await
                    && !over.is_cancelled()
                {
                    let said = tell(&stage.log[at]);
                    stage.found(Difference::at_item(at, format!("item {at} of the log, `{said}`, was refused: {why}")));
                }
            });
        }
        true
    }
}

impl State {
    /// The log up to this item has come.
    fn catch_up(&mut self, log: &[Item], to: usize) {
        log[self.at..to].iter().for_each(|item| self.fold.apply(item, &mut |_| {}));
        self.at = to;
    }

    fn skip_silent(&mut self, log: &[Item], end: usize) {
        let next = (self.at..end).find(|at| !is_silent(&log[*at])).unwrap_or(end);
        self.catch_up(log, next.max(self.at));
    }

    fn give_up(&mut self, difference: Difference) {
        self.found.get_or_insert(difference);
        self.over.cancel();
    }

    /// An item has come. What a pattern writes of its own (state, messages, events) may differ and the log be followed on;
    /// all others come in the log's order.
    fn take(&mut self, new: &Item, log: &[Item], life: &Life) {
        let ended = self.at >= life.end;
        if is_silent(new) || self.found.is_some() {
            return;
        }
        // A log that ends before what starts by itself, or in the middle of a run, says nothing of what follows.
        self.beyond |= ended && (life.cut_off || matches!(new, Item::RunStarted { .. }));
        if self.beyond {
            return;
        }
        let key = key(new);
        let next = match key {
            None => self.at,
            Some(_) => (self.at..life.end).find(|at| self::key(&log[*at]).is_some()).unwrap_or(life.end),
        };
        let old = log.get(next).filter(|_| next < life.end);
        if old.is_none_or(|old| plain(old) != plain(new)) || next > self.at {
            let differing = log.get(self.at).filter(|_| !ended);
            let difference = Difference::of_item(self.at, differing, new);
            self.first.get_or_insert(difference);
        }
        match old.filter(|old| self::key(old) == key) {
            Some(old) => {
                self.catch_up(log, next + 1);
                self.follow(next, old, new);
                self.skip_silent(log, life.end);
            }
            None if key.is_none() => {}
            None => {
                let number = self.asked + 1;
                let difference = match (old, new) {
                    (Some(Item::RequestStarted { .. } | Item::Aside { .. }), _) => {
                        Difference::of_request(number, format!(" never came: instead came `{}`", tell(new)))
                    }
                    (old, Item::RequestStarted { .. } | Item::Aside { .. }) => self.not_in_log(old),
                    (old, new) => {
                        let difference = Difference::of_item(next, old, new);
                        self.first.take().unwrap_or(difference)
                    }
                };
                self.give_up(difference);
            }
        }
    }

    /// What an item that came leads to. `at` is its place in the log.
    fn follow(&mut self, at: usize, old: &Item, new: &Item) {
        match (old, new) {
            (
                Item::RequestStarted { model: old_model, tools: old_tools, .. },
                Item::RequestStarted { model, tools, .. },
            ) => {
                (self.announced, self.speaking, self.asked) = (Some(at), true, self.asked + 1);
                let names = |tools: &Option<Arc<[Arc<str>]>>| {
                    tools.as_ref().map_or("all".to_owned(), |names| format!("[{}]", names.join(", ")))
                };
                let difference = Difference::of_values(self.asked, "the model", old_model, model).or_else(|| {
                    Difference::of_values(self.asked, "what it offers of the tools", &names(old_tools), &names(tools))
                });
                if let Some(difference) = difference {
                    self.give_up(difference);
                }
            }
            (Item::Aside { .. }, _) => (self.asked, self.aside_said) = (self.asked + 1, false),
            (Item::Replied { .. }, _) if self.announced.is_some() => {
                let why = ": another model answered it, so build the agent with `replay.model()`";
                self.give_up(Difference::of_request(self.asked, why));
            }
            // Whatever had begun was cut off.
            (Item::RunEnded { .. }, _) => {
                self.speaking = false;
                self.starting.clear();
            }
            (Item::CallStarted { call, .. }, _) => {
                self.starting.insert(call.clone());
                self.started.insert(call.clone(), at);
            }
            (Item::CallFinished { result }, _) => {
                let call = result.as_tool_result().map(|result| &result.call);
                if let Some(call) = call.filter(|call| self.starting.remove(&**call)) {
                    let text = format!(
                        "call {call} was answered by another tool: build the agent with `replay.tools()`, or with a `replay.stand_in` of each of its tools"
                    );
                    self.give_up(Difference::at_item(at, text));
                }
            }
            _ => {}
        }
    }

    /// The request that comes now is one more than the log has.
    /// Whether requests that come now are of no interest.
    pub(super) fn is_over(&self, life: &Life) -> bool {
        self.over.is_cancelled() || self.beyond || life.cut_off && self.at >= life.end
    }

    pub(super) fn life(&self) -> usize {
        self.life
    }

    pub(super) fn not_in_log(&self, old: Option<&Item>) -> Difference {
        let what = old.map_or("the log ends".to_owned(), |old| format!("the log goes on with `{}`", tell(old)));
        Difference::of_request(self.asked + 1, format!(" is not in the log: where it came, {what}"))
    }
}

/// What tells items of the engine apart; nothing for what only a pattern writes.
fn key(item: &Item) -> Option<(&'static str, &str)> {
    Some(match item {
        Item::RunStarted { .. } => ("run", ""),
        Item::RunEnded { .. } => ("end", ""),
        Item::Queued { input, .. } => ("queued", input),
        Item::Delivered { input } => ("delivered", input),
        Item::Withdrawn { .. } => ("withdrawn", ""),
        Item::RequestStarted { .. } => ("request", ""),
        Item::Replied { .. } => ("reply", ""),
        Item::Aside { .. } => ("aside", ""),
        Item::Compacted { .. } => ("compacted", ""),
        Item::CallAwaiting { call, .. } => ("awaiting", call),
        Item::Decided { call, .. } => ("decided", call),
        Item::CallStarted { call, .. } => ("started", call),
        Item::CallFinished { result } => ("finished", result.as_tool_result().map_or("", |result| &*result.call)),
        Item::AbortRequested { .. } => ("abort", ""),
        Item::Reset => ("reset", ""),
        Item::Opened { .. } | Item::Settings { .. } => return None,
        Item::State { .. } | Item::Emitted { .. } | Item::Remembered { .. } => return None,
    })
}
