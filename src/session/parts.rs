//! [`Parts`], replacements for an agent's models and tools in tests.

use std::sync::Arc;

use crate::model::ChatModel;
use crate::tool::{Tool, ToolSource};

/// Replacements for the models, tools and tool sources of an agent and of its sub-agents.
pub(crate) trait Parts {
    /// Returns the replacement for the model of this name, or for the agent's own if the name is
    /// `None`.
    fn model(&self, name: Option<&str>, model: &Arc<dyn ChatModel>) -> Arc<dyn ChatModel>;

    /// Returns the replacement for a tool.
    fn tool(&self, tool: &Arc<dyn Tool>) -> Arc<dyn Tool>;

    /// Returns the replacement for the source of tools with this prefix.
    fn source(&self, prefix: &str, source: &Arc<dyn ToolSource>) -> Arc<dyn ToolSource>;

    /// Returns the replacements for the sub-agent of this name.
    fn of_child(&self, name: &str) -> Box<dyn Parts>;
}
