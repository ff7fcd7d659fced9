//! Landlock: a thread confines itself and every process that it starts.
//!
//! Landlock, capabilities, `no_new_privs` and seccomp are properties of a thread, and its child
//! processes inherit them. A thread drops its rights, starts the command with the standard library,
//! and ends. Code runs between fork and exec only if the command has its own
//! [mounts](super::namespace), which are entered before the last rights are dropped.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::BpfProgram;

use super::namespace::{Mounts, Namespace};
use super::priority;
use super::system_calls;
use super::system_paths;
use super::watchdog::Watchdog;

/// The newest version of the rules used here. An older kernel applies the rules it supports.
const RULES: ABI = ABI::V9;
/// Devices that commands may read and write.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The maximum time for a thread to end.
const THREAD_EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The confinement that this kernel supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Landlock {
    abi: ABI,
    /// `true` if seccomp can refuse system calls.
    seccomp: bool,
    /// The way to make files read-only by mounts; `None` if not possible.
    mounts: Option<Mounts>,
}

/// The rules for the commands of one workspace, created once and applied by the thread of each
/// command.
pub(super) struct Sandbox {
    rules: RulesetCreated,
    landlock: Landlock,
    /// The filters of refused system calls.
    filters: Vec<BpfProgram>,
    /// The niceness of commands, which equals this process's.
    priority: i32,
    /// The directory that the watchdog removes.
    temporary: PathBuf,
}

impl Landlock {
    /// Detects this kernel's support by trying it on a thread. An error says why it
    /// supports nothing.
    pub(crate) fn detect() -> Result<Self, String> {
        let mounts = Mounts::detect(); // not possible in a domain
        let trial = std::thread::Builder::new().name("landlock".into()).spawn(|| {
            let rules = Ruleset::default().handle_access(AccessFs::from_all(RULES))?.create()?;
            let landlock = rules.restrict_self()?.landlock;
            let seccomp = system_calls::filters(true).is_ok_and(|filters| apply(&filters).is_ok());
            Ok((landlock, seccomp))
        });
        let trial = trial.map_err(|e| format!("no thread could be started: {e}"))?;
        match trial.join() {
            Ok(Ok((LandlockStatus::Available { effective_abi: abi, .. }, seccomp))) => {
                Ok(Landlock { abi, seccomp, mounts })
            }
            Ok(Ok((LandlockStatus::NotEnabled, ..))) => {
                Err("this kernel has Landlock, but it is not enabled".into())
            }
            Ok(Ok((LandlockStatus::NotImplemented, ..))) => {
                Err("this kernel has no Landlock".into())
            }
            Ok(Err::<_, RulesetError>(why)) => Err(format!("Landlock does not work here: {why}")),
            Err(_) => Err("Landlock could not be tried".into()),
        }
    }

    /// Returns the support of Linux 6.10 for an ordinary user.
    #[cfg(test)]
    pub(super) fn old() -> Self {
        Landlock { abi: ABI::V5, seccomp: true, mounts: None }
    }

    /// Returns whether mounts can make files read-only.
    pub(super) fn has_mounts(self) -> bool {
        self.mounts.is_some()
    }

    /// Returns whether processes of a command can only signal each other. Signals then also
    /// recognise a command's processes.
    pub(super) fn scopes_signals(self) -> bool {
        self.abi >= ABI::V6
    }

    /// Returns what this kernel's rules do not cover. No kernel has rules for modes and times yet.
    pub(crate) fn gaps(self, network: bool) -> Vec<&'static str> {
        let mut gaps = vec!["modes and times of the user's files outside can be changed"];
        let mut add_if = |missing: bool, gap| gaps.extend(missing.then_some(gap));
        add_if(self.abi < ABI::V3, "files outside can be truncated");
        add_if(!network && !self.seccomp && self.abi < ABI::V4, "the network is open");
        add_if(
            !network && !self.seccomp && self.abi >= ABI::V4,
            "UDP and other sockets than TCP are open",
        );
        add_if(
            !self.seccomp,
            "limits and priorities of the user's other processes can be changed, and keys of the \
             kernel's keyrings read",
        );
        add_if(self.abi < ABI::V6, "signals reach other processes of the same user");
        let by_socket = network || !self.seccomp;
        add_if(
            by_socket && self.abi < ABI::V9,
            "local services can be reached through their socket files",
        );
        gaps
    }
}

impl Sandbox {
    /// Creates rules that allow reading and writing `writable` and `temporary`, and reading
    /// `readable` and the system's directories. Without `network`, no socket can be created.
    pub(super) fn new(
        landlock: Landlock,
        readable: &[PathBuf],
        writable: &[PathBuf],
        temporary: &Path,
        network: bool,
    ) -> Result<Self, String> {
        let rules = rules(readable, writable, temporary, network)
            .map_err(|e| format!("Landlock refused their rules: {e}"))?;
        let filters =
            if landlock.seccomp { system_calls::filters(network) } else { Ok(Vec::new()) };
        let filters = filters.map_err(|e| format!("seccomp refused their system calls: {e}"))?;
        let priority = rustix::process::getpriority_process(None).unwrap_or_default();
        Ok(Sandbox { rules, landlock, filters, priority, temporary: temporary.to_owned() })
    }

    /// Returns the way to make files read-only by mounts, if any.
    pub(super) fn mounts(&self) -> Option<Mounts> {
        self.landlock.mounts
    }

