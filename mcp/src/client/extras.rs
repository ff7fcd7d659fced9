//! Tools for the resources and prompts of a server (MCP, *Resources* and *Prompts*). They are named
//! after the protocol's methods: `resources_list`, `resources_read`, `prompts_list`, `prompts_get`.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::message::Content;
use loopwright_core::tool::{Effect, ToolSpec};
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput, excerpt};
use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, PaginatedRequestParams, ReadResourceRequestParams,
    Role,
};
use rmcp::{Peer, RoleClient, ServiceError};
use serde_json::{Value, json};

use super::connection::Connection;
use super::decode::{contents, resource_content};
use super::exchange::failure;
use super::repair::left_out;
use super::server::Server;

/// The maximum length of a description in a list of resources or prompts.
const MAX_LINE_BYTES: usize = 500;

/// The method that a tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    ListResources,
    ReadResource,
    ListPrompts,
    GetPrompt,
}

struct Extra {
    server: Arc<Server>,
    method: Method,
    spec: Arc<ToolSpec>,
}

/// Returns the tools for the server's resources and prompts, except those whose name is taken by
/// one of the server's own tools.
pub(super) fn tools(
    server: &Arc<Server>,
    connection: &Connection,
    is_free: impl Fn(&str) -> bool,
) -> Vec<Arc<dyn Tool>> {
    let Some(info) = connection.info() else { return Vec::new() };
    let mut methods = Vec::new();
    if info.capabilities.resources.is_some() {
        methods.extend([Method::ListResources, Method::ReadResource]);
    }
    if info.capabilities.prompts.is_some() {
        methods.extend([Method::ListPrompts, Method::GetPrompt]);
    }
    let tool = |method| {
        let spec = Arc::new(spec(server.name(), method));
        Arc::new(Extra { server: server.clone(), method, spec }) as Arc<dyn Tool>
    };
    methods.into_iter().filter(|method| is_free(method.name())).map(tool).collect()
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Method::ListResources => "resources_list",
            Method::ReadResource => "resources_read",
            Method::ListPrompts => "prompts_list",
            Method::GetPrompt => "prompts_get",
        }
    }
}

fn spec(server: &str, method: Method) -> ToolSpec {
    let cursor = json!({
        "type": "object",
        "properties": { "cursor": { "type": "string", "description": "Where to continue." } },
        "additionalProperties": false,
    });
    let (what, schema) = match method {
        Method::ListResources => ("Lists the resources", cursor),
        Method::ListPrompts => ("Lists the prompts", cursor),
        Method::ReadResource => (
            "Reads a resource",
            json!({
                "type": "object",
                "properties": { "uri": { "type": "string" } },
                "required": ["uri"],
                "additionalProperties": false,
            }),
        ),
        Method::GetPrompt => (
            "Returns the messages of a prompt",
            json!({
                "type": "object",
                "properties": {
                    "name": { "type": "string" },
                    "arguments": {
                        "type": "object",
                        "additionalProperties": { "type": "string" },
                    },
                },
                "required": ["name"],
                "additionalProperties": false,
            }),
        ),
    };
    let description = format!("{what} of the MCP server `{server}`.");
    // By the protocol reading changes nothing, but a server can do anything.
    ToolSpec::with_schema(method.name(), description, schema).effect(Effect::Idempotent)
}

#[async_trait]
impl Tool for Extra {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, arguments: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let server = &self.server;
        let connection = server.connect().await?;
        tokio::select! {
            biased;
            () = cx.cancelled() => Err(ToolError::Cancelled),
            answer = request(connection.peer(), self.method, arguments) => {
                answer.map_err(|why| failure(server.name(), why))
            }
        }
    }
}

async fn request(
    peer: &Peer<RoleClient>,
    method: Method,
    arguments: &Value,
) -> Result<ToolOutput, ServiceError> {
    let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
    let cursor = arguments["cursor"].as_str().map(str::to_owned);
    let page = Some(PaginatedRequestParams::default().with_cursor(cursor));
    match method {
        Method::ListResources => {
            let listed = peer.list_resources(page).await?;
            let lines = listed.resources.iter().map(|resource| {
                let about = resource.description.as_deref().unwrap_or_default();
                excerpt::bytes(
                    &format!("{} ({}) {about}", resource.uri, resource.name),
                    MAX_LINE_BYTES,
                )
            });
            Ok(list(lines, listed.next_cursor, &left_out(listed.meta)))
        }
        Method::ListPrompts => {
            let listed = peer.list_prompts(page).await?;
            let lines = listed.prompts.iter().map(|prompt| {
                let arguments = prompt.arguments.iter().flatten();
                let names: Vec<&str> = arguments.map(|argument| argument.name.as_str()).collect();
                let about = prompt.description.as_deref().unwrap_or_default();
                excerpt::bytes(
                    &format!("{}({}) {about}", prompt.name, names.join(", ")),
                    MAX_LINE_BYTES,
                )
            });
            Ok(list(lines, listed.next_cursor, &left_out(listed.meta)))
        }
        Method::ReadResource => {
            let read = peer.read_resource(ReadResourceRequestParams::new(text("uri"))).await?;
            let mut images = 0;
            let content = read.contents.into_iter();
            let content = content.map(|item| resource_content(item, &mut images)).collect();
            Ok(output(content))
        }
        Method::GetPrompt => {
            let mut params = GetPromptRequestParams::new(text("name"));
            params.arguments = arguments["arguments"].as_object().cloned();
            Ok(output(prompt(peer.get_prompt(params).await?)))
        }
    }
}

fn prompt(prompt: GetPromptResult) -> Vec<Content> {
    let messages = prompt.messages.into_iter().flat_map(|message| {
        let role = if message.role == Role::User { "user" } else { "assistant" };
        [Content::text(format!("[{role}]"))].into_iter().chain(contents(vec![message.content]))
    });
    messages.collect()
}

fn list(
    lines: impl Iterator<Item = String>,
    next: Option<String>,
    left_out: &[String],
) -> ToolOutput {
    let mut lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        lines.push("There are none.".into());
    }
    if !left_out.is_empty() {
        lines.push(format!("Left out, as they cannot be read: {}.", left_out.join("; ")));
    }
    if let Some(cursor) = next {
        lines.push(format!("There are more: continue with the cursor {cursor:?}."));
    }
    ToolOutput::text(lines.join("\n"))
}

fn output(content: Vec<Content>) -> ToolOutput {
    match content.is_empty() {
        true => ToolOutput::text("It is empty."),
        false => {
            let mut output = ToolOutput::default();
            output.content = content;
            output
        }
    }
}
