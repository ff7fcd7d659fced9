//! What the terminal shows, as a pure fold of events, keys and what came of effects. No I/O, no
//! clock, no handle.

mod commands;
mod dialog;
mod effect;
mod entry;
mod keys;
mod popup;
mod prompt;
mod status;
#[cfg(test)]
mod tests;
mod transcript;

use std::sync::Arc;

use loopwright_core::event::{Envelope, Role, RunCause, RunOutcome, RunStatus, Update};
use loopwright_core::message::MessageKind;
use loopwright_core::{AgentEvent, Message};

pub(crate) use self::dialog::{Dialog, Mode};
pub(crate) use self::effect::{Choice, Effect, Opened, Scroll, Source, Told, Tone};
pub(crate) use self::entry::{Entry, Kind, Phase, Thought, ToolEntry, user_text};
pub(crate) use self::popup::{Known, Popup};
pub(crate) use self::prompt::Prompt;
pub(crate) use self::status::{Doing, Run, Status};
pub(crate) use self::transcript::Transcript;
use crate::telling::{self, Failure, sentence};

/// What can be done where no conversation is open.
const CLOSED: &str =
    "No conversation is open: /model chooses a model, /sessions a conversation, /new begins one.";

/// Everything that is shown.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) transcript: Transcript,
    pub(crate) prompt: Prompt,
    pub(crate) dialog: Dialog,
    pub(crate) popup: Option<Popup>,
    pub(crate) status: Status,
    pub(crate) run: Run,
    /// Texts of the steers and of the follow-ups that wait.
    pub(crate) queues: (Vec<String>, Vec<String>),
    /// Whether results and thoughts are open where nobody opened or closed them by hand.
    pub(crate) open: (bool, bool),
    /// The block that is chosen.
    pub(crate) selected: Option<u64>,
    /// Ctrl-C leaves until then.
    pub(crate) leaving: Option<u64>,
    /// The time, in milliseconds since 1970.
    pub(crate) now: u64,
    /// Columns and lines of the screen.
    pub(crate) size: (u16, u16),
    known: Known,
    /// How the last run ended.
    last_end: Option<RunStatus>,
    /// Where the transcript ended when the session that is being opened was asked for.
    opening: usize,
    /// The popup was closed for this text.
    dismissed: Option<String>,
    /// Something was said in this session.
    pub(crate) spoke: bool,
    /// Why no session is open.
    closed: String,
    /// What is in the prompt goes out as soon as somebody can hear it.
    eager: bool,
}

impl State {
    /// Before a session is open.
    pub(crate) fn new(now: u64) -> Self {
        State { now, run: Run::Opening, ..State::default() }
    }

    /// Whether a run goes on, as far as is known.
    pub(crate) fn is_working(&self) -> bool {
        matches!(self.run, Run::Working { .. })
    }

    /// The time goes on. Whether what is shown changes by it.
    pub(crate) fn tick(&mut self, now: u64) -> bool {
        let before = std::mem::replace(&mut self.now, now);
        if self.leaving.is_some_and(|until| now >= until) {
            self.leaving = None;
            return true;
        }
        self.dialog.wakes(before, now) || (self.spins() && before / 100 != now / 100)
    }

    /// Whether something changes by itself.
    pub(crate) fn moves(&self) -> bool {
        self.spins() || self.leaving.is_some() || self.dialog.is_deaf(self.now)
    }

    fn spins(&self) -> bool {
        matches!(self.run, Run::Working { .. } | Run::Opening)
    }

    /// The screen has this size.
    pub(crate) fn resize(&mut self, columns: u16, lines: u16) {
        self.size = (columns, lines);
    }

    // ---- what the agent does ---------------------------------------------------------------------

