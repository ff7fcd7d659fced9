//! Calls that wait for the user: each is shown, and the answer made of keys.

use std::collections::HashSet;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use loopwright_core::event::{Decision, ExternalAction, Provided};
use loopwright_core::message::CallId;
use serde_json::Value;

use super::effect::{Effect, Scroll, pretty};
use super::prompt::Prompt;

/// What a call is refused with where no reason is given.
const NO: &str = "the user said no";
/// For so long after a call is put, and after each key meanwhile, nothing is an answer, in
/// milliseconds: such a key was meant for what was there before. Longer than terminals wait before
/// a key that is held repeats.
const DEAF: u64 = 700;

/// The calls that wait.
#[derive(Debug, Default)]
pub(crate) struct Dialog {
    /// As they would run; the arguments of some are the user's.
    actions: Vec<ExternalAction>,
    changed: HashSet<CallId>,
    /// How many have been asked since none waited.
    asked: usize,
    pub(crate) mode: Mode,
    /// The user writes something else first.
    pub(crate) detached: bool,
    /// What was wrong with the last answer.
    pub(crate) problem: Option<String>,
    /// The answer is on its way.
    pub(crate) sent: bool,
    /// What the call that is asked about would do to a file.
    preview: Option<Result<String, String>>,
    /// Changes with what is shown of a call.
    pub(crate) revision: u64,
    deaf_until: u64,
    /// Letters that came too early to be an answer.
    early: String,
}

/// What is asked of the user.
#[derive(Debug, Default)]
pub(crate) enum Mode {
    /// One of the answers.
    #[default]
    Choose,
    /// Why not.
    Reason(Prompt),
    /// Other arguments, as JSON.
    Edit(Prompt),
    /// What a suspended tool needs.
    Answer(Prompt),
}

impl Dialog {
    /// The call that is asked about.
    pub(crate) fn current(&self) -> Option<&ExternalAction> {
        self.actions.first()
    }

    /// Whether it is on the screen and has the keys.
    pub(crate) fn is_open(&self) -> bool {
        !self.detached && !self.actions.is_empty()
    }

    /// How many calls wait.
    pub(crate) fn waiting(&self) -> usize {
        self.actions.len()
    }

