//! [`CommandContext`]: what a command of an app receives besides its arguments.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use loopwright_core::SessionStore;
use loopwright_server::SessionSettings;

use crate::args::StoreArgs;
use crate::config::Config;
use crate::options::Options;
use crate::program::OpenStoreError;

/// Gives a command of an app the sessions, the settings and the directories of the app.
pub struct CommandContext(Config);

impl CommandContext {
    pub(crate) fn new(config: Config) -> Self {
        CommandContext(config)
    }

    /// Opens the session store that the settings name, else the default one.
    ///
    /// # Errors
    /// Returns why the store cannot be opened.
    pub fn store(&self) -> Result<Arc<dyn SessionStore>, OpenStoreError> {
        self.0.open_store(&StoreArgs::default()).map_err(|why| why.0.into())
    }

    /// Returns the settings of a new session in this directory, from the user's and the project's
    /// settings file and the environment.
    ///
    /// # Errors
    /// Returns which setting is invalid.
    pub fn settings(&self) -> Result<SessionSettings, OpenStoreError> {
        let settings = self.0.resolve(Options::default()).map_err(|why| why.0)?;
        Ok(settings.active.to_session())
    }

    /// Returns the directory of the app's data, whether or not it exists; `None` if `HOME` is not
    /// set.
    pub fn data_directory(&self) -> Option<PathBuf> {
        self.0.program.names.data_directory()
    }

    /// Returns the directory of the app's settings file, whether or not it exists; `None` if `HOME`
    /// is not set.
    pub fn config_directory(&self) -> Option<PathBuf> {
        self.0.program.names.config_directory()
    }
}

impl fmt::Debug for CommandContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CommandContext").field(&self.0.program.names).finish()
    }
}