    /// Takes in an event.
    pub(crate) fn event(&mut self, envelope: &Envelope) -> Vec<Effect> {
        if envelope.parent.is_some() {
            return Vec::new(); // a sub-agent's: its parent's call shows what comes of it
        }
        self.transcript.event(envelope);
        self.status.event(&envelope.event);
        match &envelope.event {
            AgentEvent::AgentStart { cause } => self.begins(cause, envelope.time),
            AgentEvent::TurnStart { .. } => self.doing(Doing::Asking),
            AgentEvent::MessageUpdate { update, .. } => self.doing(match update {
                Update::Thinking { .. } => Doing::Thinking,
                Update::ToolCallStart { .. } | Update::ToolCall { .. } => Doing::Calling,
                Update::Withdrawn => Doing::Asking,
                _ => Doing::Writing,
            }),
            AgentEvent::MessageEnd { message } => match &message.body {
                MessageKind::User(_) => {
                    self.spoke = true;
                    self.prompt.remember(user_text(message));
                }
                MessageKind::Assistant(_) => self.doing(Doing::Asking),
                _ => {}
            },
            AgentEvent::ToolExecutionStart { name, .. } => self.doing(Doing::Running(name.clone())),
            AgentEvent::ToolExecutionEnd { call, .. } => {
                let running = self.transcript.running().cloned();
                self.doing(running.map_or(Doing::Asking, Doing::Running));
                let effects = self.dialog.close(call, self.now);
                return if effects.is_empty() { self.dialog.look_again() } else { effects };
            }
            AgentEvent::ExternalAction(action) => {
                return self.dialog.open(action, self.now, !self.prompt.is_empty());
            }
            AgentEvent::ExternalActionEnd { call, .. } => return self.dialog.close(call, self.now),
            AgentEvent::QueueUpdate { steering, follow_up } => {
                self.queues = (steering.clone(), follow_up.clone());
                return self.go_on_with_queues();
            }
            AgentEvent::AgentEnd(outcome) => return self.ended(outcome),
            _ => {}
        }
        Vec::new()
    }

    fn begins(&mut self, cause: &RunCause, time: u64) {
        let (since, stopping) = match self.run {
            Run::Working { since, stopping, .. } => (since, stopping),
            _ => (time, false),
        };
        let doing = if matches!(cause, RunCause::Compact { .. }) {
            Doing::SummaryCompaction
        } else {
            Doing::Asking
        };
        self.run = Run::Working { since, doing, stopping };
    }

    fn doing(&mut self, what: Doing) {
        if let Run::Working { doing, .. } = &mut self.run {
            *doing = what;
        }
    }

    fn ended(&mut self, outcome: &RunOutcome) -> Vec<Effect> {
        self.run = Run::Rest;
        self.last_end = Some(outcome.end);
        match telling::failure(outcome) {
            None => {}
            Some(Failure::Aborted) => self.transcript.notice(Tone::Quiet, "Interrupted."),
            Some(Failure::Turns) => {
                let text =
                    "The limit of turns is reached. What was done is kept: /continue goes on.";
                self.transcript.notice(Tone::Error, text);
            }
            Some(Failure::Limit(why)) => self.transcript.notice(Tone::Error, sentence(&why)),
            Some(Failure::Error(why)) => {
                self.transcript
                    .notice(Tone::Error, format!("{} /continue tries again.", sentence(&why)));
            }
        }
        if !outcome.handed_back.is_empty() {
            self.write_back(&outcome.handed_back);
        }
        self.go_on_with_queues()
    }

    /// What was said too late for a run that has ended well begins the next one.
    fn go_on_with_queues(&mut self) -> Vec<Effect> {
        let waits = !self.queues.0.is_empty() || !self.queues.1.is_empty();
        let ended = self.last_end == Some(RunStatus::Done) && matches!(self.run, Run::Rest);
        if waits && ended && self.dialog.waiting() == 0 {
            self.work();
            return vec![Effect::Continue];
        }
        Vec::new()
    }

    // ---- what came of effects --------------------------------------------------------------------

