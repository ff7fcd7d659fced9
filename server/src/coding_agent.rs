//! [`CodingAgents`]: agents that work on files below the server's roots, each made of what its
//! client asks for.

mod models;
mod roots;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::hooks::BeforeToolCall;
use loopwright_core::model::{ModelError, ModelErrorKind};
use loopwright_core::tool::{Approval, AskUser, Effect};
use loopwright_core::{AgentBuilder, GenericAgent};
use loopwright_memory::SummaryCompaction;
#[cfg(feature = "long-term")]
use loopwright_memory::long_term::LongTerm;
use loopwright_patterns::{PiPattern, PlanFirst};
use loopwright_providers::Provider;
use loopwright_tools::{Commands, Workspace, agents_md, coding_tools_with};

pub use self::models::{EnvModels, Models};
use self::roots::Roots;
use crate::agents::{AgentRejection, Agents};
use crate::error::ConfigError;
use crate::settings::{ChatSettings, LlmConfig, SessionSettings};

/// The system prompt; `{workDir}` and `{platform}` are filled in.
const SYSTEM_PROMPT: &str = include_str!("coding_agent/system.md");
/// Headers that carry a key.
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// Builds a coding agent for each session and each request: with the model that the client names,
/// the coding tools in the directory that it names, and the approvals that it asks for.
///
/// ```
/// use loopwright_server::{CodingAgents, EnvModels, Server};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let models = EnvModels::default().default_model("offline", None);
/// let agents = CodingAgents::builder(models).root(".").build()?;
/// let server = Server::builder(agents).build()?;
/// # Ok(()) }
/// ```
pub struct CodingAgents {
    models: Box<dyn Models>,
    /// The model of sessions that name none.
    default_model: Option<String>,
    roots: Roots,
    commands: Commands,
    agents_md: bool,
    questions: bool,
    #[cfg(feature = "long-term")]
    long_term: Option<LongTerm>,
}

/// Configures [`CodingAgents`].
#[must_use = "call build()"]
pub struct CodingAgentsBuilder {
    models: Box<dyn Models>,
    roots: Vec<PathBuf>,
    unprotected: Vec<PathBuf>,
    commands: Commands,
    agents_md: bool,
    questions: bool,
    #[cfg(feature = "long-term")]
    long_term: Option<LongTerm>,
}

impl CodingAgents {
    /// Starts to configure coding agents that use these models.
    pub fn builder(models: impl Models + 'static) -> CodingAgentsBuilder {
        CodingAgentsBuilder {
            models: Box::new(models),
            roots: Vec::new(),
            unprotected: Vec::new(),
            commands: Commands::new(),
            agents_md: true,
            questions: true,
            #[cfg(feature = "long-term")]
            long_term: None,
        }
    }

    async fn workspace(&self, dir: String) -> Result<Workspace, AgentRejection> {
        self.roots.workspace(dir).await
    }
}

impl CodingAgentsBuilder {
    /// Adds a directory that clients may work in, and in those below it. Defaults to the current
    /// directory.
    pub fn root(mut self, dir: impl Into<PathBuf>) -> Self {
        self.roots.push(dir.into());
        self
    }

    /// Lifts the protection of a file or directory, relative to the directory of each session; `.`
    /// stands for all. See [`Workspace::unprotected`].
    pub fn unprotected(mut self, path: impl Into<PathBuf>) -> Self {
        self.unprotected.push(path.into());
        self
    }

    /// Sets what commands may do. By default they are confined and have no network.
    pub fn commands(mut self, commands: Commands) -> Self {
        self.commands = commands;
        self
    }

    /// Leaves `AGENTS.md` in the directory of a live session out of its system prompt. By default
    /// it is appended.
    pub fn no_agents_md(mut self) -> Self {
        self.agents_md = false;
        self
    }

    /// Does not offer models the tool [`AskUser`]. By default live sessions have it. Requests to
    /// `/api/agent-chat` never do: nobody can answer while they stream.
    pub fn no_questions(mut self) -> Self {
        self.questions = false;
        self
    }

