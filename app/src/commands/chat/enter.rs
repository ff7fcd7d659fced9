//! The entry into a session that the chat has opened, attached to, or reopened after it moved.

use loopwright_core::AgentHandle;
use loopwright_core::agent::InputError;
use loopwright_core::event::Role;
use loopwright_core::session::AgentState;

use super::state::{Chat, Done, State};
use crate::output;
use crate::slash::SlashContext;

impl Chat {
    /// Shows the state of the conversation, and asks for a decision if a call waits.
    pub(super) async fn greet(&mut self, is_continued: bool) -> Done {
        if self.keyboard {
            output::info("Type a request; /help lists the commands, /quit leaves.");
        }
        let state = self.handle.state().await?;
        if is_continued {
            output::info(&format!("The conversation has {} messages.", state.messages.len()));
            let replies =
                state.messages.iter().rev().filter(|message| message.role() == Role::Assistant);
            let mut texts = replies.map(|reply| reply.text());
            if let Some(last) = texts.find(|text| !text.trim().is_empty()) {
                output::notice(last.trim_end());
            }
        }
        self.enter(state).await
    }

    /// Continues in a session that this process has reopened or attached to.
    pub(super) async fn continue_with(
        &mut self,
        handle: AgentHandle,
        context: SlashContext,
    ) -> Done {
        (self.handle, self.context) = (handle, context);
        (self.aborting, self.compaction) = (false, None);
        if let Some(event) = self.unsent.take() {
            match self.send(event).await {
                Ok(()) => self.state = State::Running,
                Err(why) if self.handle.has_ended() => return Err(why.into()),
                Err(why) => output::error(&format!("Your last input was refused: {why}.")),
            }
        }
        let state = self.handle.state().await?;
        self.enter(state).await
    }

    /// Reports who has the session open, and its repairs and unfinished work.
    pub(super) async fn enter(&mut self, state: AgentState) -> Done {
        if self.handle.is_attached() {
            output::info(
                "Another process has the session open and runs the agent: what you type goes \
                 there, and replies are shown when they are complete.",
            );
        }
        if let Some(repair) = &state.repaired {
            output::error(repair);
        }
        if let Some(held) = state.held {
            output::error(&held.to_string());
        }
        if let Some(run) = state.interrupted_run {
            output::info(&format!(
                "Run {run} was interrupted; /continue continues it, a new request ends it."
            ));
        }
        self.resume(state).await
    }

    /// Waits for the end of a run, a decision or a request, depending on the state.
    pub(super) async fn resume(&mut self, state: AgentState) -> Done {
        if state.is_running {
            self.state = State::Running;
        } else if let Some(action) = state.pending_actions.into_iter().next() {
            return self.ask(action).await;
        } else {
            self.wait_for_request();
        }
        Ok(())
    }

    /// Reports why an input was refused. Fails if the session has ended, or if this process cannot
    /// write it.
    pub(super) async fn refused(&mut self, why: InputError) -> Done {
        let is_broken = matches!(why, InputError::Memory(_)) && !self.handle.is_attached();
        if self.handle.has_ended() || is_broken {
            return Err(why.into());
        }
        output::error(&format!("This was not accepted: {why}."));
        let state = self.handle.state().await?;
        self.resume(state).await
    }
}
