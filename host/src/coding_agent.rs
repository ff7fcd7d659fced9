//! [`CodingAgent`]: an agent that works on the files of a directory.

mod env_models;
mod loops;
mod roots;

use std::path::PathBuf;
#[cfg(feature = "long-term")]
use std::sync::Arc;

use async_trait::async_trait;
#[cfg(feature = "long-term")]
use loopwright_core::BehaviorPattern;
use loopwright_core::GenericAgent;
use loopwright_core::agent::AgentBuilder;
use loopwright_core::event::ExternalAction;
use loopwright_core::limits::{Limits, LoopGuard, WrapUp};
use loopwright_core::session::Call;
#[cfg(feature = "long-term")]
use loopwright_core::tool::Approval;
use loopwright_core::tool::{AskUser, Todo, Toolbox, ToolboxError};
use loopwright_memory::SummaryCompaction;
#[cfg(feature = "long-term")]
use loopwright_memory::long_term::{DISTIL_COMMAND, Distil, LongTerm};
use loopwright_tools::{Commands, Workspace, agents_md, coding_tools_with, preview};
use serde_json::{Value, json};

pub use self::env_models::EnvModels;
use self::roots::Roots;
use crate::agents::{AgentFactory, AgentSetup};
use crate::error::ConfigError;
use crate::rejection::AgentRejection;
use crate::settings::SessionSettings;

/// The tool that runs commands.
const EXECUTE_COMMAND: &str = "execute_command";

/// The system prompt; `{workDir}` and `{platform}` are filled in.
const SYSTEM_PROMPT: &str = include_str!("coding_agent/system.md");

/// A coding agent, built for each session and each request with the model that it names and the
/// coding tools in its directory.
///
/// ```
/// use std::sync::Arc;
///
/// use loopwright_host::{AgentFactory, AgentSetup, CodingAgent, EnvModels, SessionSettings};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut settings = SessionSettings::new();
/// settings.model = Some("offline".into());
/// let setup = AgentSetup::new(settings).models(Arc::new(EnvModels::default()));
/// let agent = CodingAgent::builder().root(".").build()?.build(&setup).await?;
/// # let _ = agent;
/// # Ok(()) }
/// ```
pub struct CodingAgent {
    /// The allowed directories; `None` if all are allowed.
    roots: Option<Roots>,
    commands: Commands,
    system: Option<String>,
    extensions: Vec<Extend>,
    #[cfg(feature = "long-term")]
    long_term: Option<LongTerm>,
}

/// A host's function that extends the agent of a session.
type Extend = Box<
    dyn Fn(AgentBuilder, &AgentSetup, &Workspace) -> Result<AgentBuilder, AgentRejection>
        + Send
        + Sync,
>;

/// Builder for a [`CodingAgent`].
#[must_use = "call build()"]
#[derive(Default)]
pub struct CodingAgentBuilder {
    roots: Vec<PathBuf>,
    any_directory: bool,
    commands: Commands,
    system: Option<String>,
    extensions: Vec<Extend>,
    #[cfg(feature = "long-term")]
    long_term: Option<LongTerm>,
}

impl CodingAgent {
    /// Starts to configure a coding agent.
    pub fn builder() -> CodingAgentBuilder {
        CodingAgentBuilder::default()
    }
}

impl CodingAgentBuilder {
    /// Adds a directory that sessions may work in, including its subdirectories. Defaults to the
    /// current directory.
    pub fn root(mut self, dir: impl Into<PathBuf>) -> Self {
        self.roots.push(dir.into());
        self
    }

    /// Lets sessions work in any directory, whatever the [roots](Self::root) are. This is for
    /// programs whose user chooses the directory, such as a terminal app: clients of a server could
    /// read and change all files.
    pub fn any_directory(mut self) -> Self {
        self.any_directory = true;
        self
    }

    /// Sets the permissions of commands. The settings of a session can add to them. By default
    /// commands are confined and have no network.
    pub fn commands(mut self, commands: Commands) -> Self {
        self.commands = commands;
        self
    }

