//! [`App`]: a binary for agents.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_host::{AgentFactory, CustomSetting, SystemPrompt};
use tokio::runtime;

use crate::args::{ChatArgs, Cli, Command};
use crate::command_context::CommandContext;
use crate::command_line::Parsed;
use crate::commands::{
    acp, actions, audit, chat, cluster, completions, config as config_command, mcp, models, run,
    schedules, serve, sessions, token, tools, wake,
};
use crate::config::Config;
use crate::environment::Names;
use crate::error::StartError;
use crate::program::{CODING, Kind, OpenStoreError, OwnCommand, Program};
use crate::slash::{SlashCommand, SlashContext, SlashError, SlashReply};
use crate::{command_line, exit_code, output, tui};

/// Grace period of tasks and destructors at the end of the process.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(300);

/// A binary for agents, with `chat`, `run`, `serve`, `approve` and the other commands of
/// `loopwright`.
///
/// The app's name determines its settings file (`acme.toml`), its directories in `~/.config` and
/// `~/.local/share`, and its environment variables (`ACME_MODEL`). It should be the name of the
/// binary.
///
/// A session is stored with the name of its agent, and only that agent continues it.
#[must_use = "call run()"]
pub struct App(Program);

impl App {
    /// Creates an app with this name and without agents.
    pub fn new(name: impl AsRef<str>) -> Self {
        App(Program { names: Names::new(name.as_ref()), ..Program::default() })
    }

