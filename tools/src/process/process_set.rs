//! [`ProcessSet`]: recognises and kills the processes of a command.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
    test_kill_process,
};

use super::cgroup::Cgroup;

/// The shortest and longest pause between two attempts to kill all processes.
const MIN_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(50);
/// The maximum number of ancestors in the search for the first process of the command.
const MAX_GENERATIONS: usize = 1_000;

/// The criterion by which the processes of a command are recognised.
#[derive(Debug, Clone)]
pub(super) enum Membership {
    /// The only processes that this thread may signal, because Landlock scopes signals. No process
    /// escapes: a daemon that clears its environment stays in the domain, and so do its children.
    Signals,
    /// The only processes that this thread may trace, as with every version of Landlock. A process
    /// that forbids tracing escapes if it also leaves its process group.
    Traces,
    /// The descendants of the first process, and processes with this variable in their environment.
    /// A daemon that clears its environment escapes.
    Descent(String),
}

/// The processes of one command. If Landlock decides the membership, only the supervisor thread may
/// use the set.
pub(super) struct ProcessSet {
    first: Pid,
    /// A process in the supervisor's domain that does not belong to the command.
    watchdog: Option<Pid>,
    /// The start time of the first process.
    start_time: u64,
    membership: Membership,
    /// The control group of the processes, if one could be created.
    cgroup: Option<Cgroup>,
}

/// A line of `/proc/PID/stat`.
struct Stat {
    dead: bool,
    parent: i32,
    /// The start time, in clock ticks since the start of the system.
    start_time: u64,
}

impl ProcessSet {
    /// Creates the set of the command whose first process is `first`: a child with its own process
    /// group that has not been reaped.
    pub(super) fn of(
        first: Pid,
        watchdog: Option<Pid>,
        membership: Membership,
        cgroup: Option<Cgroup>,
    ) -> Self {
        // All other processes are younger. If the time is unknown, no process is a member.
        let start_time = Stat::read(first.as_raw_pid()).map_or(u64::MAX, |stat| stat.start_time);
        ProcessSet { first, watchdog, start_time, membership, cgroup }
    }

    /// Returns the control group of the processes.
    pub(super) fn cgroup(&self) -> Option<&Cgroup> {
        self.cgroup.as_ref()
    }

    /// Returns the number of running processes.
    pub(super) fn count_running(&self) -> usize {
        let runs = |pid: &i32| Stat::read(*pid).is_some_and(|stat| stat.runs());
        self.running_or_ended().iter().filter(|pid| runs(pid)).count()
    }

    /// Returns the running processes, and possibly some that have ended. Cheap with a control
    /// group.
    pub(super) fn running_or_ended(&self) -> Vec<i32> {
        match &self.cgroup {
            Some(cgroup) => cgroup.processes(),
            None => self.scan().into_iter().map(Pid::as_raw_pid).collect(),
        }
    }

    /// Finds the running processes by their membership.
    fn scan(&self) -> Vec<Pid> {
        let Ok(entries) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        // Each is read once: searching for the ancestors of each would take quadratic time.
        let all: BTreeMap<i32, Stat> =
            names.filter_map(|pid: i32| Some((pid, Stat::read(pid)?))).collect();
        let pids = all.keys().filter_map(|pid| Pid::from_raw(*pid));
        pids.filter(|pid| self.contains(*pid, &all)).collect()
    }

