//! [`Limits`] of one command, and [`Usage`], which measures what the kernel does not limit.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::cgroup::Cgroups;
use super::exit::size;
use crate::commands::Commands;

/// The share of this machine's memory that a command may use.
const MEMORY_SHARE: (u64, u64) = (3, 4);
/// The maximum number of bytes that a command may add to a disk.
const MAX_DISK_BYTES: u64 = 32 << 30;
/// The share of a disk's free bytes that a command may use.
const DISK_SHARE: (u64, u64) = (9, 10);

/// The limits of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The number of concurrent processes.
    pub(crate) processes: usize,
    /// The memory of all its processes, in bytes.
    pub(crate) memory: u64,
    /// The number of bytes by which the free space of a disk may shrink.
    pub(crate) disk: u64,
}

impl Limits {
    /// Returns the configured limits, and defaults for this machine where none is configured.
    pub(crate) fn of(commands: &Commands) -> Self {
        let memory = || commands.system.memory() / MEMORY_SHARE.1 * MEMORY_SHARE.0;
        Limits {
            processes: commands.max_processes,
            memory: commands.max_memory.unwrap_or_else(memory),
            disk: commands.max_disk.unwrap_or(MAX_DISK_BYTES),
        }
    }

    /// Returns sentences for the model about the limits, and how far they are enforced.
    pub(super) fn description(&self, cgroups: &Result<Cgroups, String>) -> String {
        let Limits { processes, memory, disk } = *self;
        let mut limits = vec![format!("{processes} processes")];
        for (limit, of) in [(memory, "memory"), (disk, "new data on disk")] {
            if limit < u64::MAX {
                limits.push(format!("{} of {of}", size(limit)));
            }
        }
        let last = limits.pop().unwrap_or_default();
        let more = if limits.is_empty() { "" } else { " or " };
        let all = limits.join(", ");
        let mut text = format!(" A command that has more than {all}{more}{last} is killed.");
        match cgroups {
            Ok(cgroups) if cgroups.limit_memory() => {}
            Ok(_) => text
                .push_str(" The kernel does not enforce the limit of memory here: it is measured."),
            Err(why) => text.push_str(&format!(
                " The kernel does not enforce these limits here ({why}): they are measured, and a \
                 command that starts processes without end can slow the machine down until it is \
                 killed."
            )),
        }
        text
    }

    /// Returns the same as JSON, for a user interface.
    pub(super) fn details(&self, cgroups: &Result<Cgroups, String>) -> Value {
        let limit = |limit: u64| (limit < u64::MAX).then_some(limit);
        json!({
            "processes": self.processes,
            "memory": limit(self.memory),
            "disk": limit(self.disk),
            "control_group": cgroups.is_ok(),
        })
    }

    /// Returns the kernel's limit of processes and threads. A program may have many threads.
    pub(super) fn tasks(&self) -> usize {
        self.processes.saturating_mul(4).saturating_add(64)
    }
}

/// A measurement of the disks and the memory that a command uses.
pub(super) struct Usage {
    /// The directories that the command can write, with the free bytes at its start.
    disks: Vec<(PathBuf, u64)>,
    /// The free bytes of memory at the last check of the limits.
    free_memory: u64,
}

impl Usage {
    /// Starts the measurement. The command can write these directories.
    pub(super) fn start(directories: Vec<PathBuf>) -> Self {
        let disks = directories.into_iter().filter_map(|dir| {
            let free = free_bytes(&dir)?;
            Some((dir, free))
        });
        Usage { disks: disks.collect(), free_memory: free_memory() }
    }

    /// Returns the limit, in bytes, of the first disk that has lost more than its limit.
    pub(super) fn exceeded_disk(&self, limit: u64) -> Option<u64> {
        if limit == u64::MAX {
            return None;
        }
        let mut exceeded = self.disks.iter().filter_map(|(dir, before)| {
            let limit = limit.min(before / DISK_SHARE.1 * DISK_SHARE.0);
            let lost = before.saturating_sub(free_bytes(dir)?);
            (lost > limit).then_some(limit)
        });
        exceeded.next()
    }

    /// Returns whether memory use has grown so much since the last check that the limits should be
    /// checked again. Unlike the check, this is cheap.
    pub(super) fn should_check(&self, limit: u64) -> bool {
        self.free_memory.saturating_sub(free_memory()) > limit / 8
    }

    /// Records that the limits are checked now.
    pub(super) fn checked(&mut self) {
        self.free_memory = free_memory();
    }

    /// Returns the bytes of memory of these processes, without memory shared with other programs.
    pub(super) fn measure(&self, processes: impl IntoIterator<Item = i32>) -> u64 {
        processes.into_iter().filter_map(memory_of).fold(0, u64::saturating_add)
    }
}

fn free_bytes(dir: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(dir).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn free_memory() -> u64 {
    let system = rustix::system::sysinfo();
    (system.freeram as u64).saturating_mul(system.mem_unit.into())
}

fn memory_of(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line?.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    let parts = ["RssAnon", "RssShmem", "VmSwap"].map(|name| kib(name).unwrap_or_default());
    Some(parts.iter().sum::<u64>().saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_generous_and_below_what_the_machine_has() {
        let limits = Limits::of(&Commands::new());
        let system = rustix::system::sysinfo();
        let total = system.totalram as u64 * u64::from(system.mem_unit);
        assert!(limits.memory > 0 && limits.memory < total, "{limits:?}");
        assert_eq!(limits.disk, 32 << 30);
        let own = Commands::new().max_memory(5).max_disk(6).max_processes(7);
        assert_eq!(Limits::of(&own), Limits { processes: 7, memory: 5, disk: 6 });
    }

    #[test]
    fn memory_of_a_process_is_what_it_has_for_itself() {
        let before = memory_of(std::process::id() as i32).unwrap();
        let block = vec![1_u8; 64 << 20];
        let after = memory_of(std::process::id() as i32).unwrap();
        assert!(after >= before + (32 << 20), "{before} {after} {}", block.len());
        assert_eq!(memory_of(i32::MAX), None);
    }
}
