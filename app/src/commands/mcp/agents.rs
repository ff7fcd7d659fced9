//! The agents of the app as tools: each call works in a stored session.

use std::path::PathBuf;
use std::sync::Arc;

use loopwright_core::event::ExternalAction;
use loopwright_core::log::SessionInfo;
use loopwright_core::{SessionStore, async_trait};
use loopwright_host::SessionSettings;
use loopwright_mcp::server::{HostSession, ServedTool, SessionHost};

use crate::args::McpArgs;
use crate::config::Config;
use crate::error::StartError;
use crate::options::Options;
use crate::output::{self, Verbosity};
use crate::program::Kind;
use crate::session::{Allowed, Prefer, Session, SessionSetup, build, find, name_or_random};

/// The agents of the app, as tools.
pub(super) struct Agents {
    config: Arc<Config>,
    /// The options of all sessions. Stored options are ignored, so that a client gains no
    /// permission by continuing a session that has more.
    options: Options,
    store: Arc<dyn SessionStore>,
    /// The path of the store, if the command line names one.
    store_path: Option<PathBuf>,
    root: PathBuf,
    tools: Vec<ServedTool>,
}

impl Agents {
    /// Returns the agent that the options name, by default all agents.
    pub(super) fn of(args: McpArgs, config: Arc<Config>) -> Result<Self, StartError> {
        let McpArgs { store, options, .. } = args;
        let settings = config.resolve(options.clone())?;
        let root = settings.active.workspace()?.root().to_owned();
        let agents = match options.settings.agent.as_deref() {
            Some(name) => vec![config.program.agent(Some(name))?],
            None => config.program.agents.clone(),
        };
        let about = config.program.about.as_deref();
        let served = |(name, kind): &(Arc<str>, Kind)| {
            let description = match (kind, about) {
                (Kind::Coding, _) => format!(
                    "Gives a task to an agent that works on the files of {}: it reads, searches \
                     and changes them, and runs commands there.",
                    root.display()
                ),
                (Kind::Own(_), Some(about)) => format!("Sends a message to an agent: {about}"),
                (Kind::Own(_), None) => format!("Sends a message to the agent `{name}`."),
            };
            ServedTool::agent(name.clone(), description)
        };
        let tools = agents.iter().map(served).collect();
        let store_path = store.path.clone();
        let store = config.open_store(&store)?;
        Ok(Agents { config, options, store, store_path, root, tools })
    }

    async fn open_session(
        &self,
        agent: &str,
        session: Option<&str>,
    ) -> Result<HostSession, StartError> {
        let info = match session {
            Some(name) => find(&*self.store, name).await?,
            None => None,
        };
        info.as_ref().map(|info| self.check(info, agent)).transpose()?;
        let name = name_or_random(session, &*self.store).await?.into();
        let mut options = self.options.clone();
        options.settings.agent = Some(agent.into());
        let stored = info.as_ref().and_then(|info| info.settings.as_deref());
        options.settings.name = SessionSettings::from_stored(stored).name;
        let settings = self.config.resolve(options)?;
        let session = Session { store: self.store.clone(), name, info, is_stored: true };
        let built = build(&settings, &Allowed::default(), &self.config, Verbosity::Quiet).await?;
        let (handle, events) = session.start(&built, Prefer::Opening).await?;
        if let Some(repair) = handle.state().await.ok().and_then(|state| state.repaired) {
            output::error(&repair);
        }
        Ok(built.previews.show_in(HostSession::new(handle, events, session.store)))
    }

    /// Checks that a client may continue a session: it belongs to this agent and this directory.
    fn check(&self, info: &SessionInfo, agent: &str) -> Result<(), StartError> {
        info.require_root()?;
        let stored = SessionSettings::from_stored(info.settings.as_deref());
        if stored.agent.as_deref() == Some(agent)
            && SessionSetup::of(info).directory.as_deref() == Some(&*self.root)
        {
            return Ok(());
        }
        Err(StartError(format!(
            "The session `{}` is not one of the agent `{agent}` in {}: leave `session` out to \
             start a new one.",
            info.id,
            self.root.display()
        )))
    }
}

#[async_trait]
impl SessionHost for Agents {
    fn tools(&self) -> Vec<ServedTool> {
        self.tools.clone()
    }

    async fn open(&self, tool: &str, session: Option<&str>) -> Result<HostSession, String> {
        self.open_session(tool, session).await.map_err(|why| why.0)
    }

    fn how_to_decide(&self, session: &str, action: &ExternalAction) -> String {
        output::how_to_resolve(session, action, self.store_path.as_deref())
    }
}