    /// Lets live sessions remember facts: they have the tools of this memory, and its hook adds the
    /// facts that fit a request to it. The facts are those about the principal of the session, see
    /// [`ServerBuilder::principal`](crate::ServerBuilder::principal). Requests to `/api/agent-chat`
    /// have no memory. A session's `autoApprove` decides whether `remember_fact` and `forget_fact`
    /// run without approval.
    #[cfg(feature = "long-term")]
    pub fn long_term(mut self, memory: LongTerm) -> Self {
        self.long_term = Some(memory);
        self
    }

    /// Builds the agents.
    ///
    /// # Errors
    /// Returns a [`ConfigError`] if a root is not a directory.
    pub fn build(mut self) -> Result<CodingAgents, ConfigError> {
        if self.roots.is_empty() {
            self.roots.push(".".into());
        }
        let default_model = self.models.named(None, None).ok();
        Ok(CodingAgents {
            default_model: default_model.map(|model| model.info().id.to_string()),
            roots: Roots::open(&self.roots, &self.unprotected)?,
            models: self.models,
            commands: self.commands,
            agents_md: self.agents_md,
            questions: self.questions,
            #[cfg(feature = "long-term")]
            long_term: self.long_term,
        })
    }
}

#[async_trait]
impl Agents for CodingAgents {
    async fn for_session(
        &self,
        settings: &SessionSettings,
    ) -> Result<GenericAgent, AgentRejection> {
        let model = self
            .models
            .named(settings.model.as_deref(), settings.base_url.as_deref())
            // Not 401: the server has no key for this model, and no token of the client helps.
            .map_err(|error| AgentRejection::bad_request("/model", error.message))?;
        let dir = settings.work_dir.clone().unwrap_or_else(|| ".".into());
        let workspace = self.workspace(dir).await?;
        let mut system = settings.system.clone().unwrap_or_else(|| system_prompt(&workspace));
        if self.agents_md {
            system.push_str(&project_instructions(workspace.clone()).await);
        }
        let mut tools = coding_tools_with(workspace, self.commands.clone());
        if self.questions {
            tools = tools.with(AskUser::new()).map_err(|why| {
                AgentRejection::internal(format!("The tool `ask_user` cannot be added: {why}."))
            })?;
        }
        #[cfg(feature = "long-term")]
        if let Some(memory) = &self.long_term {
            // What a model reads can ask it to remember something false, or to forget.
            let of_memory = memory
                .tools()
                .approve_remember(Approval::ByEffect)
                .approve_forget(Approval::ByEffect);
            tools = tools.with_all(of_memory).map_err(|why| {
                AgentRejection::internal(format!("The memory's tools cannot be added: {why}."))
            })?;
        }
        let names: Vec<&str> = tools.names().collect();
        let pattern = PlanFirst::new(PiPattern).on_command("/plan");
        let builder = GenericAgent::builder(model, pattern)
            .system(system)
            .compaction(SummaryCompaction::new());
        #[cfg(feature = "long-term")]
        let builder = match &self.long_term {
            Some(memory) => builder.hook(memory.hook()),
            None => builder,
        };
        let approved = settings.auto_approve.as_deref().unwrap_or_default();
        Ok(auto_approve(builder, approved, &names)?.tools(tools).build()?)
    }

    fn with_defaults(&self, settings: SessionSettings) -> SessionSettings {
        SessionSettings {
            work_dir: self.roots.absolute(settings.work_dir.as_deref()),
            model: settings.model.or_else(|| self.default_model.clone()),
            ..settings
        }
    }

    async fn for_chat(&self, settings: &ChatSettings) -> Result<GenericAgent, AgentRejection> {
        let config = &settings.llm_config;
        check_model(config)?;
        let model = self.models.configured(config).map_err(model_rejection)?;
        let workspace = self.workspace(settings.work_dir.clone()).await?;
        let mut builder = GenericAgent::builder(model, PiPattern)
            .system(system_prompt(&workspace))
            .compaction(SummaryCompaction::new())
            .auto_all();
        builder = deny_unapprovable(builder);
        if let Some(temperature) = config.temperature {
            builder = builder.temperature(temperature);
        }
        if let Some(tokens) = config.max_tokens {
            builder = builder.max_tokens(tokens);
        }
        if settings.confirm || settings.auto_approve.is_some() {
            builder = deny_unlisted(builder, settings.auto_approve.clone().unwrap_or_default());
        }
        let tools = coding_tools_with(workspace, self.commands.clone());
        Ok(builder.tools(tools).build()?)
    }
}

