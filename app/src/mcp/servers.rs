//! The MCP servers that agents are built with, how they run, and the command `/mcp`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwright_core::Principal;
use loopwright_host::{AgentRejection, AgentSetup, CodingAgentBuilder};
use loopwright_mcp::{Definitions, McpServer, ProcessLimit, ServerConfig, ToolSearch, Transport};
use loopwright_tools::Workspace;

use super::consent::Consent;
use super::launch::Confined;
use super::login::Logins;
use crate::environment::started_as;
use crate::slash::{SlashCommand, SlashReply};

/// Time that a session of the terminal waits for a server to start.
const TERMINAL_START_WAIT: Duration = Duration::from_secs(5);

/// The running servers of an agent. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<Mutex<Vec<McpServer>>>);

/// The servers that an agent is built with.
#[derive(Clone, Default)]
pub(crate) struct Servers {
    pub(super) configs: Vec<ServerConfig>,
    /// The servers of the user's editor, each with the user's consent.
    pub(super) editor: Vec<(ServerConfig, Consent)>,
    /// A sentence for the user about each server of the editor that is left out.
    pub(super) left_out: Vec<String>,
    pub(super) definitions: Arc<Definitions>,
    pub(super) logins: Logins,
    /// The list of the agent's running servers, if only one agent exists at a time.
    pub(super) running: Option<Running>,
    /// The limit on the processes of all sessions of a server.
    pub(super) processes: Option<ProcessLimit>,
}

impl Servers {
    /// Returns the consents to start servers of the user's editor that are not given yet.
    pub(crate) fn consents(&self) -> Vec<Consent> {
        let consents = self.editor.iter().map(|(_, consent)| consent);
        consents.filter(|consent| !consent.is_given()).cloned().collect()
    }

    /// Returns a sentence for the user about each server of the editor that is left out.
    pub(crate) fn left_out(&self) -> Vec<String> {
        self.left_out.clone()
    }

    /// Gives these servers to each agent that `builder` builds.
    pub(crate) fn extend(self, builder: CodingAgentBuilder) -> CodingAgentBuilder {
        if self.configs.is_empty() && self.editor.is_empty() {
            if let Some(running) = &self.running {
                running.set(Vec::new());
            }
            return builder;
        }
        builder.extend(move |agent, setup, workspace| {
            let configs = self.configs.iter().map(|config| (config, None));
            let editor = self.editor.iter().map(|(config, consent)| (config, Some(consent)));
            let servers = configs
                .chain(editor)
                .map(|(config, consent)| self.server(config, consent, setup, workspace));
            let servers: Vec<McpServer> = servers.collect::<Result<_, _>>()?;
            if let Some(running) = &self.running {
                running.set(servers.clone());
            }
            Ok(ToolSearch::new(servers).add_to(agent))
        })
    }

    /// Returns a server for one session.
    fn server(
        &self,
        config: &ServerConfig,
        consent: Option<&Consent>,
        setup: &AgentSetup,
        workspace: &Workspace,
    ) -> Result<McpServer, AgentRejection> {
        let builder = McpServer::builder(config.clone())
            .definitions(self.definitions.clone())
            .root(workspace.root())
            .sampling(setup.model()?.into());
        let builder = self.logins.apply(builder);
        let builder = match setup.settings().no_questions.unwrap_or_default() {
            true => builder.no_questions(),
            false => builder,
        };
        let builder = match &self.processes {
            Some(limit) => {
                builder.process_limit(limit.clone(), setup.principal().map(Principal::as_str))
            }
            // A single prompt may have no later request in which the tools could be offered.
            None => builder.start_wait(TERMINAL_START_WAIT),
        };
        if let Some(consent) = consent {
            return Ok(builder.launch(consent.clone()).build());
        }
        let is_confined =
            matches!(&config.transport, Transport::Stdio(command) if !command.unconfined);
        Ok(match is_confined {
            true => builder.launch(Confined::new(workspace)).build(),
            false => builder.build(),
        })
    }
}

impl Running {
    fn set(&self, servers: Vec<McpServer>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = servers;
    }

    /// Returns a sentence for each server that cannot be used, and for each that has tools that
    /// cannot.
    pub(crate) async fn problems(&self) -> Vec<String> {
        let servers = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut problems = Vec::new();
        for server in &servers {
            let (name, status) = (server.name(), server.status().await);
            problems.extend(
                status.failure.map(|why| format!("The MCP server `{name}` cannot be used: {why}.")),
            );
            if !status.left_out.is_empty() {
                let left_out = status.left_out.join("; ");
                problems
                    .push(format!("Tools of the MCP server `{name}` are left out: {left_out}."));
            }
        }
        problems
    }

    /// Returns the command `/mcp`.
    pub(crate) fn slash_command(&self) -> SlashCommand {
        let running = self.clone();
        let run = move |_: String, _| {
            let servers = running.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let shown: futures::future::BoxFuture<'static, _> =
                Box::pin(async move { Ok(SlashReply::Show(list(&servers).await)) });
            shown
        };
        SlashCommand {
            name: "mcp".into(),
            help: "list the MCP servers, their state and tools".into(),
            run: Box::new(run),
        }
    }
}

/// Returns the list of the servers with their state and tools.
async fn list(servers: &[McpServer]) -> String {
    if servers.is_empty() {
        let name = started_as();
        return format!(
            "There are no MCP servers. `{name} --mcp NAME=COMMAND` adds one, [mcp.NAME] in your \
             settings too."
        );
    }
    let mut text = String::new();
    for server in servers {
        let status = server.status().await;
        let state = match (&status.failure, status.is_connected) {
            (Some(why), _) => format!("failed: {why}"),
            (None, true) => "connected".into(),
            (None, false) if status.is_starting => "starting".into(),
            (None, false) => "not started".into(),
        };
        text += &format!("{} ({}): {state}\n", server.name(), status.target);
        for tool in &status.tools {
            text += &format!("  {}{tool}\n", server.prefix());
        }
        for tool in &status.left_out {
            text += &format!("  left out: {tool}\n");
        }
    }
    text.trim_end().to_owned()
}
