//! The session store, and the metadata of its sessions.

use std::fmt;
use std::path::{Path, PathBuf};

use loopwright_core::log::{MemoryError, SessionInfo};
use loopwright_core::{Environment, SessionStore, SystemEnvironment};
use loopwright_host::SessionSettings;
use serde::Deserialize;

use crate::environment::started_as;
use crate::error::StartError;

/// Returns the settings that a session was started with. The agent's name is empty if another
/// program started the session.
pub(crate) fn stored_settings(info: &SessionInfo) -> Result<SessionSettings, StartError> {
    if let Some(Err(why)) = info.settings.as_deref().map(SessionSettings::deserialize) {
        return Err(StartError(format!(
            "The settings that session `{}` was started with cannot be read: {why}.",
            info.id
        )));
    }
    Ok(of_terminal(info))
}

/// Returns the stored settings. A server may store the directory as its client wrote it; a relative
/// one is the server's.
fn of_terminal(info: &SessionInfo) -> SessionSettings {
    let mut settings = SessionSettings::from_stored(info.settings.as_deref());
    settings.work_dir = settings.work_dir.filter(|path| Path::new(path).is_absolute());
    settings
}

/// Returns a session's metadata, or `None` if it does not exist.
pub(crate) async fn find(
    store: &dyn SessionStore,
    name: &str,
) -> Result<Option<SessionInfo>, StartError> {
    match store.session(name).await {
        Ok(info) => Ok(Some(info)),
        Err(MemoryError::NoSession(_)) => Ok(None),
        Err(why) => Err(why.into()),
    }
}

/// Returns the session of this directory that changed last.
pub(crate) async fn latest(
    store: &dyn SessionStore,
    directory: &Path,
) -> Result<SessionInfo, StartError> {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = real(directory);
    let is_here = |info: &SessionInfo| {
        SessionSetup::of(info).directory.is_some_and(|other| real(&other) == directory)
    };
    store.sessions().await?.into_iter().find(is_here).ok_or_else(|| {
        StartError(format!(
            "There is no session of {} to continue: leave out --continue, or name one with \
             --session; `{} sessions list` lists those of all directories.",
            directory.display(),
            started_as()
        ))
    })
}

/// The directory and the model of a session, as far as they are stored.
pub(crate) struct SessionSetup {
    pub(crate) directory: Option<PathBuf>,
    pub(crate) model: Option<String>,
}

impl SessionSetup {
    /// Returns the setup of a session, whichever program started it.
    pub(crate) fn of(info: &SessionInfo) -> Self {
        let settings = of_terminal(info);
        SessionSetup { directory: settings.work_dir.map(PathBuf::from), model: settings.model }
    }
}

impl fmt::Display for SessionSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.model, &self.directory) {
            (Some(model), Some(directory)) => write!(f, "{model} in {}", directory.display()),
            (Some(model), None) => f.write_str(model),
            (None, Some(directory)) => write!(f, "in {}", directory.display()),
            (None, None) => Ok(()),
        }
    }
}

/// Returns a session's metadata. Fails if it does not exist.
pub(crate) async fn existing(
    store: &dyn SessionStore,
    name: &str,
) -> Result<SessionInfo, StartError> {
    let none = || {
        let program = started_as();
        StartError(format!("There is no session `{name}`; `{program} sessions list` lists them."))
    };
    find(store, name).await?.ok_or_else(none)
}

/// Returns the given name, else a random unused one.
pub(crate) async fn name_or_random(
    given: Option<&str>,
    store: &dyn SessionStore,
) -> Result<String, StartError> {
    if let Some(name) = given {
        return Ok(name.to_owned());
    }
    loop {
        let name = format!("s{:08x}", SystemEnvironment.random() as u32);
        if find(store, &name).await?.is_none() {
            return Ok(name);
        }
    }
}
