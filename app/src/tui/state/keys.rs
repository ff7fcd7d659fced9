//! The transitions caused by keys.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::core::State;
use super::effect::{Effect, Scroll};
use super::entry::Kind;
use super::popup::What;
use super::status::Run;

/// Time after a Ctrl-C in which a second one quits, in milliseconds.
const QUIT_CONFIRM_MS: u64 = 1_500;

impl State {
    /// Handles a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return self.interrupt();
        }
        self.quit_deadline = None;
        self.submit_on_open = false;
        match key.code {
            KeyCode::Char('z') if control => return vec![Effect::Suspend],
            KeyCode::Char('l') if control => return vec![Effect::Redraw],
            KeyCode::Char('o') if control => return self.toggle(),
            KeyCode::Char('t') if control => {
                self.open_thoughts = !self.open_thoughts;
                return Vec::new();
            }
            _ => {}
        }
        if self.dialog.is_open() {
            let mut effects = self.dialog.key(key, self.now, self.input_width());
            if let Some(text) = self.dialog.take_early_text() {
                self.prompt.insert(&text);
                effects.extend(self.complete());
            }
            return effects;
        }
        let mut effects = self.popup_key(key).unwrap_or_else(|| self.prompt_key(key));
        effects.extend(self.complete());
        effects
    }

    /// Inserts pasted text.
    pub(crate) fn paste(&mut self, text: &str) -> Vec<Effect> {
        if self.dialog.is_open() {
            if let Some(writing) = self.dialog.input_mut() {
                writing.insert(text);
            }
            return Vec::new();
        }
        self.prompt.insert(text);
        self.complete()
    }

    /// Handles Ctrl-C and SIGINT: clears the input, else interrupts; the second one quits.
    pub(crate) fn interrupt(&mut self) -> Vec<Effect> {
        if self.quit_deadline.take().is_some() {
            return vec![Effect::Quit];
        }
        self.quit_deadline = Some(self.now + QUIT_CONFIRM_MS);
        if self.dialog.is_open() {
            return if self.dialog.clear_input() { Vec::new() } else { self.stop() };
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
                vec![Effect::Abort(self.last_run)]
            }
            _ => Vec::new(),
        }
    }

    // ---- the prompt -----------------------------------------------------------------------------

    fn prompt_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        let empty = self.prompt.is_empty();
        match key.code {
            KeyCode::Enter if alt && self.is_working() => return self.submit(true),
            KeyCode::Enter if alt || shift => self.prompt.new_line(),
            KeyCode::Enter if self.prompt.take_backslash() => self.prompt.new_line(),
            KeyCode::Enter => return self.submit(false),
            KeyCode::Char('j') if control => self.prompt.new_line(),
            KeyCode::Char('d') if control && empty => return vec![Effect::Quit],
            KeyCode::Esc if self.selected.take().is_some() => {}
            KeyCode::Esc => return self.stop(),
            KeyCode::Tab if self.dialog.waiting() > 0 => return self.dialog.reattach(self.now),
            KeyCode::Tab => {}
            KeyCode::Up if alt => return self.select(-1),
            KeyCode::Down if alt => return self.select(1),
            KeyCode::Up if shift => return vec![Effect::Scroll(Scroll::Lines(-1))],
            KeyCode::Down if shift => return vec![Effect::Scroll(Scroll::Lines(1))],
            KeyCode::Up if empty && !self.queues.is_empty() => return vec![Effect::TakeBack],
            KeyCode::Up => self.prompt.up(self.input_width()),
            KeyCode::Down => self.prompt.down(self.input_width()),
            KeyCode::PageUp => return vec![Effect::Scroll(Scroll::Pages(-1))],
            KeyCode::PageDown => return vec![Effect::Scroll(Scroll::Pages(1))],
            KeyCode::Home if control || empty => return vec![Effect::Scroll(Scroll::Top)],
            KeyCode::End if control || empty => return vec![Effect::Scroll(Scroll::Bottom)],
            _ => self.prompt.key(key),
        }
        Vec::new()
    }

    // ---- foldable blocks ------------------------------------------------------------------------

    /// Opens or closes the selected block, or all results.
    fn toggle(&mut self) -> Vec<Effect> {
        match self.selected.and_then(|id| self.transcript.entry_mut(id)) {
            Some(entry) => {
                let is_tool = matches!(entry.kind, Kind::Tool(_));
                let default = if is_tool { self.open_results } else { self.open_thoughts };
                entry.open = Some(!entry.open.unwrap_or(default));
            }
            None => self.open_results = !self.open_results,
        }
        Vec::new()
    }

    fn select(&mut self, by: isize) -> Vec<Effect> {
        let entries = self.transcript.entries();
        let from = self.selected.and_then(|id| self.transcript.position(id));
        let target = match (by < 0, from) {
            (true, from) => {
                entries[..from.unwrap_or(entries.len())].iter().rev().find(|entry| entry.folds())
            }
            (false, Some(from)) => entries[from + 1..].iter().find(|entry| entry.folds()),
            (false, None) => None,
        };
        match (target, by < 0) {
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

    // ---- completions ----------------------------------------------------------------------------

    fn popup_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        let popup = self.popup.as_mut().filter(|popup| plain && popup.is_visible())?;
        match key.code {
            KeyCode::Esc => {
                self.dismissed = Some(self.prompt.text());
                self.popup = None;
            }
            _ if popup.matches.is_empty() => return None,
            KeyCode::Up => popup.up(),
            KeyCode::Down => popup.down(),
            KeyCode::Tab | KeyCode::Enter => return Some(self.accept(key.code == KeyCode::Enter)),
            _ => return None,
        }
        Some(Vec::new())
    }

    /// Inserts the selected completion. Enter also submits a command that is complete.
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
                    return self.submit(false);
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
                    return self.submit(false);
                }
            }
        }
        Vec::new()
    }
}