    /// Restricts the calling thread, permanently, to signalling and tracing the processes that it
    /// starts from now on. If signals can be scoped, also starts a watchdog. When this process
    /// dies, the watchdog kills these processes, and removes `groups`, the directories of their
    /// control group.
    pub(super) fn enter_supervisor_domain(
        &self,
        groups: &[PathBuf],
    ) -> io::Result<Option<Watchdog>> {
        rustix::thread::set_no_new_privs(true)?;
        // This thread runs before its command, if permitted: a fork bomb leaves others little time.
        let _ = rustix::process::setpriority_process(None, priority::HIGHEST);
        // Any rule creates a domain. This one allows everywhere what it handles. `Refer` must be
        // handled, because a domain that does not handle it refuses links and renames between
        // directories.
        let rights = AccessFs::Refer | AccessFs::MakeBlock;
        Ruleset::default()
            .handle_access(rights)
            .and_then(|rules| rules.scope(Scope::Signal))
            .and_then(Ruleset::create)
            .and_then(|rules| allow(rules, Path::new("/"), rights))
            .and_then(RulesetCreated::restrict_self)
            .map_err(io::Error::other)?;
        self.landlock.scopes_signals().then(|| Watchdog::start(&self.temporary, groups)).transpose()
    }

    /// Starts a confined command from a supervisor thread, in these namespaces. The command must
    /// wait for a signal to start after this returns.
    ///
    /// The thread that confines itself is in the command's domain, so the command may trace it and
    /// read the memory of this process. The thread must therefore end before the command starts.
    pub(super) fn spawn(
        &self,
        command: &mut Command,
        namespace: Option<Namespace>,
    ) -> io::Result<Child> {
        let start = || {
            let _ = rustix::process::setpriority_process(None, self.priority);
            let status = self.rules.try_clone()?.restrict_self().map_err(io::Error::other)?;
            if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
                return Err(io::Error::other("Landlock enforces less than was detected before"));
            }
            match namespace {
                None => drop_rights(&self.filters)?,
                Some(namespace) => {
                    let filters = self.filters.clone();
                    // SAFETY: between fork and exec in a process with threads, only
                    // async-signal-safe code may run. `enter` and `drop_rights` make system calls
                    // with memory that was prepared before. They do not allocate, free memory, take
                    // a lock or panic.
                    #[allow(unsafe_code, reason = "there is no safe way to run code before exec")]
                    unsafe {
                        command.pre_exec(move || {
                            namespace.enter()?;
                            Ok(drop_rights(&filters)?)
                        });
                    }
                }
            }
            Ok((command.spawn()?, rustix::thread::gettid()))
        };
        let (mut child, thread) = std::thread::scope(|scope| {
            let starting =
                std::thread::Builder::new().name("confined".into()).spawn_scoped(scope, start)?;
            starting
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread that starts it panicked")))
        })?;
        let task = format!("/proc/self/task/{}", thread.as_raw_pid());
        let deadline = Instant::now() + THREAD_EXIT_TIMEOUT;
        while Path::new(&task).exists() {
            if Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                return Err(io::Error::other("the thread that started it does not end"));
            }
            std::thread::yield_now();
        }
        Ok(child)
    }
}

/// Creates rules that allow reading and writing `writable` and `temporary`, and reading `readable`
/// and the system's directories.
fn rules(
    readable: &[PathBuf],
    writable: &[PathBuf],
    temporary: &Path,
    network: bool,
) -> Result<RulesetCreated, RulesetError> {
    let read = AccessFs::from_read(RULES);
    let all = AccessFs::from_all(RULES);
    let mut rules = Ruleset::default().handle_access(all)?.scope(Scope::from_all(RULES))?;
    if !network {
        rules = rules.handle_access(AccessNet::from_all(RULES))?;
    }
    let mut rules = rules.create()?;
    for path in system_paths::readable().paths.iter().chain(readable) {
        rules = allow(rules, path, read)?;
    }
    for path in DEVICES {
        rules = allow(rules, Path::new(path), AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    for path in writable.iter().map(PathBuf::as_path).chain([temporary]) {
        rules = allow(
            rules,
            path,
            all & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev),
        )?;
    }
    Ok(rules)
}

/// Adds a rule for a path, if it exists.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let (Ok(file), Ok(metadata)) = (PathFd::new(path), std::fs::metadata(path)) else {
        return Ok(rules);
    };
    let access = if metadata.is_dir() { access } else { access & AccessFs::from_file(RULES) };
    rules.add_rule(PathBeneath::new(file, access))
}

/// Drops all capabilities of this thread, and refuses system calls. Both are permanent and also
/// apply to the processes that it starts. Needs no memory.
fn drop_rights(filters: &[BpfProgram]) -> rustix::io::Result<()> {
    drop_capabilities()?;
    apply(filters).map_err(|_| Errno::PERM)
}

/// Drops all capabilities. Without them, root is a user that owns many files: it may not trace
/// other processes or undo the confinement. Emptying the bounding set prevents the next program
/// from regaining them.
fn drop_capabilities() -> rustix::io::Result<()> {
    let held = rustix::thread::capabilities(None)?;
    if held.permitted.contains(CapabilitySet::SETPCAP) {
        // The kernel has fewer than 64, and returns an error for the first missing one.
        let drop = |n: u32| {
            rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(
                1 << n,
            ))
        };
        match (0..64).map(drop).find_map(Result::err) {
            None | Some(Errno::INVAL) => {}
            Some(refused) => return Err(refused),
        }
    }
    // May fail: without permitted capabilities, no ambient ones exist.
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, none)
}

/// Refuses system calls, permanently, for this thread and the processes that it starts.
fn apply(filters: &[BpfProgram]) -> Result<(), seccompiler::Error> {
    filters.iter().try_for_each(|filter| seccompiler::apply_filter(filter))
}
