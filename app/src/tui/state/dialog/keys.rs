//! The keys of the dialog: how the user decides about a call.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use loopwright_core::event::{Decision, ExternalAction, Provided};
use loopwright_tools::protected_file;
use serde_json::Value;

use super::{Dialog, IGNORE_KEYS_MS, Mode};
use crate::tui::state::effect::{Effect, Scroll, pretty};
use crate::tui::state::prompt::Prompt;

/// The reason for a denial where the user gives none.
const DEFAULT_DENIAL: &str = "the user said no";

impl Dialog {
    /// Handles a key while the dialog is open.
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
                    return self.early_key(key);
                }
                if control || code == KeyCode::Enter {
                    return Vec::new();
                }
            }
            KeyCode::Char('x') if control && matches!(self.mode, Mode::Answer(_)) => {
                return self.decide(Decision::Deny(DEFAULT_DENIAL.into()));
            }
            _ => {}
        }
        if let Mode::Choose = self.mode {
            return self.choose(key.code);
        }
        let newline = matches!(self.mode, Mode::Edit(_));
        let Some(text) = self.input_mut() else {
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

    /// Returns whether the key came too early to be an answer. A burst of keys is ignored to its
    /// end.
    fn is_too_early(&mut self, key: KeyEvent, now: u64) -> bool {
        let early = now < self.ignore_keys_until || key.kind == KeyEventKind::Repeat;
        if early {
            self.ignore_keys_until = now + IGNORE_KEYS_MS;
        }
        early
    }

    /// Handles a key that came too early.
    fn early_key(&mut self, key: KeyEvent) -> Vec<Effect> {
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
            KeyCode::Char('y' | 'Y') => self.decide(self.approval(action)),
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

    /// Returns the approval of the call as it is shown.
    fn approval(&self, action: &ExternalAction) -> Decision {
        if self.is_changed(&action.call) {
            Decision::ApproveWith((*action.arguments).clone())
        } else {
            Decision::Approve
        }
    }

    /// Allows the tool from now on and approves all of its pending calls, except others that change
    /// a protected file.
    fn always(&mut self) -> Vec<Effect> {
        let Some((call, name)) = self.current().map(|a| (a.call.clone(), a.name.clone())) else {
            return Vec::new();
        };
        let was_seen = |action: &ExternalAction| {
            action.call == call || protected_file(&action.name, &action.arguments).is_none()
        };
        let same = self
            .actions
            .iter()
            .filter(|action| action.name == name && action.request.is_none() && was_seen(action));
        let run = same.map(|action| decide_effect(action, self.approval(action)));
        let effects = std::iter::once(Effect::Allow(name.clone())).chain(run).collect();
        self.sent = true;
        effects
    }

    fn submit(&mut self, now: u64) -> Vec<Effect> {
        let input = self.input_mut().map(|input| input.text()).unwrap_or_default();
        let text = input.trim();
        match self.mode {
            Mode::Choose => Vec::new(),
            Mode::Reason(_) => self
                .decide(Decision::Deny(if text.is_empty() { DEFAULT_DENIAL } else { text }.into())),
            Mode::Edit(_) => {
                let call = self.current().map(|action| action.call.clone());
                call.map(|call| self.edited(&call, text, now)).unwrap_or_default()
            }
            Mode::Answer(_) => self.decide(parse_input(text)),
        }
    }

    fn decide(&mut self, decision: Decision) -> Vec<Effect> {
        let Some(action) = self.current() else {
            return Vec::new();
        };
        let decided = decide_effect(action, decision);
        self.sent = true;
        self.problem = None;
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

fn decide_effect(action: &ExternalAction, decision: Decision) -> Effect {
    let digest = Arc::clone(&action.digest);
    Effect::Decide { call: action.call.clone(), digest, decision }
}

/// Converts the input: an object or a list as JSON, other text as a string, no text as an approval.
fn parse_input(text: &str) -> Decision {
    let value = if text.starts_with(['{', '[']) { serde_json::from_str(text).ok() } else { None };
    match value {
        Some(value) => Decision::Provide(Provided::Input(value)),
        None if text.is_empty() => Decision::Approve,
        None => Decision::Provide(Provided::Input(Value::String(text.to_owned()))),
    }
}