    /// Which one this is, and of how many.
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.asked + 1 - self.actions.len().min(self.asked), self.asked)
    }

    /// Whether this call has the user's arguments.
    pub(crate) fn is_changed(&self, call: &CallId) -> bool {
        self.changed.contains(call)
    }

    /// What the call would do to a file, if that is known.
    pub(crate) fn preview(&self) -> Option<&Result<String, String>> {
        self.preview.as_ref()
    }

    /// Whether answers are not taken yet.
    pub(crate) fn is_deaf(&self, now: u64) -> bool {
        self.is_open() && now < self.deaf_until
    }

    /// Whether they are taken now that were not taken before.
    pub(crate) fn wakes(&self, before: u64, now: u64) -> bool {
        self.is_deaf(before) && !self.is_deaf(now)
    }

    /// Nothing waits: another session is open.
    pub(crate) fn clear(&mut self) {
        *self = Dialog { revision: self.revision + 1, ..Dialog::default() };
    }

    /// One more call waits. `typing` tells that the user is writing something else.
    pub(crate) fn open(&mut self, action: &ExternalAction, now: u64, typing: bool) -> Vec<Effect> {
        if self.actions.iter().any(|open| open.call == action.call) {
            return Vec::new();
        }
        if self.actions.is_empty() {
            self.asked = 0;
            self.detached = typing;
        }
        self.asked += 1;
        self.actions.push(action.clone());
        if self.actions.len() == 1 { self.put(now) } else { Vec::new() }
    }

    /// A call waits no longer.
    pub(crate) fn close(&mut self, call: &CallId, now: u64) -> Vec<Effect> {
        let first = self.current().is_some_and(|action| action.call == *call);
        self.actions.retain(|action| action.call != *call);
        self.changed.remove(call);
        if first { self.put(now) } else { Vec::new() }
    }

    /// Asks about the first that waits.
    fn put(&mut self, now: u64) -> Vec<Effect> {
        let suspended = self.current().is_some_and(|action| action.request.is_some());
        self.mode = if suspended { Mode::Answer(Prompt::default()) } else { Mode::Choose };
        (self.problem, self.sent, self.preview) = (None, false, None);
        self.revision += 1;
        self.deafen(now);
        self.look_again()
    }

    /// The user turns to it.
    pub(crate) fn take_up(&mut self, now: u64) -> Vec<Effect> {
        self.detached = false;
        self.deafen(now);
        self.look_again()
    }

    /// Files may have changed: what the call would do is to be found out anew.
    pub(crate) fn look_again(&self) -> Vec<Effect> {
        self.current().filter(|_| !self.sent).map(preview).unwrap_or_default()
    }

    fn deafen(&mut self, now: u64) {
        self.deaf_until = now + DEAF;
        self.early.clear();
    }

    /// What the edit that is asked about would do, with these arguments and no others.
    pub(crate) fn previewed(
        &mut self,
        action: &ExternalAction,
        diff: Result<String, String>,
        now: u64,
    ) {
        let same = |open: &ExternalAction| {
            open.call == action.call && Arc::ptr_eq(&open.arguments, &action.arguments)
        };
        if !self.current().is_some_and(same) || self.preview.as_ref() == Some(&diff) {
            return;
        }
        if self.preview.replace(diff).is_some() {
            self.deafen(now); // the next key was meant for the diff that is gone
        }
        self.revision += 1;
    }

    /// The answer was not taken. `typing` tells that the user is writing something else.
    pub(crate) fn refused(&mut self, call: &CallId, why: String, now: u64, typing: bool) {
        if self.current().is_some_and(|action| action.call == *call) {
            (self.problem, self.sent) = (Some(why), false);
            self.detached = self.detached && typing;
            self.deafen(now);
        }
    }

    /// Arguments come back from the editor. The call is asked about again, as it would run now.
    pub(crate) fn edited(&mut self, call: &CallId, json: &str, now: u64) -> Vec<Effect> {
        self.deafen(now);
        let Some(action) = self.actions.first_mut().filter(|action| action.call == *call) else {
            return Vec::new();
        };
        match serde_json::from_str::<Value>(json) {
            Ok(arguments) => {
                if *action.arguments != arguments {
                    action.arguments = Arc::new(arguments);
                    self.changed.insert(call.clone());
                    self.preview = None;
                    self.revision += 1;
                }
                (self.mode, self.problem) = (Mode::Choose, None);
                preview(action)
            }
            Err(why) => {
                self.problem = Some(format!("The new arguments are not JSON: {why}."));
                Vec::new()
            }
        }
    }

    /// There is no editor: the arguments are edited here.
    pub(crate) fn edit_here(&mut self, call: &CallId, json: &str) {
        if self.current().is_some_and(|action| action.call == *call) {
            self.mode = Mode::Edit(Prompt::new(json));
        }
    }

    /// The text that is being written in it.
    pub(crate) fn writing(&mut self) -> Option<&mut Prompt> {
        match &mut self.mode {
            Mode::Choose => None,
            Mode::Reason(text) | Mode::Edit(text) | Mode::Answer(text) => Some(text),
        }
    }

    /// Empties what is being written in it. Whether there was anything.
    pub(crate) fn wipe(&mut self) -> bool {
        let sent = self.sent;
        self.writing().is_some_and(|text| !sent && !text.take().is_empty())
    }

    /// What was typed while it appeared, if that was more than a key that is held: a text for the
    /// prompt.
    pub(crate) fn take_text(&mut self) -> Option<String> {
        let mut letters = self.early.chars();
        let first = letters.next()?;
        if letters.all(|letter| letter == first) {
            return None;
        }
        self.detached = true;
        Some(std::mem::take(&mut self.early))
    }

    /// A key while it is open.
    pub(crate) fn key(&mut self, key: KeyEvent, now: u64, width: u16) -> Vec<Effect> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::PageUp => return vec![Effect::Scroll(Scroll::Pages(-1))],
            KeyCode::PageDown => return vec![Effect::Scroll(Scroll::Pages(1))],
            KeyCode::Esc => {
                match self.mode {
                    Mode::Reason(_) | Mode::Edit(_) if !self.sent => self.mode = Mode::Choose,
                    _ => self.detached = true,
                }
                return Vec::new();
            }
            _ if self.sent => return Vec::new(),
            code if matches!(self.mode, Mode::Choose | Mode::Answer(_))
                && self.is_too_early(key, now) =>
            {
                if let Mode::Choose = self.mode {
                    return self.overheard(key);
                }
                if control || code == KeyCode::Enter {
                    return Vec::new();
                }
            }
            KeyCode::Char('x') if control && matches!(self.mode, Mode::Answer(_)) => {
                return self.decide(Decision::Deny(NO.into()));
            }
            _ => {}
        }
        if let Mode::Choose = self.mode {
            return self.choose(key.code);
        }
        let newline = matches!(self.mode, Mode::Edit(_));
        let Some(text) = self.writing() else {
            return Vec::new();
        };
        match key.code {
            KeyCode::Char('s') if control => self.submit(now),
            KeyCode::Char('j') if control => {
                text.new_line();
                Vec::new()
            }
            KeyCode::Enter if !newline && !text.take_backslash() => self.submit(now),
            KeyCode::Enter => {
                text.new_line();
                Vec::new()
            }
            KeyCode::Up => {
                text.up(width);
                Vec::new()
            }
            KeyCode::Down => {
                text.down(width);
                Vec::new()
            }
            _ => {
                text.key(key);
                Vec::new()
            }
        }
    }

    /// Whether the key was meant for what was there before. A burst of keys is, to its end.
    fn is_too_early(&mut self, key: KeyEvent, now: u64) -> bool {
        let early = now < self.deaf_until || key.kind == KeyEventKind::Repeat;
        if early {
            self.deaf_until = now + DEAF;
        }
        early
    }

    /// A key that comes too early to answer.
    fn overheard(&mut self, key: KeyEvent) -> Vec<Effect> {
        match key.code {
            KeyCode::Char(letter) if key.modifiers.difference(KeyModifiers::SHIFT).is_empty() => {
                self.early.push(letter);
                Vec::new()
            }
            code => scroll(code),
        }
    }

    fn choose(&mut self, key: KeyCode) -> Vec<Effect> {
        let Some(action) = self.current() else {
            return Vec::new();
        };
        match key {
            KeyCode::Char('y' | 'Y') => self.decide(self.as_shown(action)),
            KeyCode::Char('n' | 'N') => {
                self.mode = Mode::Reason(Prompt::default());
                Vec::new()
            }
            KeyCode::Char('e' | 'E') => {
                vec![Effect::Edit { call: action.call.clone(), json: pretty(&action.arguments) }]
            }
            KeyCode::Char('a' | 'A') => self.always(),
            code => scroll(code),
        }
    }

    /// That it may run as it is shown.
    fn as_shown(&self, action: &ExternalAction) -> Decision {
        if self.is_changed(&action.call) {
            Decision::ApproveWith((*action.arguments).clone())
        } else {
            Decision::Approve
        }
    }

    /// This tool unasked from here on: all of its calls that wait run.
    fn always(&mut self) -> Vec<Effect> {
        let Some(name) = self.current().map(|action| action.name.clone()) else {
            return Vec::new();
        };
        let same =
            self.actions.iter().filter(|action| action.name == name && action.request.is_none());
        let run = same.map(|action| approve(action, self.as_shown(action)));
        let effects = std::iter::once(Effect::Allow(name.clone())).chain(run).collect();
        self.sent = true;
        effects
    }

    fn submit(&mut self, now: u64) -> Vec<Effect> {
        let text = self.writing().map(|text| text.text()).unwrap_or_default();
        let said = text.trim();
        match self.mode {
            Mode::Choose => Vec::new(),
            Mode::Reason(_) => {
                self.decide(Decision::Deny(if said.is_empty() { NO } else { said }.into()))
            }
            Mode::Edit(_) => {
                let (call, json) =
                    (self.current().map(|action| action.call.clone()), said.to_owned());
                call.map(|call| self.edited(&call, &json, now)).unwrap_or_default()
            }
            Mode::Answer(_) => self.decide(answer(said)),
        }
    }

    fn decide(&mut self, decision: Decision) -> Vec<Effect> {
        let Some(action) = self.current() else {
            return Vec::new();
        };
        let decided = approve(action, decision);
        (self.sent, self.problem) = (true, None);
        vec![decided]
    }
}

