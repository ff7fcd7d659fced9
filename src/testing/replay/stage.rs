//! What a replay shares between all that act in it: its log, how far that was followed, and what is
//! said next.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::difference::{Difference, tell};
use super::plan::{self, Life};
use super::progress::{Against, Sent, State};
use crate::error::InputError;
use crate::log::entry::LogEntry;
use crate::log::input::InputEvent;
use crate::log::memory::InMemory;
use crate::message::CallId;
use crate::session::handle::AgentHandle;

/// A log, and how far an agent has followed it.
pub(super) struct Stage {
    pub(super) log: Vec<LogEntry>,
    pub(super) lives: Vec<Life>,
    state: Mutex<State>,
    changed: watch::Sender<()>,
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

impl Stage {
    pub(super) fn new(log: Vec<LogEntry>) -> Self {
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
            LogEntry::RequestStarted { model, .. } => Some(model.clone()),
            LogEntry::Detached { message, .. } => {
                message.as_assistant().map(|reply| reply.model.clone())
            }
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
        (state.announced, state.speaking, state.aside_said, state.beyond) =
            (None, false, false, false);
        (state.wished, state.numbers) = Default::default();
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
        let waits = |(at, said): (&usize, &plan::Said)| {
            said.at_rest && *at == state.at && !state.spoken.contains(at)
        };
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
            Some(LogEntry::RequestStarted { .. }) => Difference::of_request(
                state.asked + 1,
                format!(" never came: nothing has happened for {patience:?}"),
            ),
            Some(item) => {
                let text = format!(
                    "item {} of the log never came, `{}`: nothing has happened for {patience:?}",
                    state.at,
                    tell(item)
                );
                state.first.clone().unwrap_or_else(|| Difference::at_item(state.at, text))
            }
            None => Difference::elsewhere(format!(
                "the log has ended, and {patience:?} later the agent still works"
            )),
        }
    }

    // ---- what comes -------------------------------------------------------------------------------

    /// Items of the agent are in its log. Whether something was said in answer.
    pub(super) fn written(self: &Arc<Self>, items: &[LogEntry]) -> bool {
        let mut state = self.state();
        let life = &self.lives[state.life];
        items.iter().for_each(|item| state.take(item, &self.log, life));
        drop(state);
        self.changed.send_replace(());
        self.speak(false)
    }

    /// A request is not as it was, or what was said was refused: the log is not followed any
    /// further.
    pub(super) fn found(&self, difference: Difference) {
        self.state().give_up(difference);
        self.changed.send_replace(());
    }

    /// A model begins to say what it says before it is cut off or ends.
    pub(super) fn speaks(&self) {
        self.state().speaking = true;
    }

    /// The model has said it. Whether something was said in answer.
    pub(super) fn has_spoken(self: &Arc<Self>, detached: bool) -> bool {
        let mut state = self.state();
        (state.speaking, state.aside_said) = (false, detached);
        drop(state);
        self.speak(false)
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
        let life = &self.lives[state.life];
        let Some(handle) = state.handle.clone() else {
            return false;
        };
        if state.speaking || !state.starting.is_empty() {
            return false;
        }
        let (mut said, at) = (false, state.at);
        if let Some(next) = self.next_said(&state, at_rest) {
            state.spoken.insert(at);
            next.events.iter().for_each(|event| self.say(&handle, &state, event.clone(), Some(at)));
            said = true;
        }
        while let Some(wish) = life.wishes.get(state.wished).filter(|wish| wish.from <= at) {
            state.wished += 1;
            if wish.certain || state.guided {
                let event = InputEvent::Compact(wish.instructions.as_deref().map(str::to_owned));
                self.say(&handle, &state, event, wish.certain.then_some(wish.at));
                said = true;
            }
        }
        said
    }

    fn next_said(&self, state: &State, at_rest: bool) -> Option<&plan::Said> {
        let (at, life) = (state.at, &self.lives[state.life]);
        let said = life
            .said
            .get(&at)
            .filter(|said| said.at_rest == at_rest && !state.spoken.contains(&at))?;
        // What was said while an aside went on is said while it goes on.
        let detached = life
            .next(&self.log, at)
            .filter(|next| matches!(self.log[*next], LogEntry::Detached { .. }));
        let waits =
            detached.is_some_and(|next| !life.said.contains_key(&next)) && !state.aside_said;
        (!waits).then_some(said)
    }

    /// Says this to the agent. It is a difference if that is refused, where it is for sure that
    /// this item came of it.
    fn say(
        self: &Arc<Self>,
        handle: &AgentHandle,
        state: &State,
        event: InputEvent,
        at: Option<usize>,
    ) {
        let (told, stage, over) = (handle.post(event, None), self.clone(), state.over.clone());
        tokio::spawn(async move {
            if let Ok(Err(why)) = told.await
                && let Some(at) = at.filter(|_| !over.is_cancelled())
                && !matches!(why, InputError::NotCompacted(_))
            {
                let said = tell(&stage.log[at]);
                stage.found(Difference::at_item(
                    at,
                    format!("item {at} of the log, `{said}`, was refused: {why}"),
                ));
            }
        });
    }
}
