//! [`Authorize`]: the tool that asks the user to authorize a server.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use loopwright_core::tool::{ActionOptions, Approval, Question, ToolSpec};
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::credentials::OfServer;
use super::flow::{Flow, Next};
use crate::client::config::Transport;
use crate::client::server::Server;

const NAME: &str = "authorize";
/// The answer that allows the named hosts.
const ALLOW: &str = "Allow";

/// The tool that asks the user to authorize a server, and stores the tokens.
pub(super) struct Authorize {
    server: Arc<Server>,
    url: String,
    tokens: OfServer,
    spec: Arc<ToolSpec>,
}

/// Returns the tool that asks the user to authorize the server, if the server requires it and the
/// user can be asked.
pub(in crate::client) fn tool(server: &Arc<Server>) -> Option<Arc<dyn Tool>> {
    let options = &server.options;
    let Transport::Http(endpoint) = &options.config.transport else { return None };
    let tokens = options.authorization.tokens(&options.config)?;
    let is_needed = options.asks && options.authorization.is_needed.load(Ordering::Relaxed);
    is_needed.then(|| Arc::new(Authorize::new(server.clone(), &endpoint.url, tokens)) as _)
}

impl Authorize {
    fn new(server: Arc<Server>, url: &str, tokens: OfServer) -> Self {
        let description = format!(
            "Asks the user to authorize the MCP server `{}`, which has no tools before.",
            server.name()
        );
        let schema = json!({ "type": "object", "properties": {}, "additionalProperties": false });
        let spec = ToolSpec::with_schema(NAME, description, schema);
        let asks = format!("Asks `{url}` where its users log in. Other hosts are asked about.");
        let options = ActionOptions::new().description(asks);
        let spec = Arc::new(spec.approval(Approval::Always).action_options(options));
        Authorize { server, url: url.to_owned(), tokens, spec }
    }

    /// Registers this client and returns the question to the user: whether to allow hosts that the
    /// server names, or to open the login page. The error is a sentence without a full stop.
    async fn ask(&self) -> Result<ToolError, String> {
        let name = self.server.name();
        let next = Flow::register(&self.url, self.tokens.clone()).await?;
        let question = match &next {
            Next::Allow(origins) => {
                let origins: Vec<&str> = origins.iter().map(String::as_str).collect();
                let text = format!(
                    "The MCP server `{name}` names these hosts for its authorization. Allow that \
                     they are contacted?\n{}",
                    origins.join("\n")
                );
                Question::choice(text, [ALLOW, "Refuse"])
            }
            Next::Open(flow) => Question::text(format!(
                "Authorize `{name}`: open this page, check its address, log in, and answer `done`. \
                 If the last page cannot be shown, answer with its address.\n{}",
                flow.page()
            )),
        };
        self.replace_flow(Some(next));
        Ok(question.suspend())
    }

    /// Replaces the authorization that awaits the user, and returns the previous one.
    fn replace_flow(&self, flow: Option<Next>) -> Option<Next> {
        let mut current =
            self.server.options.authorization.flow.lock().unwrap_or_else(PoisonError::into_inner);
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
            return Err(self.ask().await.map_err(failed)?);
        };
        let flow = match self.replace_flow(None) {
            Some(Next::Open(flow)) => flow,
            Some(Next::Allow(_)) if decision.data != ALLOW => {
                return Err(failed("the user does not allow the hosts that it names".into()));
            }
            Some(Next::Allow(origins)) => {
                let OfServer { credentials, key } = self.tokens.clone();
                let allowed = spawn_blocking(move || credentials.allow(&key, origins)).await;
                if let Ok(Err(why)) = allowed {
                    return Err(failed(why.to_string()));
                }
                return Err(self.ask().await.map_err(failed)?);
            }
            None => {
                let why = "another process has started it: call the tool once more";
                return Err(failed(why.into()));
            }
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
