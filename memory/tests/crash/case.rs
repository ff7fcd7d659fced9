//! One session: its processes, one after the other, and the checks after each.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loopwright_core::SessionStore;
use loopwright_core::log::{LogEntry, SessionInfo};
use loopwright_core::message::MessageKind;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use crate::check::{Notes, check, check_done, check_same, transcript};
use crate::child::{Death, ORDERS, Orders, appending};
use crate::scenario::SCENARIOS;
use crate::stores::Kind;

/// A child that takes longer hangs.
const TOO_LONG: Duration = Duration::from_secs(60);

/// The conversation of a scenario without a kill, and how long its process takes.
type Undisturbed = (Vec<String>, Duration);

/// The stores of a test, and what its scenarios are like without a kill.
pub(crate) struct Place {
    folder: TempDir,
    stores: HashMap<Kind, Arc<dyn SessionStore>>,
    /// What has been in the logs: how runs, replies and calls ended.
    pub(crate) seen: std::sync::Mutex<BTreeSet<String>>,
    /// Says how to repeat the test.
    hint: String,
    undisturbed: Mutex<HashMap<(Kind, usize), Undisturbed>>,
}

impl Place {
    pub(crate) fn new(hint: &str) -> Place {
        let folder = TempDir::new().expect("a temporary directory");
        let open = |kind: Kind| {
            let place = folder.path().join(format!("{kind:?}"));
            std::fs::create_dir(&place).expect("a directory for the store");
            (kind, kind.at(&place))
        };
        let stores = Kind::ALL.into_iter().map(open).collect();
        Place {
            folder,
            stores,
            hint: hint.into(),
            undisturbed: Mutex::default(),
            seen: Default::default(),
        }
    }

    /// What a scenario is like without a kill; found out once.
    pub(crate) async fn undisturbed(self: &Arc<Self>, store: Kind, scenario: usize) -> Undisturbed {
        let mut known = self.undisturbed.lock().await;
        if let Some(found) = known.get(&(store, scenario)) {
            return found.clone();
        }
        let mut case = Case::new(self, store, scenario, &format!("undisturbed-{scenario}"), 0);
        let began = Instant::now();
        let child = case.start(None);
        case.wait(child, None).await;
        let found = (transcript(&case.items), began.elapsed());
        known.insert((store, scenario), found.clone());
        found
    }
}

/// How a process ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Killed,
}

/// One session of a store.
pub(crate) struct Case {
    place: Arc<Place>,
    pub(crate) orders: Orders,
    store: Arc<dyn SessionStore>,
    seed: u64,
    /// The log as it was after the last process.
    pub(crate) items: Vec<LogEntry>,
    lives: usize,
    /// The last process.
    pub(crate) pid: u32,
}

impl Case {
    pub(crate) fn new(
        place: &Arc<Place>,
        store: Kind,
        scenario: usize,
        session: &str,
        seed: u64,
    ) -> Case {
        let session = format!("{store:?}-{session}");
        let notes = place.folder.path().join(&session);
        std::fs::create_dir(&notes).expect("a directory for the notes");
        let folder = place.folder.path().join(format!("{store:?}"));
        let orders = Orders {
            store,
            place: folder,
            session,
            notes,
            scenario,
            answers: true,
            answers_first: false,
            dies: None,
        };
        let store = place.stores[&store].clone();
        Case { place: place.clone(), orders, store, seed, items: Vec::new(), lives: 0, pid: 0 }
    }

    /// The next number of chance (splitmix64).
    pub(crate) fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The life of one process, which is killed at that moment or dies as ordered; then everything
    /// is checked.
    pub(crate) async fn live(&mut self, killed: Option<Duration>, dies: Option<Death>) -> End {
        self.orders.answers_first = self.random().is_multiple_of(2);
        let child = self.start(dies);
        let end = self.wait(child, killed).await;
        if end == End::Done && SCENARIOS[self.orders.scenario].exact {
            let (undisturbed, _) =
                self.place.undisturbed(self.orders.store, self.orders.scenario).await;
            check_same(&undisturbed, &transcript(&self.items))
                .unwrap_or_else(|why| self.fail(&why));
        }
        end
    }

    /// Lives until all is done.
    pub(crate) async fn finish(&mut self) {
        assert_eq!(self.live(None, None).await, End::Done);
    }

