//! The agents of a host by name, and how they are built.

mod apply;
mod factory;
mod models;
mod registry;
mod setup;

pub use self::factory::AgentFactory;
pub use self::models::Models;
pub use self::registry::{Agents, RequestAgent};
pub use self::setup::{AgentSetup, RequestOptions, SystemPrompt};
#[cfg(feature = "coding-agent")]
pub(crate) use self::setup::{MAX_REQUEST_ATTEMPTS, MAX_REQUEST_RETRY_DELAY};
