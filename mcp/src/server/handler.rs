//! [`AgentServer`]: the requests of a client.

use std::io;
use std::sync::Arc;

use loopwright_core::json_schema::parameters;
use loopwright_core::tool::{Effect, ToolSpec};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, ServerInitializeError};
use rmcp::{ServerHandler, ServiceExt};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

use super::call::AgentCall;
use super::frames::{Frames, refusal};
use super::host::{ServedTool, SessionHost};
use super::in_progress::CallsInProgress;
use super::{reply, run};
use crate::lines::Lines;

/// The maximum number of calls in progress. Further calls wait.
const MAX_CALLS: u32 = 32;

/// A server of the tools of a [`SessionHost`], for one MCP client.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use loopwright_mcp::server::{AgentServer, SessionHost};
///
/// async fn serve(host: Arc<dyn SessionHost>) -> std::io::Result<()> {
///     let (input, output) = tokio::io::duplex(1024); // standard input and output, for example
///     AgentServer::new("acme", "1.0.0", host).serve(input, output).await
/// }
/// ```
pub struct AgentServer {
    implementation: Implementation,
    instructions: Option<String>,
    host: Arc<dyn SessionHost>,
    calls: Arc<Semaphore>,
    in_progress: CallsInProgress,
}

impl AgentServer {
    /// Returns a server with this name and version, which the client gets as `serverInfo`.
    pub fn new(
        name: impl Into<String>,
        version: impl Into<String>,
        host: Arc<dyn SessionHost>,
    ) -> Self {
        AgentServer {
            implementation: Implementation::new(name.into(), version.into()),
            instructions: None,
            host,
            calls: Arc::new(Semaphore::new(MAX_CALLS as usize)),
            in_progress: CallsInProgress::default(),
        }
    }

    /// Sets the instructions for the client's model.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Serves one client, whose messages are lines of JSON, until it disconnects. Calls in progress
    /// then have five seconds to end, and are aborted after that. Returns when their runs have
    /// ended.
    ///
    /// If the future is dropped, runs in progress continue to their end.
    ///
    /// # Errors
    ///
    /// Fails if the client does not begin with an initialization, or if the connection fails.
    pub async fn serve(
        self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> io::Result<()> {
        let calls = self.calls.clone();
        let lines = Lines::new(input, output, Frames);
        let service = match ServiceExt::<RoleServer>::serve(self, lines).await {
            Ok(service) => service,
            // The client has left before sending anything.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(why) => return Err(io::Error::other(why)),
        };
        let done = service.waiting().await;
        let _ = calls.acquire_many(MAX_CALLS).await; // never closed
        done.map(drop).map_err(io::Error::other)
    }
}

impl ServerHandler for AgentServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let config = ServerConfig::new(capabilities).with_server_info(self.implementation.clone());
        match &self.instructions {
            Some(text) => config.with_instructions(text.clone()),
            None => config,
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.host.tools().iter().map(described).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tools = self.host.tools();
        let Some(tool) = tools.iter().find(|tool| *tool.name == *request.name) else {
            let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
            let why = format!("There is no tool `{}`: use {}.", request.name, names.join(", "));
            return Err(ErrorData::invalid_params(why, None));
        };
        let _permit = self.calls.acquire().await; // never closed
        run::carry_out(&*self.host, tool, request, context, &self.in_progress).await
    }

    /// Answers the requests that the SDK cannot read.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(refusal(&request.method, &request.params.unwrap_or_default()))
    }
}

/// Returns the definition of a tool for the client.
fn described(tool: &ServedTool) -> Tool {
    let described = |schema: &Value| {
        Tool::new(tool.name.to_string(), tool.description.clone(), json_object(&parameters(schema)))
    };
    let Some(spec) = &tool.spec else {
        return described(&AgentCall::schema())
            .with_raw_output_schema(Arc::new(json_object(&reply::schema())));
    };
    let mut described = described(&spec.schema).with_annotations(annotations(spec));
    described.title.clone_from(&spec.title);
    described
}

/// Returns the hints for clients that follow from the tool's effect.
fn annotations(spec: &ToolSpec) -> ToolAnnotations {
    let hints = ToolAnnotations::new();
    match spec.effect {
        Effect::ReadOnly => hints.read_only(true),
        Effect::Idempotent => hints.read_only(false).idempotent(true),
        Effect::AtMostOnce => hints.read_only(false).idempotent(false),
    }
}

fn json_object(schema: &Value) -> JsonObject {
    schema.as_object().cloned().unwrap_or_default()
}