    /// Sets the system prompt of sessions without one of their own. `{workDir}` stands for the
    /// directory, and `{platform}` for the operating system. Defaults to the server's prompt
    /// (`ServerBuilder::system`), else to the built-in one.
    /// Requests to `/api/agent-chat` always use the built-in one.
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.system = Some(prompt.into());
        self
    }

    /// Extends the agent of each live session, for example with the tools of tool servers. `extend`
    /// gets the settings of the session and its directory. It is not called for requests to
    /// `/api/agent-chat`.
    pub fn extend<F>(mut self, extend: F) -> Self
    where
        F: Fn(AgentBuilder, &AgentSetup, &Workspace) -> Result<AgentBuilder, AgentRejection>
            + Send
            + Sync
            + 'static,
    {
        self.extensions.push(Box::new(extend));
        self
    }

    /// Lets live sessions remember facts. They get the tools of this memory, and its hook adds the
    /// facts that fit a request to it. The request `/memory distil` stores the facts of the
    /// conversation. The end of a session does the same if its settings have
    /// [`distil_at_end`](SessionSettings::distil_at_end).
    ///
    /// The facts belong to the principal of the session, see
    /// `ServerBuilder::principal`. Requests to `/api/agent-chat`
    /// have no memory, nor have sessions whose [`memory`](SessionSettings::memory) is `false`. The
    /// approvals of a session decide whether `remember_fact` and `forget_fact` run without asking.
    #[cfg(feature = "long-term")]
    pub fn long_term(mut self, memory: LongTerm) -> Self {
        self.long_term = Some(memory);
        self
    }

    /// Builds the agent.
    ///
    /// # Errors
    /// Returns a [`ConfigError`] if a root is not a directory.
    pub fn build(mut self) -> Result<CodingAgent, ConfigError> {
        if self.roots.is_empty() {
            self.roots.push(".".into());
        }
        let roots = match self.any_directory {
            true => None,
            false => Some(Roots::open(&self.roots)?),
        };
        Ok(CodingAgent {
            roots,
            commands: self.commands,
            system: self.system,
            extensions: self.extensions,
            #[cfg(feature = "long-term")]
            long_term: self.long_term,
        })
    }
}

#[async_trait]
impl AgentFactory for CodingAgent {
    async fn build(&self, setup: &AgentSetup) -> Result<GenericAgent, AgentRejection> {
        let settings = setup.settings();
        let workspace = self.workspace(settings).await?;
        let system = self.system_prompt(setup, &workspace).await;
        let tools = self.tools(setup, workspace.clone())?;
        let names: Vec<&str> = tools.names().collect();
        let check = check(settings, &settings.commands(&self.commands));
        let call = check.clone().map(|arguments| Call::new(EXECUTE_COMMAND, arguments));
        let pattern = loops::of(settings, &names, call)?;
        #[cfg(feature = "long-term")]
        let pattern: Arc<dyn BehaviorPattern> = match self.memory(setup) {
            Some(memory) => Arc::new(Distil::new(pattern, memory.clone()).on_command()),
            None => pattern,
        };
        let mut builder = GenericAgent::builder(setup.model()?, pattern)
            .system(system)
            .compaction(SummaryCompaction::new())
            .limits(limits(settings));
        if let Some(check) = check {
            builder = builder.approve_when(move |tool, arguments, _| {
                *tool.name == *EXECUTE_COMMAND && *arguments == check
            });
        }
        #[cfg(feature = "long-term")]
        if let Some(memory) = self.memory(setup) {
            builder = builder.hook(memory.hook());
        }
        if setup.has_user() {
            for extend in &self.extensions {
                builder = extend(builder, setup, &workspace)?;
            }
        }
        Ok(setup.apply(builder.tools(tools))?.build()?)
    }

    fn with_defaults(&self, mut settings: SessionSettings) -> SessionSettings {
        if let Some(roots) = &self.roots {
            settings.work_dir = roots.absolute(settings.work_dir.as_deref());
        }
        settings
    }

    fn commands(&self, settings: &SessionSettings) -> Vec<&'static str> {
        #[cfg(feature = "long-term")]
        if self.long_term.is_some() && settings.memory != Some(false) {
            return vec!["/plan", DISTIL_COMMAND];
        }
        let _ = settings;
        vec!["/plan"]
    }

    async fn preview(
        &self,
        setup: &AgentSetup,
        action: &ExternalAction,
    ) -> Result<Option<String>, AgentRejection> {
        if !action.path.is_empty() {
            return Ok(None); // no sub-agents
        }
        let workspace = self.workspace(setup.settings()).await?;
        let (tool, arguments) = (action.name.clone(), action.arguments.clone());
        let computed =
            tokio::task::spawn_blocking(move || preview(&workspace, &tool, &arguments)).await;
        let failed = |_| AgentRejection::internal("The change cannot be previewed.");
        computed.map_err(failed)?.map_err(|why| AgentRejection::bad_request("", why))
    }
}