    /// Sets the version that `--version` prints, such as `env!("CARGO_PKG_VERSION")`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.0.version = Some(version.into());
        self
    }

    /// Sets the sentence that `--help` begins with.
    pub fn about(mut self, about: impl Into<String>) -> Self {
        self.0.about = Some(about.into());
        self
    }

    /// Adds an agent. The first one is the default, for sessions without `--agent`.
    pub fn agent(
        mut self,
        name: impl Into<Arc<str>>,
        factory: impl AgentFactory + 'static,
    ) -> Self {
        self.0.agents.push((name.into(), Kind::Own(Arc::new(factory))));
        self
    }

    /// Adds the coding agent, which works on the files of a directory, under the name `coding`. It
    /// has the MCP servers of the settings, which the slash command `/mcp` lists.
    pub fn coding_agent(mut self) -> Self {
        let mcp = self.0.mcp.slash_command();
        self.0.slash_commands.push(mcp);
        self.0.agents.push((CODING.into(), Kind::Coding));
        self
    }

    /// Sets the session store. The closure gets the path from `--store` or the settings, if any.
    /// The default store is an SQLite file or a directory.
    pub fn store(
        mut self,
        open: impl Fn(Option<&Path>) -> Result<Arc<dyn SessionStore>, OpenStoreError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.0.open_store = Some(Box::new(open));
        self
    }

    /// Adds a command of the app's own, such as `acme report`. `run` gets its arguments and the
    /// app's sessions, settings and directories, and returns the exit code of the process. It runs
    /// outside of a runtime.
    ///
    /// ```no_run
    /// use std::process::ExitCode;
    ///
    /// use loopwright_cli::{App, clap};
    ///
    /// fn main() -> ExitCode {
    ///     let report = clap::Command::new("report").about("Print what was paid");
    ///     App::new("acme")
    ///         .coding_agent()
    ///         .command(report, |_, cx| {
    ///             println!("The settings are in {:?}.", cx.config_directory());
    ///             ExitCode::SUCCESS
    ///         })
    ///         .run()
    /// }
    /// ```
    pub fn command(
        mut self,
        command: clap::Command,
        run: impl Fn(&clap::ArgMatches, &CommandContext) -> ExitCode + Send + Sync + 'static,
    ) -> Self {
        let run = move |arguments: &_, program, no_config| {
            Ok(run(arguments, &CommandContext::new(Config::load(program, no_config)?)))
        };
        self.0.commands.push(OwnCommand { command, run: Box::new(run) });
        self
    }

    /// Adds a slash command, such as `/report`, to the terminal and to the line chat. `help`
    /// describes it in completions and in `/help`. The name consists of the letters a to z.
    ///
    /// `run` gets the text after the name, and the conversation. It runs on the tokio runtime, even
    /// while the agent works. Closing the conversation cancels it, and so does Ctrl-C in the line
    /// chat.
    ///
    /// ```no_run
    /// use loopwright_cli::{App, SlashReply};
    ///
    /// # fn main() -> std::process::ExitCode {
    /// App::new("acme")
    ///     .coding_agent()
    ///     .slash_command("report", "report what was paid", async |month: String, cx| {
    ///         let messages = cx.handle().state().await?.messages.len();
    ///         Ok(match month.is_empty() {
    ///             true => SlashReply::Show(format!("{} has {messages} messages.", cx.session())),
    ///             false => SlashReply::Send(format!("List what was paid in {month}.")),
    ///         })
    ///     })
    ///     .run()
    /// # }
    /// ```
    pub fn slash_command<F>(
        mut self,
        name: impl Into<String>,
        help: impl Into<String>,
        run: impl Fn(String, SlashContext) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<SlashReply, SlashError>> + Send + 'static,
    {
        let run = Box::new(move |arguments, context| Box::pin(run(arguments, context)) as _);
        self.0.slash_commands.push(SlashCommand { name: name.into(), help: help.into(), run });
        self
    }

    /// Adds a setting of the app's own. It is a flag of `chat`, `run`, `serve` and the other
    /// commands that take settings. It is also a key of the settings file (with `_` for `-`) and an
    /// environment variable (`ACME_MAX_AMOUNT`). Over HTTP it is a value under `custom` in a
    /// session's settings. A value from the command line or HTTP is stored with the session.
    ///
    /// An agent reads the value with [`AgentSetup::custom`](crate::AgentSetup::custom). All agents
    /// of the app have the setting. A project's settings file cannot set it, only the user's.
    ///
    /// [`App::run`] fails if a built-in or another setting has the same name.
    ///
    /// ```no_run
    /// use loopwright_cli::{AgentRejection, AgentSetup, App, CustomSetting};
    /// use loopwright_core::{AgentBuilder, GenericAgent};
    /// use loopwright_patterns::PiPattern;
    ///
    /// fn support(setup: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
    ///     let region: String = setup.custom("region")?;
    ///     let system = format!("You help with invoices of the region {region}.");
    ///     Ok(GenericAgent::builder(setup.model()?, PiPattern).system(system))
    /// }
    ///
    /// # fn main() -> std::process::ExitCode {
    /// let region = CustomSetting::choice("region", "The region to search", ["eu", "us"]);
    /// App::new("acme").agent("support", support).setting(region.default("eu")).run()
    /// # }
    /// ```
    pub fn setting(mut self, setting: CustomSetting) -> Self {
        self.0.settings.push(setting);
        self
    }

    /// Sets the system prompt of sessions without their own: `--system`, the settings file and a
    /// session's settings over HTTP take precedence. It is a text, or a function `Fn(&AgentSetup)
    /// -> String` that is called each time an agent is built.
    ///
    /// The coding agent uses it instead of the built-in prompt; `{workDir}` stands for the
    /// directory and `{platform}` for the operating system. Other agents get it from
    /// [`AgentSetup::system`](crate::AgentSetup::system). Calling that also gives them the setting
    /// `system`.
    ///
    /// ```no_run
    /// use loopwright_cli::{AgentRejection, AgentSetup, App};
    /// use loopwright_core::{AgentBuilder, GenericAgent};
    /// use loopwright_patterns::PiPattern;
    ///
    /// fn support(setup: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
    ///     let system = setup.system().unwrap_or_default();
    ///     Ok(GenericAgent::builder(setup.model()?, PiPattern).system(system))
    /// }
    ///
    /// # fn main() -> std::process::ExitCode {
    /// App::new("acme").agent("support", support).system("You help with invoices.").run()
    /// # }
    /// ```
    ///
    /// ```no_run
    /// # use loopwright_cli::{AgentSetup, App};
    /// # fn main() -> std::process::ExitCode {
    /// App::new("acme")
    ///     .coding_agent()
    ///     .system(|setup: &AgentSetup| match setup.principal() {
    ///         Some(user) => format!("You work for {user} in {{workDir}}."),
    ///         None => "You work in {workDir}.".to_owned(),
    ///     })
    ///     .run()
    /// # }
    /// ```
    pub fn system(mut self, prompt: impl Into<SystemPrompt>) -> Self {
        self.0.system = Some(prompt.into());
        self
    }

    /// Runs the command line and returns the exit code of the process.
    ///
    /// It starts a tokio runtime, so it must not be called in one.
    pub fn run(self) -> ExitCode {
        let program = Arc::new(self.0);
        let done = program.check().and_then(|()| match command_line::parse(&program) {
            Parsed::BuiltIn(cli) => dispatch(*cli, program.clone()).map(ExitCode::from),
            Parsed::Own { own, arguments, no_config } => {
                (own.run)(&arguments, program.clone(), no_config)
            }
        });
        match done {
            Ok(code) => code,
            Err(why) => {
                output::error(&why);
                ExitCode::from(exit_code::USAGE)
            }
        }
    }
}

