//! Environment variables, and the directories that they determine.

use std::env;
use std::path::PathBuf;

/// The prefix of loopwright's own variables.
pub(crate) const PREFIX: &str = "LOOPWRIGHT_";
/// The variable with the path of the user's `loopwright.toml`; if it is empty, no file is read.
pub(crate) const CONFIG: &str = "LOOPWRIGHT_CONFIG";
/// The variable with the log level of `serve`.
pub(crate) const LOG_LEVEL: &str = "LOOPWRIGHT_LOG";
/// The variable with the token of `serve`.
pub(crate) const TOKEN: &str = "LOOPWRIGHT_TOKEN";

/// Returns loopwright's configuration directory: `loopwright` in `$XDG_CONFIG_HOME` or `~/.config`.
pub(crate) fn config_directory() -> Option<PathBuf> {
    Some(xdg_directory("XDG_CONFIG_HOME", ".config")?.join("loopwright"))
}

/// Returns loopwright's data directory: `loopwright` in `$XDG_DATA_HOME` or `~/.local/share`.
pub(crate) fn data_directory() -> Option<PathBuf> {
    Some(xdg_directory("XDG_DATA_HOME", ".local/share")?.join("loopwright"))
}

fn xdg_directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    path(variable).or_else(|| Some(path("HOME")?.join(below_home)))
}

/// Returns the path that a variable holds, or `None` if it is unset or empty.
fn path(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}
