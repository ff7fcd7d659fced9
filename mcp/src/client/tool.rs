//! [`RemoteTool`]: a tool of a server.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::tool::{ActionOptions, Approval, ToolSpec};
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput};
use rmcp::model::CallToolRequestParams;
use serde_json::Value;

use super::decode::{definition_of, spec_of};
use super::server::Server;

const CHANGED: &str = "The server has changed what it says about this tool since it was called \
    last: read the call with care.";

/// A listed tool of a server.
pub(super) struct RemoteTool {
    server: Arc<Server>,
    /// The name of the tool on the server.
    pub(super) name: Arc<str>,
    pub(super) definition: Arc<str>,
    /// `true` if calls need approval because the definition has changed.
    pub(super) is_changed: bool,
    spec: Arc<ToolSpec>,
}

impl RemoteTool {
    /// Converts a listed tool. The error tells what is wrong with it.
    pub(super) fn new(server: &Arc<Server>, tool: &rmcp::model::Tool) -> Result<Self, String> {
        let config = &server.options.config;
        let max_name = 64 - server.prefix().len();
        let definition: Arc<str> = definition_of(tool).into();
        let is_changed = server.is_changed(&tool.name, &definition);
        let spec = spec_of(tool, max_name, config.trust_annotations)?;
        let mut spec = spec.definition(definition.clone());
        if let Some(timeout) = config.timeout {
            spec = spec.timeout(timeout);
        }
        if is_changed {
            let options = ActionOptions::new().description(CHANGED);
            spec = spec.approval(Approval::Always).action_options(options);
        }
        // A title alone could be the title of another tool.
        spec.title = spec.title.map(|title| format!("{}: {title}", server.name()));
        let name = (*tool.name).into();
        let (server, spec) = (server.clone(), Arc::new(spec));
        Ok(RemoteTool { server, name, definition, is_changed, spec })
    }
}

#[async_trait]
impl Tool for RemoteTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, arguments: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        if let Some(decision) = cx.decision() {
            return self.server.resume_call(decision.data.clone(), &cx).await;
        }
        self.server.check_definition(&self.name, &self.definition).await?;
        self.server.accept(&self.name, &self.definition).await;
        let mut params = CallToolRequestParams::new(self.name.to_string());
        params.arguments = arguments.as_object().cloned();
        self.server.call_tool(params, &cx).await
    }
}