/// Runs the command and returns its exit code.
fn dispatch(cli: Cli, program: Arc<Program>) -> Result<u8, StartError> {
    let config = || Config::load(program.clone(), cli.no_config);
    match cli.command.unwrap_or(Command::Chat(cli.chat)) {
        Command::Run(args) => {
            let config = config()?;
            let prompt = run::prompt(&args)?;
            start_traced(&config, run::run(&args, &config, prompt))
        }
        Command::Chat(args) => start_chat(args, Arc::new(config()?)),
        Command::Acp(args) => start(acp::acp(*args, Arc::new(config()?))),
        Command::Actions(args) => start(actions::actions(&args, &config()?)),
        Command::Audit(args) => start(audit::audit(&args, &config()?)),
        Command::Cluster(command) => start(cluster::cluster(&command, &config()?)),
        Command::Approve(args) => {
            let config = config()?;
            start_traced(&config, actions::approve(&args, &config))
        }
        Command::Deny(args) => {
            let config = config()?;
            start_traced(&config, actions::deny(&args, &config))
        }
        Command::Answer(args) => {
            let config = config()?;
            start_traced(&config, actions::answer(&args, &config))
        }
        Command::Sessions(args) => start(sessions::sessions(&args, &config()?)),
        Command::Schedules(args) => start(schedules::schedules(&args, &config()?)),
        Command::Wake(args) => {
            let config = config()?;
            start_traced(&config, wake::wake(args, &config))
        }
        Command::Serve(args) => {
            let config = config()?;
            start_traced(&config, serve::serve(config.serve(*args)?, &config))
        }
        Command::Mcp(args) => start(mcp::mcp(*args, Arc::new(config()?))),
        Command::Config(args) => start(config_command::config(&args, &config()?)),
        Command::Models(args) => models::models(&args, &config()?),
        Command::Token(args) => token::token(&args),
        Command::Tools(args) => start(tools::tools(&args, &config()?)),
        // These work without a home directory, for example when a package is built.
        Command::Completions { shell } => completions::completions(shell, &program),
        Command::Man { directory } => completions::man(directory.as_deref(), &program),
    }
}

/// Starts the terminal interface on a terminal, else the line chat.
fn start_chat(args: ChatArgs, config: Arc<Config>) -> Result<u8, StartError> {
    if !args.plain && tui::is_possible() {
        start_traced(&config, tui::tui(args, config.clone()))
    } else {
        start_traced(&config, chat::chat(&args, &config))
    }
}

/// Runs a front end as [`start`] does, with telemetry if the environment names a collector.
fn start_traced(
    config: &Config,
    front_end: impl Future<Output = Result<u8, StartError>>,
) -> Result<u8, StartError> {
    start(async {
        config.telemetry.start(&config.program.names)?;
        let done = front_end.await;
        config.telemetry.shutdown().await;
        done
    })
}

/// Runs a front end on this thread and the agent on two others. So a terminal or pipe that accepts
/// no text never blocks an agent, and a tool that blocks one thread leaves another.
fn start(front_end: impl Future<Output = Result<u8, StartError>>) -> Result<u8, StartError> {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime =
        runtime.map_err(|why| StartError(format!("The runtime could not be started: {why}.")))?;
    let done = runtime.block_on(front_end);
    // A session's destructors may have work to do, such as removing a temporary directory. An
    // abandoned tool may block a thread forever.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    done
}
