//! The priority of supervisor threads.

use libc::c_long;

/// The niceness of a supervisor thread, if it is permitted.
pub(super) const HIGHEST: i32 = -20;

/// Lets this thread run before all ordinary ones, or no longer. Has no effect if it is not
/// permitted; root usually is, to whose processes the kernel's limit does not apply.
///
/// Among thousands of processes niceness leaves a thread a small part of the time only, in which a
/// fork bomb grows faster than it is killed.
pub(super) fn set_realtime(on: bool) {
    let (policy, priority) = if on { (libc::SCHED_RR, 1) } else { (libc::SCHED_OTHER, 0) };
    // Some C libraries change these fields; the kernel reads the first only.
    let parameters: [libc::c_int; 4] = [priority, 0, 0, 0];
    const THIS_THREAD: c_long = 0;
    // SAFETY: the kernel reads one number through the pointer, which leads to four that live until
    // the call returns, and writes no memory.
    #[allow(unsafe_code, reason = "no safe function sets the policy of a thread")]
    unsafe {
        let policy = c_long::from(policy);
        libc::syscall(libc::SYS_sched_setscheduler, THIS_THREAD, policy, parameters.as_ptr());
    }
}
