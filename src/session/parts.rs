//! [`Parts`]: replaces what an agent uses from outside, for tests.

use std::sync::Arc;

use crate::model::ChatModel;
use crate::tool::{Tool, ToolSource};

/// Replaces the models, tools and sources of tools of an agent and of its sub-agents.
pub(crate) trait Parts {
    /// Returns what replaces the model of this name, or the agent's own if the name is `None`.
    fn model(&self, name: Option<&str>, model: &Arc<dyn ChatModel>) -> Arc<dyn ChatModel>;

    /// Returns what replaces a tool.
    fn tool(&self, tool: &Arc<dyn Tool>) -> Arc<dyn Tool>;

    /// Returns what replaces the source of tools with this prefix.
    fn source(&self, prefix: &str, source: &Arc<dyn ToolSource>) -> Arc<dyn ToolSource>;

    /// Returns what replaces the parts of the sub-agent of this name.
    fn of_child(&self, name: &str) -> Box<dyn Parts>;
}
