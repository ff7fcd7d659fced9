//! [`AgentRequest`]: a request of either API, converted for an agent.

use loopwright_core::event::Prompt;
use loopwright_core::log::LogEntry;
use loopwright_core::model::ThinkingLevel;

/// A request of either API, converted for an agent.
#[derive(Debug)]
#[non_exhaustive]
pub struct AgentRequest {
    /// The name of the agent, which the client sends as the model.
    pub agent: String,
    /// The client's instructions, which are added to the agent's system prompt: the request's own,
    /// and its system and developer messages.
    pub instructions: Option<String>,
    /// The log of a session that contains the earlier messages.
    pub history: Vec<LogEntry>,
    /// The last message of the user, and the schema of the answer.
    pub prompt: Prompt,
    /// The sampling temperature; `None` for the agent's.
    pub temperature: Option<f32>,
    /// The maximum number of output tokens per model request; `None` for the agent's.
    pub max_tokens: Option<u32>,
    /// The effort of the model's thinking; `None` for the agent's.
    pub thinking: Option<ThinkingLevel>,
    /// `true` to stream the answer.
    pub stream: bool,
}
