//! [`AgentContext`], the agent's memory and tools, one operation at a time. For patterns that need
//! more than the methods of `StepContext`.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::Value;

use crate::error::StepError;
use crate::message::{CallId, Message, MessageKind, ToolCall};
use crate::model::ChatRequest;
use crate::session::Session;
use crate::session::calls::batch;
use crate::session::lent::Lent;
use crate::session::request;
use crate::session::request::ask::{Ask, Profile};

/// Access to the agent's memory and tools, one operation at a time.
///
/// ```
/// use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
///
/// /// Answers a request only if it is short.
/// struct Short;
///
/// #[async_trait::async_trait]
/// impl BehaviorPattern for Short {
///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
///         step.take_input().await?;
///         let request = step.context().generate(&Ask::new()).await?;
///         if request.messages.iter().any(|message| message.text().len() > 1_000) {
///             return Ok(StepEnd::Done);
///         }
///         step.ask().await?.finish()
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # use loopwright_core::testing::{Harness, Script};
/// # let harness = Harness::new(Short, [Script::text("Hello.")], |agent| agent).await;
/// # assert_eq!(harness.handle.prompt("Hello").await.unwrap().text, "Hello.");
/// # }
/// ```
pub struct AgentContext<'a> {
    pub(crate) session: Lent<'a>,
    pub(crate) profile: Profile,
}

impl AgentContext<'_> {
    /// Builds the next request: the conversation after the hooks, the offered tools, the system
    /// prompt, and the options. The request is not sent.
    pub async fn generate(&mut self, ask: &Ask) -> Result<ChatRequest, StepError> {
        let ask = ask.clone().within(&self.profile);
        request::build(&mut self.session, &ask).boxed().await
    }

    /// Puts a message into the conversation and into memory.
    ///
    /// # Errors
    ///
    /// Fails as [`StepContext::remember`](crate::StepContext::remember) does.
    pub async fn update_memory(
        &mut self,
        message: impl Into<MessageKind>,
    ) -> Result<Arc<Message>, StepError> {
        self.session.remember(message.into()).boxed().await
    }

    /// Returns the arguments that would run, after safe coercions. The error tells the model what
    /// to correct.
    pub fn validate_tool_call(&self, call: &ToolCall) -> Result<Value, String> {
        self.session.executor.tools.validate(&call.name, &call.arguments)
    }

    /// Returns whether the call may run without approval. An invalid call may not.
    pub fn approves(&self, call: &ToolCall) -> bool {
        let Session { executor, config, extensions, .. } = &*self.session;
        match (executor.tools.spec(&call.name), self.validate_tool_call(call)) {
            (Some(spec), Ok(arguments)) => config.auto.approves(spec, &arguments, extensions),
            _ => false,
        }
    }

    /// Runs one call of the last reply and returns its result, or `None` if it waits for a
    /// decision. The batch stays open until every call has its result, so call
    /// [`StepContext::call_tools`](crate::StepContext::call_tools) before the next request.
    pub async fn call_tool(&mut self, call: &CallId) -> Result<Option<Arc<Message>>, StepError> {
        batch::run(&mut self.session, Some(call)).boxed().await?;
        let state = &self.session.journal.state;
        let result = state.call(call).and_then(|c| c.result.clone());
        let is_result = |m: &&Arc<Message>| m.as_tool_result().is_some_and(|r| r.call == *call);
        Ok(result.or_else(|| state.history.iter().rev().find(is_result).cloned()))
    }

    /// Returns up to `limit` messages of the session's memory that match `query`, best first.
    pub async fn recall(
        &mut self,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>, StepError> {
        let memory = self.session.journal.memory().clone();
        let query = query.to_owned();
        let found = async move { memory.recall(&query, limit).await };
        Ok(self.session.wait_for(found).boxed().await??)
    }
}
