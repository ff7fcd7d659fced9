//! Calls of a pattern to tools, and its questions to the user.

use futures_util::FutureExt as _;

use crate::error::StepError;
use crate::message::ToolResult;
use crate::pattern::step::StepContext;
use crate::session::calls::pattern_calls::{self, Call, CallAll, QuestionStatus};
use crate::tool::question::Question;

impl StepContext<'_> {
    /// Makes a call and returns its result. Returns `None` if the call waits for a decision: the
    /// step must then end with [`StepEnd::AwaitingAction`](crate::StepEnd::AwaitingAction).
    ///
    /// The call works like a model's call, but the tool need not be offered to the model. The
    /// arguments are validated, hooks see the call, and it may need approval, fail or suspend. The
    /// engine adds a message with the call to the conversation, followed by its result.
    ///
    /// A call with a key ([`Call::key`]) is made once per user request. When the pattern is entered
    /// again, its result is returned, even if the arguments differ. A call that was skipped or
    /// aborted before it started has not been made. A steer that arrives while the call waits or
    /// has not started skips it, which the status of the result shows.
    ///
    /// # Errors
    ///
    /// Fails with
    ///
    /// - [`StepError::BatchOpen`] while other calls have no result,
    /// - [`StepError::KeyTaken`] if a call of another tool has the key,
    /// - [`StepError::NotJson`] if the arguments cannot be written as JSON.
    ///
    /// If the tool fails or does not exist, that is a result, not an error.
    ///
    /// ```
    /// use loopwright_core::message::UserMessage;
    /// use loopwright_core::session::Call;
    /// use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
    /// use serde_json::json;
    ///
    /// /// Searches before it asks the model.
    /// struct SearchFirst;
    ///
    /// #[async_trait::async_trait]
    /// impl BehaviorPattern for SearchFirst {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         step.take_input().await?;
    ///         let query = step.user_request().map(|message| message.text());
    ///         let search = Call::new("search", json!({"query": query})).key("search");
    ///         if step.call(search).await?.is_none() {
    ///             return Ok(StepEnd::AwaitingAction);
    ///         }
    ///         step.ask().await?.finish()
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use loopwright_core::testing::{Harness, Script, TestTool};
    /// let tool = TestTool::new("search").answers("3 hits");
    /// let replies = [Script::text("There are three.")];
    /// let harness = Harness::new(SearchFirst, replies, |agent| agent.tool(tool)).await;
    /// assert_eq!(harness.handle.prompt("How many?").await.unwrap().text, "There are three.");
    /// # }
    /// ```
    pub async fn call(&mut self, call: Call) -> Result<Option<ToolResult>, StepError> {
        Ok(self.call_all([call]).await?.and_then(|results| results.into_iter().next()))
    }

    /// Makes calls in one batch, at the same time if their tools allow it. Returns their results in
    /// the order of the calls, or `None` if some wait for decisions. Otherwise like
    /// [`StepContext::call`]. [`CallAll`] has further options: how many run at once, and whether
    /// the first that succeeds is enough.
    ///
    /// Sub-agents ([`Call::child`]) work at the same time. Their pending actions can be decided
    /// while the others work. [`ToolResult::output`] parses a sub-agent's answer as a value.
    ///
    /// ```
    /// use loopwright_core::message::AssistantMessage;
    /// use loopwright_core::session::Call;
    /// use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
    ///
    /// /// Answers with the lower one of two prices.
    /// struct Cheapest;
    ///
    /// #[async_trait::async_trait]
    /// impl BehaviorPattern for Cheapest {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         step.take_input().await?;
    ///         if step.is_answered() {
    ///             return Ok(StepEnd::Done);
    ///         }
    ///         let ask = |shop| Call::child(shop, "The price of a lamp?").key(shop);
    ///         let asked = step.call_all(["east", "west"].map(ask)).await?;
    ///         let mut lowest = u32::MAX;
    ///         for result in asked.ok_or(StepEnd::AwaitingAction)? {
    ///             lowest = lowest.min(result.output()?);
    ///         }
    ///         step.remember(AssistantMessage::from(format!("{lowest} €"))).await?;
    ///         Ok(StepEnd::Done)
    ///     }
    /// }
    /// # struct Once;
    /// # #[async_trait::async_trait]
    /// # impl BehaviorPattern for Once {
    /// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    /// #         step.take_input().await?;
    /// #         step.ask().await?.finish()
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use loopwright_core::GenericAgent;
    /// # use loopwright_core::testing::{Script, ScriptedModel};
    /// # let shop = |price| {
    /// #     GenericAgent::builder(ScriptedModel::new([Script::text(price)]), Once).build()
    /// # };
    /// let agent = GenericAgent::builder(ScriptedModel::new([]), Cheapest)
    ///     .child("east", "A shop.", shop("30")?)
    ///     .child("west", "Another shop.", shop("20")?)
    ///     .build()?;
    /// let handle = agent.session().await?;
    /// assert_eq!(handle.prompt("What does a lamp cost?").await?.text, "20 €");
    /// # Ok(()) }
    /// ```
    pub fn call_all(&mut self, calls: impl IntoIterator<Item = Call>) -> CallAll<'_> {
        CallAll::new(&mut self.session, calls.into_iter().collect())
    }

    /// Asks the user, and returns the answer once there is one. While it waits, the step must end
    /// with [`StepEnd::AwaitingAction`](crate::StepEnd::AwaitingAction).
    ///
    /// The question is a pending action: it can be answered from another process, days later. The
    /// answer is checked against the form of the question before it is accepted. Then the pattern
    /// is entered again from its top, and this method returns the answer. The key identifies the
    /// question within the user's request. The model sees neither the question nor the answer,
    /// unless the question is [`shown`](Question::shown).
    ///
    /// # Errors
    ///
    /// Fails with
    ///
    /// - [`StepError::BatchOpen`] while calls have no result,
    /// - [`StepError::KeyTaken`] if a call has the key,
    /// - [`StepError::Question`] if the question has no options, a duplicate option, or an unusable
    ///   schema.
    ///
    /// ```
    /// use loopwright_core::session::QuestionStatus;
    /// use loopwright_core::tool::Question;
    /// use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
    ///
    /// struct Painter;
    ///
    /// #[async_trait::async_trait]
    /// impl BehaviorPattern for Painter {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         step.take_input().await?;
    ///         let question = Question::choice("Which colour?", ["red", "blue"]);
    ///         match step.question("colour", question).await? {
    ///             QuestionStatus::Answered(colour) => step.emit("colour", colour).await?,
    ///             QuestionStatus::Waiting => return Ok(StepEnd::AwaitingAction),
    ///             // The user declined, or wrote something else.
    ///             _ => {}
    ///         }
    ///         step.ask().await?.finish()
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use loopwright_core::event::{Decision, Provided, RunStatus};
    /// # use loopwright_core::testing::{Harness, Script};
    /// let harness = Harness::new(Painter, [Script::text("Done.")], |agent| agent).await;
    /// assert_eq!(harness.handle.prompt("Paint.").await.unwrap().end, RunStatus::AwaitingAction);
    /// let action = &harness.pending().await[0];
    /// let answer = action.question().unwrap().read("blue").unwrap();
    /// let decision = Decision::Provide(Provided::Input(answer));
    /// harness.handle.resolve(&action, decision).await.unwrap();
    /// # harness.handle.wait_for_idle().await;
    /// # assert_eq!(harness.model.requests().len(), 1);
    /// # }
    /// ```
    pub async fn question(
        &mut self,
        key: &str,
        question: Question,
    ) -> Result<QuestionStatus, StepError> {
        pattern_calls::ask_user(&mut self.session, key.into(), question).boxed().await
    }
}
