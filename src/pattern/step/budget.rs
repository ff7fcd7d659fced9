//! A pattern's view of its budgets, and budgets of parts of its work.

use crate::error::StepError;
use crate::limits::{Budget, PartBudget, Spent};
use crate::log::entry::BUDGET_KEY;
use crate::pattern::role::Role;
use crate::pattern::step::StepContext;
use crate::session::budget_part::Part;
use crate::session::request::ask::Profile;
use crate::session::request::budget;

impl StepContext<'_> {
    /// Returns the usage since the last request of the user, including the current run. Until a run
    /// that was resumed after a crash has ended, only its time since then counts.
    pub fn spent(&self) -> Spent {
        self.session.spent()
    }

    /// Returns the usage of the whole session, including before resets.
    pub fn session_spent(&self) -> Spent {
        self.session.whole_spent()
    }

    /// Returns the rest of the budget. It is the smallest rest of the agent's
    /// [`Limits`](crate::limits::Limits) of a run and of the session, of a sub-agent's share, and
    /// of the [parts](StepContext::with_budget) that this step is in. What the [answer at a
    /// limit](crate::limits::WrapUp) needs is not in it.
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
        budget::left(&self.session, self.session.parts())
    }

    /// Returns the rest of a budget for the part of the work with this key. Its usage is counted
    /// from the first call with the key, for this request of the user, whatever happens in between:
    /// a decision, a steer, a restart, other parts. After a restart, the time counts from there.
    ///
    /// The usage at its beginning is kept as a [value](StepContext::set_state) with the key
    /// `budget:KEY`.
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::NotJson`] if the usage cannot be written as JSON.
    pub fn rest_of(&mut self, key: &str, budget: Budget) -> Result<Budget, StepError> {
        // Of the session, since a steer instead of a decision begins the run's count anew.
        let (key, now) = (format!("{BUDGET_KEY}{key}"), self.session_spent());
        let known = self.state::<Spent>(&key);
        let began = match known {
            // The time of a run that a crash cut off is lost.
            Some(began) => Spent { time: began.time.min(now.time), ..began },
            None => now,
        };
        if known != Some(began) {
            self.set_state(&key, began)?;
        }
        Ok(budget.left(&now.since(&began)))
    }

    /// Returns this step with a budget for a part of the work, which is counted from now. So a
    /// pattern can give another one a share, and go on when the share is used up.
    ///
    /// With [`Budget::keep`], requests in the part leave room for others that follow it. The
    /// budgets of the run, the session and the parts around this one hold as well. Sub-agents get
    /// their shares of the smallest rest. A budget with a cost needs a model with prices
    /// ([`StepError::NoPrices`]).
    ///
    /// # At its end
    ///
    /// A request that does not fit into the part, with its expected output, fails with
    /// [`StepError::Limit`], whose [limit](crate::limits::LimitReached::limit) is
    /// [`Limit::Part`](crate::limits::Limit::Part); nested parts have the same. Replies of
    /// [`ask_all`](StepContext::ask_all) have it as [`Reply::limit`](crate::Reply::limit).
    ///
    /// When the time is up, what is in progress ends with that error: a request, whose text so far
    /// stays in the conversation, a batch of calls, [`wait_for`](StepContext::wait_for). Running
    /// tools and sub-agents are cancelled, and other calls of the batch are skipped, also if they
    /// wait for decisions. Hooks are not interrupted.
    ///
    /// # Re-entry
    ///
    /// A part begins anew whenever the pattern is entered again: after a decision, a steer, late
    /// messages, a restart. What is [left](StepContext::left) to the run stays the same then, and
    /// [`rest_of`](StepContext::rest_of) remembers what was used of a fixed budget. Calls that were
    /// approved meanwhile run before the pattern is entered, outside its parts.
    ///
    /// ```
    /// use loopwright_core::limits::Limit;
    /// use loopwright_core::message::UserMessage;
    /// use loopwright_core::model::ToolChoice;
    /// use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
    ///
    /// /// Lets another pattern work, and asks for a summary if that uses up all but one request.
    /// struct Summed<P>(P);
    ///
    /// #[async_trait::async_trait]
    /// impl<P: BehaviorPattern> BehaviorPattern for Summed<P> {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         match self.0.next_step(&mut step.with_budget(step.left().keep(1))).await {
    ///             Err(StepError::Limit(reached)) if matches!(reached.limit, Limit::Part(_)) => {
    ///                 let text = UserMessage::from("Stop here. What have you found?");
    ///                 let ask = Ask::new().tool_choice(ToolChoice::None).also(text);
    ///                 step.ask_with(ask).await?.or_end()?.finish()
    ///             }
    ///             ended => ended,
    ///         }
    ///     }
    /// }
    /// # struct Endless;
    /// # #[async_trait::async_trait]
    /// # impl BehaviorPattern for Endless {
    /// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    /// #         step.take_input().await?;
    /// #         loop {
    /// #             step.ask().await?;
    /// #             step.remember(UserMessage::from("Go on.")).await?;
    /// #         }
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use loopwright_core::limits::Budget;
    /// # use loopwright_core::testing::{Harness, Script};
    /// # let replies = ["one", "two", "one and two"].map(Script::text);
    /// # let budget = Budget::default().turns(3);
    /// # let harness = Harness::new(Summed(Endless), replies, |agent| agent.limits(budget)).await;
    /// # assert_eq!(harness.handle.prompt("Count.").await.unwrap().text, "one and two");
    /// # }
    /// ```
    pub fn with_budget(&mut self, budget: impl Into<PartBudget>) -> StepContext<'_> {
        let part = Part::new(budget.into(), self.spent());
        let role = Role::Fixed(Profile::new(), &self.role);
        StepContext { session: self.session.lend_to(part), role }
    }
}