    /// Kills all processes. Returns the number that are left, which is normally 0: it gives up when
    /// their number has not fallen for `timeout`.
    pub(super) fn kill(&self, timeout: Duration) -> usize {
        let mut deadline = Instant::now() + timeout;
        let mut fewest = usize::MAX;
        let mut pause = MIN_PAUSE;
        let mut known = BTreeMap::new();
        if matches!(self.membership, Membership::Descent(_)) {
            self.add_running(&mut known); // before their parents end and descent is lost
        }
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        // Kills the group at once, so that its processes cannot fork in between. The first process
        // has not been reaped, so the group id is still its own.
        let _ = kill_process_group(self.first, Signal::KILL);
        loop {
            self.add_running(&mut known);
            known.retain(|pid, start_time| {
                Stat::read(*pid).is_some_and(|stat| stat.runs() && stat.start_time == *start_time)
            });
            if known.len() < fewest {
                fewest = known.len();
                deadline = Instant::now() + timeout;
            }
            if known.is_empty() || Instant::now() > deadline {
                return known.len();
            }
            // Stopped processes cannot fork, so a fork bomb is stopped before it is killed.
            for signal in [Signal::STOP, Signal::KILL] {
                for (pid, start_time) in &known {
                    self.signal(*pid, *start_time, signal);
                }
            }
            sleep(pause); // leaves the processes time to end
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Adds the running processes with their start times, which distinguish them from later
    /// processes with the same id.
    fn add_running(&self, known: &mut BTreeMap<i32, u64>) {
        let in_group = self.cgroup.iter().flat_map(Cgroup::processes);
        let running = self.scan().into_iter().map(Pid::as_raw_pid).chain(in_group);
        known.extend(running.filter_map(|pid| Some((pid, Stat::read(pid)?.start_time))));
    }

    fn signal(&self, raw: i32, start_time: u64, signal: Signal) {
        let Some(pid) = Pid::from_raw(raw) else {
            return;
        };
        // The kernel checks that the process is in the domain. This is faster for many processes.
        if matches!(self.membership, Membership::Signals) {
            let _ = kill_process(pid, signal);
            return;
        }
        // The id may already belong to another process. It is checked after the process was opened,
        // because it cannot be reused then.
        let process: Result<OwnedFd, _> = pidfd_open(pid, PidfdFlags::empty());
        if let Ok(process) = process
            && Stat::read(raw).is_some_and(|stat| stat.start_time == start_time)
        {
            let _ = pidfd_send_signal(&process, signal); // it may have ended
        }
    }

    /// Returns whether a running process of the system is a member.
    fn contains(&self, pid: Pid, all: &BTreeMap<i32, Stat>) -> bool {
        let raw = pid.as_raw_pid();
        // A thread may always signal and trace its own process.
        if raw.unsigned_abs() == std::process::id() || self.watchdog == Some(pid) {
            return false;
        }
        let is_candidate = |stat: &Stat| stat.runs() && stat.start_time >= self.start_time;
        all.get(&raw).is_some_and(is_candidate)
            && match &self.membership {
                Membership::Signals => test_kill_process(pid).is_ok(),
                Membership::Traces => std::fs::read_link(format!("/proc/{raw}/root")).is_ok(),
                Membership::Descent(tag) => self.descends(raw, all) || is_tagged(raw, tag),
            }
    }

    fn descends(&self, mut pid: i32, all: &BTreeMap<i32, Stat>) -> bool {
        let first = self.first.as_raw_pid();
        for _ in 0..MAX_GENERATIONS {
            if pid == first {
                return true;
            }
            match all.get(&pid) {
                Some(stat) if stat.parent > 1 => pid = stat.parent,
                _ => return false,
            }
        }
        false
    }
}

impl Stat {
    fn runs(&self) -> bool {
        !self.dead
    }

    fn read(pid: i32) -> Option<Self> {
        let line = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&line))
    }

    /// Parses a line. The name, in parentheses, may contain any character. The words follow its
    /// last parenthesis.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.rsplit_once(')')?.1.split_whitespace();
        let dead = matches!(words.next()?, "Z" | "X" | "x");
        let parent = words.next()?.parse().ok()?;
        let start_time = words.nth(17)?.parse().ok()?;
        Some(Stat { dead, parent, start_time })
    }
}

fn is_tagged(pid: i32, tag: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == tag.as_bytes())
}

fn sleep(time: Duration) {
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    let _ = poll(&mut [], Some(&time));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(pid: Pid) -> BTreeMap<i32, Stat> {
        let pid = pid.as_raw_pid();
        BTreeMap::from([(pid, Stat::read(pid).unwrap())])
    }

    #[test]
    fn a_name_cannot_forge_its_line() {
        let rest = "R 7 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 0 0";
        for name in ["sh", "a b", ") Z 1 (", "a) S 1 1"] {
            let stat = Stat::parse(&format!("42 ({name}) {rest}")).unwrap();
            assert_eq!((stat.dead, stat.parent, stat.start_time), (false, 7, 12_345), "{name}");
        }
        assert!(Stat::parse("").is_none() && Stat::parse("42 (sh) R").is_none());
    }

    /// Even if the check of membership fails, this process is never a member.
    #[test]
    fn this_process_is_not_a_member() {
        let own = Pid::from_raw(std::process::id() as i32).unwrap();
        for membership in
            [Membership::Signals, Membership::Traces, Membership::Descent("A=1".into())]
        {
            let set =
                ProcessSet { first: own, watchdog: None, start_time: 0, membership, cgroup: None };
            assert!(!set.contains(own, &known(own)));
        }
    }

    #[test]
    fn a_process_older_than_the_command_is_not_a_member() {
        let parent = rustix::process::getppid().unwrap();
        let membership = Membership::Descent("A=1".into());
        let all =
            ProcessSet { first: parent, watchdog: None, start_time: 0, membership, cgroup: None };
        assert!(all.contains(parent, &known(parent)));
        assert!(!ProcessSet { start_time: u64::MAX, ..all }.contains(parent, &known(parent)));
    }
}
