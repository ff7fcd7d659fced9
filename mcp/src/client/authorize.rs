//! [`Authorize`]: the tool with which the user authorizes a server.

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use loopwright_core::pattern::Question;
use loopwright_core::tool::{Approval, ToolSpec};
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput};
use serde_json::{Value, json};

use super::credentials::OfServer;
use super::oauth::Flow;
use super::server::Server;

/// The name of the tool.
const NAME: &str = "authorize";

/// Asks the user to authorize a server, and stores the tokens.
pub(super) struct Authorize {
    server: Arc<Server>,
    url: String,
    tokens: OfServer,
    spec: Arc<ToolSpec>,
}

impl Authorize {
    pub(super) fn new(server: Arc<Server>, url: &str, tokens: OfServer) -> Self {
        let description = format!(
            "Asks the user to authorize the MCP server `{}`, which has no tools before.",
            server.name()
        );
        let schema = json!({ "type": "object", "properties": {}, "additionalProperties": false });
        let spec = ToolSpec::with_schema(NAME, description, schema);
        // It asks the user itself.
        let spec = Arc::new(spec.needs_approval(Approval::Never));
        Authorize { server, url: url.to_owned(), tokens, spec }
    }

    /// Replaces the authorization that the user was asked for.
    fn replace_flow(&self, flow: Option<Flow>) -> Option<Flow> {
        let mut current = self.server.flow.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut current, flow)
    }
}

#[async_trait]
impl Tool for Authorize {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, _: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let name = self.server.name();
        let failed = |why: String| {
            ToolError::Failed(format!("The MCP server `{name}` was not authorized: {why}."))
        };
        let Some(decision) = cx.decision() else {
            let flow = Flow::register(&self.url, self.tokens.clone()).await.map_err(failed)?;
            let question = Question::text(format!(
                "Authorize `{name}`: open this page, check its address, log in, and answer `done`. \
                 If the last page cannot be shown, answer with its address.\n{}",
                flow.page()
            ));
            self.replace_flow(Some(flow));
            return Err(question.suspend());
        };
        let Some(flow) = self.replace_flow(None) else {
            let why = "another process has started it: call the tool once more";
            return Err(failed(why.into()));
        };
        let answer = decision.data.as_str().unwrap_or_default();
        flow.exchange(answer).await.map_err(failed)?;
        self.server.forget_failure().await;
        Ok(ToolOutput::text(format!(
            "The MCP server `{name}` is authorized. Its tools can be called after the user's next \
             message."
        )))
    }
}
