//! A2A 1.0 with the JSON-RPC binding: an agent for other agents.
//!
//! A context is a session. A task is what follows from one message of the user: its run, and the
//! runs that continue it after decisions. The id of a task consists of the ids of the message and
//! the context, so nothing else is stored.

mod card;
pub mod code;
mod encoder;
mod message;
mod request;
mod task;
#[cfg(test)]
mod tests;

pub use card::{AgentCard, agent_card};
pub use encoder::Encoder;
pub use message::SendMessage;
pub use request::{Call, ListTasks, Request};
pub use task::{Task, TaskId, TaskState, tasks};
