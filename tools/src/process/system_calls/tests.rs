//! Tests of the filters: the refused calls, and their errors.

use super::*;

/// Makes a system call on a thread with the filters. Returns its error, or 0.
fn error(network: bool, call: c_long, [a, b, c]: [c_long; 3]) -> i32 {
    error_of(network, call, [a, b, c, 0])
}

fn error_of(network: bool, call: c_long, arguments: [c_long; 4]) -> i32 {
    let thread = std::thread::spawn(move || {
        rustix::thread::set_no_new_privs(true).unwrap();
        for filter in filters(network).unwrap() {
            seccompiler::apply_filter(&filter).unwrap();
        }
        let [a, b, c, d] = arguments;
        // SAFETY: the arguments are numbers, null, or an address at which no process has memory, so
        // the kernel can access no memory. No test makes a call that ends or maps memory.
        #[allow(unsafe_code, reason = "there is no safe way to make a call by its number")]
        let result = unsafe { libc::syscall(call, a, b, c, d, 0, 0) };
        if result == -1 { std::io::Error::last_os_error().raw_os_error().unwrap() } else { 0 }
    });
    thread.join().unwrap()
}

#[test]
fn every_line_that_always_refuses_returns_its_error() {
    for (call, when, answer, why) in REFUSED.iter().chain(ALSO_REFUSED).chain([&SOCKETS]) {
        if matches!(when, Always) {
            assert_eq!(error(false, *call, [-1, -1, -1]), *answer as i32, "{call}: {why}");
        }
    }
    assert_eq!(error(false, UNKNOWN.end - 1, [-1, -1, -1]), libc::ENOSYS);
}

#[test]
fn calls_are_refused_for_other_processes_only() {
    // The filter does not know the id of its own process. Each id except 0 is another process to
    // it.
    let other = c_long::from(std::process::id());
    let limits = -1; // the call is refused before they are read
    for (call, of_other, of_itself) in [
        (libc::SYS_prlimit64, [other, 0, limits], [0, 0, limits]),
        (libc::SYS_setpriority, [0, other, 19], [0, 0, 0]),
        (libc::SYS_ioprio_set, [1, other, 0x6000], [1, 0, 0x6000]),
        (libc::SYS_sched_setaffinity, [other, 8, 0], [0, 8, 0]),
        (libc::SYS_sched_setscheduler, [other, 0, 0], [0, 0, 0]),
    ] {
        assert_eq!(error(false, call, of_other), libc::EPERM, "{call}");
        assert_ne!(error(false, call, of_itself), libc::EPERM, "{call}");
    }
    for (which, who) in [(1, 0), (2, 0), (1, other), (2, 1000)] {
        assert_eq!(error(false, libc::SYS_setpriority, [which, who, 19]), libc::EPERM);
    }
    assert_eq!(error(false, libc::SYS_prlimit64, [other, 0, 0]), 0, "limits may be read");
}

#[test]
fn no_namespace_is_created() {
    for flag in NAMESPACES {
        assert_eq!(error(true, libc::SYS_unshare, [flag as c_long, 0, 0]), libc::EPERM);
    }
    assert_eq!(error(true, libc::SYS_unshare, [libc::CLONE_FILES.into(), 0, 0]), 0);
}

#[test]
fn personalities_that_switch_protections_off_are_refused() {
    assert_eq!(error(true, libc::SYS_personality, [0xffff_ffff, 0, 0]), 0);
    assert_eq!(error(true, libc::SYS_personality, [0x4_0000, 0, 0]), libc::EPERM);
}

#[test]
fn with_a_network_the_usual_sockets_are_allowed() {
    let stream = c_long::from(libc::SOCK_STREAM);
    for family in [libc::AF_UNIX, libc::AF_INET] {
        assert_eq!(error(true, libc::SYS_socket, [family.into(), stream, 0]), 0);
        assert_eq!(error(false, libc::SYS_socket, [family.into(), stream, 0]), libc::EACCES);
    }
    for family in [libc::AF_VSOCK, libc::AF_ALG] {
        assert_eq!(error(true, libc::SYS_socket, [family.into(), stream, 0]), libc::EACCES);
    }
}

