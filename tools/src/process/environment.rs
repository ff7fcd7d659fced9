//! The environment of commands: a short list, so that keys stay with the agent.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What commands are given of this process's environment.
const PASSED: [&str; 8] =
    ["PATH", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ"];
/// Where programs are found if there is no `PATH`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// Where Rust's programs look for what they need, and where that is in a home directory. A confined
/// command has another home directory, so it is told.
const TOOLCHAINS: [(&str, &str); 2] = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")];
/// What is read of a `CARGO_HOME`; a registry's token, which lies there too, is not.
#[cfg(target_os = "linux")]
const OF_CARGO: [&str; 6] = ["bin", "registry", "git", "config", "config.toml", "env"];

/// What else of a home directory is read, being programs: those of version managers and of package
/// managers.
#[cfg(target_os = "linux")]
const OF_HOME: [&str; 12] = [
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

/// Variables with their values. `home` and `temporary` are directories that are the command's own.
pub(super) fn variables(
    more: &[String],
    home: Option<&Path>,
    temporary: &Path,
) -> Vec<(OsString, OsString)> {
    let own = |name: &str| std::env::var_os(name).map(|value| (name.into(), value));
    let mut variables: Vec<(OsString, OsString)> =
        PASSED.iter().filter_map(|name| own(name)).collect();
    if std::env::var_os("PATH").is_none() {
        variables.push(("PATH".into(), PATH.into()));
    }
    // A terminal that can do nothing: no colours, no questions, no pages.
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

/// Directories outside of the system's that the list above leads to: of programs, and of
/// toolchains.
#[cfg(target_os = "linux")]
pub(super) fn readable() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // One that has the home directory in it would show all of it.
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let managers: Vec<PathBuf> =
        OF_HOME.iter().map(|part| home.join(part)).filter(|dir| dir.is_absolute()).collect();
    let programs =
        std::env::split_paths(&path).filter(move |dir| dir.is_absolute() && !home.starts_with(dir));
    let toolchains = toolchains().flat_map(|(name, dir)| match name {
        "CARGO_HOME" => OF_CARGO.iter().map(|part| dir.join(part)).collect(),
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
