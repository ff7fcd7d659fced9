//! Slash commands: the built-in ones, and an app's own with the context of their handlers.

mod built_in;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use loopwright_core::{AgentHandle, SessionStore};
use loopwright_host::SessionSettings;
use tokio::task::JoinHandle;

pub(crate) use self::built_in::{FrontEnd, is_built_in};
use crate::wording::sentence;

/// The reason why an app's slash command failed.
pub type SlashError = Box<dyn std::error::Error + Send + Sync>;

/// The reply of an app's slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlashReply {
    /// A text for the user, which is not part of the conversation.
    Show(String),
    /// A message, sent as if the user had typed it: it starts a run, or steers the one in progress.
    Send(String),
}

/// The conversation in which the user typed a slash command.
#[derive(Clone)]
pub struct SlashContext {
    session: Arc<str>,
    store: Arc<dyn SessionStore>,
    settings: SessionSettings,
    handle: AgentHandle,
}

impl SlashContext {
    pub(crate) fn new(
        session: Arc<str>,
        store: Arc<dyn SessionStore>,
        settings: SessionSettings,
        handle: AgentHandle,
    ) -> Self {
        SlashContext { session, store, settings, handle }
    }

    /// Returns the id of the session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the store that the session is in.
    pub fn store(&self) -> &Arc<dyn SessionStore> {
        &self.store
    }

    /// Returns the settings stored with the session.
    pub fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    /// Returns the handle of the session, to send inputs and to read its state.
    pub fn handle(&self) -> &AgentHandle {
        &self.handle
    }
}

impl fmt::Debug for SlashContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlashContext").field("session", &self.session).finish_non_exhaustive()
    }
}

/// The implementation of a slash command, which gets its arguments.
pub(crate) type SlashHandler = Box<
    dyn Fn(String, SlashContext) -> BoxFuture<'static, Result<SlashReply, SlashError>>
        + Send
        + Sync,
>;

/// A slash command of an app.
pub(crate) struct SlashCommand {
    pub(crate) name: String,
    pub(crate) help: String,
    pub(crate) run: SlashHandler,
}

impl SlashCommand {
    /// Starts the command on the runtime.
    pub(crate) fn start(&self, arguments: &str, context: SlashContext) -> RunningSlash {
        let run = (self.run)(arguments.to_owned(), context);
        RunningSlash { name: self.name.clone(), task: tokio::spawn(run) }
    }
}

/// A running slash command. Dropping it cancels the command.
pub(crate) struct RunningSlash {
    name: String,
    task: JoinHandle<Result<SlashReply, SlashError>>,
}

impl RunningSlash {
    /// Waits for the command to end. Returns its reply, or a sentence that says why it failed.
    /// Cancel-safe.
    pub(crate) async fn ended(&mut self) -> Result<SlashReply, String> {
        let why = match (&mut self.task).await {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(why)) => why.to_string(),
            Err(why) if why.is_panic() => "its handler panicked".to_owned(),
            Err(_) => "it was cancelled".to_owned(),
        };
        Err(sentence(&format!("`/{}` failed: {why}", self.name)))
    }
}

impl Drop for RunningSlash {
    fn drop(&mut self) {
        self.task.abort();
    }
}