    /// Starts a process that rests at its questions, and kills it there.
    pub(crate) async fn ask_and_kill(&mut self) {
        self.orders.answers = false;
        let mut child = self.start(None);
        self.orders.answers = true;
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        while lines
            .next_line()
            .await
            .expect("its output can be read")
            .unwrap_or_else(|| self.fail("it never rested"))
            != "resting"
        {}
        assert_eq!(self.wait(child, Some(Duration::ZERO)).await, End::Killed);
    }

    /// What its tools did, as they wrote it down.
    pub(crate) fn notes(&self) -> Notes {
        Notes::read(&self.orders.notes).unwrap_or_else(|why| self.fail(&why))
    }

    pub(crate) fn start(&mut self, dies: Option<Death>) -> Child {
        self.lives += 1;
        let orders = Orders { dies, ..self.orders.clone() };
        let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
        command.args(["child", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        command
            .env(ORDERS, serde_json::to_string(&orders).expect("orders are JSON"))
            .stdin(Stdio::null());
        command.stdout(if orders.answers { Stdio::null() } else { Stdio::piped() });
        command.stderr(appending(&orders.notes.join("stderr"))).kill_on_drop(true);
        let child = command.spawn().expect("a process is started");
        self.pid = child.id().unwrap_or_default();
        child
    }

    /// Waits for the end of a process, which is killed at that moment, and checks what it left.
    pub(crate) async fn wait(&mut self, mut child: Child, killed: Option<Duration>) -> End {
        let status = match tokio::time::timeout(killed.unwrap_or(TOO_LONG), child.wait()).await {
            Ok(status) => status.expect("the process ends"),
            Err(_) if killed.is_none() => self.fail("the process hangs"),
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
        let items = match self.store.read(&session, 0).await {
            Err(loopwright_core::log::MemoryError::NoSession(_)) if self.items.is_empty() => {
                Vec::new()
            }
            read => read.map_err(|e| e.to_string())?,
        };
        if !items.starts_with(&self.items) {
            return Err("what was in the log is not there any more".into());
        }
        self.items = items;
        self.place
            .seen
            .lock()
            .expect("no test has failed")
            .extend(self.items.iter().filter_map(outcome));
        if !self.items.is_empty() {
            let (kept, made) =
                (self.store.session(&session).await, SessionInfo::of(&*session, &self.items));
            if kept.as_ref() != Ok(&made) {
                return Err(format!(
                    "what the store knows of the session is not what its log says:\n{kept:?}\n{made:?}"
                ));
            }
        }
        check(&session, &self.items, &Notes::read(&self.orders.notes)?)?;
        if done { check_done(&SCENARIOS[self.orders.scenario], &self.items) } else { Ok(()) }
    }

    /// Fails the test, and says what there is to know.
    pub(crate) fn fail(&self, why: &str) -> ! {
        let folder: PathBuf = self.place.folder.path().with_extension("failed");
        let _ = std::fs::rename(self.place.folder.path(), &folder);
        let stderr = std::fs::read_to_string(folder.join(&self.orders.session).join("stderr"))
            .unwrap_or_default();
        let Orders { session, scenario, .. } = &self.orders;
        let (name, items) = (SCENARIOS[*scenario].name, &self.items);
        let log: Vec<String> =
            items.iter().enumerate().map(|(n, item)| format!("{n}: {item:?}")).collect();
        panic!(
            "{why}\nin {session} ({name}), process {}; {}; kept in {}\nstderr: {stderr}\nlog:\n{}",
            self.lives,
            self.place.hint,
            folder.display(),
            log.join("\n")
        )
    }
}

/// How a run, a reply or a call ended.
fn outcome(item: &LogEntry) -> Option<String> {
    match item {
        LogEntry::RunEnded { end, .. } => Some(format!("run {end:?}")),
        LogEntry::Compacted { why, .. } => Some(format!("compacted {why:?}")),
        LogEntry::Decided { decision, .. } => Some(format!("decided {}", decision.name())),
        _ => match &item.message()?.body {
            MessageKind::Assistant(reply) => Some(format!("reply {:?}", reply.stop)),
            MessageKind::ToolResult(result) => Some(format!("call {:?}", result.status)),
            _ => None,
        },
    }
}
