//! The keys of the dialog: how the user decides about a call.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use loopwright_core::event::{Decision, ExternalAction, Provided, change_digest};
use loopwright_core::tool::{DecisionKind, Question};
use loopwright_tools::protected_file;
use serde_json::Value;

use super::{Dialog, IGNORE_KEYS_MS, Mode};
use crate::answer::read_answer;
use crate::tui::state::effect::{Effect, Scroll, pretty};
use crate::tui::state::prompt::Prompt;
use crate::wording::sentence;

/// The default reason for a denial.
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
                    Mode::Reason(_) | Mode::Edit(_) if !self.sent => {
                        self.mode = std::mem::take(&mut self.before_reason);
                        self.problem = None;
                    }
                    _ => self.detached = true,
                }
                return Vec::new();
            }
            _ if self.sent => return Vec::new(),
            code if !matches!(self.mode, Mode::Reason(_) | Mode::Edit(_))
                && self.is_too_early(key, now) =>
            {
                if let Mode::Choose | Mode::Options(_) = self.mode {
                    return self.early_key(key);
                }
                if control || code == KeyCode::Enter {
                    return Vec::new();
                }
            }
            KeyCode::Char('x') if control && matches!(self.mode, Mode::Answer(_)) => {
                if self.question.is_some() {
                    return self.ask_for_reason();
                }
                return self.decide(Decision::Deny(DEFAULT_DENIAL.into()));
            }
            _ => {}
        }
        match self.mode {
            Mode::Choose => return self.choose(key.code),
            Mode::Options(_) => return self.choose_option(key.code),
            _ => {}
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
                self.problem = None; // it was about another text
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
            KeyCode::Char('y' | 'Y') if self.allows(DecisionKind::Approve) => {
                self.decide(self.approval(action))
            }
            KeyCode::Char('n' | 'N') => self.ask_for_reason(),
            KeyCode::Char('e' | 'E') if self.allows(DecisionKind::ApproveWith) => {
                let json = pretty(&action.arguments);
                let edit = Effect::Edit { call: action.call.clone(), json };
                self.problem = None;
                vec![edit]
            }
            KeyCode::Char('a' | 'A') if self.allows(DecisionKind::Approve) => self.always(),
            code => scroll(code),
        }
    }

    /// Handles a key for the options of a question.
    fn choose_option(&mut self, key: KeyCode) -> Vec<Effect> {
        let Mode::Options(options) = &mut self.mode else {
            return Vec::new();
        };
        match key {
            KeyCode::Enter => {
                let answer = options.answer();
                return self.decide(Decision::Provide(Provided::Input(answer)));
            }
            KeyCode::Char('n' | 'N') => return self.ask_for_reason(),
            key if options.key(key) => self.revision += 1,
            _ => {}
        }
        Vec::new()
    }

    /// Asks for the reason of a denial.
    fn ask_for_reason(&mut self) -> Vec<Effect> {
        self.before_reason = std::mem::replace(&mut self.mode, Mode::Reason(Prompt::default()));
        self.problem = None;
        Vec::new()
    }

    /// Sends the answer to a question, or shows why it is invalid.
    fn answer(&mut self, question: &Question, typed: &str) -> Vec<Effect> {
        match read_answer(question, typed) {
            Ok(answer) => self.decide(Decision::Provide(Provided::Input(answer))),
            Err(why) => {
                self.problem = Some(sentence(&why));
                Vec::new()
            }
        }
    }

    /// Returns the approval of the call as shown.
    fn approval(&self, action: &ExternalAction) -> Decision {
        if self.is_changed(&action.call) {
            Decision::ApproveWith((*action.arguments).clone())
        } else {
            Decision::Approve
        }
    }

    /// Allows the tool from now on and approves all of its pending calls, except others that change
    /// a protected file. Sub-agents have tools of their own, which are not allowed here.
    fn always(&mut self) -> Vec<Effect> {
        let current = self.current().filter(|action| action.path.is_empty());
        let Some((call, name)) = current.map(|a| (a.call.clone(), a.name.clone())) else {
            return Vec::new();
        };
        let was_seen = |action: &ExternalAction| {
            action.call == call || protected_file(&action.name, &action.arguments).is_none()
        };
        let is_approval = |action: &&ExternalAction| {
            action.name == name && action.request.is_none() && action.path.is_empty()
        };
        let same = self.actions.iter().filter(is_approval).filter(|action| was_seen(action));
        let run = same.map(|action| self.decide_effect(action, self.approval(action)));
        let effects = std::iter::once(Effect::Allow(name.clone())).chain(run).collect();
        self.sent = true;
        effects
    }

    fn submit(&mut self, now: u64) -> Vec<Effect> {
        let input = self.input_mut().map(|input| input.text()).unwrap_or_default();
        let text = input.trim();
        match self.mode {
            Mode::Choose | Mode::Options(_) => Vec::new(),
            Mode::Reason(_) => self
                .decide(Decision::Deny(if text.is_empty() { DEFAULT_DENIAL } else { text }.into())),
            Mode::Edit(_) => {
                let call = self.current().map(|action| action.call.clone());
                call.map(|call| self.edited(&call, text, now)).unwrap_or_default()
            }
            Mode::Answer(_) => match self.question.clone() {
                Some(question) => self.answer(&question, &input),
                None => self.decide(parse_input(text)),
            },
        }
    }

    fn decide(&mut self, decision: Decision) -> Vec<Effect> {
        let Some(action) = self.current() else {
            return Vec::new();
        };
        let decided = self.decide_effect(action, decision);
        self.sent = true;
        self.problem = None;
        vec![decided]
    }

    /// Returns the effect that sends a decision, with the change that the screen shows.
    fn decide_effect(&self, action: &ExternalAction, decision: Decision) -> Effect {
        let is_current = self.current().is_some_and(|current| current.call == action.call);
        let shown = self.preview.as_ref().filter(|_| is_current);
        let change = shown.and_then(|shown| shown.as_deref().ok()).map(change_digest);
        let digest = Arc::clone(&action.digest);
        Effect::Decide { call: action.call.clone(), digest, decision, change }
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

/// Converts the input: an object or a list as JSON, other text as a string, no text as an approval.
fn parse_input(text: &str) -> Decision {
    let value = if text.starts_with(['{', '[']) { serde_json::from_str(text).ok() } else { None };
    match value {
        Some(value) => Decision::Provide(Provided::Input(value)),
        None if text.is_empty() => Decision::Approve,
        None => Decision::Provide(Provided::Input(Value::String(text.to_owned()))),
    }
}
