//! Search for the process that holds a lock.

use std::path::Path;
use std::time::Duration;

/// Timeout of a store that waits for a stopped process.
pub(crate) const STOPPED_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of a store that waits for a running process.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between two attempts to get the lock.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The process that holds a lock.
#[derive(Debug, PartialEq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux says who holds a lock"))]
struct Holder {
    id: u32,
    name: String,
    is_stopped: bool,
}

/// Returns advice for a user who has waited for the lock of a file, or `None` if waiting longer may
/// help. With `byte`, only locks that cover that byte count.
pub(crate) fn advice(path: &Path, byte: Option<u64>, waited: Duration) -> Option<String> {
    if waited < STOPPED_TIMEOUT {
        return None;
    }
    let holder = holder(path, byte);
    let is_stopped = holder.as_ref().is_some_and(|holder| holder.is_stopped);
    if !is_stopped && waited < LOCK_TIMEOUT {
        return None;
    }
    let waited = waited.as_secs();
    Some(match holder {
        Some(Holder { id, name, is_stopped: true }) => format!(
            "process {id} (`{name}`) has locked it for {waited} seconds and is stopped; nothing \
             was written: continue that process with `kill -CONT {id}`, or end it with \
             `kill -KILL {id}`, and try again"
        ),
        Some(Holder { id, name, .. }) => format!(
            "process {id} (`{name}`) has locked it for {waited} seconds; nothing was written: try \
             again, and if that does not help, end that process"
        ),
        None => format!(
            "another process has locked it for {waited} seconds; nothing was written: try again, \
             and if that does not help, end the process that has the file open"
        ),
    })
}

/// Returns the process that holds a lock of this file, if the kernel reports it.
#[cfg(target_os = "linux")]
fn holder(path: &Path, byte: Option<u64>) -> Option<Holder> {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    let file = fs::metadata(path).ok()?;
    let (device, inode) = (file.dev(), file.ino());
    let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
    let minor = device & 0xff | (device >> 12) & !0xff;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let id = find(&locks, &format!("{major:02x}:{minor:02x}:{inode}"), byte)?;
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name is in parentheses, and may contain parentheses itself; the state follows.
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    Some(Holder { id, name: name.to_owned(), is_stopped: rest.starts_with(['T', 't']) })
}

#[cfg(not(target_os = "linux"))]
fn holder(_: &Path, _: Option<u64>) -> Option<Holder> {
    None
}

/// Finds the process with an exclusive lock of this file in the text of `/proc/locks`.
#[cfg(target_os = "linux")]
fn find(locks: &str, file: &str, byte: Option<u64>) -> Option<u32> {
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK" | "POSIX" | "OFDLCK", _, "WRITE", id, of, first, last] = fields[..] else {
            return None; // also a waiting process: its line has an arrow before the kind
        };
        let covers = byte.is_none_or(|byte| {
            first.parse().is_ok_and(|first: u64| first <= byte)
                && (last == "EOF" || last.parse().is_ok_and(|last: u64| byte <= last))
        });
        if of == file && covers { id.parse().ok() } else { None }
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_lock_is_found_by_its_file_its_kind_and_its_bytes() {
        let locks = "1: FLOCK  ADVISORY  WRITE 707 fe:00:535 0 EOF\n\
            2: POSIX  ADVISORY  READ 11 00:1a:7 120 120\n\
            2: -> POSIX  ADVISORY  WRITE 14 00:1a:7 120 120\n\
            3: POSIX  ADVISORY  WRITE 12 00:1a:7 121 122\n\
            4: POSIX  ADVISORY  WRITE 13 00:1a:7 120 120\n";
        assert_eq!(find(locks, "fe:00:535", None), Some(707));
        assert_eq!(find(locks, "00:1a:7", Some(120)), Some(13));
        assert_eq!(find(locks, "00:1a:7", Some(122)), Some(12));
        assert_eq!(find(locks, "00:1a:7", Some(123)), None);
        assert_eq!(find(locks, "fe:00:53", None), None);
    }

    #[test]
    fn the_holder_is_named_when_waiting_does_not_help() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let file = File::create(&path).unwrap();
        file.lock().unwrap();
        let holder = holder(&path, None).unwrap();
        assert_eq!((holder.id, holder.is_stopped), (std::process::id(), false));
        assert_eq!(advice(&path, None, STOPPED_TIMEOUT), None, "it is not stopped");
        let advice = advice(&path, None, LOCK_TIMEOUT).unwrap();
        assert!(advice.contains(&format!("process {} (`", std::process::id())), "{advice}");
        assert!(advice.contains("for 10 seconds; nothing was written"), "{advice}");
    }
}
