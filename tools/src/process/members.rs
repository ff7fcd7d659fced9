//! The processes of a command, told from all others, and how they are ended.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
    test_kill_process,
};

/// How the processes of a command are known.
#[derive(Debug, Clone)]
pub(super) enum Mark {
    /// This thread may signal them and nobody else, since Landlock scopes its signals. Nothing gets
    /// away: a daemon that clears its environment stays in the domain, and so do its children.
    Signals,
    /// This thread may look into them and nobody else, as with every Landlock. One that forbids to
    /// be looked into gets away, should it leave its process group.
    Traces,
    /// They descend from the first, or have this in their environment. A daemon that clears it gets
    /// away.
    Descent(String),
}

/// The processes of one command. With a mark of Landlock's, only for the thread that stands guard.
pub(super) struct Members {
    first: Pid,
    /// In the domain of the guard, but none of the command's.
    watchdog: Option<Pid>,
    since: u64,
    mark: Mark,
}

/// A line of `/proc/PID/stat`.
struct Stat {
    dead: bool,
    parent: i32,
    /// When it was started, in clock ticks since the system was.
    since: u64,
}

impl Members {
    /// Those of the command whose first process this is: a child that has not been waited for, in a
    /// process group of its own.
    pub(super) fn of(first: Pid, watchdog: Option<Pid>, mark: Mark) -> Self {
        // All others are younger. Without a date none is taken for one.
        let since = Stat::read(first.as_raw_pid()).map_or(u64::MAX, |stat| stat.since);
        Members { first, watchdog, since, mark }
    }

    /// Those that run.
    pub(super) fn running(&self) -> Vec<Pid> {
        let Ok(entries) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        let names =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        names.filter_map(Pid::from_raw).filter(|pid| self.has(*pid)).collect()
    }

    /// Ends them all. How many are left when the time is up; there should be none.
    pub(super) fn end(&self, patience: Duration) -> usize {
        let deadline = Instant::now() + patience;
        let mut rest = Duration::from_millis(1);
        let mut known = BTreeMap::new();
        if matches!(self.mark, Mark::Descent(_)) {
            self.note(&mut known); // once its parent has ended, a child is not known by it any more
        }
        // In one step, so nothing in it can fork meanwhile. The first has not been waited for, so
        // the group is its.
        let _ = kill_process_group(self.first, Signal::KILL);
        loop {
            self.note(&mut known);
            known.retain(|pid, since| {
                Stat::read(*pid).is_some_and(|stat| stat.runs() && stat.since == *since)
            });
            if known.is_empty() || Instant::now() > deadline {
                return known.len();
            }
            // What is stopped starts no more, so what multiplies comes to an end before it is
            // thinned out.
            for signal in [Signal::STOP, Signal::KILL] {
                for (pid, since) in &known {
                    self.signal(*pid, *since, signal);
                }
            }
            pause(rest);
            rest = (rest * 2).min(Duration::from_millis(50)); // they need time too, to end
        }
    }

    /// Notes those that run, each with the time of its start, by which it can be told from a later
    /// one of its number.
    fn note(&self, known: &mut BTreeMap<i32, u64>) {
        let running = self.running().into_iter().map(Pid::as_raw_pid);
        known.extend(running.filter_map(|pid| Some((pid, Stat::read(pid)?.since))));
    }

    fn signal(&self, pid: i32, since: u64, signal: Signal) {
        let Some(number) = Pid::from_raw(pid) else {
            return;
        };
        // The kernel looks whose it is, and there may be many.
        if matches!(self.mark, Mark::Signals) {
            let _ = kill_process(number, signal);
            return;
        }
        // The number may belong to another process by now. Held open it cannot change, so it is
        // looked at then.
        let held: Result<OwnedFd, _> = pidfd_open(number, PidfdFlags::empty());
        if let Ok(held) = held
            && Stat::read(pid).is_some_and(|stat| stat.since == since)
        {
            let _ = pidfd_send_signal(&held, signal); // it may have ended
        }
    }

    fn has(&self, pid: Pid) -> bool {
        let raw = pid.as_raw_pid();
        // To itself a thread may do anything, whatever its domain.
        if raw.unsigned_abs() == std::process::id() || self.watchdog == Some(pid) {
            return false;
        }
        let marked = match &self.mark {
            Mark::Signals => test_kill_process(pid).is_ok(),
            Mark::Traces => std::fs::read_link(format!("/proc/{raw}/root")).is_ok(),
            Mark::Descent(tag) => self.descends(raw) || is_tagged(raw, tag),
        };
        marked && Stat::read(raw).is_some_and(|stat| stat.runs() && stat.since >= self.since)
    }

    fn descends(&self, mut pid: i32) -> bool {
        let first = self.first.as_raw_pid();
        for _ in 0..1_000 {
            if pid == first {
                return true;
            }
            match Stat::read(pid) {
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

    /// The name, in brackets, can be anything; what follows its last bracket is words.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.rsplit_once(')')?.1.split_whitespace();
        let dead = matches!(words.next()?, "Z" | "X" | "x");
        let parent = words.next()?.parse().ok()?;
        let since = words.nth(17)?.parse().ok()?;
        Some(Stat { dead, parent, since })
    }
}

fn is_tagged(pid: i32, tag: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == tag.as_bytes())
}

fn pause(time: Duration) {
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    let _ = poll(&mut [], Some(&time));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_forge_its_line() {
        let rest = "R 7 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 0 0";
        for name in ["sh", "a b", ") Z 1 (", "a) S 1 1"] {
            let stat = Stat::parse(&format!("42 ({name}) {rest}")).unwrap();
            assert_eq!((stat.dead, stat.parent, stat.since), (false, 7, 12_345), "{name}");
        }
        assert!(Stat::parse("").is_none() && Stat::parse("42 (sh) R").is_none());
    }

    /// Whatever mark fails, the process that looks is never taken for one.
    #[test]
    fn this_process_is_none() {
        let own = Pid::from_raw(std::process::id() as i32).unwrap();
        for mark in [Mark::Signals, Mark::Traces, Mark::Descent("A=1".into())] {
            let members = Members { first: own, watchdog: None, since: 0, mark };
            assert!(!members.has(own));
        }
    }

    #[test]
    fn what_is_older_than_the_command_is_none() {
        let parent = rustix::process::getppid().unwrap();
        let all =
            Members { first: parent, watchdog: None, since: 0, mark: Mark::Descent("A=1".into()) };
        assert!(all.has(parent));
        assert!(!Members { since: u64::MAX, ..all }.has(parent));
    }
}
