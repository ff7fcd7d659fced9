//! The system calls that confined commands may not make.
//!
//! Landlock only has rules for files, sockets and signals. Seccomp closes the rest of the kernel
//! that could reach other processes, outlive the command or take over the machine. The reference is
//! Docker's default profile (`profiles/seccomp/default.json` of moby, without capabilities):
//! everything that it refuses is refused here. Docker lists what is allowed, this module what is
//! refused, so calls that are newer than this list get "no such call". Commands also have no
//! capabilities and no way to gain any, so most of these calls would fail anyway. A test compares
//! the two lists on x86-64. `ALLOWED` has the calls that Docker refuses and this list does not,
//! with the reasons.
//!
//! Seccomp sees the numbers in the registers of a call, and no memory: neither paths nor
//! structures.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule,
};

/// The errors that refused calls return.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    /// The usual error.
    NotPermitted = libc::EPERM as isize,
    /// Landlock's error.
    Denied = libc::EACCES as isize,
    /// The caller falls back to an older call.
    NoSuchCall = libc::ENOSYS as isize,
    /// The caller continues without the call.
    NotSupported = libc::EOPNOTSUPP as isize,
}

/// The condition under which a call is refused.
#[derive(Clone, Copy)]
enum When {
    Always,
    /// Unless this argument is 0, which means the calling process or thread.
    Other(u8),
    /// If the call sets limits of another process. Reading them and setting the caller's own are
    /// allowed.
    SetsOther,
    /// If the first argument differs from this number, or the next argument is not 0.
    OtherThan(u64),
    /// If the first argument contains one of the [`NAMESPACES`].
    NewNamespace,
    /// Unless the first argument is one of the [`PERSONALITIES`].
    OtherPersonality,
    /// If the first argument is one of the [`FAMILIES`].
    Family,
    /// If the mode, in this argument, has one of the [`OWNER_BITS`].
    Mode(u8),
    /// If the call creates a file with such a mode. The arguments contain the flags and the mode.
    NewFile(u8, u8),
}

use Answer::{Denied, NoSuchCall, NotPermitted, NotSupported};
use When::{
    Always, Family, Mode, NewFile, NewNamespace, Other, OtherPersonality, OtherThan, SetsOther,
};

/// The flags of `clone` that create a namespace.
const NAMESPACES: [u64; 8] = [
    libc::CLONE_NEWNS as u64,
    libc::CLONE_NEWCGROUP as u64,
    libc::CLONE_NEWUTS as u64,
    libc::CLONE_NEWIPC as u64,
    libc::CLONE_NEWUSER as u64,
    libc::CLONE_NEWPID as u64,
    libc::CLONE_NEWNET as u64,
    0x80, // CLONE_NEWTIME
];

