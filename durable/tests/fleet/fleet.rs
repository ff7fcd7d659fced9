//! A fleet: the servers, the workers, and the work of its clients.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwright_core::log::LogEntry;
use loopwright_core::message::{MessageId, UserMessage};
use loopwright_core::{Message, SessionStore};
use loopwright_memory::Postgres;
use loopwright_test_support::postgres::Server;
use loopwright_test_support::restate::RestateServers;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Client, History};
use crate::nemesis::{Fault, Nemesis};
use crate::network::{NETWORK, Network};
use crate::random::{Random, from_env, seed};
use crate::worker::{ORDERS, Orders, RestateOrders};
use crate::{TIMEOUT, balancer, check, figures};

/// The number of workers.
const WORKERS: usize = 3;
/// Minimum number of upgrades, so that at least one meets runs in progress of 12 sessions.
const MIN_UPGRADES: usize = 12;
/// The library that changes the clock of a program.
const FAKE_CLOCK: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
/// The lease of a worker.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// The placement of sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placed {
    ByLeases,
    ByRestate { nodes: usize },
}

/// Special features of a fleet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Special {
    /// Each worker has its own network.
    pub(crate) networks: bool,
    /// The database has a standby: `true` if commits wait for it.
    pub(crate) standby: Option<bool>,
    /// The clocks of two workers are off by a minute.
    pub(crate) clocks: bool,
}

