//! The agent that the options describe.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use loopwright_core::model::{ModelInfo, ToolChoice};
use loopwright_core::tool::{AskUser, Toolbox};
use loopwright_core::{BehaviorPattern, GenericAgent};
use loopwright_memory::SummaryCompaction;
use loopwright_memory::long_term::LongTerm;
use loopwright_patterns::{
    Clarify, FirstCall, GenericPattern, PiPattern, PlanExecute, PlanFirst, ReAct, Reflect,
    SelfConsistency,
};
use loopwright_tools::{Workspace, agents_md, coding_tools_with};
use serde_json::Value;

use super::allowed::Allowed;
use super::model;
use crate::error::StartError;
use crate::facts;
use crate::options::{Approve, Options, Pattern};
use crate::output::{self, Verbosity};
use crate::settings::Settings;

/// The default system prompt; `{root}` stands for the directory.
const SYSTEM: &str = include_str!("system.md");

/// What an answer must be for `--pattern reflect`.
const RUBRIC: &str = "It must be correct, complete and to the point.";

/// The number of answers of `--pattern self-consistency`.
const SAMPLES: usize = 5;

/// Holds an agent, and what its session stores so that it can be continued.
pub(crate) struct Built {
    pub(crate) agent: GenericAgent,
    pub(crate) model: ModelInfo,
    pub(crate) root: PathBuf,
    /// The options, serialised.
    pub(crate) settings: Value,
}

/// Builds the agent that the settings describe. Notes about the choice of the model go to standard
/// error.
///
/// # Errors
///
/// Fails if the directory, the model or one of the tools that the options name does not exist.
pub(crate) async fn build(
    settings: &Settings,
    allowed: &Allowed,
    verbosity: Verbosity,
) -> Result<Built, StartError> {
    let options = &settings.active;
    let workspace = options.workspace.workspace()?;
    let root = workspace.root().to_owned();
    let system = system_prompt(options, &workspace);
    let memory = facts::open_if(options.memory)?;
    let tools = agent_tools(options, workspace, memory.as_ref())?;
    let names: Vec<&str> = tools.names().collect();
    let approved = approved_tools(&options.approve, &names)?;
    let pattern = pattern(options, &names)?;
    let choice = model::choose(options).await?;
    if let (Some(note), true) = (&choice.note, verbosity.notes()) {
        output::info(note);
    }
    let info = choice.model.info().clone();
    let model = options.model.clone().unwrap_or_else(|| info.id.to_string());
    let settings = serde_json::to_value(settings.to_store(&model, &root))
        .map_err(|why| StartError(format!("The options cannot be stored: {why}.")))?;
    let mut builder = GenericAgent::builder(choice.model, pattern);
    if options.approve.contains(&Approve::All) {
        builder = builder.auto_all();
    }
    if let Some(turns) = options.max_turns {
        builder = builder.max_turns(turns);
    }
    if let Some(memory) = &memory {
        builder = builder.hook(memory.hook());
    }
    let allowed = allowed.clone();
    let agent = builder
        .auto_when(move |tool, _, _| approved.contains(&*tool.name) || allowed.has(&tool.name))
        .session_limits(options.budget.budget())
        .compaction(SummaryCompaction::new())
        .system(system)
        .thinking(options.thinking.map(Into::into).unwrap_or_default())
        .tools(tools)
        .build()?;
    Ok(Built { agent, model: info, root, settings })
}

/// Returns the tools of the agent.
pub(crate) fn agent_tools(
    options: &Options,
    workspace: Workspace,
    memory: Option<&LongTerm>,
) -> Result<Toolbox, StartError> {
    let failed = |why| StartError(format!("The tools: {why}."));
    let mut tools = coding_tools_with(workspace, options.workspace.commands());
    if !options.no_questions.unwrap_or_default() {
        tools = tools.with(AskUser::new()).map_err(failed)?;
    }
    match memory {
        Some(memory) => tools.with_all(facts::tools(memory)).map_err(failed),
        None => Ok(tools),
    }
}

fn system_prompt(options: &Options, workspace: &Workspace) -> String {
    let mut system = match &options.system {
        Some(text) => text.clone(),
        None => SYSTEM.replace("{root}", &workspace.root().display().to_string()),
    };
    if !options.no_agents_md.unwrap_or_default() {
        match agents_md(workspace) {
            Ok(text) => system.push_str(&text.unwrap_or_default()),
            Err(why) => output::error(&format!(
                "{why}. The agent starts without it; --no-agents-md hides this message."
            )),
        }
    }
    system
}

/// Returns the tools that `--approve` names.
fn approved_tools(approve: &[Approve], names: &[&str]) -> Result<HashSet<String>, StartError> {
    let mut approved = HashSet::new();
    for approve in approve {
        match approve {
            Approve::Tool(name) if !names.contains(&name.as_str()) => {
                return Err(no_such_tool("--approve", name, "`all`, `read-only`", names));
            }
            Approve::Tool(name) => {
                approved.insert(name.clone());
            }
            Approve::ReadOnly | Approve::All => {}
        }
    }
    Ok(approved)
}

fn pattern(options: &Options, names: &[&str]) -> Result<Arc<dyn BehaviorPattern>, StartError> {
    let pattern: Arc<dyn BehaviorPattern> = match options.pattern.unwrap_or_default() {
        Pattern::Generic => Arc::new(GenericPattern),
        Pattern::Pi | Pattern::PlanFirst => Arc::new(PiPattern),
        Pattern::PlanExecute => Arc::new(PlanExecute::new(PiPattern)),
        Pattern::Reflect => Arc::new(Reflect::new(RUBRIC, PiPattern)),
        Pattern::SelfConsistency => Arc::new(SelfConsistency::new(SAMPLES)),
        Pattern::Clarify => Arc::new(Clarify::new(PiPattern)),
        Pattern::React => Arc::new(ReAct),
    };
    let pattern: Arc<dyn BehaviorPattern> = match options.tool_choice.as_deref() {
        None => pattern,
        Some("required") => Arc::new(FirstCall::new(ToolChoice::Required, pattern)),
        Some(name) if names.contains(&name) => {
            Arc::new(FirstCall::new(ToolChoice::Tool(name.to_owned()), pattern))
        }
        Some(name) => return Err(no_such_tool("--tool-choice", name, "`required`", names)),
    };
    // A plan comes before a forced call.
    Ok(match options.pattern {
        Some(Pattern::PlanFirst) => Arc::new(PlanFirst::new(pattern)),
        _ => Arc::new(PlanFirst::new(pattern).on_command("/plan")),
    })
}

fn no_such_tool(option: &str, name: &str, others: &str, names: &[&str]) -> StartError {
    StartError(format!(
        "{option} {name}: there is no such tool. Give {others} or one of: {}.",
        names.join(", ")
    ))
}
