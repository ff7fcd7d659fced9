//! The return to an earlier point of the conversation.

use futures_util::FutureExt as _;

use crate::error::StepError;
use crate::log::entry::LogEntry;
use crate::message::MessageId;
use crate::pattern::step::StepContext;

impl StepContext<'_> {
    /// Returns the last message of the conversation, as a target for
    /// [`rewind`](StepContext::rewind). Returns `m0`, which no message has, if the conversation is
    /// empty.
    pub fn checkpoint(&self) -> MessageId {
        let last = self.session.journal.state.messages().next_back();
        last.map(|message| message.id).unwrap_or_default()
    }

    /// Removes the messages after `to` from the conversation: later requests do not contain them.
    /// The history ([`StepContext::history`]) and front ends keep them.
    ///
    /// - Messages that the user sent for this request stay, wherever they were delivered. If a
    ///   removed reply answered them, they must be answered again.
    /// - Summaries of messages on both sides of `to` are undone.
    /// - Values ([`StepContext::set_state`]), usage, and results and replies under keys
    ///   ([`Call::key`](crate::session::Call::key), [`Ask::key`](crate::Ask::key)) stay: a key
    ///   finds what was recorded before.
    /// - Queued messages stay queued.
    ///
    /// If there is nothing to remove, nothing is written.
    ///
    /// After the rewind, the pattern can be entered again from its top, so its state should record
    /// what it has tried. A value that is set before the rewind is written in the same append, so
    /// no crash separates the two.
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::BatchOpen`] while calls have no result. Fails with
    /// [`StepError::Rewind`] if `to` is not part of the conversation (it was removed, or the
    /// conversation was reset), or is followed by the results of calls.
    ///
    /// ```
    /// use loopwright_core::message::{MessageId, UserMessage};
    /// use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
    ///
    /// /// Tries up to three approaches, each without knowledge of those that failed.
    /// struct Attempts;
    ///
    /// #[async_trait::async_trait]
    /// impl BehaviorPattern for Attempts {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         step.take_input().await?;
    ///         let (mut attempt, root): (u32, MessageId) =
    ///             step.state("attempt").unwrap_or((1, step.checkpoint()));
    ///         loop {
    ///             step.set_state("attempt", (attempt, root))?;
    ///             let hint = UserMessage::from(format!("Approach {attempt}."));
    ///             let reply = step.ask_with(Ask::new().also(hint)).await?;
    ///             if reply.should_stop() || attempt == 3 || !reply.text().contains("failed") {
    ///                 return reply.finish();
    ///             }
    ///             attempt += 1;
    ///             // One append: the rewind, and the value that says that it happened.
    ///             step.set_state("attempt", (attempt, root))?;
    ///             step.rewind(root).await?;
    ///         }
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use loopwright_core::testing::{Harness, Script};
    /// let replies = [Script::text("It failed."), Script::text("It is solved.")];
    /// let harness = Harness::new(Attempts, replies, |agent| agent).await;
    /// assert_eq!(harness.handle.prompt("Solve it.").await.unwrap().text, "It is solved.");
    /// let texts: Vec<_> = harness.model.requests()[1].messages.iter().map(|m| m.text()).collect();
    /// assert_eq!(texts, ["Solve it.", "Approach 2."]);
    /// # }
    /// ```
    pub async fn rewind(&mut self, to: MessageId) -> Result<(), StepError> {
        self.session.receive_all().boxed().await?;
        self.session.check_batch_closed()?;
        let state = &self.session.journal.state;
        let point = state.rewind_point(to).map_err(|why| StepError::Rewind { to, why })?;
        if state.removed_after(point).next().is_none() {
            return Ok(());
        }
        Ok(self.session.journal.commit(LogEntry::Rewound { to }).boxed().await?)
    }
}