pub(crate) struct Fleet {
    pub(crate) database: Mutex<Server>,
    pub(crate) standby: Option<Server>,
    pub(crate) networks: Vec<Network>,
    special: Special,
    pub(crate) restate: Mutex<Option<RestateServers>>,
    workers: Mutex<Vec<Option<Child>>>,
    /// The number of workers that have ended by themselves.
    pub(crate) deaths: AtomicU64,
    orders: Mutex<Vec<Orders>>,
    /// The addresses of the workers.
    addresses: Vec<String>,
    pub(crate) records: PathBuf,
    /// The store of the checker.
    pub(crate) store: Postgres,
    seed: u64,
    placed: Placed,
    _folder: TempDir,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in self.workers.get_mut().unwrap().iter_mut().flatten() {
            let _ = child.kill(); // it may have ended
            let _ = child.wait();
        }
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Fleet {
    pub(crate) async fn start(placed: Placed) -> Arc<Self> {
        Self::start_special(placed, Special::default()).await
    }

    pub(crate) async fn start_special(placed: Placed, special: Special) -> Arc<Self> {
        let seed = seed();
        let networks: Vec<Network> = match special.networks {
            true => (0..WORKERS).map(Network::new).collect(),
            false => Vec::new(),
        };
        let database = match special.networks {
            true => Server::start_for(NETWORK),
            false => Server::start(),
        };
        let standby = special.standby.map(|waits| database.start_standby(waits));
        let url = |worker: usize| {
            let host = networks.get(worker).map_or("127.0.0.1".to_owned(), Network::here);
            let hosts = match &standby {
                Some(standby) => format!("{host}:{},{host}:{}", database.port(), standby.port()),
                None => format!("{host}:{}", database.port()),
            };
            format!("postgres://test@{hosts}/postgres?target_session_attrs=read-write")
        };
        let folder = tempfile::tempdir().unwrap();
        let store = Postgres::connect(url(WORKERS)).await.unwrap();
        let ports: Vec<u16> = (0..WORKERS).map(|_| free_port()).collect();
        let endpoints: Vec<[u16; 2]> = (0..WORKERS).map(|_| [free_port(), free_port()]).collect();
        let of_version = |parity: usize| endpoints.iter().map(|ports| ports[parity]).collect();
        let (restate, balancers) = match placed {
            Placed::ByLeases => (None, [0; 2]),
            Placed::ByRestate { nodes } => {
                let servers = RestateServers::start(nodes).await;
                let even = balancer::start(of_version(0)).await;
                (Some(servers), [even, balancer::start(of_version(1)).await])
            }
        };
        let records = folder.path().join("records");
        let orders = (0..WORKERS).map(|worker| Orders {
            database: url(worker),
            host: networks.get(worker).map_or("127.0.0.1".to_owned(), Network::there),
            records: records.clone(),
            port: ports[worker],
            lease: LEASE,
            version: 0,
            restate: restate.as_ref().map(|servers| {
                let (ingress, admin) = servers.addresses(worker % servers.count());
                let (or_ingress, _) = servers.addresses((worker + 1) % servers.count());
                let endpoints = endpoints[worker];
                RestateOrders { ingress, or_ingress, admin, endpoints, balancers }
            }),
        });
        let orders: Vec<Orders> = orders.collect();
        let address = |orders: &Orders| format!("http://{}:{}", orders.host, orders.port);
        let fleet = Fleet {
            addresses: orders.iter().map(address).collect(),
            orders: Mutex::new(orders),
            standby,
            networks,
            special,
            records,
            database: Mutex::new(database),
            restate: Mutex::new(restate),
            workers: Mutex::new((0..WORKERS).map(|_| None).collect()),
            deaths: AtomicU64::new(0),
            store,
            seed,
            placed,
            _folder: folder,
        };
        (0..WORKERS).for_each(|worker| fleet.run(worker));
        Arc::new(fleet)
    }

    /// Starts a worker.
    pub(crate) fn run(&self, worker: usize) {
        let program = std::env::current_exe().unwrap();
        let mut command = match self.networks.get(worker) {
            None => Command::new(program),
            Some(network) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &network.name]).arg(program);
                command
            }
        };
        if self.special.clocks {
            command.env("LD_PRELOAD", FAKE_CLOCK).env("DONT_FAKE_MONOTONIC", "1");
            command.env("FAKETIME", ["+60s", "-60s", "+0s"][worker % 3]);
        }
        command.args(["worker", "--exact", "--ignored", "--nocapture"]);
        command.env(ORDERS, serde_json::to_string(&self.orders.lock().unwrap()[worker]).unwrap());
        command.stdout(std::process::Stdio::null());
        self.workers.lock().unwrap()[worker] = Some(command.spawn().unwrap());
    }

    /// Kills a worker, and returns its process id.
    pub(crate) fn kill(&self, worker: usize) -> u32 {
        let mut child = self.workers.lock().unwrap()[worker].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        child.id()
    }

    /// Restarts workers that have ended by themselves, as a supervisor does.
    async fn supervise(self: Arc<Self>) {
        loop {
            for worker in 0..WORKERS {
                let has_ended = |child: &mut Child| child.try_wait().unwrap().is_some();
                if self.workers.lock().unwrap()[worker].as_mut().is_some_and(has_ended) {
                    self.deaths.fetch_add(1, Ordering::Relaxed);
                    self.run(worker);
                }
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the process id of a worker.
    pub(crate) fn process(&self, worker: usize) -> u32 {
        self.workers.lock().unwrap()[worker].as_ref().unwrap().id()
    }

    /// Returns the address of a worker, which may be dead.
    pub(crate) fn any_worker(&self, random: &mut Random) -> String {
        self.addresses[random.below(WORKERS)].clone()
    }

    pub(crate) fn workers(&self) -> usize {
        WORKERS
    }

    /// Asks a worker to leave, waits for its end, and starts it with new code.
    pub(crate) async fn upgrade(&self, worker: usize) {
        let mut child = self.workers.lock().unwrap()[worker].take().unwrap();
        let pid = Pid::from_raw(child.id() as i32).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let ended = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
        assert!(ended.success(), "a worker leaves in order: {ended:?}");
        self.orders.lock().unwrap()[worker].version += 1;
        self.run(worker);
    }

    /// Lets clients work while these faults happen, and checks the records.
    pub(crate) async fn work(self: Arc<Self>, faults: &[Fault]) {
        let mut count = Fault::count(faults, from_env("LOOPWRIGHT_KILLS", 10) as usize);
        if faults.contains(&Fault::Upgrade) {
            count = count.max(MIN_UPGRADES);
        }
        if faults.contains(&Fault::Poison) {
            count = count.max(crate::poison::KINDS.len());
        }
        let wrong = self.work_and_check(faults, count).await;
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Lets clients work while these faults happen. Returns the violations in the records.
    pub(crate) async fn work_and_check(
        self: Arc<Self>,
        faults: &[Fault],
        count: usize,
    ) -> Vec<String> {
        let sessions = from_env("LOOPWRIGHT_SESSIONS", 18);
        self.store_at_rest(from_env("LOOPWRIGHT_AT_REST", 0)).await;
        println!("memory of the workers: {:?} KiB", self.memory());
        let begin = Instant::now();
        let is_over = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for number in 0..sessions {
            let client = Client::new(self.clone(), number, Random(self.seed ^ (number << 20)));
            let gives_up = faults.contains(&Fault::FailOver { lags: true });
            clients.spawn(client.work(is_over.clone(), gives_up));
        }
        let poisoned = faults.contains(&Fault::Poison);
        let supervisor = poisoned.then(|| tokio::spawn(self.clone().supervise()));
        let continued = Arc::new(AtomicU64::new(0));
        let person = tokio::spawn(self.clone().continue_held(sessions, continued.clone()));
        let mut nemesis = Nemesis::new(self.clone(), faults, Random(self.seed));
        nemesis.run(count).await;
        is_over.store(true, Ordering::Relaxed);
        let histories =
            timeout(TIMEOUT, clients.join_all()).await.expect("the work is done in time");
        println!("memory of the workers: {:?} KiB", self.memory());
        timeout(TIMEOUT, self.until_rest(&histories)).await.expect("all sessions come to rest");
        let records = crate::records::Records::read(&self.records);
        person.abort();
        let supervised = supervisor.map(|task| task.abort()).is_some();
        let (deaths, continued) =
            (self.deaths.load(Ordering::Relaxed), continued.load(Ordering::Relaxed));
        println!("{deaths} workers ended by themselves, a person continued {continued} sessions");
        assert!(supervised || deaths == 0, "no worker ends by itself");
        let (counts, wrong) = check::check(&self.store, &histories, &records).await;
        println!(
            "{:?}, {faults:?}: {} faults, {} s, {counts:?}",
            self.placed,
            nemesis.done.len(),
            begin.elapsed().as_secs()
        );
        if !self.special.clocks {
            figures::print(&self.store, &nemesis.done, &histories, &records).await;
        }
        wrong
    }

    /// Waits until no session of a client has anything to do.
    async fn until_rest(&self, histories: &[History]) {
        for history in histories {
            loop {
                let info = self.store.session(&history.session).await;
                if info.is_ok_and(|info| info.due.is_none() && info.unread == 0) {
                    break;
                }
                sleep(Duration::from_millis(100)).await;
            }
        }
    }

    /// Stores sessions that have nothing to do.
    async fn store_at_rest(&self, count: u64) {
        let next = Arc::new(AtomicU64::new(0));
        let mut writers = JoinSet::new();
        for _ in 0..64 {
            let (store, next) = (self.store.clone(), next.clone());
            writers.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let memory = store.open(&format!("rest/{number}")).await.unwrap();
                    let message = UserMessage::from("Nothing is to be done.");
                    let message = Arc::new(Message::new(MessageId(1), message));
                    memory.append(0, [LogEntry::Remembered { message }].into()).await.unwrap();
                    memory.close().await;
                }
            });
        }
        writers.join_all().await;
    }

    /// Returns the memory of each worker, in KiB.
    fn memory(&self) -> Vec<u64> {
        let of_process = |child: &Option<Child>| {
            let status = format!("/proc/{}/status", child.as_ref()?.id());
            let status = std::fs::read_to_string(status).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
            line.trim().split(' ').next()?.parse().ok()
        };
        self.workers.lock().unwrap().iter().filter_map(of_process).collect()
    }
}
