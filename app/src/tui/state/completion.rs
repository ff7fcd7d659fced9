//! Completions that follow the prompt.

use super::core::State;
use super::effect::{Choice, Effect, Source};
use super::entry::{Kind, user_text};
use super::popup::{Popup, wanted};

/// Maximum number of messages that are offered after `/fork`.
const MAX_MESSAGES: usize = 100;
/// Maximum number of characters of an offered message.
const MAX_MESSAGE_CHARS: usize = 80;

impl State {
    /// Updates the popup after the prompt has changed. Requests choices that are not known yet.
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
        // Files and sessions change, so they are listed each time a completion begins.
        let ask = source.filter(|source| match before {
            Some(_) => false,
            None => {
                *source != Source::Messages
                    && (*source != Source::Models || !self.known.contains_key(source))
            }
        });
        let mut popup = Popup::new(what, written, &self.known, &self.own_commands);
        if let Some(before) = before
            && before.written == popup.written
        {
            popup.chosen = before.chosen.min(popup.matches.len().saturating_sub(1));
        }
        self.popup = Some(popup);
        ask.map(Effect::List).into_iter().collect()
    }

    /// Returns the user's messages as choices for `/fork`, newest first.
    fn messages(&self) -> Vec<Choice> {
        let entries = self.transcript.entries().iter().rev();
        let messages = entries.filter_map(|entry| match &entry.kind {
            Kind::User(message) => {
                Some(Choice::new(message.id.to_string(), first_line(&user_text(message))))
            }
            _ => None,
        });
        messages.take(MAX_MESSAGES).collect()
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(MAX_MESSAGE_CHARS).collect()
}