fn scroll(key: KeyCode) -> Vec<Effect> {
    let how = match key {
        KeyCode::Up => Scroll::Lines(-1),
        KeyCode::Down => Scroll::Lines(1),
        KeyCode::Home => Scroll::Top,
        KeyCode::End => Scroll::Bottom,
        _ => return Vec::new(),
    };
    vec![Effect::Scroll(how)]
}

/// What is to be found out before it is asked about: the diff of an edit.
fn preview(action: &ExternalAction) -> Vec<Effect> {
    let edits = action.request.is_none() && matches!(&*action.name, "edit_file" | "write_file");
    if edits { vec![Effect::Preview(Box::new(action.clone()))] } else { Vec::new() }
}

fn approve(action: &ExternalAction, decision: Decision) -> Effect {
    let (call, digest) = (action.call.clone(), Arc::clone(&action.digest));
    Effect::Decide { call, digest, decision }
}

/// What was typed: an object or a list as such, anything else as text, nothing as a plain approval.
fn answer(said: &str) -> Decision {
    let value = if said.starts_with(['{', '[']) { serde_json::from_str(said).ok() } else { None };
    match value {
        Some(value) => Decision::Provide(Provided::Input(value)),
        None if said.is_empty() => Decision::Approve,
        None => Decision::Provide(Provided::Input(Value::String(said.to_owned()))),
    }
}
