//! Opening, switching, forking and closing sessions.

mod choose;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use loopwright_core::AgentHandle;
use loopwright_core::log::SessionLog;
use loopwright_core::message::MessageId;
use loopwright_core::session::EventReader;
use loopwright_host::SessionSettings;
use tokio::task::JoinSet;

use super::host::{Host, Open, Target, with_retry_hint};
use super::msg::Msg;
use crate::environment::started_as;
use crate::error::StartError;
use crate::output::{self, Verbosity};
use crate::session::{Allowed, Built, Prefer, Session, build, distil_at_end, find, name_or_random};
use crate::tui::state::{Opened, Outcome};

impl Host {
    /// Runs a slash command of the app in a task of its own.
    pub(super) fn slash(&mut self, name: &str, arguments: &str) {
        let msgs = self.msgs.clone();
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
        let distils_at_end = built.distils_at_end;
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
        let slash = session.slash_context(&stored, &handle);
        self.open =
            Some(Open { handle, agent, previews, distils_at_end, slash, running: JoinSet::new() });
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

    /// Closes the session, and returns whether it remains: a session that was never used is
    /// deleted.
    async fn release(&mut self) -> bool {
        let (Some(open), Some(session)) = (self.open.take(), &self.session) else {
            return false;
        };
        let handle = open.handle.clone();
        drop(open); // which cancels its slash commands
        session.close(&handle).await
    }

    /// Aborts a run of this process and closes the session. Returns its name if it can be resumed.
    pub(super) async fn shutdown(&mut self) -> Option<Arc<str>> {
        let handle = self.handle()?;
        if !handle.is_attached() && handle.state().await.is_ok_and(|state| state.is_running) {
            let _ = handle.abort().await;
            handle.wait_for_idle().await;
        }
        drop(handle);
        let remains = self.release().await;
        let session = self.session.as_ref()?;
        (session.is_stored && remains).then(|| session.name.clone())
    }
}

async fn start(
    session: &Session,
    built: Built,
    same: bool,
    prefer: Prefer,
) -> Result<(Opened, AgentHandle, EventReader), StartError> {
    let (handle, events) = session.start(&built, prefer).await?;
    let events = EventReader::new(handle.clone(), events, session.store.clone());
    let mut state = handle
        .state()
        .await
        .map_err(|why| StartError(format!("The session could not be opened: {why}.")))?;
    let is_attached = handle.is_attached();
    if is_attached {
        // The log has no other settings of the owner's agent.
        let settings = SessionSettings::from_stored(state.settings.as_deref());
        state.thinking_level = settings.thinking.unwrap_or_default();
    }
    let known = find(&*session.store, &session.name).await?;
    let (usage, cost) = known.map(|info| (info.usage, info.cost)).unwrap_or_default();
    let is_persistent = session.is_stored;
    let Built { model, root, distils, .. } = built;
    let opened =
        Opened { state, model, is_persistent, root, usage, cost, distils, same, is_attached };
    Ok((opened, handle, events))
}

/// Adds how to set an address, since the interface has no command for it.
fn with_address(
    StartError(why): StartError,
    session: &Session,
    active: &SessionSettings,
) -> StartError {
    if !why.contains("--base-url") {
        return StartError(why);
    }
    let name = output::quoted(&session.name);
    let model = active.model.as_deref().unwrap_or("PROVIDER/NAME");
    let which = if session.is_stored { format!("--session {name} ") } else { String::new() };
    let (program, model) = (started_as(), output::quoted(model));
    let command = format!("{program} {which}--model {model} --base-url URL");
    StartError(format!("{why} To set it, `/quit` and run `{command}`."))
}