/// Rejects a model configuration without a model, or without a key where the provider needs one.
fn check_model(config: &LlmConfig) -> Result<(), AgentRejection> {
    let has_key = config.api_key.as_deref().is_some_and(|key| !key.trim().is_empty());
    let has_key_header =
        config.headers.keys().any(|name| KEY_HEADERS.contains(&name.to_lowercase().as_str()));
    let needs_no_key = config.provider.as_deref().is_some_and(|name| {
        name == "offline" || Provider::named(name).is_some_and(|provider| provider.local)
    });
    if !has_key && !has_key_header && !needs_no_key {
        return Err(AgentRejection::unauthorized(
            "/llmConfig/apiKey",
            "There is no API key: give the key of your model's provider in `llmConfig.apiKey`.",
        ));
    }
    if config.model.trim().is_empty() {
        return Err(AgentRejection::bad_request(
            "/llmConfig/model",
            "There is no model: give its name, such as `gpt-4o-mini`.",
        ));
    }
    Ok(())
}

fn model_rejection(error: ModelError) -> AgentRejection {
    match error.kind {
        ModelErrorKind::Auth => AgentRejection::unauthorized("/llmConfig", error.message),
        _ => AgentRejection::bad_request("/llmConfig", error.message),
    }
}

fn system_prompt(workspace: &Workspace) -> String {
    SYSTEM_PROMPT
        .replace("{workDir}", &workspace.root().display().to_string())
        .replace("{platform}", std::env::consts::OS)
}

/// Reads `AGENTS.md` of the workspace. Returns an empty text if it cannot be read.
async fn project_instructions(workspace: Workspace) -> String {
    match tokio::task::spawn_blocking(move || agents_md(&workspace)).await {
        Ok(Ok(text)) => text.unwrap_or_default(),
        Ok(Err(error)) => {
            tracing::warn!(%error, "AGENTS.md cannot be read; the session starts without it");
            String::new()
        }
        Err(_) => String::new(), // the runtime shuts down
    }
}

/// Lets the listed tools run without approval.
fn auto_approve(
    builder: AgentBuilder,
    approved: &[String],
    tools: &[&str],
) -> Result<AgentBuilder, AgentRejection> {
    if approved.iter().any(|name| name == "all") {
        return Ok(builder.auto_all());
    }
    let unknown = approved.iter().enumerate().find(|(_, name)| !tools.contains(&name.as_str()));
    match unknown {
        Some((index, name)) => Err(AgentRejection::bad_request(
            format!("/autoApprove/{index}"),
            format!("There is no tool `{name}`. Write `all`, or one of: {}.", tools.join(", ")),
        )),
        None => Ok(builder.auto_tools(approved.iter().cloned())),
    }
}

/// Denies calls that change something, unless their tool is listed.
fn deny_unlisted(builder: AgentBuilder, approved: Vec<String>) -> AgentBuilder {
    let approved: Arc<[String]> = approved.into();
    builder.before_tool_call(move |call| {
        let name = &call.tool.name;
        let allowed = call.tool.effect == Effect::ReadOnly
            || approved.iter().any(|approved| **approved == **name);
        std::future::ready(match allowed {
            true => BeforeToolCall::Proceed,
            false => BeforeToolCall::Block(denial(name)),
        })
    })
}

/// Denies calls that need approval whatever the rules say, such as changes of protected files.
fn deny_unapprovable(builder: AgentBuilder) -> AgentBuilder {
    builder.before_tool_call(|call| {
        let asks = match &call.tool.needs_approval {
            Approval::AlwaysIf(asks) => asks(&call.arguments, &call.extensions),
            _ => false,
        };
        std::future::ready(match asks {
            true => BeforeToolCall::Block(format!(
                "`{}` was not run: this file is protected, because the user's own tools run it, \
                 and nobody can approve the change here. Say what should be changed in it.",
                call.tool.name
            )),
            false => BeforeToolCall::Proceed,
        })
    })
}

/// Returns what the model reads of a call that needs an approval, which nobody can give while the
/// request streams.
fn denial(tool: &str) -> String {
    format!(
        "`{tool}` needs the user's approval, and was not run. Say what you want to do with it and \
         why; the user can allow it with the next message."
    )
}
