//! [`WrappedParts`]: wrappers for the models and tools of an agent and its sub-agents.

use std::sync::Arc;

use super::file::AgentKey;
use super::model::CassetteModel;
use super::tape::Shared;
use super::tool::{CassetteSource, CassetteTool};
use crate::model::ChatModel;
use crate::session::parts::Parts;
use crate::tool::{Tool, ToolSource};

/// Wrappers for the models and tools of an agent and its sub-agents.
pub(super) struct WrappedParts {
    pub(super) shared: Shared,
    pub(super) of: AgentKey,
}

impl Parts for WrappedParts {
    fn model(&self, name: Option<&str>, model: &Arc<dyn ChatModel>) -> Arc<dyn ChatModel> {
        let (shared, of) = (self.shared.clone(), self.of.clone());
        Arc::new(CassetteModel::new(shared, of, name, model.clone()))
    }

    fn tool(&self, tool: &Arc<dyn Tool>) -> Arc<dyn Tool> {
        let (shared, of) = (self.shared.clone(), self.of.clone());
        Arc::new(CassetteTool::new(shared, of, "", tool.clone()))
    }

    fn source(&self, prefix: &str, source: &Arc<dyn ToolSource>) -> Arc<dyn ToolSource> {
        Arc::new(CassetteSource {
            shared: self.shared.clone(),
            of: self.of.clone(),
            prefix: prefix.to_owned(),
            source: source.clone(),
        })
    }

    fn of_child(&self, name: &str) -> Box<dyn Parts> {
        let AgentKey { agent, sub_agent } = &self.of;
        let sub_agent = match &**sub_agent {
            "" => name.to_owned(),
            parent => format!("{parent}/{name}"),
        };
        Box::new(WrappedParts {
            shared: self.shared.clone(),
            of: AgentKey { agent: *agent, sub_agent },
        })
    }
}
