//! The names that an app gives to its directories, files and environment variables.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;

/// The name of an app, and the names derived from it.
#[derive(Debug, Clone)]
pub(crate) struct Names(Arc<str>);

impl Default for Names {
    fn default() -> Self {
        Names::new("loopwright")
    }
}

impl Names {
    /// Returns the names of an app.
    pub(crate) fn new(app: &str) -> Self {
        Names(app.into())
    }

    /// Returns the app's name, by which it is started.
    pub(crate) fn app(&self) -> &str {
        &self.0
    }

    /// Returns the prefix of the app's environment variables, such as `LOOPWRIGHT_`.
    pub(crate) fn prefix(&self) -> String {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let mut prefix: String = self.0.chars().map(letter).collect();
        prefix.push('_');
        prefix
    }

    /// Returns the name of a variable with the prefix.
    pub(crate) fn variable(&self, name: &str) -> String {
        self.prefix() + name
    }

    /// Returns the variable with the path of the user's settings; if it is empty, no file is read.
    pub(crate) fn config_variable(&self) -> String {
        self.variable("CONFIG")
    }

    /// Returns the variable with the log level of `serve`.
    pub(crate) fn log_variable(&self) -> String {
        self.variable("LOG")
    }

    /// Returns the variable with the token of `serve`.
    pub(crate) fn token_variable(&self) -> String {
        self.variable("TOKEN")
    }

    /// Returns the variable with the secret of the webhook of `serve`.
    pub(crate) fn webhook_secret_variable(&self) -> String {
        self.variable("WEBHOOK_SECRET")
    }

    /// Returns the variables that are not settings.
    pub(crate) fn other_variables(&self) -> [String; 4] {
        [
            self.config_variable(),
            self.token_variable(),
            self.log_variable(),
            self.webhook_secret_variable(),
        ]
    }

    /// Returns the name of files with settings, such as `loopwright.toml`.
    pub(crate) fn settings_file(&self) -> String {
        format!("{}.toml", self.0)
    }

    /// Returns the configuration directory: the app's name in `$XDG_CONFIG_HOME` or `~/.config`.
    pub(crate) fn config_directory(&self) -> Option<PathBuf> {
        Some(xdg_directory("XDG_CONFIG_HOME", ".config")?.join(&*self.0))
    }

    /// Returns the data directory: the app's name in `$XDG_DATA_HOME` or `~/.local/share`.
    pub(crate) fn data_directory(&self) -> Option<PathBuf> {
        Some(xdg_directory("XDG_DATA_HOME", ".local/share")?.join(&*self.0))
    }
}

fn xdg_directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    path(variable).or_else(|| Some(path("HOME")?.join(below_home)))
}

/// Returns the path in a variable, or `None` if it is unset or empty.
fn path(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Returns the name by which the user has started this program, for commands in messages.
pub(crate) fn started_as() -> String {
    let path = env::args_os().next().map(PathBuf::from);
    let name = path.as_deref().and_then(|path| path.file_stem()?.to_str());
    match name {
        // Tests have binaries of other names.
        Some(name) if !cfg!(test) && !name.is_empty() => name.to_owned(),
        _ => "loopwright".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_follow_from_that_of_the_app() {
        let names = Names::new("acme-desk");
        assert_eq!(names.variable("MODEL"), "ACME_DESK_MODEL");
        assert_eq!(names.settings_file(), "acme-desk.toml");
    }
}
