//! One session: its processes, one after another, and the checks after each.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loopwright_core::SessionStore;
use loopwright_core::log::{LogEntry, MemoryError, SessionInfo};
use loopwright_core::message::MessageKind;
use loopwright_test_support::postgres::Server;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use crate::check::{Record, check, check_done, check_same, transcript};
use crate::child::{KillPoint, ORDERS, Orders, open_for_append};
use crate::scenario::SCENARIOS;
use crate::stores::Kind;

/// The time after which a process counts as hanging.
pub(crate) const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);

/// The conversation of a scenario without kills, and the duration of its process.
type WithoutKills = (Vec<String>, Duration);

/// The stores of a test, and the results of its scenarios without kills.
pub(crate) struct Workspace {
    folder: TempDir,
    stores: HashMap<Kind, Arc<dyn SessionStore>>,
    _servers: Vec<Server>,
    /// The outcomes of runs, replies and calls in all logs.
    pub(crate) seen: std::sync::Mutex<BTreeSet<String>>,
    /// The command that repeats the test.
    hint: String,
    without_kills: Mutex<HashMap<(Kind, usize), WithoutKills>>,
}

impl Workspace {
    pub(crate) async fn new(hint: &str) -> Workspace {
        let folder = TempDir::new().expect("a temporary directory");
        let (mut stores, mut servers) = (HashMap::new(), Vec::new());
        for kind in crate::stores::all() {
            let directory = folder.path().join(format!("{kind:?}"));
            std::fs::create_dir(&directory).expect("a directory for the store");
            servers.extend(kind.serve(&directory));
            stores.insert(*kind, kind.open(&directory).await);
        }
        Workspace {
            folder,
            stores,
            _servers: servers,
            hint: hint.into(),
            without_kills: Mutex::default(),
            seen: Default::default(),
        }
    }

    /// Returns the result of a scenario without kills, which runs once.
    pub(crate) async fn without_kills(
        self: &Arc<Self>,
        store: Kind,
        scenario: usize,
    ) -> WithoutKills {
        let mut known = self.without_kills.lock().await;
        if let Some(result) = known.get(&(store, scenario)) {
            return result.clone();
        }
        let mut case = Case::new(self, store, scenario, &format!("without-kills-{scenario}"), 0);
        let start = Instant::now();
        let child = case.start(None);
        case.wait(child, None).await;
        let result = (transcript(&case.entries), start.elapsed());
        known.insert((store, scenario), result.clone());
        result
    }
}

/// The way in which a process ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Killed,
}

/// One session of a store.
pub(crate) struct Case {
    workspace: Arc<Workspace>,
    pub(crate) orders: Orders,
    store: Arc<dyn SessionStore>,
    seed: u64,
    /// The log after the last process.
    pub(crate) entries: Vec<LogEntry>,
    processes: usize,
    /// The id of the last process.
    pub(crate) pid: u32,
}

impl Case {
    pub(crate) fn new(
        workspace: &Arc<Workspace>,
        store: Kind,
        scenario: usize,
        session: &str,
        seed: u64,
    ) -> Case {
        let session = format!("{store:?}-{session}");
        let record = workspace.folder.path().join(&session);
        std::fs::create_dir(&record).expect("a directory for the record");
        let folder = workspace.folder.path().join(format!("{store:?}"));
        let orders = Orders {
            store,
            directory: folder,
            session,
            record,
            scenario,
            decides: true,
            decides_first: false,
            kill: None,
        };
        let store = workspace.stores[&store].clone();
        Case {
            workspace: workspace.clone(),
            orders,
            store,
            seed,
            entries: Vec::new(),
            processes: 0,
            pid: 0,
        }
    }

    /// Returns the next random number.
    pub(crate) fn random(&mut self) -> u64 {
        next_random(&mut self.seed)
    }

    /// Runs one process and checks the result. The process is killed after `kill_after` or at
    /// `kill`.
    pub(crate) async fn run_process(
        &mut self,
        kill_after: Option<Duration>,
        kill: Option<KillPoint>,
    ) -> End {
        self.orders.decides_first = self.random().is_multiple_of(2);
        let child = self.start(kill);
        let end = self.wait(child, kill_after).await;
        if end == End::Done && SCENARIOS[self.orders.scenario].exact {
            let (expected, _) =
                self.workspace.without_kills(self.orders.store, self.orders.scenario).await;
            check_same(&expected, &transcript(&self.entries)).unwrap_or_else(|why| self.fail(&why));
        }
        end
    }

    /// Runs a process until all work is done.
    pub(crate) async fn finish(&mut self) {
        assert_eq!(self.run_process(None, None).await, End::Done);
    }

