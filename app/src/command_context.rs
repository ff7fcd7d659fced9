//! [`CommandContext`]: the environment of an app's own command.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use loopwright_core::SessionStore;
use loopwright_host::SessionSettings;

use crate::args::StoreArgs;
use crate::config::Config;
use crate::options::Options;
use crate::program::OpenStoreError;

/// The sessions, settings and directories of the app, for its own commands.
pub struct CommandContext(Config);

impl CommandContext {
    pub(crate) fn new(config: Config) -> Self {
        CommandContext(config)
    }

    /// Opens the session store of the settings, else the default one.
    ///
    /// # Errors
    /// Fails if the store cannot be opened.
    pub fn store(&self) -> Result<Arc<dyn SessionStore>, OpenStoreError> {
        self.0.open_store(&StoreArgs::default()).map_err(|why| why.0.into())
    }

    /// Returns the settings of a new session in this directory, from the user's and the project's
    /// settings files and the environment.
    ///
    /// # Errors
    /// Fails if a setting is invalid; the error names it.
    pub fn settings(&self) -> Result<SessionSettings, OpenStoreError> {
        let settings = self.0.resolve(Options::default()).map_err(|why| why.0)?;
        Ok(settings.active)
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
