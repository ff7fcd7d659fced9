//! The submission of the prompt: as a command, a request, a steer or a follow-up.

use super::core::State;
use super::effect::{Effect, Scroll};
use super::status::Run;
use crate::slash::FrontEnd;

impl State {
    /// Submits the prompt. While the agent works, `later` makes it a follow-up instead of a steer.
    pub(super) fn submit(&mut self, later: bool) -> Vec<Effect> {
        let text = self.prompt.text();
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Vec::new();
        }
        // A leading space makes a line that begins with `/` a message.
        let command = text.trim_end().strip_prefix('/');
        let command =
            command.map(|line| line.split_once(char::is_whitespace).unwrap_or((line, "")));
        if let Some((name, rest)) = command
            && !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphabetic())
        {
            let (name, rest) = (name.to_owned(), rest.trim().to_owned());
            if !FrontEnd::Terminal.has(&name) && !self.is_own_command(&name) {
                return self.notice(&format!(
                    "`/{name}` is not a command: `/help` lists the commands. To send the line \
                     as a message, put a space before it."
                ));
            }
            self.prompt.take();
            self.prompt.remember(text);
            return self.command(&name, &rest);
        }
        // The text stays in the prompt until a session is open.
        if self.is_opening {
            self.submit_on_open = true;
            return Vec::new();
        }
        if self.run == Run::Closed {
            return self.notice_closed();
        }
        let text = trimmed.to_owned();
        self.prompt.take();
        self.send_message(text, later)
    }

    /// Sends a message of the user as a request, a steer or a follow-up.
    pub(super) fn send_message(&mut self, text: String, later: bool) -> Vec<Effect> {
        self.selected = None;
        let mut effects = if later {
            vec![Effect::FollowUp(text)]
        } else if self.is_working() || self.dialog.waiting() > 0 {
            vec![Effect::Steer(text)]
        } else {
            self.request(text)
        };
        effects.push(Effect::Scroll(Scroll::Bottom));
        effects
    }
}
