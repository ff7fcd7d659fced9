//! A pattern's view of its budgets.

use crate::limits::{Budget, Spent};
use crate::pattern::step::StepContext;
use crate::session::request::budget;

impl StepContext<'_> {
    /// Returns the usage since the last request of the user, including the current run. Until a run
    /// that was resumed after a crash has ended, only its time since then counts.
    pub fn spent(&self) -> Spent {
        budget::spent(&self.session)
    }

    /// Returns the usage of the whole session, including before resets.
    pub fn session_spent(&self) -> Spent {
        budget::session_spent(&self.session)
    }

    /// Returns the rest of this run's budget. It is the smallest rest of the agent's
    /// [`Limits`](crate::limits::Limits) of a run and of the session, and a sub-agent's share. What
    /// the [answer at a limit](crate::limits::WrapUp) needs is not in it.
    ///
    /// ```
    /// use loopwright_core::message::UserMessage;
    /// use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
    ///
    /// /// Reviews its answer if there is a turn left for the review, and one for the answer to it.
    /// struct Reviewed;
    ///
    /// #[async_trait::async_trait]
    /// impl BehaviorPattern for Reviewed {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         step.take_input().await?;
    ///         let reply = step.ask().await?;
    ///         if reply.should_stop() || step.left().turns.is_some_and(|turns| turns < 2) {
    ///             return reply.finish();
    ///         }
    ///         let question = UserMessage::from("What is wrong with this answer?");
    ///         let review = step.ask_with(Ask::detached().also(question)).await?;
    ///         step.remember(UserMessage::from(review.text())).await?;
    ///         step.ask().await?.finish()
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use loopwright_core::limits::Budget;
    /// # use loopwright_core::testing::{Harness, Script};
    /// # for (turns, answer) in [(2, "four"), (3, "five")] {
    /// #     let replies = ["four", "It is five.", "five"].map(Script::text);
    /// #     let budget = Budget::default().turns(turns);
    /// #     let harness = Harness::new(Reviewed, replies, |agent| agent.limits(budget)).await;
    /// #     assert_eq!(harness.handle.prompt("2 + 3?").await.unwrap().text, answer);
    /// # }
    /// # }
    /// ```
    pub fn left(&self) -> Budget {
        budget::left(&self.session)
    }
}