/// Returns the arguments of the command that says whether the goal is reached, if there is one.
fn check(settings: &SessionSettings, commands: &Commands) -> Option<Value> {
    let command = settings.until.as_ref().filter(|command| !command.trim().is_empty())?;
    // Tests often take longer than a command may by default.
    Some(match commands.longest_timeout().as_secs() {
        0 => json!({ "command": command }),
        timeout => json!({ "command": command, "timeout": timeout }),
    })
}

/// Returns limits with an answer at the end and the guard against loops, unless these are off.
fn limits(settings: &SessionSettings) -> Limits {
    let mut limits = Limits::default();
    limits.wrap_up = settings.wrap_up.unwrap_or(true).then(WrapUp::new);
    limits.loop_guard = settings.loop_guard.unwrap_or(true).then(LoopGuard::new);
    limits
}

impl CodingAgent {
    /// Opens the directory of a session.
    async fn workspace(&self, settings: &SessionSettings) -> Result<Workspace, AgentRejection> {
        let Some(roots) = &self.roots else {
            let own = settings.clone();
            let opened = tokio::task::spawn_blocking(move || own.workspace()).await;
            let why = "The directory could not be opened.";
            let opened = opened.map_err(|_| AgentRejection::internal(why))?;
            return opened
                .map_err(|error| AgentRejection::bad_request("/workDir", format!("{error}.")));
        };
        let directory = settings.work_dir.clone().unwrap_or_else(|| ".".into());
        Ok(settings.protect(roots.workspace(directory).await?))
    }

    async fn system_prompt(&self, setup: &AgentSetup, workspace: &Workspace) -> String {
        let settings = setup.settings();
        let own = self.system.as_deref().or_else(|| setup.default_prompt());
        let template = own.filter(|_| setup.has_user()).unwrap_or(SYSTEM_PROMPT);
        let built_in = || {
            template
                .replace("{workDir}", &workspace.root().display().to_string())
                .replace("{platform}", std::env::consts::OS)
        };
        let mut system = settings.system.clone().unwrap_or_else(built_in);
        if setup.has_user() && !settings.no_agents_md.unwrap_or_default() {
            system.push_str(&project_instructions(setup, workspace.clone()).await);
        }
        system
    }

    fn tools(&self, setup: &AgentSetup, workspace: Workspace) -> Result<Toolbox, AgentRejection> {
        let failed = |why: ToolboxError| {
            AgentRejection::internal(format!("The tools cannot be combined: {why}."))
        };
        let settings = setup.settings();
        let mut tools = coding_tools_with(workspace, settings.commands(&self.commands));
        if setup.has_user() && !settings.no_questions.unwrap_or_default() {
            tools = tools.with(AskUser::new()).map_err(failed)?;
        }
        if setup.has_user() && settings.todos.unwrap_or(true) {
            tools = tools.with(Todo::new()).map_err(failed)?;
        }
        #[cfg(feature = "long-term")]
        if let Some(memory) = self.memory(setup) {
            // A text that the model reads can ask it to remember something false, or to forget.
            let of_memory = memory
                .tools()
                .approve_remember(Approval::ByEffect)
                .approve_forget(Approval::ByEffect);
            tools = tools.with_all(of_memory).map_err(failed)?;
        }
        Ok(tools)
    }

    /// Returns the memory of this setup's agent, if it has one.
    #[cfg(feature = "long-term")]
    fn memory(&self, setup: &AgentSetup) -> Option<&LongTerm> {
        let is_on = setup.has_user() && setup.settings().memory != Some(false);
        self.long_term.as_ref().filter(|_| is_on)
    }
}

/// Reads `AGENTS.md` of the workspace. Returns an empty text if it cannot be read.
async fn project_instructions(setup: &AgentSetup, workspace: Workspace) -> String {
    match tokio::task::spawn_blocking(move || agents_md(&workspace)).await {
        Ok(Ok(text)) => text.unwrap_or_default(),
        Ok(Err(error)) => {
            setup.warn(&format!(
                "{error}. The agent starts without it; --no-agents-md hides this message."
            ));
            String::new()
        }
        Err(_) => String::new(), // the runtime is shutting down
    }
}
