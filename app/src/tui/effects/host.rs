//! The open session of the terminal, and everything that opening another one needs.

use std::sync::Arc;

use loopwright_core::{AgentHandle, GenericAgent, SessionStore};
use loopwright_host::SessionSettings;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::msg::Msg;
use crate::args::SessionArgs;
use crate::config::Config;
use crate::environment::Names;
use crate::error::StartError;
use crate::options::Options;
use crate::session::{Allowed, Previews, Session};
use crate::settings::Settings;
use crate::slash::SlashContext;
use crate::tui::state::{Outcome, Tone};

/// The session to open.
pub(super) enum Target {
    /// The session that the command line names.
    First(Box<SessionArgs>),
    /// The current session, with other options.
    Same(Box<Settings>),
    /// The session of this name.
    Named(String),
    /// The session of this name, a fork of the current one.
    Fork(String),
    /// A new session.
    New,
}

/// The open session, and everything that opening another one needs.
pub(super) struct Host {
    pub(super) msgs: mpsc::UnboundedSender<Msg>,
    /// The options of the command line.
    pub(super) cli_options: Options,
    pub(super) config: Arc<Config>,
    /// The options of the current session.
    pub(super) settings: Settings,
    /// The tools that the user has allowed in this session.
    pub(super) allowed: Allowed,
    pub(super) open: Option<Open>,
    /// The current session, or the session that could not be opened.
    pub(super) session: Option<Session>,
    /// The given options of the current session that are not stored with it yet.
    pub(super) given: Options,
    /// The session that the command line names, until it is open.
    pub(super) first: Option<Box<SessionArgs>>,
}

/// The open session.
pub(super) struct Open {
    pub(super) handle: AgentHandle,
    pub(super) agent: GenericAgent,
    pub(super) previews: Previews,
    pub(super) distils_at_end: bool,
    /// The context of the app's slash commands.
    pub(super) slash: SlashContext,
    /// The running slash commands of the app. Closing the session cancels them.
    pub(super) running: JoinSet<()>,
}

impl Host {
    pub(super) fn new(
        cli_options: Options,
        config: Arc<Config>,
        msgs: mpsc::UnboundedSender<Msg>,
    ) -> Self {
        let allowed = Allowed::default();
        Host {
            msgs,
            settings: Settings {
                active: cli_options.settings.0.clone(),
                given: cli_options.settings.0.clone(),
                mcp: cli_options.mcp.clone(),
            },
            config,
            given: cli_options.clone(),
            cli_options,
            allowed,
            open: None,
            session: None,
            first: None,
        }
    }

    /// Returns the settings with a change, which is also applied to the stored options.
    pub(super) fn with(&self, change: impl Fn(&mut SessionSettings)) -> Box<Settings> {
        let mut settings = Box::new(self.settings.clone());
        settings.change(change);
        settings
    }

    /// Returns the names derived from the app's (files, directories, variables).
    pub(super) fn names(&self) -> &Names {
        &self.config.program.names
    }

    pub(super) fn handle(&self) -> Option<AgentHandle> {
        self.open.as_ref().map(|open| open.handle.clone())
    }

    /// Returns whether another process has the session open.
    pub(super) fn is_attached(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.handle.is_attached())
    }

    pub(super) fn allow(&self, tool: &str) {
        self.allowed.add(tool);
        if self.is_attached() {
            let why = format!(
                "Another process runs the tools of this conversation: calls of {tool} are asked \
                 for until it is open here."
            );
            self.send_outcome(Outcome::Notice(Tone::Loud, why));
        }
    }

    pub(super) fn send_outcome(&self, outcome: Outcome) {
        let _ = self.msgs.send(Msg::Outcome(outcome));
    }

    pub(super) fn send_closed(&self) {
        self.send_outcome(Outcome::NotOpened {
            why: "That needs a conversation.".into(),
            closed: true,
        });
    }

    pub(super) fn store(&self) -> Result<Arc<dyn SessionStore>, StartError> {
        match (&self.session, &self.first) {
            (Some(session), _) => Ok(session.store.clone()),
            (None, Some(which)) => self.config.open_store(&which.store),
            (None, None) => Err(StartError("No session store is open.".into())),
        }
    }
}

/// Adds that `/sessions` retries.
pub(super) fn with_retry_hint(StartError(why): &StartError, name: &str) -> StartError {
    StartError(format!("{why} `/sessions {name}` retries."))
}