/// The personalities that Docker allows: Linux, with and without the short names of `uname26`, and
/// the query of the current one.
const PERSONALITIES: [u64; 5] = [0, 0x0008, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// The families of sockets that are refused even with a network.
const FAMILIES: [u64; 2] = [libc::AF_VSOCK as u64, libc::AF_ALG as u64];

/// The bits of a mode with which a program runs with the rights of its owner or group: setuid and
/// setgid. Whoever starts such a program on this machine gets this user's rights.
const OWNER_BITS: [u64; 2] = [libc::S_ISUID as u64, libc::S_ISGID as u64];

/// The flags with which `open` creates a file, and so takes a mode. The second is `O_TMPFILE`
/// alone, without the `O_DIRECTORY` that it includes.
const CREATES: [u64; 2] = [libc::O_CREAT as u64, (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64];

/// System calls that the current libc lacks on some architectures. New calls have the same number
/// everywhere.
const FCHMODAT2: c_long = 452;
const STATMOUNT: c_long = 457;
const LISTMOUNT: c_long = 458;
const LSM_SET_SELF_ATTR: c_long = 460;
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const OPEN_TREE_ATTR: c_long = 467;
const FILE_SETATTR: c_long = 469;
/// The numbers of calls that are newer than this list.
const UNKNOWN: std::ops::Range<c_long> = 470..512;

/// A call, the condition and the error of its refusal, and the reason.
type Line = (c_long, When, Answer, &'static str);

/// The calls that are refused on every architecture.
const REFUSED: &[Line] = &[
    // Other processes of the same user.
    (libc::SYS_prlimit64, SetsOther, NotPermitted, "limits can end the agent"),
    (
        libc::SYS_setpriority,
        OtherThan(libc::PRIO_PROCESS as u64),
        NotPermitted,
        "starves other processes",
    ),
    (libc::SYS_ioprio_set, OtherThan(1), NotPermitted, "starves other processes of the disk"),
    (libc::SYS_sched_setaffinity, Other(0), NotPermitted, "takes processors from other processes"),
    (libc::SYS_sched_setscheduler, Other(0), NotPermitted, "starves other processes"),
    (libc::SYS_sched_setparam, Other(0), NotPermitted, "starves other processes"),
    (libc::SYS_sched_setattr, Other(0), NotPermitted, "starves other processes"),
    (libc::SYS_migrate_pages, Always, NotPermitted, "moves the memory of other processes"),
    (libc::SYS_move_pages, Always, NotPermitted, "moves the memory of other processes"),
    (libc::SYS_kcmp, Always, NotPermitted, "compares the resources of other processes"),
    (libc::SYS_pidfd_getfd, Always, NotPermitted, "takes open files of other processes"),
    (libc::SYS_process_madvise, Always, NotPermitted, "changes the memory of other processes"),
    // Keys of the user, for example for encrypted file systems and Kerberos.
    (libc::SYS_keyctl, Always, NotPermitted, "reads keys from the user's keyrings"),
    (libc::SYS_add_key, Always, NotPermitted, "adds keys to the user's keyrings"),
    (libc::SYS_request_key, Always, NotPermitted, "reads keys from the user's keyrings"),
    // Objects other than files: all processes of the user share them, and they outlive the command.
    (libc::SYS_shmget, Always, NotPermitted, "shared memory outlives the command"),
    (libc::SYS_shmat, Always, NotPermitted, "reads shared memory of other processes"),
    (libc::SYS_shmctl, Always, NotPermitted, "removes shared memory of other processes"),
    (libc::SYS_msgget, Always, NotPermitted, "message queues outlive the command"),
    (libc::SYS_msgsnd, Always, NotPermitted, "writes to queues of other processes"),
    (libc::SYS_msgrcv, Always, NotPermitted, "reads from queues of other processes"),
    (libc::SYS_msgctl, Always, NotPermitted, "removes queues of other processes"),
    (libc::SYS_semget, Always, NotPermitted, "semaphores outlive the command"),
    (libc::SYS_semop, Always, NotPermitted, "changes semaphores of other processes"),
    (libc::SYS_semtimedop, Always, NotPermitted, "changes semaphores of other processes"),
    (libc::SYS_semctl, Always, NotPermitted, "removes semaphores of other processes"),
    (libc::SYS_mq_open, Always, NotPermitted, "message queues outlive the command"),
    (libc::SYS_mq_unlink, Always, NotPermitted, "removes queues of other processes"),
    // Namespaces: in a new user namespace, a process has all capabilities, so it reaches more of
    // the kernel.
    (libc::SYS_unshare, NewNamespace, NotPermitted, "creates namespaces"),
    (libc::SYS_clone, NewNamespace, NotPermitted, "creates namespaces"),
    (libc::SYS_clone3, Always, NoSuchCall, "its flags are in memory; libc uses clone"),
    (libc::SYS_setns, Always, NotPermitted, "enters namespaces"),
    // Attributes of files: the filter sees no path, and Landlock has no rule for them.
    (libc::SYS_setxattr, Always, NotSupported, "changes attributes of files outside"),
    (libc::SYS_lsetxattr, Always, NotSupported, "changes attributes of files outside"),
    (libc::SYS_fsetxattr, Always, NotSupported, "changes attributes of files outside"),
    (SETXATTRAT, Always, NotSupported, "changes attributes of files outside"),
    (libc::SYS_removexattr, Always, NotSupported, "removes attributes of files outside"),
    (libc::SYS_lremovexattr, Always, NotSupported, "removes attributes of files outside"),
    (libc::SYS_fremovexattr, Always, NotSupported, "removes attributes of files outside"),
    (REMOVEXATTRAT, Always, NotSupported, "removes attributes of files outside"),
    (FILE_SETATTR, Always, NotSupported, "changes flags of files outside"),
    // Modes with which a program has the rights of this user, whoever starts it.
    (libc::SYS_fchmod, Mode(1), NotPermitted, "makes a program setuid or setgid"),
    (libc::SYS_fchmodat, Mode(2), NotPermitted, "makes a program setuid or setgid"),
    (FCHMODAT2, Mode(2), NotPermitted, "makes a program setuid or setgid"),
    (libc::SYS_openat, NewFile(2, 3), NotPermitted, "creates a setuid or setgid program"),
    (libc::SYS_mknodat, Mode(2), NotPermitted, "creates a setuid or setgid program"),
    (libc::SYS_openat2, Always, NoSuchCall, "its mode is in memory; callers use openat"),
    // Parts of the kernel with a history of holes that let a process become root.
    (libc::SYS_bpf, Always, NotPermitted, "loads programs into the kernel"),
    (libc::SYS_perf_event_open, Always, NotPermitted, "traces the kernel and other processes"),
    (libc::SYS_userfaultfd, Always, NotPermitted, "stops the kernel at a page fault"),
    (libc::SYS_io_uring_setup, Always, Denied, "makes calls that no filter sees"),
    (libc::SYS_io_uring_enter, Always, Denied, "makes calls that no filter sees"),
    (libc::SYS_io_uring_register, Always, Denied, "makes calls that no filter sees"),
    (libc::SYS_personality, OtherPersonality, NotPermitted, "switches protections off"),
    (LSM_SET_SELF_ATTR, Always, NotPermitted, "changes its own security profile"),
    // Mounts.
    (libc::SYS_mount, Always, NotPermitted, "mounts"),
    (libc::SYS_umount2, Always, NotPermitted, "unmounts"),
    (libc::SYS_pivot_root, Always, NotPermitted, "changes the root directory"),
    (libc::SYS_chroot, Always, NotPermitted, "changes the root directory"),
    (libc::SYS_fsopen, Always, NotPermitted, "mounts"),
    (libc::SYS_fsconfig, Always, NotPermitted, "mounts"),
    (libc::SYS_fsmount, Always, NotPermitted, "mounts"),
    (libc::SYS_fspick, Always, NotPermitted, "changes a mount"),
    (libc::SYS_move_mount, Always, NotPermitted, "moves a mount"),
    (libc::SYS_open_tree, Always, NotPermitted, "copies mounts"),
    (OPEN_TREE_ATTR, Always, NotPermitted, "copies mounts"),
    (libc::SYS_mount_setattr, Always, NotPermitted, "changes a mount"),
    (STATMOUNT, Always, NoSuchCall, "shows mounts of other namespaces"),
    (LISTMOUNT, Always, NoSuchCall, "shows mounts of other namespaces"),
    (libc::SYS_quotactl, Always, NotPermitted, "changes quotas"),
    (libc::SYS_quotactl_fd, Always, NotPermitted, "changes quotas"),
    (libc::SYS_swapon, Always, NotPermitted, "changes the swap space"),
    (libc::SYS_swapoff, Always, NotPermitted, "changes the swap space"),
    // Access to files without their path.
    (libc::SYS_open_by_handle_at, Always, NotPermitted, "opens files without their path"),
    (libc::SYS_fanotify_init, Always, NotPermitted, "watches all files"),
    // The whole machine.
    (libc::SYS_acct, Always, NotPermitted, "records all processes"),
    (libc::SYS_reboot, Always, NotPermitted, "restarts the machine"),
    (libc::SYS_kexec_load, Always, NotPermitted, "starts another kernel"),
    (libc::SYS_init_module, Always, NotPermitted, "loads modules"),
    (libc::SYS_finit_module, Always, NotPermitted, "loads modules"),
    (libc::SYS_delete_module, Always, NotPermitted, "unloads modules"),
    (libc::SYS_settimeofday, Always, NotPermitted, "sets the clock"),
    (libc::SYS_clock_settime, Always, NotPermitted, "sets the clock"),
    (libc::SYS_clock_adjtime, Always, NotPermitted, "sets the clock"),
    (libc::SYS_sethostname, Always, NotPermitted, "renames the machine"),
    (libc::SYS_setdomainname, Always, NotPermitted, "renames the machine"),
    (libc::SYS_syslog, Always, NotPermitted, "reads the kernel's messages"),
    (libc::SYS_vhangup, Always, NotPermitted, "closes the terminal"),
    (libc::SYS_get_mempolicy, Always, NotPermitted, "shows where memory is"),
    (libc::SYS_set_mempolicy, Always, NotPermitted, "chooses where memory is"),
    (libc::SYS_set_mempolicy_home_node, Always, NotPermitted, "chooses where memory is"),
    (libc::SYS_mbind, Always, NotPermitted, "chooses where memory is"),
    (libc::SYS_nfsservctl, Always, NotPermitted, "configures an NFS server"),
    (libc::SYS_lookup_dcookie, Always, NotPermitted, "shows paths to a profiler"),
];

/// The calls that are also refused on x86-64, which has old calls that other architectures lack.
#[cfg(target_arch = "x86_64")]
const ALSO_REFUSED: &[Line] = &[
    (libc::SYS_iopl, Always, NotPermitted, "accesses devices"),
    (libc::SYS_ioperm, Always, NotPermitted, "accesses devices"),
    (libc::SYS_kexec_file_load, Always, NotPermitted, "starts another kernel"),
    (libc::SYS_uselib, Always, NotPermitted, "obsolete"),
    (libc::SYS_ustat, Always, NotPermitted, "obsolete"),
    (libc::SYS_sysfs, Always, NotPermitted, "obsolete"),
    (libc::SYS__sysctl, Always, NotPermitted, "obsolete"),
    (libc::SYS_chmod, Mode(1), NotPermitted, "makes a program setuid or setgid"),
    (libc::SYS_creat, Mode(1), NotPermitted, "creates a setuid or setgid program"),
    (libc::SYS_open, NewFile(1, 2), NotPermitted, "creates a setuid or setgid program"),
    (libc::SYS_mknod, Mode(1), NotPermitted, "creates a setuid or setgid program"),
];
#[cfg(not(target_arch = "x86_64"))]
const ALSO_REFUSED: &[Line] = &[];

/// The rule for sockets without a network.
const SOCKETS: Line = (libc::SYS_socket, Always, Denied, "reaches the network and local services");
/// The rule for sockets with a network.
const RARE_SOCKETS: Line = (libc::SYS_socket, Family, Denied, "reaches hosts of virtual machines");

/// The bit of a call of the x32 interface, which few kernels have. It has the calls of x86-64 under
/// other numbers.
#[cfg(target_arch = "x86_64")]
const X32: c_long = 0x4000_0000;

/// The calls of x86-64 that Docker's profile refuses and this list allows, with the reasons.
#[cfg(test)]
#[cfg(target_arch = "x86_64")]
const ALLOWED: &[(std::ops::RangeInclusive<c_long>, &str)] = &[
    (174..=174, "create_module: in no kernel"),
    (177..=178, "get_kernel_syms, query_module: in no kernel"),
    (181..=185, "getpmsg, putpmsg, afs_syscall, tuxcall, security: in no kernel"),
    (236..=236, "vserver: in no kernel"),
    (335..=336, "uretprobe, uprobe: only for code that the kernel inserts"),
    (337..=423, "no calls"),
    (451..=451, "cachestat: how much of an open file is cached"),
    (453..=453, "map_shadow_stack: the caller's own memory"),
    (454..=456, "futex_wake, futex_wait, futex_requeue: as futex, which is allowed"),
    (459..=459, "lsm_get_self_attr: the caller's own security profile"),
    (461..=461, "lsm_list_modules: as /sys/kernel/security/lsm"),
    (462..=462, "mseal: the caller's own memory"),
    (464..=465, "getxattrat, listxattrat: as getxattr and listxattr, which are allowed"),
    (468..=468, "file_getattr: the flags of a file that can be opened"),
];

/// Returns the filters, one for each error. Without `network`, no socket can be created.
pub(super) fn filters(network: bool) -> Result<Vec<BpfProgram>, BackendError> {
    let mut by_answer: BTreeMap<Answer, BTreeMap<c_long, Vec<SeccompRule>>> = BTreeMap::new();
    let sockets = if network { RARE_SOCKETS } else { SOCKETS };
    let unknown = UNKNOWN.map(|call| (call, Always, NoSuchCall, "newer than this list"));
    let lines = REFUSED.iter().chain(ALSO_REFUSED).copied().chain([sockets]).chain(unknown);
    for (call, when, answer, _) in lines {
        let calls = by_answer.entry(answer).or_default();
        let rules = rules(when)?;
        #[cfg(target_arch = "x86_64")]
        calls.insert(call | X32, rules.clone());
        calls.insert(call, rules);
    }
    let arch: seccompiler::TargetArch = std::env::consts::ARCH.try_into()?;
    let filter = |(answer, calls): (Answer, BTreeMap<c_long, Vec<SeccompRule>>)| {
        let refuse = SeccompAction::Errno(answer as u32);
        SeccompFilter::new(calls, SeccompAction::Allow, refuse, arch)?.try_into()
    };
    by_answer.into_iter().map(filter).collect()
}

/// Returns alternative rules: one of them must match. An empty list always matches.
fn rules(when: When) -> Result<Vec<SeccompRule>, BackendError> {
    let any = |conditions: Vec<Vec<SeccompCondition>>| {
        conditions.into_iter().map(SeccompRule::new).collect()
    };
    let zero = |argument| SeccompCondition::new(argument, Dword, Ne, 0);
    let has = |argument, bit| SeccompCondition::new(argument, Dword, MaskedEq(bit), bit);
    match when {
        Always => Ok(Vec::new()),
        Other(argument) => any(vec![vec![zero(argument)?]]),
        SetsOther => any(vec![vec![zero(0)?, SeccompCondition::new(2, Qword, Ne, 0)?]]),
        OtherThan(kind) => {
            any(vec![vec![SeccompCondition::new(0, Dword, Ne, kind)?], vec![zero(1)?]])
        }
        NewNamespace => any(NAMESPACES
            .iter()
            .map(|flag| Ok(vec![has(0, *flag)?]))
            .collect::<Result<_, BackendError>>()?),
        OtherPersonality => {
            let differs = |known: &u64| SeccompCondition::new(0, Dword, Ne, *known);
            any(vec![PERSONALITIES.iter().map(differs).collect::<Result<_, _>>()?])
        }
        Family => {
            let is = |family: &u64| Ok(vec![SeccompCondition::new(0, Dword, Eq, *family)?]);
            any(FAMILIES.iter().map(is).collect::<Result<_, BackendError>>()?)
        }
        Mode(argument) => {
            let has = |bit: &u64| Ok(vec![has(argument, *bit)?]);
            any(OWNER_BITS.iter().map(has).collect::<Result<_, BackendError>>()?)
        }
        NewFile(flags, mode) => {
            let all = CREATES.iter().flat_map(|flag| OWNER_BITS.iter().map(move |bit| (flag, bit)));
            let both = |(flag, bit): (&u64, &u64)| Ok(vec![has(flags, *flag)?, has(mode, *bit)?]);
            any(all.map(both).collect::<Result<_, BackendError>>()?)
        }
    }
}

#[cfg(test)]
mod tests;
