//! Opening, switching, forking and closing sessions.

mod choose;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use loopwright_core::agent::AgentState;
use loopwright_core::log::SessionLog;
use loopwright_core::message::MessageId;
use loopwright_core::model::ModelInfo;
use loopwright_core::{AgentHandle, EventStream, GenericAgent};
use loopwright_server::SessionSettings;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::msg::Msg;
use crate::args::SessionArgs;
use crate::config::Config;
use crate::environment::{Names, started_as};
use crate::error::StartError;
use crate::options::Options;
use crate::output::{self, Verbosity};
use crate::session::{
    Allowed, Built, Prefer, Previews, Session, build, distil_at_end, find, name_or_random,
};
use crate::settings::Settings;
use crate::slash::SlashContext;
use crate::tui::state::{Opened, Outcome, Tone};

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
    msgs: mpsc::UnboundedSender<Msg>,
    /// The options of the command line.
    cli_options: Options,
    config: Arc<Config>,
    /// The options of the current session.
    settings: Settings,
    /// The tools that the user has allowed in this session.
    allowed: Allowed,
    open: Option<Open>,
    /// The current session, or the session that could not be opened.
    session: Option<Session>,
    /// The given options of the current session that are not stored with it yet.
    given: Options,
    /// The session that the command line names, until it is open.
    first: Option<Box<SessionArgs>>,
}

struct Open {
    handle: AgentHandle,
    agent: GenericAgent,
    model: ModelInfo,
    previews: Previews,
    root: PathBuf,
    distils: bool,
    distils_at_end: bool,
    /// The context of the app's slash commands.
    slash: SlashContext,
    /// The running slash commands of the app. Closing the session cancels them.
    running: JoinSet<()>,
    /// `true` if the session contains a user message.
    has_user_message: bool,
}

impl Open {
    /// Returns whether the session contains a message, including ones from slash commands.
    async fn is_used(&self) -> bool {
        let state = self.handle.state().await;
        self.has_user_message || !state.is_ok_and(|now| now.messages.is_empty())
    }
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
                active: cli_options.clone(),
                given: cli_options.clone(),
                name: None,
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

    pub(super) fn options(&self) -> &Options {
        &self.settings.active
    }

    /// Returns the settings with a change, which is also applied to the stored options.
    pub(super) fn with(&self, change: impl Fn(&mut Options)) -> Box<Settings> {
        let mut settings = Box::new(self.settings.clone());
        settings.change(change);
        settings
    }

    /// Returns the names derived from the app's (files, directories, variables).
    pub(super) fn names(&self) -> &Names {
        &self.config.program.names
    }

    /// Returns the agent of the open session.
    pub(super) fn agent(&self) -> Option<&GenericAgent> {
        self.open.as_ref().map(|open| &open.agent)
    }

    /// Returns the previews of the open session's calls.
    pub(super) fn previews(&self) -> Option<Previews> {
        self.open.as_ref().map(|open| open.previews.clone())
    }

    pub(super) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    pub(super) fn handle(&self) -> Option<AgentHandle> {
        self.open.as_ref().map(|open| open.handle.clone())
    }

    pub(super) fn msgs(&self) -> mpsc::UnboundedSender<Msg> {
        self.msgs.clone()
    }

