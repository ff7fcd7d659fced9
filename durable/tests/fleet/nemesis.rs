//! The faults.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use crate::fleet::{Fleet, LEASE};
use crate::random::{Random, now};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// A worker is killed and restarted.
    Kill,
    /// A worker is stopped for longer than its lease, and continues.
    Stop,
    /// The database server crashes and restarts.
    KillDatabase,
    /// A Restate server is killed and restarted.
    KillRestate,
    /// The network of a worker is cut in one direction for longer than its lease.
    Cut,
    /// The primary crashes, and the standby takes over. If the standby lagged before, it lacks the
    /// latest writes.
    FailOver {
        /// `true` if the standby receives nothing before the crash.
        lags: bool,
    },
    /// A worker leaves, and comes back with new code.
    Upgrade,
    /// A session kills each worker that does its work.
    Poison,
}

impl Fault {
    /// Returns the average number of processes that it kills or stops: every second poisoned
    /// session kills two workers, the others four.
    fn kills(self) -> usize {
        if self == Fault::Poison { 3 } else { 1 }
    }

    /// Returns the number of these faults, one after the other, that kill at least `kills`
    /// processes.
    pub(crate) fn count(faults: &[Fault], kills: usize) -> usize {
        let in_one_round: usize = faults.iter().map(|fault| fault.kills()).sum();
        (kills * faults.len()).div_ceil(in_one_round)
    }
}

/// A past fault of the worker with this process id, or of a server, with its time in milliseconds
/// since 1970.
pub(crate) struct Done {
    pub(crate) fault: Fault,
    pub(crate) process: Option<u32>,
    pub(crate) time: u64,
}

pub(crate) struct Nemesis {
    fleet: Arc<Fleet>,
    faults: Vec<Fault>,
    random: Random,
    pub(crate) done: Vec<Done>,
}

impl Nemesis {
    pub(crate) fn new(fleet: Arc<Fleet>, faults: &[Fault], random: Random) -> Self {
        Nemesis { fleet, faults: faults.to_vec(), random, done: Vec::new() }
    }

    /// Makes faults happen one after the other, with pauses of different lengths.
    pub(crate) async fn run(&mut self, count: usize) {
        self.pause(1500, 2500).await;
        for number in 0..count {
            let fault = self.faults[number % self.faults.len()];
            self.happen(fault, number).await;
            self.pause(300, 1800).await;
        }
    }

    async fn happen(&mut self, fault: Fault, number: usize) {
        let fleet = self.fleet.clone();
        let worker = self.random.below(fleet.workers());
        let mut done = Done { fault, process: None, time: now() };
        match fault {
            Fault::Kill => {
                done.process = Some(fleet.kill(worker));
                self.pause(0, 1000).await;
                fleet.run(worker);
            }
            Fault::Stop => {
                let process = fleet.process(worker);
                done.process = Some(process);
                let pid = Pid::from_raw(process as i32).unwrap();
                kill_process(pid, Signal::STOP).unwrap();
                sleep(LEASE * 2).await;
                kill_process(pid, Signal::CONT).unwrap();
            }
            Fault::KillDatabase => {
                fleet.database.lock().unwrap().stop("immediate");
                self.pause(0, 1000).await;
                fleet.database.lock().unwrap().run();
            }
            Fault::Cut => {
                let to_worker = self.random.below(2) == 0;
                fleet.networks[worker].cut(to_worker, true);
                sleep(LEASE * 2).await;
                fleet.networks[worker].cut(to_worker, false);
            }
            Fault::FailOver { lags } => {
                let standby = fleet.standby.as_ref().unwrap();
                if lags {
                    standby.disconnect();
                    self.pause(1500, 2500).await;
                }
                fleet.database.lock().unwrap().stop("immediate");
                standby.promote();
            }
            Fault::Poison => fleet.poison(number, &mut self.random).await,
            Fault::Upgrade => fleet.upgrade(number % fleet.workers()).await,
            Fault::KillRestate => {
                let count = fleet.restate.lock().unwrap().as_ref().unwrap().count();
                let node = self.random.below(count);
                fleet.restate.lock().unwrap().as_mut().unwrap().kill(node);
                self.pause(200, 2000).await;
                fleet.restate.lock().unwrap().as_mut().unwrap().run(node);
            }
        }
        self.done.push(done);
    }

    async fn pause(&mut self, min: u64, max: u64) {
        let time = min + self.random.below((max - min) as usize) as u64;
        sleep(Duration::from_millis(time)).await;
    }
}
