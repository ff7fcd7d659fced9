//! [`AgentContext`]: the agent's memory and tools, step by step, for patterns that want more than
//! the verbs of `StepContext`.

use std::sync::Arc;

use serde_json::Value;

use crate::error::StepError;
use crate::log::entry::LogEntry;
use crate::message::{CallId, History, Message, MessageKind, ToolCall};
use crate::model::ChatRequest;
use crate::session::Session;
use crate::session::ask::Ask;

/// The agent's context: what it remembers and what it can do.
pub struct AgentContext<'a> {
    pub(crate) session: &'a mut Session,
}

impl AgentContext<'_> {
    /// The messages and options of the next request: the conversation after `transform_context` and
    /// `convert_to_llm`, the tools that it offers, the system prompt. Sends nothing.
    pub async fn generate(&mut self, ask: &Ask) -> Result<ChatRequest, StepError> {
        self.session.request(ask).await
    }

    /// Puts a message into the conversation and into memory.
    pub async fn update_memory(
        &mut self,
        message: impl Into<MessageKind>,
    ) -> Result<Arc<Message>, StepError> {
        let message = self.session.message(message);
        self.session.commit(LogEntry::Remembered { message: message.clone() }).await?;
        Ok(message)
    }

    /// The arguments that would run, after safe coercions; or a text that tells the model what to
    /// mend.
    pub fn validate_tool_call(&self, call: &ToolCall) -> Result<Value, String> {
        self.session.tools.validate(&call.name, &call.arguments)
    }

    /// Whether the call may run without the user's confirmation. One that is not valid may not.
    pub fn can_auto_call(&self, call: &ToolCall) -> bool {
        let session = &*self.session;
        let (Some(spec), Ok(arguments)) =
            (session.tools.spec(&call.name), self.validate_tool_call(call))
        else {
            return false;
        };
        session.config.auto.can_auto_call(spec, &arguments, &session.extensions)
    }

    /// Runs one call of the last reply and gives its result; nothing if it waits for the user's
    /// confirmation. The batch stays open until every call has its result, so
    /// [`StepContext::call_tools`](crate::StepContext::call_tools) comes before the next request.
    pub async fn call_tool(&mut self, call: &CallId) -> Result<Option<Arc<Message>>, StepError> {
        self.session.run_batch(Some(call)).await?;
        let done = self.session.fold.call(call).and_then(|c| c.result.clone());
        let is_it = |m: &&Arc<Message>| m.as_tool_result().is_some_and(|r| r.call == *call);
        Ok(done.or_else(|| self.session.fold.history.iter().rev().find(is_it).cloned()))
    }

    /// Everything that was said.
    pub fn history(&self) -> History {
        self.session.fold.history.clone()
    }

    /// Messages of the session's memory that have to do with `query`, best first.
    pub async fn recall(
        &mut self,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>, StepError> {
        let (memory, query) = (self.session.memory().clone(), query.to_owned());
        Ok(self.session.wait_for(async move { memory.recall(&query, limit).await }).await??)
    }
}
