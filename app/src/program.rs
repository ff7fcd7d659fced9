//! The definition of an app: its name, its agents, its store, its version.

mod settings;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use loopwright_core::{SessionStore, hex};
use loopwright_host::{AgentFactory, CodingAgent, CodingAgentBuilder, CustomSetting, SystemPrompt};
use loopwright_memory::long_term::LongTerm;
use loopwright_memory::{Jsonl, Sqlite};
use sha2::{Digest, Sha256};

use self::settings::check_settings;
use crate::args;
use crate::config::keys::{Key, built_in_keys};
use crate::environment::Names;
use crate::error::StartError;
use crate::mcp::servers::{Running, Servers};
use crate::slash::{SlashCommand, is_built_in};
use crate::store_address::database;

/// The name of the coding agent.
pub(crate) const CODING: &str = "coding";

/// The default system prompt of the coding agent; `{workDir}` stands for the directory.
const CODING_PROMPT: &str = include_str!("program/system.md");

/// The reason why an app's store cannot be opened.
pub type OpenStoreError = Box<dyn std::error::Error + Send + Sync>;

/// A function that opens the session store at a path, or the default one.
pub(crate) type OpenStore =
    Box<dyn Fn(Option<&Path>) -> Result<Arc<dyn SessionStore>, OpenStoreError> + Send + Sync>;

/// The implementation of an app's own command, which gets its arguments, and whether settings files
/// are ignored.
pub(crate) type RunCommand = Box<
    dyn Fn(&clap::ArgMatches, Arc<Program>, bool) -> Result<ExitCode, StartError> + Send + Sync,
>;

/// The definition of an app.
#[derive(Default)]
pub(crate) struct Program {
    pub(crate) names: Names,
    pub(crate) version: Option<String>,
    pub(crate) about: Option<String>,
    /// The agents, the default one first.
    pub(crate) agents: Vec<(Arc<str>, Kind)>,
    pub(crate) open_store: Option<OpenStore>,
    /// The app's own commands.
    pub(crate) commands: Vec<OwnCommand>,
    /// The app's own slash commands.
    pub(crate) slash_commands: Vec<SlashCommand>,
    /// The app's own settings.
    pub(crate) settings: Vec<CustomSetting>,
    /// The system prompt of sessions without their own.
    pub(crate) system: Option<SystemPrompt>,
    /// The MCP servers of the agent that was built last.
    pub(crate) mcp: Running,
}

/// A command of the app's own, besides the built-in ones.
pub(crate) struct OwnCommand {
    pub(crate) command: clap::Command,
    pub(crate) run: RunCommand,
}

/// An agent of an app.
#[derive(Clone)]
pub(crate) enum Kind {
    /// The coding agent.
    Coding,
    /// An agent of the app's own.
    Own(Arc<dyn AgentFactory>),
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Program {
    /// Checks that the app has agents, and that the names of agents, commands and settings are
    /// valid and unique.
    pub(crate) fn check(&self) -> Result<(), StartError> {
        let mut names: Vec<&str> = self.agents.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        if names.is_empty() {
            return Err(StartError("This app has no agent: add one with `App::agent`.".into()));
        }
        let own = self.commands.iter().map(|own| own.command.get_name());
        if let Some(name) = own.into_iter().find(|name| args::is_built_in(name)) {
            return Err(StartError(format!(
                "The command `{name}` of this app has the name of a built-in one: rename it."
            )));
        }
        self.check_slash_commands()?;
        check_settings(&self.settings, &self.names)?;
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(StartError(format!(
                "Two agents of this app are called `{}`: give each a name of its own.",
                pair[0]
            ))),
            None => Ok(()),
        }
    }

