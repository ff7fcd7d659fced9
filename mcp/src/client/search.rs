//! [`ToolSearch`]: many tools, offered to a model once it has searched for them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use loopwright_core::agent::AgentBuilder;
use loopwright_core::tool::{Approval, Effect, ToolSpec};
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput, excerpt};
use serde::Deserialize;
use serde_json::{Value, json};

use super::McpServer;

const NAME: &str = "tool_search";
/// The maximum number of tools in a result.
const MAX_FOUND: usize = 10;
/// The maximum length of a description in a result.
const MAX_DESCRIPTION_BYTES: usize = 300;

/// The tools of MCP servers, offered to an agent on demand.
///
/// If the servers have too many tools, requests leave them out. The tool `tool_search` finds them
/// by words, and offers the found ones from the next request on. This saves sending hundreds of
/// schemas to a model.
///
/// Found tools are kept for the agent, and so for one session.
///
/// ```no_run
/// use loopwright_core::GenericAgent;
/// use loopwright_core::testing::ScriptedModel;
/// use loopwright_mcp::{McpServer, ServerConfig, ToolSearch};
/// use loopwright_patterns::PiPattern;
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let model = ScriptedModel::new([]);
/// let settings = json!({ "url": "https://example.org/mcp" });
/// let server = McpServer::builder(ServerConfig::read("example", &settings)?).build();
/// let agent = GenericAgent::builder(model, PiPattern);
/// let agent = ToolSearch::new([server]).max_tools(40).add_to(agent).build()?;
/// # Ok(()) }
/// ```
pub struct ToolSearch {
    servers: Vec<McpServer>,
    max_tools: usize,
}

/// The state shared by the tool and the hook.
struct Deferred {
    servers: Vec<McpServer>,
    max_tools: usize,
    found: Mutex<HashSet<String>>,
}

struct SearchTool {
    deferred: Arc<Deferred>,
    spec: Arc<ToolSpec>,
}

#[derive(Deserialize)]
struct Arguments {
    query: String,
}

impl ToolSearch {
    /// Offers the tools of these servers on demand if there are more than 40.
    pub fn new(servers: impl IntoIterator<Item = McpServer>) -> Self {
        ToolSearch { servers: servers.into_iter().collect(), max_tools: 40 }
    }

    /// Sets the number of tools, of all servers together, that are offered without a search.
    pub fn max_tools(mut self, count: usize) -> Self {
        self.max_tools = count;
        self
    }

    /// Adds the servers and the search tool to an agent.
    pub fn add_to(self, agent: AgentBuilder) -> AgentBuilder {
        let ToolSearch { servers, max_tools } = self;
        let add = |agent: AgentBuilder, server: &McpServer| {
            agent.tool_source(server.prefix(), server.clone())
        };
        let agent = servers.iter().fold(agent, add);
        let deferred = Arc::new(Deferred { servers, max_tools, found: Mutex::default() });
        let tool = SearchTool::new(deferred.clone());
        agent.tool(tool).offers_tool(move |_, _, spec| deferred.offers(&spec.name))
    }
}

impl Deferred {
    fn found(&self) -> MutexGuard<'_, HashSet<String>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_active(&self) -> bool {
        let count = self.servers.iter().map(|server| server.listed().tools.len());
        count.sum::<usize>() > self.max_tools
    }

    /// Returns whether requests contain the tool of this name.
    fn offers(&self, name: &str) -> bool {
        if name == NAME {
            return self.is_active();
        }
        let is_of_server = self.servers.iter().any(|server| name.starts_with(&server.prefix()));
        !is_of_server || !self.is_active() || self.found().contains(name)
    }

    /// Returns the tools that match the words best, and offers them from now on.
    fn search(&self, query: &str) -> Vec<String> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let mut hits: Vec<(usize, String, String)> = Vec::new();
        for server in &self.servers {
            for tool in server.listed().tools.iter() {
                let spec = tool.spec();
                let name = format!("{}{}", server.prefix(), spec.name);
                let score = score(&words, &name, &spec.description);
                if score > 0 {
                    let description = excerpt::bytes(&spec.description, MAX_DESCRIPTION_BYTES);
                    hits.push((score, name, description));
                }
            }
        }
        hits.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        hits.truncate(MAX_FOUND);
        self.found().extend(hits.iter().map(|(_, name, _)| name.clone()));
        hits.into_iter().map(|(_, name, about)| format!("{name}: {about}")).collect()
    }
}

/// Returns a score: one for each word in the description, three for each in the name.
fn score(words: &[String], name: &str, description: &str) -> usize {
    let (name, description) = (name.to_lowercase(), description.to_lowercase());
    let of_word = |word: &String| {
        3 * usize::from(name.contains(word)) + usize::from(description.contains(word))
    };
    words.iter().map(of_word).sum()
}

impl SearchTool {
    fn new(deferred: Arc<Deferred>) -> Self {
        let names: Vec<&str> = deferred.servers.iter().map(McpServer::name).collect();
        let description = format!(
            "Searches the tools of these servers by words of their names and descriptions: {}. \
             What it finds can be called from then on. Search before you say that something is not \
             possible.",
            names.join(", ")
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "Words, such as `create issue`." },
            },
            "required": ["query"],
            "additionalProperties": false,
        });
        let spec = ToolSpec::with_schema(NAME, description, schema).title("Search tools");
        let spec = spec.effect(Effect::ReadOnly).approval(Approval::Never);
        SearchTool { deferred, spec: Arc::new(spec) }
    }
}

#[async_trait]
impl Tool for SearchTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn check_arguments(&self, arguments: &Value) -> Option<Result<(), String>> {
        Some(Arguments::deserialize(arguments).map(drop).map_err(|why| why.to_string()))
    }

    async fn call(&self, arguments: &Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let Arguments { query } = Arguments::deserialize(arguments).map_err(ToolError::failed)?;
        let found = self.deferred.search(&query);
        Ok(ToolOutput::text(match found.is_empty() {
            true => "No tool has these words: try others.".to_owned(),
            false => found.join("\n"),
        }))
    }
}
