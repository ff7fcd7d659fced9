//! Bubblewrap, for kernels without Landlock: commands get a view of the file system in which only
//! some directories are writable.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::system_paths;

const FIXED_ARGUMENTS: [&str; 8] = [
    "--die-with-parent",
    "--new-session",
    "--unshare-user-try",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--cap-drop",
    "ALL",
];

/// Finds the program. Returns an error if it is missing or does not work: containers often forbid
/// namespaces.
pub(super) fn find_program() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|dir| dir.join("bwrap")).find(|path| path.is_file());
    let program = found.ok_or("bubblewrap (`bwrap`) is not installed")?;
    let mut trial = Command::new(&program);
    trial.args(arguments(&[], &[], false)).args(["--", "/bin/sh", "-c", ":"]);
    match trial
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
    {
        Ok(status) if status.success() => Ok(program),
        _ => Err("bubblewrap (`bwrap`) is installed, but may not create namespaces here".into()),
    }
}

/// Returns the arguments that come before the program to run. That program is killed, with all its
/// processes, when this process dies.
pub(super) fn arguments(
    readable: &[PathBuf],
    writable: &[PathBuf],
    network: bool,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = FIXED_ARGUMENTS.map(OsString::from).into();
    if !network {
        arguments.push("--unshare-net".into());
    }
    let mut bind =
        |how: &str, path: &Path| arguments.extend([how.into(), path.into(), path.into()]);
    let system = system_paths::readable();
    // `/proc` is left out: the command gets one that shows only its own processes.
    for path in system.paths.iter().filter(|path| *path != Path::new("/proc")).chain(readable) {
        bind("--ro-bind-try", path);
    }
    for path in writable {
        bind("--bind-try", path);
    }
    for link in system.links {
        if let Ok(target) = std::fs::read_link(&link) {
            arguments.extend(["--symlink".into(), target.into(), link.into()]);
        }
    }
    arguments.extend(["--proc", "/proc", "--dev", "/dev"].map(OsString::from));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tested as root only; other users cannot read these files anyway.
    #[test]
    fn files_that_only_root_may_read_are_not_in_the_view() {
        let bound = arguments(&[], &[], false);
        let has = |path: &str| bound.iter().any(|word| word == path);
        assert!(has("/usr") && bound.iter().filter(|word| *word == "/proc").count() == 1);
        if rustix::process::geteuid().is_root() && Path::new("/etc/shadow").exists() {
            assert!(!has("/etc") && !has("/etc/shadow") && has("/etc/passwd"));
        }
    }
}