    /// Starts a process that does not decide, and kills it while it awaits a decision.
    pub(crate) async fn kill_while_awaiting(&mut self) {
        self.orders.decides = false;
        let mut child = self.start(None);
        self.orders.decides = true;
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        while lines
            .next_line()
            .await
            .expect("its output can be read")
            .unwrap_or_else(|| self.fail("the process never awaited a decision"))
            != "awaiting"
        {}
        assert_eq!(self.wait(child, Some(Duration::ZERO)).await, End::Killed);
    }

    /// Reads the record of the processes.
    pub(crate) fn record(&self) -> Record {
        Record::read(&self.orders.record).unwrap_or_else(|why| self.fail(&why))
    }

    /// Starts a process.
    pub(crate) fn start(&mut self, kill: Option<KillPoint>) -> Child {
        self.processes += 1;
        let orders = Orders { kill, ..self.orders.clone() };
        let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
        command.args(["child", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        command
            .env(ORDERS, serde_json::to_string(&orders).expect("orders are JSON"))
            .stdin(Stdio::null());
        command.stdout(if orders.decides { Stdio::null() } else { Stdio::piped() });
        command.stderr(open_for_append(&orders.record.join("stderr"))).kill_on_drop(true);
        let child = command.spawn().expect("a process is started");
        self.pid = child.id().unwrap_or_default();
        child
    }

    /// Waits for a process, which is killed after `kill_after`, and checks the result.
    pub(crate) async fn wait(&mut self, mut child: Child, kill_after: Option<Duration>) -> End {
        let status =
            match tokio::time::timeout(kill_after.unwrap_or(PROCESS_TIMEOUT), child.wait()).await {
                Ok(status) => status.expect("the process ends"),
                Err(_) if kill_after.is_none() => self.fail("the process hangs"),
                Err(_) => {
                    child.start_kill().expect("the process can be killed");
                    child.wait().await.expect("the process ends")
                }
            };
        let end = match (status.success(), status.signal()) {
            (true, _) => End::Done,
            (false, Some(9)) => End::Killed,
            _ => self.fail(&format!("the process failed: {status}")),
        };
        self.check(end == End::Done).await.unwrap_or_else(|why| self.fail(&why));
        end
    }

    async fn check(&mut self, done: bool) -> Result<(), String> {
        let session = self.orders.session.clone();
        let Orders { store, directory, .. } = &self.orders;
        store.settle(directory, &*self.store, &session, self.pid).await;
        let entries = match self.store.read(&session, 0).await {
            Err(MemoryError::NoSession(_)) if self.entries.is_empty() => Vec::new(),
            read => read.map_err(|e| e.to_string())?,
        };
        if !entries.starts_with(&self.entries) {
            return Err("entries have disappeared from the log".into());
        }
        self.entries = entries;
        self.workspace
            .seen
            .lock()
            .expect("no test has panicked")
            .extend(self.entries.iter().filter_map(outcome));
        if !self.entries.is_empty() {
            let stored = self.store.session(&session).await;
            let expected = SessionInfo::of(&*session, &self.entries);
            if stored.as_ref() != Ok(&expected) {
                return Err(format!(
                    "the store's information does not match the log:\n{stored:?}\n{expected:?}"
                ));
            }
        }
        check(&session, &self.entries, &Record::read(&self.orders.record)?)?;
        if done { check_done(&SCENARIOS[self.orders.scenario], &self.entries) } else { Ok(()) }
    }

    /// Fails the test with the log and the error output.
    pub(crate) fn fail(&self, why: &str) -> ! {
        let folder: PathBuf = self.workspace.folder.path().with_extension("failed");
        let _ = std::fs::rename(self.workspace.folder.path(), &folder);
        let stderr = std::fs::read_to_string(folder.join(&self.orders.session).join("stderr"))
            .unwrap_or_default();
        let Orders { session, scenario, .. } = &self.orders;
        let name = SCENARIOS[*scenario].name;
        let log: Vec<String> =
            self.entries.iter().enumerate().map(|(n, entry)| format!("{n}: {entry:?}")).collect();
        panic!(
            "{why}\nin {session} ({name}), process {}; {}; kept in {}\nstderr: {stderr}\nlog:\n{}",
            self.processes,
            self.workspace.hint,
            folder.display(),
            log.join("\n")
        )
    }
}

/// Returns the next random number (splitmix64).
pub(crate) fn next_random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the outcome of a run, a reply or a call.
fn outcome(entry: &LogEntry) -> Option<String> {
    match entry {
        LogEntry::RunEnded { end, .. } => Some(format!("run {end:?}")),
        LogEntry::Compacted { why, .. } => Some(format!("compacted {why:?}")),
        LogEntry::Decided { decision, .. } => Some(format!("decided {}", decision.name())),
        _ => match &entry.message()?.body {
            MessageKind::Assistant(reply) => Some(format!("reply {:?}", reply.stop)),
            MessageKind::ToolResult(result) => Some(format!("call {:?}", result.status)),
            _ => None,
        },
    }
}