/// C431: No call gives a program the rights of its owner or group, whoever starts it: none sets the
/// setuid or setgid bit, or creates a file with it.
#[test]
fn no_call_makes_a_program_setuid_or_setgid() {
    let create = c_long::from(libc::O_CREAT);
    let unnamed = c_long::from(libc::O_TMPFILE | libc::O_WRONLY);
    for bits in [0o4755, 0o2755, 0o6777, 0o4000, 0o2000] {
        let mut calls = vec![
            (libc::SYS_fchmod, [-1, bits, 0, 0]),
            (libc::SYS_fchmodat, [-1, 0, bits, 0]),
            (FCHMODAT2, [-1, 0, bits, 0]),
            (libc::SYS_openat, [-1, 0, create, bits]),
            (libc::SYS_openat, [-1, 0, unnamed, bits]),
            (libc::SYS_mknodat, [-1, 0, bits, 0]),
        ];
        #[cfg(target_arch = "x86_64")]
        calls.extend([
            (libc::SYS_chmod, [0, bits, 0, 0]),
            (libc::SYS_creat, [0, bits, 0, 0]),
            (libc::SYS_open, [0, create, bits, 0]),
            (libc::SYS_mknod, [0, bits, 0, 0]),
        ]);
        for (call, [a, b, c, d]) in calls {
            assert_eq!(error_of(true, call, [a, b, c, d]), libc::EPERM, "{call} {bits:o}");
            // Without these bits the kernel reads the path, or the descriptor, which is invalid.
            let usual = |n: c_long| if n == bits { n & 0o1777 } else { n };
            let usual = error_of(true, call, [a, b, c, d].map(usual));
            assert!([libc::EFAULT, libc::EBADF].contains(&usual), "{call} {bits:o}: {usual}");
        }
        // A call that creates no file has no mode.
        assert_ne!(error_of(true, libc::SYS_openat, [-1, 0, 0, bits]), libc::EPERM);
    }
    assert_eq!(error(true, libc::SYS_openat2, [-1, 0, 0]), libc::ENOSYS);
}

/// The numbers of the calls that Docker's default profile allows on x86-64 without any capability.
/// Some are only allowed for some arguments (`profiles/seccomp/default.json` of moby, commit
/// 00f3d18).
#[cfg(target_arch = "x86_64")]
const ALLOWED_BY_DOCKER: &[std::ops::RangeInclusive<c_long>] = &[
    0..=102,
    104..=133,
    135..=135,
    137..=138,
    140..=152,
    154..=154,
    157..=160,
    162..=162,
    186..=211,
    213..=226,
    228..=235,
    240..=245,
    247..=247,
    251..=255,
    257..=271,
    273..=278,
    280..=297,
    299..=299,
    301..=303,
    305..=307,
    309..=311,
    314..=319,
    322..=322,
    324..=334,
    424..=427,
    434..=434,
    436..=437,
    439..=439,
    441..=441,
    444..=449,
];

#[cfg(target_arch = "x86_64")]
#[test]
fn what_dockers_profile_refuses_is_refused_or_its_reason_is_given() {
    let refused: Vec<c_long> = REFUSED.iter().chain(ALSO_REFUSED).map(|line| line.0).collect();
    for call in 0..UNKNOWN.end {
        let allowed_there = ALLOWED_BY_DOCKER.iter().any(|calls| calls.contains(&call));
        let excused = ALLOWED.iter().any(|(calls, _)| calls.contains(&call));
        let refused_here = refused.contains(&call) || UNKNOWN.contains(&call);
        assert!(allowed_there || excused || refused_here, "{call}");
        assert!(!(excused && (allowed_there || refused_here)), "{call} has an obsolete reason");
    }
}

#[test]
fn keyrings_cannot_be_read_or_changed() {
    const KEYCTL_READ: c_long = 11;
    const USER_KEYRING: c_long = -4;
    assert_eq!(error(true, libc::SYS_keyctl, [KEYCTL_READ, USER_KEYRING, 0]), libc::EPERM);
    assert_eq!(error(true, libc::SYS_add_key, [-1, -1, -1]), libc::EPERM);
    assert_eq!(error(true, libc::SYS_request_key, [-1, -1, -1]), libc::EPERM);
}
