//! The environment variables of commands: a short list, so that API keys are not exposed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The variables that commands inherit from this process.
const INHERITED: [&str; 8] =
    ["PATH", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ"];
/// The default `PATH` of commands, if this process has none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// Variables with the directories of Rust's toolchain, and their defaults in the home directory.
/// They are always set, because a confined command has another home directory.
const TOOLCHAINS: [(&str, &str); 2] = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")];
/// The entries of `CARGO_HOME` that commands may read. The file with registry tokens is not among
/// them.
#[cfg(target_os = "linux")]
const READABLE_IN_CARGO_HOME: [&str; 6] =
    ["bin", "registry", "git", "config", "config.toml", "env"];

/// Readable program directories of version and package managers in the home directory.
#[cfg(target_os = "linux")]
const READABLE_IN_HOME: [&str; 12] = [
    ".pyenv",
    ".rbenv",
    ".nvm",
    ".asdf",
    ".sdkman",
    ".volta",
    ".bun/bin",
    ".deno/bin",
    ".local/lib",
    ".local/share/pipx",
    ".local/share/uv",
    ".local/share/mise",
];

/// Returns the variables of a command. `home` is its home directory, `temporary` its directory for
/// temporary files, and `more` names additional inherited variables.
pub(super) fn variables(
    more: &[String],
    home: Option<&Path>,
    temporary: &Path,
) -> Vec<(OsString, OsString)> {
    let own = |name: &str| std::env::var_os(name).map(|value| (name.into(), value));
    let mut variables: Vec<(OsString, OsString)> =
        INHERITED.iter().filter_map(|name| own(name)).collect();
    if std::env::var_os("PATH").is_none() {
        variables.push(("PATH".into(), DEFAULT_PATH.into()));
    }
    // A terminal without capabilities: no colours, no prompts, no pager.
    variables.extend(
        [("TERM", "dumb"), ("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0")]
            .map(|(name, value)| (name.into(), value.into())),
    );
    variables.push(("TMPDIR".into(), temporary.into()));
    match home {
        Some(home) => {
            variables.push(("HOME".into(), home.into()));
            variables.extend(toolchains().map(|(name, path)| (name.into(), path.into())));
        }
        None => variables
            .extend(["HOME", "CARGO_HOME", "RUSTUP_HOME"].iter().filter_map(|name| own(name))),
    }
    variables.extend(more.iter().filter_map(|name| own(name)));
    variables
}

/// Returns directories with programs and toolchains outside the system's directories.
#[cfg(target_os = "linux")]
pub(super) fn readable() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A directory that contains the home directory would expose all of it.
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let managers: Vec<PathBuf> = READABLE_IN_HOME
        .iter()
        .map(|part| home.join(part))
        .filter(|dir| dir.is_absolute())
        .collect();
    let programs =
        std::env::split_paths(&path).filter(move |dir| dir.is_absolute() && !home.starts_with(dir));
    let toolchains = toolchains().flat_map(|(name, dir)| match name {
        "CARGO_HOME" => READABLE_IN_CARGO_HOME.iter().map(|part| dir.join(part)).collect(),
        _ => vec![dir],
    });
    programs.chain(managers).chain(toolchains).collect()
}

fn toolchains() -> impl Iterator<Item = (&'static str, PathBuf)> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    TOOLCHAINS.iter().filter_map(move |(name, below_home)| {
        let named = std::env::var_os(name).map(PathBuf::from);
        Some((*name, named.or_else(|| home.as_ref().map(|home| home.join(below_home)))?))
    })
}
