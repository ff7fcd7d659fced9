//! The priority of supervisor threads.

use libc::c_long;

/// The niceness of a supervisor thread, if permitted.
pub(super) const HIGHEST: i32 = -20;

/// Lets this thread run before all ordinary threads, or no longer. Has no effect without
/// permission. Root usually has it, and the kernel's limit of processes does not apply to root.
///
/// Among thousands of processes, niceness leaves a thread only a small share of the time. In that
/// time a fork bomb grows faster than it is killed.
pub(super) fn set_realtime(on: bool) {
    let (policy, priority) = if on { (libc::SCHED_RR, 1) } else { (libc::SCHED_OTHER, 0) };
    // Some C libraries change these fields. The kernel only reads the first.
    let parameters: [libc::c_int; 4] = [priority, 0, 0, 0];
    const THIS_THREAD: c_long = 0;
    // SAFETY: the kernel reads one number through the pointer, which points to four numbers that
    // live until the call returns. It writes no memory.
    #[allow(unsafe_code, reason = "no safe function sets the policy of a thread")]
    unsafe {
        let policy = c_long::from(policy);
        libc::syscall(libc::SYS_sched_setscheduler, THIS_THREAD, policy, parameters.as_ptr());
    }
}