    pub(super) fn allowed(&self) -> &Allowed {
        &self.allowed
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

    pub(super) fn record_user_message(&mut self) {
        if let Some(open) = &mut self.open {
            open.has_user_message = true;
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

    /// Runs a slash command of the app in a task of its own.
    pub(super) fn slash(&mut self, name: &str, arguments: &str) {
        let msgs = self.msgs();
        let Some(open) = &mut self.open else {
            return self.send_closed();
        };
        while open.running.try_join_next().is_some() {}
        let Some(command) = self.config.program.slash_command(name) else {
            return; // the state knows the commands of the program
        };
        let mut running = command.start(arguments, open.slash.clone());
        let session = open.slash.session().into();
        open.running.spawn(async move {
            let reply = running.ended().await;
            let _ = msgs.send(Msg::Outcome(Outcome::Replied(session, reply)));
        });
    }

    /// Opens a session instead of the current one, or reports why it cannot be opened.
    pub(super) async fn open(&mut self, target: Target) {
        if let Err(StartError(why)) = self.try_open(target).await {
            self.send_outcome(Outcome::NotOpened { why, closed: self.open.is_none() });
        }
    }

    async fn try_open(&mut self, target: Target) -> Result<(), StartError> {
        let same = matches!(target, Target::Same(_)) && self.session.is_some();
        let (session, settings) = self.choose(target).await?;
        let allowed = if same { self.allowed.clone() } else { Allowed::default() };
        let built = match build(&settings, &allowed, &self.config, Verbosity::Normal).await {
            Ok(built) => built,
            Err(why) => {
                let why = with_address(why, &session, &settings.active);
                if self.session.is_none() {
                    self.session = Some(session);
                    self.settings = settings;
                }
                return Err(why);
            }
        };
        let reopens = same && self.open.is_some();
        let moved = self.open.as_ref().filter(|open| same && open.handle.has_ended());
        let prefer = moved.map_or(Prefer::Opening, |open| Prefer::after_move(&open.handle));
        if same {
            self.release().await; // a session cannot be open twice
        }
        if !same {
            self.distil_at_end().await;
        }
        let (agent, previews) = (built.agent.clone(), built.previews.clone());
        let (distils, distils_at_end) = (built.distils, built.distils_at_end);
        let stored = built.settings.clone();
        let started = start(&session, built, reopens, prefer).await;
        if self.open.is_some() && started.is_err() {
            return started.map(drop); // the current session stays open
        }
        self.release().await;
        let name = session.name.clone();
        self.session = Some(session.clone());
        self.settings = settings;
        self.allowed = allowed;
        let (opened, handle, events) = started.map_err(|why| with_retry_hint(&why, &name))?;
        let slash = SlashContext::new(&session, &stored, handle.clone());
        let model = opened.model.clone();
        let root = opened.root.clone();
        let has_user_message = !opened.state.messages.is_empty();
        self.open = Some(Open {
            handle,
            agent,
            model,
            previews,
            root,
            distils,
            distils_at_end,
            slash,
            running: JoinSet::new(),
            has_user_message,
        });
        self.first = None;
        if !opened.is_attached {
            self.given = self.given.clone().not_stored();
        }
        let _ = self.msgs.send(Msg::Opened(Box::new(opened), events));
        Ok(())
    }

    /// Opens the session again, or attaches to it, after it has moved.
    pub(super) async fn reopen(&mut self) {
        if let Err(StartError(why)) = self.try_reopen().await {
            self.open = None;
            self.send_outcome(Outcome::NotOpened { why, closed: true });
        }
    }

    async fn try_reopen(&mut self) -> Result<(), StartError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        session.reload().await?;
        let session = session.clone();
        let settings = self.resolve_settings(&session, &self.given)?;
        self.try_open(Target::Same(Box::new(settings))).await
    }

    /// Joins the session again after its events lagged.
    pub(super) async fn rejoin(&mut self) {
        if let Err(StartError(why)) = self.try_rejoin().await {
            self.open = None;
            self.send_outcome(Outcome::NotOpened { why, closed: true });
        }
    }

    async fn try_rejoin(&self) -> Result<(), StartError> {
        let ended = |_| StartError("The session has ended: `/sessions` reopens it.".into());
        let (Some(open), Some(session)) = (&self.open, &self.session) else {
            return Ok(());
        };
        let (_, events) = open.handle.join().await.map_err(ended)?;
        let mut state = open.handle.state().await.map_err(ended)?;
        // Both were reported when the session was opened.
        state.repaired = None;
        state.interrupted_run = None;
        let model = open.model.clone();
        let root = open.root.clone();
        let how = (open.distils, open.handle.is_attached(), true);
        let opened = opened(session, state, model, root, how).await?;
        let _ = self.msgs.send(Msg::Opened(Box::new(opened), events));
        Ok(())
    }

    pub(super) fn store(&self) -> Result<Arc<dyn loopwright_core::SessionStore>, StartError> {
        match (&self.session, &self.first) {
            (Some(session), _) => Ok(session.store.clone()),
            (None, Some(which)) => self.config.open_store(&which.store),
            (None, None) => Err(StartError("No session store is open.".into())),
        }
    }

    /// Forks the session at a message and opens the fork.
    pub(super) async fn fork(&mut self, at: Option<MessageId>) {
        match self.try_fork(at).await {
            Ok(name) => self.open(Target::Fork(name)).await,
            Err(StartError(why)) => {
                self.send_outcome(Outcome::NotOpened { why, closed: self.open.is_none() })
            }
        }
    }

    async fn try_fork(&self, at: Option<MessageId>) -> Result<String, StartError> {
        let Some(session) = &self.session else {
            return Err(StartError("No session is open.".into()));
        };
        let store = &session.store;
        let entry = match at {
            None => None,
            Some(id) => {
                let entries = store.read(&session.name, 0).await?;
                Some(SessionLog::entries_up_to(&entries, id).ok_or_else(|| {
                    StartError(format!(
                        "There is no message {id} in this conversation: `/fork` lists the messages."
                    ))
                })?)
            }
        };
        let name = name_or_random(None, &**store).await?;
        match store.fork(&session.name, entry, &name).await? {
            0 => Err(StartError(
                "No turn had ended at that message, so there is nothing to fork.".into(),
            )),
            _ => Ok(name),
        }
    }

    /// Distils facts from the session, which ends, if its settings say so.
    pub(super) async fn distil_at_end(&self) {
        if let Some(open) =
            self.open.as_ref().filter(|open| open.distils_at_end && !self.is_attached())
        {
            distil_at_end(&open.handle).await;
        }
    }

    /// Closes the session. Deletes it if it has never contained a user message.
    async fn release(&mut self) {
        let Some(open) = self.open.take() else {
            return;
        };
        let has_user_message = open.is_used().await;
        let handle = open.handle.clone();
        let is_attached = handle.is_attached();
        drop(open);
        handle.close().await;
        if let Some(session) = self
            .session
            .as_ref()
            .filter(|session| !has_user_message && session.is_stored && session.info.is_none())
            .filter(|_| !is_attached)
        {
            let _ = session.store.delete(&session.name).await; // an empty session does no harm
        }
    }

    /// Aborts a run of this process and closes the session. Returns its name if it can be resumed.
    pub(super) async fn shutdown(&mut self) -> Option<Arc<str>> {
        let open = self.open.as_ref()?;
        let has_user_message = open.is_used().await;
        let handle = open.handle.clone();
        if !handle.is_attached() && handle.state().await.is_ok_and(|state| state.is_running) {
            let _ = handle.abort().await;
            handle.wait_for_idle().await;
        }
        drop(handle);
        self.release().await;
        let session = self.session.as_ref()?;
        (session.is_stored && (has_user_message || session.info.is_some()))
            .then(|| session.name.clone())
    }
}

async fn start(
    session: &Session,
    built: Built,
    same: bool,
    prefer: Prefer,
) -> Result<(Opened, AgentHandle, EventStream), StartError> {
    let (handle, events) = session.start(&built, prefer).await?;
    let state = handle
        .state()
        .await
        .map_err(|why| StartError(format!("The session could not be opened: {why}.")))?;
    let how = (built.distils, handle.is_attached(), same);
    let opened = opened(session, state, built.model, built.root, how).await?;
    Ok((opened, handle, events))
}

async fn opened(
    session: &Session,
    mut state: AgentState,
    model: ModelInfo,
    root: PathBuf,
    (distils, is_attached, same): (bool, bool, bool),
) -> Result<Opened, StartError> {
    if is_attached {
        // The log has no other settings of the owner's agent.
        let settings = SessionSettings::from_stored(state.settings.as_deref());
        state.thinking_level = settings.thinking.unwrap_or_default();
    }
    let known = find(&*session.store, &session.name).await?;
    let (usage, cost) = known.map(|info| (info.usage, info.cost)).unwrap_or_default();
    let is_persistent = session.is_stored;
    Ok(Opened { state, model, is_persistent, root, usage, cost, distils, same, is_attached })
}

fn with_retry_hint(StartError(why): &StartError, name: &str) -> StartError {
    StartError(format!("{why} `/sessions {name}` retries."))
}

/// Adds how to set an address, since the interface has no command for it.
fn with_address(StartError(why): StartError, session: &Session, options: &Options) -> StartError {
    if !why.contains("--base-url") {
        return StartError(why);
    }
    let name = output::quoted(&session.name);
    let model = options.model.as_deref().unwrap_or("PROVIDER/NAME");
    let which = if session.is_stored { format!("--session {name} ") } else { String::new() };
    let (program, model) = (started_as(), output::quoted(model));
    let command = format!("{program} {which}--model {model} --base-url URL");
    StartError(format!("{why} To set it, `/quit` and run `{command}`."))
}
