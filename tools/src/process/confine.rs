//! Landlock: a thread that confines itself, and with itself every process it starts.
//!
//! Landlock, capabilities, `no_new_privs` and seccomp belong to a thread, and what a thread starts
//! inherits them. So a thread gives its rights away, starts the command with the standard library,
//! and ends: no code runs between fork and exec, and none of this needs `unsafe`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use super::system;
use super::watchdog::Watchdog;

/// The newest rules that this file knows; on an older kernel those hold that it knows.
const RULES: ABI = ABI::V9;
/// Devices that may be read and written.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// How long a thread may take to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the kernel can do about commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Landlock {
    abi: ABI,
    /// Sockets can be refused altogether.
    seccomp: bool,
}

/// The rules for the commands of one workspace. Made once; each command's thread enters them.
pub(super) struct Fence {
    rules: RulesetCreated,
    landlock: Landlock,
    no_sockets: Option<BpfProgram>,
    /// The niceness of commands: that of this process.
    priority: i32,
    /// What goes with this process.
    temporary: PathBuf,
}

impl Landlock {
    /// What this kernel can do, tried on a thread; an error says why nothing.
    pub(crate) fn find() -> Result<Self, String> {
        let tried = std::thread::Builder::new().name("landlock".into()).spawn(|| {
            let rules = Ruleset::default().handle_access(AccessFs::from_all(RULES))?.create()?;
            Ok(rules.restrict_self()?.landlock)
        });
        let tried = tried.map_err(|e| format!("no thread could be started: {e}"))?;
        match tried.join() {
            Ok(Ok(LandlockStatus::Available { effective_abi: abi, .. })) => {
                Ok(Landlock { abi, seccomp: no_sockets().is_ok() })
            }
            Ok(Ok(LandlockStatus::NotEnabled)) => {
                Err("Landlock is in this kernel, but not switched on".into())
            }
            Ok(Ok(LandlockStatus::NotImplemented)) => Err("this kernel has no Landlock".into()),
            Ok(Err::<_, RulesetError>(why)) => Err(format!("Landlock does not work here: {why}")),
            Err(_) => Err("Landlock could not be tried".into()),
        }
    }

    /// As on Linux 6.10.
    #[cfg(test)]
    pub(super) fn old() -> Self {
        Landlock { abi: ABI::V5, seccomp: true }
    }

    /// Signals stay among the processes of a command, which is also how they are told from all
    /// others.
    pub(super) fn scopes_signals(self) -> bool {
        self.abi >= ABI::V6
    }

    /// What this kernel's rules do not cover. None has a rule for modes and times so far.
    pub(crate) fn gaps(self, network: bool) -> Vec<&'static str> {
        let mut gaps = vec!["modes and times of the user's files outside can be changed"];
        let mut without = |missing: bool, gap| gaps.extend(missing.then_some(gap));
        without(self.abi < ABI::V3, "files outside can be cut to nothing");
        without(!network && !self.seccomp && self.abi < ABI::V4, "the network is open");
        without(
            !network && !self.seccomp && self.abi >= ABI::V4,
            "UDP and other sockets than TCP are open",
        );
        without(self.abi < ABI::V6, "signals reach other processes of the same user");
        let by_socket = network || !self.seccomp;
        without(
            by_socket && self.abi < ABI::V9,
            "local services can be asked through their socket files",
        );
        gaps
    }
}

impl Fence {
    /// Rules by which `writable` and `temporary` may be read and written, and `readable` and the
    /// system's directories read. Without `network`, no socket can be made.
    pub(super) fn new(
        landlock: Landlock,
        readable: &[PathBuf],
        writable: &[PathBuf],
        temporary: &Path,
        network: bool,
    ) -> Result<Self, RulesetError> {
        let (read, all) = (AccessFs::from_read(RULES), AccessFs::from_all(RULES));
        let mut rules = Ruleset::default().handle_access(all)?.scope(Scope::from_all(RULES))?;
        if !network {
            rules = rules.handle_access(AccessNet::from_all(RULES))?;
        }
        let mut rules = rules.create()?;
        for path in system::readable().paths.iter().chain(readable) {
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
        let no_sockets = (!network && landlock.seccomp).then(no_sockets).and_then(Result::ok);
        let priority = rustix::process::getpriority_process(None).unwrap_or_default();
        Ok(Fence { rules, landlock, no_sockets, priority, temporary: temporary.to_owned() })
    }

    /// Takes from the thread that calls it the power over all processes but those that it starts
    /// from now on, for good. The watchdog ends those if this process dies, where it can tell them
    /// from others.
    pub(super) fn stand_guard(&self) -> io::Result<Option<Watchdog>> {
        rustix::thread::set_no_new_privs(true)?;
        // Ahead of whatever it watches, if that is allowed: one that multiplies leaves little time
        // to others.
        let _ = rustix::process::setpriority_process(None, -20);
        // Any rule makes a domain. These allow what they are about everywhere; that links and
        // renames may go from one directory to another is refused by every domain that does not say
        // so.
        let rights = AccessFs::Refer | AccessFs::MakeBlock;
        let apart =
            Ruleset::default().handle_access(rights).and_then(|rules| rules.scope(Scope::Signal));
        let apart =
            apart.and_then(Ruleset::create).and_then(|rules| allow(rules, Path::new("/"), rights));
        apart.and_then(RulesetCreated::restrict_self).map_err(io::Error::other)?;
        self.landlock.scopes_signals().then(|| Watchdog::start(&self.temporary)).transpose()
    }

    /// Starts a command confined, from a thread that stands guard. It must not do anything before
    /// this returns.
    ///
    /// The thread that confines itself is in the command's domain, so the command may look into it,
    /// and sees the memory of this process. That is why the thread must be gone first.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let start = || {
            let _ = rustix::process::setpriority_process(None, self.priority);
            self.confine()?;
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
        let deadline = Instant::now() + PATIENCE;
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

    /// Confines this thread, for good, and what it starts.
    fn confine(&self) -> io::Result<()> {
        give_up_capabilities()?;
        let status = self.rules.try_clone()?.restrict_self().map_err(io::Error::other)?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Err(io::Error::other("Landlock does less than it did a moment ago"));
        }
        if let Some(no_sockets) = &self.no_sockets {
            seccompiler::apply_filter(no_sockets).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

/// A rule for a path, if there is something.
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

/// Without capabilities root is a user who owns many files. It may not look into other processes
/// then, nor undo any of the rest; the bounding set keeps it from getting them back with the next
/// program.
fn give_up_capabilities() -> io::Result<()> {
    let held = rustix::thread::capabilities(None)?;
    if held.permitted.contains(CapabilitySet::SETPCAP) {
        // The kernel knows fewer than 64 and refuses the first that it does not know.
        let drop = |n: u32| {
            rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(
                1 << n,
            ))
        };
        let refused = (0..64).map(drop).find_map(Result::err);
        if refused.is_some_and(|e| e != rustix::io::Errno::INVAL) {
            return Err(io::Error::other("the capability bounding set could not be emptied"));
        }
    }
    let _ = rustix::thread::clear_ambient_capability_set(); // none are left without permitted ones
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?;
    Ok(())
}

/// A filter that refuses sockets of every family, and the way around it.
fn no_sockets() -> Result<BpfProgram, seccompiler::BackendError> {
    let refused = [libc::SYS_socket, libc::SYS_io_uring_setup].map(|call| (call, Vec::new()));
    let refuse = SeccompAction::Errno(libc::EACCES as u32);
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(refused.into(), SeccompAction::Allow, refuse, arch)?.try_into()
}
