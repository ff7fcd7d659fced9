//! [`Cgroup`]: a control group for one command. The kernel enforces its limits, even on processes
//! of root, and lists its processes.
//!
//! Control groups of version 2 are used where a child group can be created without leaving a limit
//! of this process: below its own group, or below a higher group if the groups in between have no
//! limits. Systems with the controllers in version 1 allow it below the process's own group.

mod parent;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{Timespec, poll};

use self::parent::{ParentGroup, Version};

/// The prefix of the names, before the id of this process.
const PREFIX: &str = "loopwright-";
/// The maximum number of attempts to remove a group. Killed processes take a while to leave it.
const MAX_REMOVE_ATTEMPTS: usize = 100;
const REMOVE_INTERVAL: Duration = Duration::from_millis(2);

/// The groups below which commands' groups can be created.
#[derive(Debug, Clone)]
pub(crate) struct Cgroups {
    /// A group that limits processes, and possibly a second group that limits memory.
    parents: Vec<ParentGroup>,
}

/// The control group of one command. Removed when dropped.
#[derive(Debug)]
pub(super) struct Cgroup {
    groups: Vec<(PathBuf, ParentGroup)>,
}

impl Cgroups {
    /// Finds groups below which others can be created, by trying. An error says why this fails.
    pub(crate) fn detect() -> Result<Self, String> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let parents = parent::find(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))?;
        let cgroups = Cgroups { parents };
        let trial = cgroups.create(usize::MAX, u64::MAX);
        trial.map_err(|e| format!("no control group can be created: {e}"))?;
        Ok(cgroups)
    }

    /// Returns whether the groups limit memory.
    pub(crate) fn limit_memory(&self) -> bool {
        self.parents.iter().any(|parent| parent.memory)
    }

    /// Creates a group with a limit of processes and threads, and a limit of memory in bytes.
    pub(super) fn create(&self, tasks: usize, memory: u64) -> std::io::Result<Cgroup> {
        let name = format!("{PREFIX}{}-{:016x}", std::process::id(), super::random::random());
        let mut cgroup = Cgroup { groups: Vec::new() };
        for parent in &self.parents {
            remove_abandoned(&parent.dir);
            let dir = parent.dir.join(&name);
            std::fs::create_dir(&dir)?;
            cgroup.groups.push((dir.clone(), parent.clone()));
            if parent.pids && tasks < usize::MAX {
                std::fs::write(dir.join("pids.max"), tasks.to_string())?;
            }
            if parent.memory && memory < u64::MAX {
                std::fs::write(dir.join(parent.version.memory_file()), memory.to_string())?;
                // Kills the whole command instead of one of its processes. Version 2 only.
                let _ = std::fs::write(dir.join("memory.oom.group"), "1");
            }
        }
        Ok(cgroup)
    }
}

impl Cgroup {
    /// Moves a process into the group, which its later child processes inherit.
    pub(super) fn add(&self, pid: i32) -> std::io::Result<()> {
        self.dirs().try_for_each(|dir| std::fs::write(dir.join("cgroup.procs"), pid.to_string()))
    }

    /// Returns the directories of the group, one or two.
    pub(super) fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.groups.iter().map(|(dir, _)| dir.as_path())
    }

    /// Returns the ids of the processes. Some of them may have ended.
    pub(super) fn processes(&self) -> Vec<i32> {
        let of_pids = self.groups.iter().find(|(_, parent)| parent.pids);
        let list = of_pids.and_then(|(dir, _)| read(dir, "cgroup.procs")).unwrap_or_default();
        list.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Returns whether the kernel enforces the limit of memory.
    pub(super) fn limits_memory(&self) -> bool {
        self.groups.iter().any(|(_, parent)| parent.memory)
    }

    /// Returns whether the limit has prevented a process from being started.
    pub(super) fn refused_processes(&self) -> bool {
        self.event(|parent| parent.pids, |_| "pids.events", "max") > 0
    }

    /// Returns whether the kernel has killed processes because of the limit of memory.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        self.event(|parent| parent.memory, |parent| parent.version.memory_events(), "oom_kill") > 0
    }

    /// Prevents new processes. Where the kernel supports it, also kills all processes at once.
    pub(super) fn kill(&self) {
        for (dir, parent) in &self.groups {
            if parent.pids {
                let _ = std::fs::write(dir.join("pids.max"), "0");
            }
            if parent.version == Version::V2 {
                let _ = std::fs::write(dir.join("cgroup.kill"), "1"); // since Linux 5.14
            }
        }
    }

    /// Returns a counter in a file of events.
    fn event(
        &self,
        of: impl Fn(&ParentGroup) -> bool,
        file: impl Fn(&ParentGroup) -> &'static str,
        name: &str,
    ) -> u64 {
        let counter =
            self.groups.iter().find(|(_, parent)| of(parent)).and_then(|(dir, parent)| {
                let events = read(dir, file(parent))?;
                let mut lines = events.lines().filter_map(|line| line.split_once(' '));
                lines.find(|(key, _)| *key == name)?.1.trim().parse().ok()
            });
        counter.unwrap_or_default()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for dir in self.dirs() {
            for _ in 0..MAX_REMOVE_ATTEMPTS {
                if std::fs::remove_dir(dir).is_ok() {
                    break;
                }
                let time =
                    Timespec { tv_sec: 0, tv_nsec: i64::from(REMOVE_INTERVAL.subsec_nanos()) };
                let _ = poll(&mut [], Some(&time));
            }
        }
    }
}

/// Returns the lowest memory limit of this process's groups, in bytes.
pub(super) fn memory_limit() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    parent::memory_limit(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
}

fn read(dir: &Path, file: &str) -> Option<String> {
    std::fs::read_to_string(dir.join(file)).ok()
}

/// Removes the groups of dead processes. A group that has processes cannot be removed.
fn remove_abandoned(parent: &Path) {
    let entries = std::fs::read_dir(parent).into_iter().flatten().filter_map(Result::ok);
    for entry in entries {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        if let Some((owner, _)) = owner
            && owner.parse::<u32>().is_ok()
            && !Path::new("/proc").join(owner).exists()
        {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
