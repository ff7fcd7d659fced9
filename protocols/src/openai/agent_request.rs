//! [`AgentRequest`]: what a request of either API asks of an agent.

use loopwright_core::event::Prompt;
use loopwright_core::log::LogEntry;
use loopwright_core::model::ThinkingLevel;

/// Holds what a request asks of an agent.
#[derive(Debug)]
#[non_exhaustive]
pub struct AgentRequest {
    /// The agent's name, which is the name of the model.
    pub agent: String,
    /// The client's instructions, to be added to the agent's system prompt: those of the request
    /// and its system and developer messages.
    pub instructions: Option<String>,
    /// The log of a session that has the earlier messages.
    pub history: Vec<LogEntry>,
    /// The last message of the user, and the schema of the answer.
    pub prompt: Prompt,
    /// The sampling temperature.
    pub temperature: Option<f32>,
    /// The maximum number of output tokens of each of the agent's requests.
    pub max_tokens: Option<u32>,
    /// How much the model thinks.
    pub thinking: Option<ThinkingLevel>,
    /// Whether the answer is streamed.
    pub stream: bool,
}