    /// Takes in what came of an effect.
    pub(crate) fn told(&mut self, told: Told) -> Vec<Effect> {
        match told {
            Told::Opened(opened) => return self.opened(*opened),
            Told::NotOpened { why, closed } => {
                if closed {
                    self.dialog.clear(); // nobody is left who could take an answer
                    (self.run, self.closed) = (Run::Closed, why);
                    return self.say_closed();
                }
                self.transcript.notice(Tone::Error, why);
                self.run = Run::Rest;
            }
            Told::Notice(tone, text) => self.transcript.notice(tone, text),
            Told::Table(rows) => self.transcript.table(rows),
            Told::Undelivered { text, why, ends } => {
                self.transcript.notice(Tone::Error, sentence(&why));
                if !text.is_empty() {
                    self.write_back(&[text]);
                }
                if ends && self.is_working() {
                    self.run = Run::Rest;
                }
            }
            Told::Refused { call, why } => {
                let typing = !self.prompt.is_empty();
                self.dialog.refused(&call, sentence(&why), self.now, typing);
            }
            Told::Edited { call, json } => return self.dialog.edited(&call, &json, self.now),
            Told::NoEditor { call, json } => self.dialog.edit_here(&call, &json),
            Told::Preview(action, diff) => self.dialog.previewed(&action, diff, self.now),
            Told::TakenBack(texts) => self.write_back(&texts),
            Told::Listed(source, choices) => {
                self.known.insert(source, choices);
                self.complete();
            }
        }
        Vec::new()
    }

    fn opened(&mut self, opened: Opened) -> Vec<Effect> {
        let state = &opened.state;
        if opened.same {
            self.transcript.join(&state.messages);
        } else {
            self.transcript.begin(&state.messages, &opened.root.to_string_lossy(), self.opening);
            self.prompt.forget();
            let said = state.messages.iter().filter(|message| message.role() == Role::User);
            said.for_each(|message| self.prompt.remember(user_text(message)));
            (self.selected, self.spoke) = (None, !state.messages.is_empty());
        }
        self.known.clear();
        self.dialog.clear();
        self.last_end = None;
        self.status.opened(&opened);
        self.run = Run::Rest;
        if state.is_running {
            self.work();
        }
        let texts =
            |queue: &[Arc<Message>]| queue.iter().map(|message| user_text(message)).collect();
        self.queues = (texts(&state.steering_queue), texts(&state.follow_up_queue));
        if let Some(what) = &state.repaired {
            self.transcript.notice(Tone::Loud, sentence(what));
        }
        if let Some(run) = state.interrupted_run {
            let text = format!(
                "Run {run} was interrupted: /continue goes on with it, a new request ends it."
            );
            self.transcript.notice(Tone::Loud, text);
        }
        let mut effects = vec![Effect::Scroll(Scroll::Bottom)];
        for action in &state.pending_actions {
            self.transcript.asked(action);
            effects.extend(self.dialog.open(action, self.now, !self.prompt.is_empty()));
        }
        if std::mem::take(&mut self.eager) && self.dialog.waiting() == 0 {
            effects.extend(self.send(false));
        }
        effects
    }

    /// Why no session is open, and what can be done: each time that it is asked for.
    fn say_closed(&mut self) -> Vec<Effect> {
        self.transcript.say(Tone::Error, self.closed.clone());
        self.transcript.say(Tone::Loud, CLOSED);
        vec![Effect::Scroll(Scroll::Bottom)]
    }

    /// Another session is asked for, or this one with something else.
    fn opening(&mut self, effect: Effect) -> Vec<Effect> {
        self.opening = self.transcript.entries().len();
        self.run = Run::Opening;
        vec![effect]
    }

    /// Something was sent that a run comes of.
    fn work(&mut self) {
        if !self.is_working() {
            self.run = Run::Working { since: self.now, doing: Doing::Asking, stopping: false };
        }
    }

    /// Texts that were not delivered come back into the prompt, before what is there.
    fn write_back(&mut self, texts: &[String]) {
        let written = self.prompt.take();
        let all: Vec<&str> = texts.iter().map(String::as_str).chain([written.as_str()]).collect();
        self.prompt.set(
            all.into_iter()
                .filter(|text| !text.trim().is_empty())
                .collect::<Vec<_>>()
                .join("\n")
                .as_str(),
        );
    }
}
