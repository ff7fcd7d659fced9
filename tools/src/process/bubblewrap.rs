//! Bubblewrap, for kernels without Landlock: commands get a view of the file system in which only
//! some directories are writable. It also applies the system call filters.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::system_calls;
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

/// System-wide settings in `/proc`, which root may write without any capability.
const KERNEL_SETTINGS: [&str; 5] =
    ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];

/// The descriptor of the first filter, after the standard descriptors.
const FIRST_FILTER: usize = 3;

/// Finds the program. Fails if it is missing or does not work: containers often forbid namespaces.
pub(super) fn find_program() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|dir| dir.join("bwrap")).find(|path| path.is_file());
    let program = found.ok_or("bubblewrap (`bwrap`) is not installed")?;
    let dir = tempfile::tempdir().map_err(|e| format!("bubblewrap could not be tried: {e}"))?;
    let filters = Filters::create(dir.path(), false)?;
    let mut words = filters.start(&program);
    words.extend(arguments(&View::default(), false));
    words.extend(["--", "/bin/sh", "-c", ":"].map(OsString::from));
    let mut trial = Command::new(&words[0]);
    match trial
        .args(&words[1..])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
    {
        Ok(status) if status.success() => Ok(program),
        _ => Err("bubblewrap (`bwrap`) is installed, but may not create namespaces here, or is \
                  older than 0.5"
            .into()),
    }
}

/// The system call filters as files, which bubblewrap reads and applies to the command.
pub(super) struct Filters {
    /// The directory of the files, which no command may write. Each file is named after its
    /// descriptor.
    dir: PathBuf,
    count: usize,
}

impl Filters {
    /// Writes the filters to new files in `dir`.
    pub(super) fn create(dir: &Path, network: bool) -> Result<Self, String> {
        let filters = system_calls::filters(network)
            .map_err(|e| format!("seccomp refused their system calls: {e}"))?;
        for (n, filter) in filters.iter().enumerate() {
            // The layout of the kernel's `struct sock_filter`.
            let bytes = filter.iter().flat_map(|line| {
                let [a, b] = line.code.to_ne_bytes();
                let [e, f, g, h] = line.k.to_ne_bytes();
                [a, b, line.jt, line.jf, e, f, g, h]
            });
            let bytes: Vec<u8> = bytes.collect();
            std::fs::write(dir.join((FIRST_FILTER + n).to_string()), bytes)
                .map_err(|e| format!("a filter of system calls could not be written: {e}"))?;
        }
        Ok(Filters { dir: dir.to_owned(), count: filters.len() })
    }

    /// Returns the words that start bubblewrap with the filters. Its other arguments follow.
    ///
    /// A shell opens the files: descriptors of this process are not inherited.
    pub(super) fn start(&self, program: &Path) -> Vec<OsString> {
        let descriptors = FIRST_FILTER..FIRST_FILTER + self.count;
        let mut script = String::from("exec \"$@\"");
        for n in descriptors.clone() {
            script.push_str(&format!(" {n}<\"$0\"/{n}"));
        }
        let mut words: Vec<OsString> = vec!["/bin/sh".into(), "-c".into(), script.into()];
        words.extend([self.dir.clone().into(), program.into()]);
        for n in descriptors {
            words.extend(["--add-seccomp-fd".into(), n.to_string().into()]);
        }
        words
    }
}

/// The part of the file system that a command gets, besides the system's directories.
#[derive(Default)]
pub(super) struct View {
    pub(super) readable: Vec<PathBuf>,
    pub(super) writable: Vec<PathBuf>,
    /// Writable directories in `writable` that cannot be moved.
    pub(super) fixed: Vec<PathBuf>,
    /// Paths in `writable` that are read-only.
    pub(super) read_only: Vec<PathBuf>,
}

/// Returns the arguments before the program to run. The program and all its processes are killed
/// when this process dies.
pub(super) fn arguments(view: &View, network: bool) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = FIXED_ARGUMENTS.map(OsString::from).into();
    if !network {
        arguments.push("--unshare-net".into());
    }
    // Fails on paths that this user cannot reach, such as another user's in `PATH`.
    let mut bind = |how: &str, path: &Path| {
        if path.metadata().is_ok() {
            arguments.extend([how.into(), path.into(), path.into()]);
        }
    };
    let system = system_paths::readable();
    // Without `/proc`: the command gets one with its own processes only.
    for path in system.paths.iter().filter(|path| *path != Path::new("/proc")).chain(&view.readable)
    {
        bind("--ro-bind-try", path);
    }
    for path in view.writable.iter().chain(&view.fixed) {
        bind("--bind-try", path);
    }
    for path in &view.read_only {
        bind("--ro-bind", path);
    }
    for link in system.links {
        if let Ok(target) = std::fs::read_link(&link) {
            arguments.extend(["--symlink".into(), target.into(), link.into()]);
        }
    }
    arguments.extend(["--proc", "/proc", "--dev", "/dev"].map(OsString::from));
    for path in KERNEL_SETTINGS.iter().filter(|path| Path::new(path).exists()) {
        arguments.extend(["--ro-bind", path, path].map(OsString::from));
    }
    // The directories above the visible ones. Anything written there would be lost.
    arguments.extend(["--remount-ro", "/"].map(OsString::from));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tested as root only; other users cannot read these files anyway.
    #[test]
    fn files_that_only_root_may_read_are_not_in_the_view() {
        let bound = arguments(&View::default(), false);
        let has = |path: &str| bound.iter().any(|word| word == path);
        assert!(has("/usr") && bound.iter().filter(|word| *word == "/proc").count() == 1);
        if rustix::process::geteuid().is_root() && Path::new("/etc/shadow").exists() {
            assert!(!has("/etc") && !has("/etc/shadow") && has("/etc/passwd"));
        }
    }
}