    /// Checks that the names of slash commands are valid and unique.
    fn check_slash_commands(&self) -> Result<(), StartError> {
        for (index, command) in self.slash_commands.iter().enumerate() {
            let name = &command.name;
            let is_valid = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase());
            let why = if !is_valid {
                "has an invalid name: give it one of the letters a to z"
            } else if is_built_in(name) {
                "has the name of a built-in one: rename it"
            } else if self.slash_commands[..index].iter().any(|other| other.name == *name) {
                "is added twice: rename one of the two"
            } else {
                continue;
            };
            return Err(StartError(format!("The slash command `/{name}` of this app {why}.")));
        }
        Ok(())
    }

    /// Returns the keys of all settings: first the built-in ones, then the app's own.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        built_in_keys().chain(self.settings.iter().map(Key::custom))
    }

    /// Returns the slash command with this name, which has no slash.
    pub(crate) fn slash_command(&self, name: &str) -> Option<&SlashCommand> {
        self.slash_commands.iter().find(|command| command.name == name)
    }

    /// Returns whether the app has the coding agent.
    pub(crate) fn has_coding_agent(&self) -> bool {
        self.agents.iter().any(|(_, kind)| matches!(kind, Kind::Coding))
    }

    /// Returns the agent with this name, by default the first one.
    pub(crate) fn agent(&self, name: Option<&str>) -> Result<(Arc<str>, Kind), StartError> {
        let found = match name {
            Some(name) => self.agents.iter().find(|(other, _)| **other == *name),
            None => self.agents.first(),
        };
        found.cloned().ok_or_else(|| {
            let names: Vec<&str> = self.agents.iter().map(|(name, _)| &**name).collect();
            StartError(format!(
                "There is no agent `{}` in this program; there are: {}.",
                name.unwrap_or_default(),
                names.join(", ")
            ))
        })
    }

    /// Opens the store at this path, by default at [`Program::default_store`]. A directory stores
    /// each session in a file; the address of a PostgreSQL database is a path, too.
    pub(crate) fn open_store(
        &self,
        path: Option<PathBuf>,
    ) -> Result<Arc<dyn SessionStore>, StartError> {
        if let Some(open) = &self.open_store {
            let failed = |why| StartError(format!("The sessions cannot be opened: {why}."));
            return open(path.as_deref()).map_err(failed);
        }
        let Some(path) = path.or_else(|| self.default_store()) else {
            return Err(StartError(format!(
                "Sessions cannot be stored, because HOME is not set: give a path with --store PATH \
                 or {}, or store nothing with --no-session.",
                self.names.variable("STORE")
            )));
        };
        if let Some(address) = database(&path) {
            return open_database(address);
        }
        Ok(if is_directory(&path) {
            Arc::new(Jsonl::open(&path)?)
        } else {
            Arc::new(Sqlite::open(&path)?)
        })
    }

    /// Returns the file of reports that wait for a webhook. It is beside the store at this path, so
    /// that servers on one store share it. If the app has its own stores, it is in the data
    /// directory.
    pub(crate) fn outbox(&self, store: Option<&Path>, url: &str) -> Option<PathBuf> {
        let name = match store.filter(|store| self.has_no_folder(store)) {
            Some(store) => format!("{url} {}", store.display()),
            None if self.open_store.is_some() => format!("{url} "),
            None => url.to_owned(),
        };
        Some(self.beside_store(store, "webhooks")?.join(format!("{}.outbox", digest(&name))))
    }

    /// Returns the directory with the daily use that no log records, for the store at this path.
    pub(crate) fn daily_use(&self, store: Option<&Path>) -> Option<PathBuf> {
        let directory = self.beside_store(store, "daily-use")?;
        Some(match store.filter(|store| self.has_no_folder(store)) {
            Some(store) => directory.join(digest(&store.display().to_string())),
            None => directory,
        })
    }

    /// Returns whether the store at this path has no folder for files beside it.
    fn has_no_folder(&self, store: &Path) -> bool {
        self.open_store.is_some() || database(store).is_some()
    }

    /// Returns the folder for files that belong to the store at this path.
    fn beside_store(&self, store: Option<&Path>, what: &str) -> Option<PathBuf> {
        if self.open_store.is_some() || store.is_some_and(|store| database(store).is_some()) {
            return Some(self.names.data_directory()?.join(what));
        }
        let store = store.map(Path::to_owned);
        Some(beside(&store.or_else(|| self.default_store())?, what))
    }

    /// Returns the path of the default store, or `None` if the app has its own.
    pub(crate) fn default_store(&self) -> Option<PathBuf> {
        let has_own = self.open_store.is_some();
        (!has_own).then(|| Some(self.names.data_directory()?.join("sessions.db"))).flatten()
    }
}

