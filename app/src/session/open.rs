//! A session that is about to be opened.

use std::sync::Arc;

use loopwright_core::agent::attach;
use loopwright_core::event::ExternalAction;
use loopwright_core::log::{InMemoryStore, MemoryError, SessionInfo};
use loopwright_core::{AgentHandle, EventStream, Memory, RunContext, SessionStore};
use loopwright_host::SessionSettings;
use serde_json::Value;

use super::agent::{Built, build};
use super::allowed::Allowed;
use super::store::{find, latest, name_or_random, stored_settings};
use crate::args::SessionArgs;
use crate::config::Config;
use crate::environment::started_as;
use crate::error::StartError;
use crate::facts;
use crate::options::{Options, inherited_permissions, root_or_here};
use crate::output::{self, Verbosity};
use crate::settings::Settings;
use crate::slash::SlashContext;

/// The first step of [`Session::start`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Prefer {
    /// Open the session, and attach to it if another process has it open.
    Opening,
    /// Attach to the session, since another process is about to open it. If none does, the events
    /// end as moved after half a second.
    Attaching,
}

impl Prefer {
    /// Returns the first step in a session that has moved away from this handle.
    pub(crate) fn after_move(handle: &AgentHandle) -> Self {
        // An owner has released it, since another process asked for it.
        if handle.is_attached() { Prefer::Opening } else { Prefer::Attaching }
    }
}

/// A session that is about to be opened.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) name: Arc<str>,
    /// The metadata, or `None` if the session does not exist yet.
    pub(crate) info: Option<SessionInfo>,
    /// `true` if the session outlives the process.
    pub(crate) is_stored: bool,
}

impl Session {
    /// Returns the session that the command line selects. `--continue` selects the session in the
    /// directory of `options` that changed last.
    pub(crate) async fn choose(
        args: &SessionArgs,
        options: &Options,
        config: &Config,
    ) -> Result<Self, StartError> {
        let store = match args.no_session {
            true => Arc::new(InMemoryStore::new()),
            false => config.open_store(&args.store)?,
        };
        let info = match args.name.as_deref() {
            Some(name) => find(&*store, name).await?,
            None if args.latest => Some(latest(&*store, &root_or_here(&options.settings)).await?),
            None => None,
        };
        info.as_ref().map(SessionInfo::require_root).transpose()?;
        let name = match &info {
            Some(info) => info.id.clone(),
            None => name_or_random(args.name.as_deref(), &*store).await?.into(),
        };
        Ok(Session { store, name, info, is_stored: !args.no_session })
    }

    /// Returns a session that exists in the store.
    pub(crate) fn existing(store: Arc<dyn SessionStore>, info: SessionInfo) -> Self {
        Session { store, name: info.id.clone(), info: Some(info), is_stored: true }
    }

    /// Returns the context of the app's slash commands in this session.
    pub(crate) fn slash_context(&self, settings: &Value, handle: &AgentHandle) -> SlashContext {
        let settings = SessionSettings::from_stored(Some(settings));
        SlashContext::new(self.name.clone(), self.store.clone(), settings, handle.clone())
    }

    /// Reloads the metadata, since another process may have changed the settings.
    pub(crate) async fn reload(&mut self) -> Result<(), StartError> {
        self.info = find(&*self.store, &self.name).await?;
        Ok(())
    }

    /// Resolves the options: the given ones, else the stored ones of the session, else the
    /// configured ones. Prints a notice about permissions that come from the session.
    pub(crate) fn settings(
        &self,
        given: &Options,
        config: &Config,
        verbosity: Verbosity,
    ) -> Result<Settings, StartError> {
        let (settings, permissions) = self.settings_and_permissions(given, config)?;
        if let (Some(permissions), true) = (permissions, verbosity.notes()) {
            output::notice(&permissions);
        }
        Ok(settings)
    }

