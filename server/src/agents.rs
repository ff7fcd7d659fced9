//! The named agents of a server, and how they are built.

mod apply;
mod factory;
mod models;
mod registry;
mod rejection;
mod setup;

pub use self::factory::AgentFactory;
pub use self::models::Models;
pub(crate) use self::registry::Agents;
pub use self::rejection::AgentRejection;
pub(crate) use self::setup::ChatOptions;
pub use self::setup::{AgentSetup, SystemPrompt};
