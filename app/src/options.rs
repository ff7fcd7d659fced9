//! The options of an agent on the command line.

mod custom;
mod flags;
mod mcp;
mod values;

use std::path::PathBuf;

use clap::Args;
use loopwright_host::SessionSettings;

pub(crate) use self::custom::with_flags;
pub(crate) use self::flags::{FILES, Flags, MODELS, SERVER, SESSION, has};
pub(crate) use self::mcp::McpArg;
pub(crate) use self::values::{dollars, is_sum, protected_path};

/// The options that `run` and `chat` share.
///
/// A session stores its settings, so continuing it needs none. Settings that are given then replace
/// the stored ones. MCP servers are not stored: whoever continues the session decides what runs.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) settings: Flags<SESSION>,
    /// An MCP server whose tools the agent has: `NAME=COMMAND` or `NAME=URL`, or the name of a
    /// server that the project's settings propose, to accept it. May be repeated.
    ///
    /// Servers that you always want belong in your settings, as [mcp.NAME]. /mcp lists them.
    #[arg(long, value_name = "NAME[=COMMAND|URL]", value_parser = McpArg::read)]
    pub(crate) mcp: Vec<McpArg>,
}

impl Options {
    /// Returns only the options that a session does not store.
    pub(crate) fn not_stored(self) -> Options {
        let mut left = Options::default();
        left.settings.models = self.settings.0.models;
        left
    }
}

/// Returns a sentence about the permissions that come only from `stored`, the settings that a
/// session was started with, and not from `given`. Returns `None` without such permissions.
pub(crate) fn inherited_permissions(
    given: &SessionSettings,
    stored: &SessionSettings,
) -> Option<String> {
    let is_inherited =
        |given: Option<bool>, stored: Option<bool>| given.is_none() && stored == Some(true);
    let approves_all = |settings: &SessionSettings| {
        settings.approve.as_ref().map(|names| names.iter().any(|name| name == "all"))
    };
    let permissions = [
        (
            is_inherited(approves_all(given), approves_all(stored)),
            "all tools run without approval (`--approve read-only` changes that)",
        ),
        (
            is_inherited(given.memory, stored.memory),
            "facts about you are remembered (`--memory=false`)",
        ),
        (
            is_inherited(given.distil_at_end, stored.distil_at_end),
            "facts are distilled from it when it ends (`--distil-at-end=false`)",
        ),
        (
            is_inherited(given.unconfined, stored.unconfined),
            "commands are unconfined (`--unconfined=false`)",
        ),
        (
            is_inherited(given.network, stored.network),
            "commands may use the network (`--network=false`)",
        ),
    ];
    let more: Vec<&str> =
        permissions.into_iter().filter_map(|(is, text)| is.then_some(text)).collect();
    (!more.is_empty()).then(|| format!("As this session was started: {}.", more.join("; ")))
}

/// Returns the directory as it was given, by default `.`.
pub(crate) fn root_or_here(settings: &SessionSettings) -> PathBuf {
    settings.work_dir.as_deref().unwrap_or(".").into()
}