    /// Resolves the options like [`Session::settings`], and returns the notice about permissions.
    pub(crate) fn settings_and_permissions(
        &self,
        given: &Options,
        config: &Config,
    ) -> Result<(Settings, Option<String>), StartError> {
        let stored = self.info.as_ref().map(stored_settings).transpose()?.unwrap_or_default();
        let permissions = inherited_permissions(&given.settings, &stored);
        let settings = config.resolve_stored(given.clone(), stored)?;
        match settings.given.agent.as_deref() {
            Some("") => Err(is_foreign(&self.name)),
            _ => Ok((settings, permissions)),
        }
    }

    /// Builds the agent of the session with these options, and announces it.
    pub(crate) async fn build(
        &self,
        given: &Options,
        config: &Config,
        verbosity: Verbosity,
    ) -> Result<Built, StartError> {
        let settings = self.settings(given, config, verbosity)?;
        let built = build(&settings, &Allowed::default(), config, verbosity).await?;
        self.announce(&built, verbosity);
        Ok(built)
    }

    /// Returns the pending actions, also when the process that had the session open has left.
    pub(crate) async fn pending(&self, handle: &AgentHandle) -> Vec<ExternalAction> {
        match handle.pending().await {
            Ok(pending) => pending,
            Err(_) => {
                let pending = self.store.session(&self.name).await.map(|info| info.pending);
                let pending = pending.unwrap_or_default().into_iter();
                pending.map(|pending| Arc::unwrap_or_clone(pending.action)).collect()
            }
        }
    }

    /// Writes to standard error which model works in which directory, and which session continues.
    pub(crate) fn announce(&self, built: &Built, verbosity: Verbosity) {
        if !verbosity.notes() {
            return;
        }
        let mut line = format!("{} in {}", built.model.id, built.root.display());
        if self.info.is_some() {
            line += &format!(", session {}", output::quoted(&self.name));
        }
        output::info(&line);
    }

    /// Opens the session, or attaches to it while another process has it open. The handle's state
    /// says whether its log was repaired.
    pub(crate) async fn start(
        &self,
        built: &Built,
        prefer: Prefer,
    ) -> Result<(AgentHandle, EventStream), StartError> {
        if let Prefer::Opening = prefer
            && let Some(memory) = self.memory_if_free().await?
        {
            let (handle, events) = built.agent.run(self.context_of(memory, built)).await?;
            built.telemetry.follow(&handle, &built.name).await;
            return Ok((handle, events));
        }
        match attach(&self.store, self.name.clone()).await {
            // The process that has it open has not written anything yet.
            Err(MemoryError::NoSession(_)) => Err(MemoryError::InUse(self.name.clone()).into()),
            attached => Ok(attached?),
        }
    }

    /// Opens the session for an agent, unless another process has it open. Prints a notice if its
    /// log had to be repaired.
    pub(crate) async fn context_if_free(
        &self,
        built: &Built,
    ) -> Result<Option<RunContext>, StartError> {
        let memory = self.memory_if_free().await?;
        Ok(memory.map(|memory| {
            if let Some(repair) = memory.repaired() {
                output::error(&repair);
            }
            self.context_of(memory, built)
        }))
    }

    /// Closes the session after the run in progress. Deletes it if it is new and was never used.
    /// Returns whether it remains.
    pub(crate) async fn close(&self, handle: &AgentHandle) -> bool {
        handle.close().await;
        if self.info.is_some() || handle.is_attached() {
            return true;
        }
        match self.store.session(&self.name).await {
            Ok(info)
                if info.started == 0
                    && info.title.is_empty()
                    && info.unread == 0
                    && info.due.is_none() =>
            {
                let _ = self.store.delete(&self.name).await; // an empty session does no harm
                false
            }
            Err(MemoryError::NoSession(_)) => false,
            _ => true,
        }
    }