impl Kind {
    /// Returns the factory for a session on this machine, whose user chooses the directory. An app
    /// with its own `system` prompt sets it in the setup of agents.
    pub(crate) fn factory(
        &self,
        memory: Option<LongTerm>,
        system: Option<&SystemPrompt>,
        servers: Servers,
    ) -> Result<Arc<dyn AgentFactory>, StartError> {
        match self {
            Kind::Own(factory) => Ok(factory.clone()),
            Kind::Coding => {
                let builder = servers.extend(CodingAgent::builder().any_directory());
                coding_agent(builder, memory, system)
            }
        }
    }

    /// Returns the factory for a server whose sessions work below these directories.
    pub(crate) fn served(
        &self,
        roots: &[PathBuf],
        memory: Option<LongTerm>,
        system: Option<&SystemPrompt>,
        servers: Servers,
    ) -> Result<Arc<dyn AgentFactory>, StartError> {
        let builder =
            || roots.iter().fold(CodingAgent::builder(), |builder, root| builder.root(root));
        match self {
            Kind::Own(factory) => Ok(factory.clone()),
            Kind::Coding => coding_agent(servers.extend(builder()), memory, system),
        }
    }
}

fn coding_agent(
    builder: CodingAgentBuilder,
    memory: Option<LongTerm>,
    system: Option<&SystemPrompt>,
) -> Result<Arc<dyn AgentFactory>, StartError> {
    let builder = match memory {
        Some(memory) => builder.long_term(memory),
        None => builder,
    };
    let builder = if system.is_some() { builder } else { builder.system(CODING_PROMPT) };
    Ok(Arc::new(builder.build().map_err(|why| StartError(why.to_string()))?))
}

/// Returns the folder with this name for files that belong to the store at this path.
fn beside(store: &Path, what: &str) -> PathBuf {
    if is_directory(store) {
        return store.join(format!(".{what}"));
    }
    let mut name = store.as_os_str().to_owned();
    name.push(format!("-{what}"));
    name.into()
}

/// Returns the beginning of a text's digest, as part of a file name.
fn digest(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..8])
}

fn is_directory(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().to_string_lossy().ends_with(std::path::is_separator)
}

/// Opens the store in a PostgreSQL database.
#[cfg(feature = "postgres")]
fn open_database(address: &str) -> Result<Arc<dyn SessionStore>, StartError> {
    // The connections run on a thread of the store, which does not wait for this one.
    Ok(Arc::new(futures::executor::block_on(loopwright_memory::Postgres::connect(address))?))
}

#[cfg(not(feature = "postgres"))]
fn open_database(_: &str) -> Result<Arc<dyn SessionStore>, StartError> {
    Err(StartError::without_feature("A store in PostgreSQL", "postgres"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slash::SlashReply;

    fn with(names: &[&str]) -> Result<(), StartError> {
        let command = |name: &&str| SlashCommand {
            name: (*name).into(),
            help: String::new(),
            run: Box::new(|text, _| Box::pin(async { Ok(SlashReply::Show(text)) })),
        };
        let slash_commands = names.iter().map(command).collect();
        let agents = vec![(CODING.into(), Kind::Coding)];
        Program { agents, slash_commands, ..Program::default() }.check()
    }

    #[test]
    fn a_slash_command_has_a_valid_name_of_its_own() {
        assert!(with(&["report", "overdue"]).is_ok());
        for (names, why) in [
            (&["model"][..], "the name of a built-in one"), // of the terminal
            (&["decline"], "the name of a built-in one"),   // of the chat line by line
            (&["pay-all"], "letters a to z"),
            (&[""], "letters a to z"),
            (&["report", "report"], "added twice"),
        ] {
            let refused = with(names).unwrap_err().0;
            assert!(refused.contains(why), "{refused}");
        }
    }
}
