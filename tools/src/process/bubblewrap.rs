//! Bubblewrap, where the kernel has no Landlock: a view of the file system in which little can be
//! written.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::system;

/// The program, if it is there and works: containers often forbid what it needs.
pub(super) fn find() -> Result<PathBuf, String> {
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
        _ => Err("bubblewrap (`bwrap`) is installed, but may not make name spaces here".into()),
    }
}

/// What comes before the program that is to run. It dies with this process, and all it starts with
/// it.
pub(super) fn arguments(
    readable: &[PathBuf],
    writable: &[PathBuf],
    network: bool,
) -> Vec<OsString> {
    let fixed = "--die-with-parent --new-session --unshare-user-try --unshare-pid --unshare-ipc --unshare-uts --cap-drop ALL";
    let mut arguments: Vec<OsString> = fixed.split(' ').map(OsString::from).collect();
    if !network {
        arguments.push("--unshare-net".into());
    }
    let mut bind =
        |how: &str, path: &Path| arguments.extend([how.into(), path.into(), path.into()]);
    let system = system::readable();
    // Not the processes outside: it has a `/proc` of its own.
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

    /// As root, that is; anybody else cannot read them anyway.
    #[test]
    fn what_only_root_may_read_is_not_in_the_view() {
        let bound = arguments(&[], &[], false);
        let has = |path: &str| bound.iter().any(|word| word == path);
        assert!(has("/usr") && bound.iter().filter(|word| *word == "/proc").count() == 1);
        if rustix::process::geteuid().is_root() && Path::new("/etc/shadow").exists() {
            assert!(!has("/etc") && !has("/etc/shadow") && has("/etc/passwd"));
        }
    }
}
