//! The transitions caused by the outcomes of effects.

use loopwright_core::event::Role;

use super::core::{Queues, State};
use super::effect::{Effect, Opened, Outcome, Scroll, Tone};
use super::entry::user_text;
use super::status::Run;
use crate::slash::SlashReply;
use crate::wording::sentence;

impl State {
    /// Handles the outcome of an effect.
    pub(crate) fn outcome(&mut self, outcome: Outcome) -> Vec<Effect> {
        match outcome {
            Outcome::Opened(opened) => return self.opened(*opened),
            Outcome::NotOpened { why, closed } => {
                (self.is_opening, self.submit_on_open) = (false, false);
                if closed {
                    self.dialog.clear(); // no session is left that could take a decision
                    self.run = Run::Closed;
                    self.closed = why;
                    return self.notice_closed();
                }
                self.transcript.notice(Tone::Error, why);
            }
            Outcome::Notice(tone, text) => self.transcript.notice(tone, text),
            Outcome::Table(rows) => self.transcript.table(rows),
            Outcome::Undelivered { text, why, ends } => {
                self.transcript.notice(Tone::Error, sentence(&why));
                if !text.is_empty() {
                    self.restore_to_prompt(&[text]);
                }
                if ends && self.is_working() {
                    self.run = Run::Idle;
                }
            }
            Outcome::Refused { call, why } => {
                let typing = !self.prompt.is_empty();
                self.dialog.refused(&call, sentence(&why), self.now, typing);
            }
            Outcome::Edited { call, json } => return self.dialog.edited(&call, &json, self.now),
            Outcome::NoEditor { call, json } => self.dialog.edit_inline(&call, &json),
            Outcome::Preview(action, diff) => self.dialog.previewed(&action, diff, self.now),
            Outcome::Replied(session, reply) => return self.replied(&session, reply),
            Outcome::TakenBack(texts) => self.restore_to_prompt(&texts),
            Outcome::Listed(source, choices) => {
                self.known.insert(source, choices);
                self.complete();
            }
        }
        Vec::new()
    }

    /// Shows or sends the reply of a slash command.
    fn replied(&mut self, session: &str, reply: Result<SlashReply, String>) -> Vec<Effect> {
        match reply {
            Ok(SlashReply::Show(text)) => {
                self.transcript.push_notice(Tone::Loud, text);
                vec![Effect::Scroll(Scroll::Bottom)]
            }
            Err(why) => {
                self.transcript.push_notice(Tone::Error, why);
                Vec::new()
            }
            Ok(SlashReply::Send(text)) => {
                let is_open = !self.is_opening && self.run != Run::Closed;
                if is_open && self.status.session.as_deref() == Some(session) {
                    return self.send_message(text, false);
                }
                self.restore_to_prompt(&[text]);
                self.notice(
                    "The command was typed in another conversation: its message is in the prompt.",
                )
            }
        }
    }

    fn opened(&mut self, opened: Opened) -> Vec<Effect> {
        let state = &opened.state;
        self.distils = opened.distils;
        if opened.same {
            self.transcript.join(&state.messages);
        } else {
            let root = opened.root.to_string_lossy();
            self.transcript.begin(&state.messages, &root, self.opening_from);
            self.prompt.forget();
            let requests = state.messages.iter().filter(|message| message.role() == Role::User);
            requests.for_each(|message| self.prompt.remember(user_text(message)));
            self.selected = None;
            self.has_user_message = !state.messages.is_empty();
        }
        self.known.clear();
        self.last_run = None;
        self.dialog.clear();
        self.has_finished = false;
        self.status.opened(&opened);
        (self.is_opening, self.run) = (false, Run::Idle);
        if state.is_running {
            self.start_working();
        }
        self.stages = state.stages.clone();
        self.queues = Queues::new(&state.steering_queue, &state.follow_up_queue);
        if opened.is_attached {
            self.transcript.notice(
                Tone::Quiet,
                "Another process has this conversation open and runs the agent: what you type \
                 goes there, and replies are shown when they are complete.",
            );
        }
        if let Some(repair) = &state.repaired {
            self.transcript.notice(Tone::Loud, sentence(repair));
        }
        if let Some(held) = state.held {
            self.transcript.notice(Tone::Loud, sentence(&held.to_string()));
        }
        if let Some(run) = state.interrupted_run {
            let text = format!(
                "Run {run} was interrupted: `/continue` resumes it, a new request ends it."
            );
            self.transcript.notice(Tone::Loud, text);
        }
        let mut effects = vec![Effect::Scroll(Scroll::Bottom)];
        for action in &state.pending_actions {
            self.transcript.call_pending(action);
            effects.extend(self.dialog.open(action, self.now, !self.prompt.is_empty()));
        }
        if std::mem::take(&mut self.submit_on_open) && self.dialog.waiting() == 0 {
            effects.extend(self.submit(false));
        }
        effects
    }
}
