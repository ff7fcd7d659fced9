//! What `run` and `chat` have in common: an agent made of the command line's options.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use loopwright_core::agent::AgentError;
use loopwright_core::model::{ModelError, ModelInfo, ToolChoice};
use loopwright_core::{BehaviorPattern, ChatModel, GenericAgent};
use loopwright_memory::SummaryCompaction;
use loopwright_patterns::{FirstCall, GenericPattern, PiPattern};
use loopwright_tools::{WorkspaceError, agents_md, coding_tools_with};
use serde_json::Value;

use crate::args::{Approve, Options, Pattern};
use crate::{model, print};

/// The system prompt where the user gives none; `{root}` stands for the directory.
const SYSTEM: &str = include_str!("system.md");

/// Nothing could be started; a sentence for the user.
#[derive(Debug)]
pub(crate) struct StartError(pub(crate) String);

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ModelError> for StartError {
    fn from(error: ModelError) -> Self {
        StartError(error.message)
    }
}

impl From<AgentError> for StartError {
    fn from(error: AgentError) -> Self {
        StartError(format!("The agent could not be started: {error}."))
    }
}

impl From<WorkspaceError> for StartError {
    fn from(error: WorkspaceError) -> Self {
        StartError(format!("{error}. Give a directory that exists with --root DIR."))
    }
}

/// The tools that the user has allowed for the rest of the session, which has one of its own.
/// Clones are the same set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowed(Arc<Mutex<HashSet<String>>>);

impl Allowed {
    /// From here on calls of this tool run without confirmation.
    pub(crate) fn add(&self, tool: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(tool.to_owned());
    }

    /// Whether calls of this tool run without confirmation.
    pub(crate) fn has(&self, tool: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }
}

/// An agent, and what a session of it keeps so that it can be opened again.
pub(crate) struct Built {
    pub(crate) agent: GenericAgent,
    pub(crate) model: ModelInfo,
    pub(crate) root: PathBuf,
    pub(crate) settings: Value,
}

/// The agent that the options describe. What the user should know about the choice of the model
/// goes to standard error.
pub(crate) async fn build(options: &Options, allowed: &Allowed) -> Result<Built, StartError> {
    let workspace = options.place.workspace()?;
    let root = workspace.root().to_owned();
    let mut system = match &options.system {
        Some(text) => text.clone(),
        None => SYSTEM.replace("{root}", &root.display().to_string()),
    };
    if !options.no_agents_md.unwrap_or_default() {
        match agents_md(&workspace) {
            Ok(said) => system.push_str(&said.unwrap_or_default()),
            Err(why) => print::complain(&format!(
                "{why}. The agent begins without it; --no-agents-md leaves it out."
            )),
        }
    }
    let tools = coding_tools_with(workspace, options.place.commands());
    let names: Vec<&str> = tools.names().collect();
    let mut approved = HashSet::new();
    for approve in &options.approve {
        match approve {
            Approve::Tool(name) if !names.contains(&name.as_str()) => {
                return Err(no_such_tool("--approve", name, "`all`, `read-only`", &names));
            }
            Approve::Tool(name) => {
                approved.insert(name.clone());
            }
            Approve::ReadOnly | Approve::All => {}
        }
    }
    let mut pattern: Arc<dyn BehaviorPattern> = match options.pattern.unwrap_or_default() {
        Pattern::Generic => Arc::new(GenericPattern),
        Pattern::Pi => Arc::new(PiPattern),
    };
    if let Some(name) = &options.tool_choice {
        let first = match name.as_str() {
            "required" => ToolChoice::Required,
            name if names.contains(&name) => ToolChoice::Tool(name.to_owned()),
            name => return Err(no_such_tool("--tool-choice", name, "`required`", &names)),
        };
        pattern = Arc::new(FirstCall::new(first, pattern));
    }
    let choice = model::choose(options).await?;
    if let (Some(note), false) = (&choice.note, options.quiet) {
        print::tell(note);
    }
    let model = options.model.clone().unwrap_or_else(|| choice.model.info().id.to_string());
    let settings = serde_json::to_value(options.to_keep(&model, &root));
    let settings =
        settings.map_err(|why| StartError(format!("The options cannot be kept: {why}.")))?;
    let info = choice.model.info().clone();
    let mut builder = GenericAgent::builder(choice.model, pattern);
    if options.approve.contains(&Approve::All) {
        builder = builder.auto_all();
    }
    if let Some(turns) = options.max_turns {
        builder = builder.max_turns(turns);
    }
    let allowed = allowed.clone();
    let builder = builder
        .auto_when(move |tool, _, _| approved.contains(&*tool.name) || allowed.has(&tool.name));
    let thinking = options.thinking.map(Into::into).unwrap_or_default();
    let builder = builder.compaction(SummaryCompaction::new());
    let agent = builder.system(system).thinking(thinking).tools(tools).build()?;
    Ok(Built { agent, model: info, root, settings })
}

fn no_such_tool(option: &str, name: &str, others: &str, names: &[&str]) -> StartError {
    StartError(format!(
        "{option} {name}: there is no such tool. Write {others} or one of: {}.",
        names.join(", ")
    ))
}
