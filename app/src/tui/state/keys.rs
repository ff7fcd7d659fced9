//! What keys do.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::commands::is_command;
use super::effect::{Effect, Scroll};
use super::popup::{Popup, What, wanted};
use super::{Choice, Run, Source, State, user_text};
use crate::tui::state::Kind;

/// How long the second Ctrl-C may take, in milliseconds.
const TWICE: u64 = 1_500;

impl State {
    /// A key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return self.interrupt();
        }
        (self.leaving, self.eager) = (None, false);
        match key.code {
            KeyCode::Char('z') if control => return vec![Effect::Suspend],
            KeyCode::Char('l') if control => return vec![Effect::Redraw],
            KeyCode::Char('o') if control => return self.toggle(),
            KeyCode::Char('t') if control => {
                self.open.1 = !self.open.1;
                return Vec::new();
            }
            _ => {}
        }
        if self.dialog.is_open() {
            let mut effects = self.dialog.key(key, self.now, self.writing_width());
            if let Some(text) = self.dialog.take_text() {
                self.prompt.insert(&text);
                effects.extend(self.complete());
            }
            return effects;
        }
        let done = self.popup_key(key).unwrap_or_else(|| self.prompt_key(key));
        let mut effects = done;
        effects.extend(self.complete());
        effects
    }

    /// Text that was pasted.
    pub(crate) fn paste(&mut self, text: &str) -> Vec<Effect> {
        if self.dialog.is_open() {
            if let Some(writing) = self.dialog.writing() {
                writing.insert(text);
            }
            return Vec::new();
        }
        self.prompt.insert(text);
        self.complete()
    }

    /// The columns that what is being written has.
    pub(crate) fn writing_width(&self) -> u16 {
        self.size.0.saturating_sub(4).max(1)
    }

    /// Ctrl-C.
    pub(crate) fn interrupt(&mut self) -> Vec<Effect> {
        if self.leaving.take().is_some() {
            return vec![Effect::Quit];
        }
        self.leaving = Some(self.now + TWICE);
        if self.dialog.is_open() {
            return if self.dialog.wipe() { Vec::new() } else { self.stop() };
        }
        if !self.prompt.is_empty() {
            let text = self.prompt.take();
            self.prompt.remember(text); // Up brings it back
            self.popup = None;
            return Vec::new();
        }
        self.stop()
    }

    fn stop(&mut self) -> Vec<Effect> {
        match &mut self.run {
            Run::Working { stopping, .. } if !*stopping => {
                *stopping = true;
                vec![Effect::Abort]
            }
            _ => Vec::new(),
        }
    }

    // ---- the prompt ------------------------------------------------------------------------------

    fn prompt_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let (control, alt) = (
            key.modifiers.contains(KeyModifiers::CONTROL),
            key.modifiers.contains(KeyModifiers::ALT),
        );
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        let empty = self.prompt.is_empty();
        match key.code {
            KeyCode::Enter if alt && self.is_working() => return self.send(true),
            KeyCode::Enter if alt || shift => self.prompt.new_line(),
            KeyCode::Enter if self.prompt.take_backslash() => self.prompt.new_line(),
            KeyCode::Enter => return self.send(false),
            KeyCode::Char('j') if control => self.prompt.new_line(),
            KeyCode::Char('d') if control && empty => return vec![Effect::Quit],
            KeyCode::Esc if self.selected.take().is_some() => {}
            KeyCode::Esc => return self.stop(),
            KeyCode::Tab if self.dialog.waiting() > 0 => return self.dialog.take_up(self.now),
            KeyCode::Tab => {}
            KeyCode::Up if alt => return self.select(-1),
            KeyCode::Down if alt => return self.select(1),
            KeyCode::Up if shift => return vec![Effect::Scroll(Scroll::Lines(-1))],
            KeyCode::Down if shift => return vec![Effect::Scroll(Scroll::Lines(1))],
            KeyCode::Up if empty && self.has_queued() => return vec![Effect::TakeBack],
            KeyCode::Up => self.prompt.up(self.writing_width()),
            KeyCode::Down => self.prompt.down(self.writing_width()),
            KeyCode::PageUp => return vec![Effect::Scroll(Scroll::Pages(-1))],
            KeyCode::PageDown => return vec![Effect::Scroll(Scroll::Pages(1))],
            KeyCode::Home if control || empty => return vec![Effect::Scroll(Scroll::Top)],
            KeyCode::End if control || empty => return vec![Effect::Scroll(Scroll::Bottom)],
            _ => self.prompt.key(key),
        }
        Vec::new()
    }

    fn has_queued(&self) -> bool {
        !self.queues.0.is_empty() || !self.queues.1.is_empty()
    }

    /// Enter, or Alt+Enter.
    pub(super) fn send(&mut self, later: bool) -> Vec<Effect> {
        let text = self.prompt.text();
        let said = text.trim();
        if said.is_empty() {
            return Vec::new();
        }
        // A space before it says that it is none.
        let command = text.trim_end().strip_prefix('/');
        let command =
            command.map(|line| line.split_once(char::is_whitespace).unwrap_or((line, "")));
        if let Some((name, rest)) = command
            && !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphabetic())
        {
            let (name, rest) = (name.to_owned(), rest.trim().to_owned());
            if !is_command(&name) {
                let why = "is no command: /help tells what there is. With a space before it, it is sent as it is.";
                return self.say(&format!("`/{name}` {why}"));
            }
            self.prompt.take();
            self.prompt.remember(text);
            return self.command(&name, &rest);
        }
        // It stays in the prompt until somebody can hear it.
        match self.run {
            Run::Opening => {
                self.eager = true;
                return Vec::new();
            }
            Run::Closed => {
                return self.say_closed();
            }
            Run::Rest | Run::Working { .. } => {}
        }
        let said = said.to_owned();
        self.prompt.take();
        self.selected = None;
        let mut effects = match () {
            () if later => vec![Effect::FollowUp(said)],
            () if self.is_working() || self.dialog.waiting() > 0 => vec![Effect::Steer(said)],
            () => self.ask(said),
        };
        effects.push(Effect::Scroll(Scroll::Bottom));
        effects
    }

    /// A request.
    pub(super) fn ask(&mut self, text: String) -> Vec<Effect> {
        self.work();
        self.spoke = true;
        vec![Effect::Prompt(text)]
    }

    // ---- blocks that fold ------------------------------------------------------------------------

    /// Opens or closes the block that is chosen, or all results.
    fn toggle(&mut self) -> Vec<Effect> {
        let (results, thoughts) = self.open;
        match self.selected.and_then(|id| self.transcript.entry_mut(id)) {
            Some(entry) => {
                let usual = if matches!(entry.kind, Kind::Tool(_)) { results } else { thoughts };
                entry.open = Some(!entry.open.unwrap_or(usual));
            }
            None => self.open.0 = !results,
        }
        Vec::new()
    }

    fn select(&mut self, by: isize) -> Vec<Effect> {
        let entries = self.transcript.entries();
        let from = self.selected.and_then(|id| self.transcript.position(id));
        let found = match (by < 0, from) {
            (true, from) => {
                entries[..from.unwrap_or(entries.len())].iter().rev().find(|entry| entry.folds())
            }
            (false, Some(from)) => entries[from + 1..].iter().find(|entry| entry.folds()),
            (false, None) => None,
        };
        match (found, by < 0) {
            (Some(entry), _) => {
                let id = entry.id;
                self.selected = Some(id);
                vec![Effect::Scroll(Scroll::Show(id))]
            }
            (None, true) => Vec::new(),
            (None, false) => {
                self.selected = None;
                vec![Effect::Scroll(Scroll::Bottom)]
            }
        }
    }

    // ---- completions -----------------------------------------------------------------------------

    fn popup_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        let popup = self.popup.as_mut().filter(|popup| plain && popup.is_shown())?;
        match key.code {
            KeyCode::Esc => {
                self.dismissed = Some(self.prompt.text());
                self.popup = None;
            }
            _ if popup.found.is_empty() => return None,
            KeyCode::Up => popup.up(),
            KeyCode::Down => popup.down(),
            KeyCode::Tab | KeyCode::Enter => return Some(self.accept(key.code == KeyCode::Enter)),
            _ => return None,
        }
        Some(Vec::new())
    }

    /// Puts in what is chosen; Enter also sends a command that is whole by it.
    fn accept(&mut self, enter: bool) -> Vec<Effect> {
        let Some(popup) = self.popup.take() else {
            return Vec::new();
        };
        let Some(choice) = popup.choice() else {
            return Vec::new();
        };
        let length = popup.written.chars().count();
        match popup.what {
            What::Command => {
                self.prompt.replace_before(length, &choice.value);
                let more =
                    matches!(choice.value.as_str(), "model" | "thinking" | "sessions" | "later");
                if enter && !more {
                    return self.send(false);
                }
                self.prompt.insert(" ");
            }
            What::File => {
                let end = if choice.value.ends_with('/') { "" } else { " " };
                self.prompt.replace_before(length + 1, &format!("{}{end}", choice.value));
            }
            What::Argument(_) | What::Level => {
                self.prompt.replace_before(length, &choice.value);
                if enter {
                    return self.send(false);
                }
            }
        }
        Vec::new()
    }

    /// Looks what can be completed, after the prompt has changed. Asks for what is not known yet.
    pub(super) fn complete(&mut self) -> Vec<Effect> {
        let text = self.prompt.text();
        if self.dismissed.as_ref().is_some_and(|dismissed| *dismissed == text) {
            return Vec::new();
        }
        self.dismissed = None;
        let Some((what, written)) = wanted(self.prompt.before_cursor(), !text.contains('\n'))
        else {
            self.popup = None;
            return Vec::new();
        };
        let source = what.source();
        if source == Some(Source::Messages) {
            let messages = self.messages();
            self.known.insert(Source::Messages, messages);
        }
        let before = self.popup.take().filter(|before| before.what == what);
        // Files and sessions come and go: they are looked for anew each time that somebody begins
        // to choose.
        let ask = source.filter(|source| match before {
            Some(_) => false,
            None => {
                *source != Source::Messages
                    && (*source != Source::Models || !self.known.contains_key(source))
            }
        });
        let mut popup = Popup::new(what, written, &self.known);
        if let Some(before) = before
            && before.written == popup.written
        {
            popup.chosen = before.chosen.min(popup.found.len().saturating_sub(1));
        }
        self.popup = Some(popup);
        ask.map(Effect::List).into_iter().collect()
    }

    /// What the user said, newest first, to go on from.
    fn messages(&self) -> Vec<Choice> {
        let said = self.transcript.entries().iter().rev().filter_map(|entry| match &entry.kind {
            Kind::User(message) => {
                Some(Choice::new(message.id.to_string(), first_line(&user_text(message))))
            }
            _ => None,
        });
        said.take(100).collect()
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(80).collect()
}