    async fn memory_if_free(&self) -> Result<Option<Arc<dyn Memory>>, StartError> {
        match self.store.open(&self.name).await {
            Err(MemoryError::InUse(_)) => Ok(None),
            memory => Ok(Some(memory?)),
        }
    }

    fn context_of(&self, memory: Arc<dyn Memory>, built: &Built) -> RunContext {
        RunContext::new()
            .session(self.name.clone())
            .shared_memory(memory)
            .sub_agents_in(self.store.clone())
            .with(facts::user())
            .settings(built.settings.clone())
    }
}

fn is_foreign(session: &str) -> StartError {
    StartError(format!(
        "The session `{session}` was not created by an agent of this program, so it can only be \
         read: `{} sessions show` shows it. Use it with the program that has created it.",
        started_as()
    ))
}

#[cfg(test)]
mod tests {
    use loopwright_core::event::ExternalAction;
    use loopwright_core::{GenericAgent, ToolError, tool_fn};
    use serde_json::json;

    use loopwright_core::testing::{Script, ScriptedModel};
    use loopwright_patterns::PiPattern;

    use super::super::agent::build;
    use super::super::allowed::Allowed;
    use super::*;
    use crate::program::Kind;

    /// The sub-agents of an app's agent have their sessions in the store of the session.
    #[tokio::test]
    async fn an_agent_of_an_app_has_sub_agents() {
        let agent =
            |replies: Vec<Script>| GenericAgent::builder(ScriptedModel::new(replies), PiPattern);
        let child = agent(vec![Script::text("Chapter 7.")]).build().unwrap();
        let call = ("c1", "librarian", serde_json::json!({ "task": "Where is it?" }));
        let boss = agent(vec![Script::calls([call]), Script::text("There.")])
            .child("librarian", "Finds passages.", child)
            .build()
            .unwrap();
        let agents = vec![("boss".into(), Kind::Own(Arc::new(boss)))];
        let config = Config::of_agents(agents);
        let store = Arc::new(InMemoryStore::new());
        let session = Session { store, name: "s".into(), info: None, is_stored: true };
        let settings = config.resolve(Options::default()).unwrap();
        let built =
            build(&settings, &Allowed::default(), &config, Verbosity::Normal).await.unwrap();
        let context = session.context_if_free(&built).await.unwrap().unwrap();
        let (handle, _events) = built.agent.run(context).await.unwrap();
        assert_eq!(handle.prompt("Where is the whale?").await.unwrap().text, "There.");
    }
    /// C297: the preview of a call is shown for an app's agent and for its sub-agents.
    #[tokio::test]
    async fn an_agent_of_an_app_has_previews() {
        let agent = || GenericAgent::builder(ScriptedModel::new([]), PiPattern);
        let pay = |amount: u32| {
            let diff = format!("-{amount}");
            tool_fn("pay", "Pays.", async |_: Value, _| Ok::<_, ToolError>("paid")).preview(
                move |arguments| {
                    let diff = format!("{diff}\n+{}", arguments["amount"]);
                    async move { Ok(Some(diff)) }
                },
            )
        };
        let child = agent().tool(pay(2)).build().unwrap();
        let boss = agent().tool(pay(1)).child("clerk", "Pays.", child).build().unwrap();
        let agents = vec![("boss".into(), Kind::Own(Arc::new(boss)))];
        let config = Config::of_agents(agents);
        let settings = config.resolve(Options::default()).unwrap();
        let built =
            build(&settings, &Allowed::default(), &config, Verbosity::Normal).await.unwrap();
        let arguments = Arc::new(json!({ "amount": 7 }));
        let mut action = ExternalAction::new("c", "pay", arguments, "digest");
        assert_eq!(built.previews.of(&action).await, Ok(Some("-1\n+7".into())));
        action.path.push("clerk".into());
        assert_eq!(built.previews.of(&action).await, Ok(Some("-2\n+7".into())));
        action.path.push("nobody".into());
        assert_eq!(built.previews.of(&action).await, Ok(None));
    }
}
