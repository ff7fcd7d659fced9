//! Kills of processes with sub-agents, and checks of all sessions after each.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use loopwright_core::SessionStore;
use loopwright_core::{event::*, log::*, message::*};
use loopwright_test_support::postgres::Server;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::case::{PROCESS_TIMEOUT, next_random};
use crate::child::open_for_append;
use crate::family::{ORDERS, Orders, User};
use crate::stores::{self, Kind};
use crate::{CONCURRENT_SESSIONS, MAX_PROCESSES, join, kills_and_seed};

type Checked = Result<(), String>;

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(why()) }
}

/// C165: after kills at random times, nothing acknowledged is lost, no sub-agent pays twice or
/// without approval, and the usage of sub-agents counts for the root once. At the end no sub-agent
/// is open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_processes_with_sub_agents_lose_and_repeat_nothing() {
    let (kills, seed) = kills_and_seed();
    let folder = Arc::new(TempDir::new().expect("a temporary directory"));
    let (killed, next) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let unknown = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let _servers: Vec<_> = stores::all().iter().filter_map(|kind| serve(&folder, *kind)).collect();
    let store = stores::all()[0];
    let mut without_kills = Family::new(&folder, store, User::Approves, "without-kills", 0).await;
    assert!(without_kills.run_process(None).await, "nothing kills it");
    let time = start.elapsed().mul_f64(1.5); // several processes run at the same time
    let mut workers = JoinSet::new();
    for _ in 0..CONCURRENT_SESSIONS {
        let (folder, killed) = (folder.clone(), killed.clone());
        let (next, unknown) = (next.clone(), unknown.clone());
        workers.spawn(async move {
            while killed.load(Ordering::Relaxed) < kills {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let store = stores::all()[n % stores::all().len()];
                let user = User::ALL[n / stores::all().len() % User::ALL.len()];
                let seed = seed ^ (n as u64) << 32;
                let name = format!("family-{n}");
                let mut family = Family::new(&folder, store, user, &name, seed).await;
                for process in 0.. {
                    let part = next_random(&mut family.orders.seed) as f64 / u64::MAX as f64;
                    let kill_after = (process < MAX_PROCESSES).then(|| time.mul_f64(part));
                    if family.run_process(kill_after).await {
                        break;
                    }
                    killed.fetch_add(1, Ordering::Relaxed);
                }
                unknown.fetch_add(family.unknown(), Ordering::Relaxed);
                family.delete().await;
            }
        });
    }
    join(workers).await;
    let [killed, next, unknown] = [killed, next, unknown].map(|n| n.load(Ordering::Relaxed));
    println!("{killed} kills in {next} families; {unknown} payments have an unknown outcome");
}

/// Starts the server for the store in a folder, if it needs one.
fn serve(folder: &TempDir, store: Kind) -> Option<Server> {
    let directory = folder.path().join(format!("{store:?}"));
    std::fs::create_dir_all(&directory).expect("a directory");
    store.serve(&directory)
}

/// A root and its sub-agents.
struct Family {
    folder: Arc<TempDir>,
    orders: Orders,
    store: Arc<dyn SessionStore>,
    /// The logs after the last process.
    logs: BTreeMap<Arc<str>, Vec<LogEntry>>,
    processes: usize,
}

impl Family {
    async fn new(folder: &Arc<TempDir>, store: Kind, user: User, name: &str, seed: u64) -> Family {
        let directory = folder.path().join(format!("{store:?}"));
        let session = format!("{store:?}-{name}");
        let record = folder.path().join(&session);
        for folder in [&directory, &record] {
            std::fs::create_dir_all(folder).expect("a directory");
        }
        let opened = store.open(&directory).await;
        let orders = Orders { store, directory, session, record, user, seed };
        let (folder, logs) = (folder.clone(), BTreeMap::new());
        Family { folder, orders, store: opened, logs, processes: 0 }
    }

    /// Runs one process and checks the result. The process is killed after `kill_after`. Returns
    /// whether it has done all work.
    async fn run_process(&mut self, kill_after: Option<Duration>) -> bool {
        self.processes += 1;
        let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
        command.args(["family", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        let orders = serde_json::to_string(&self.orders).expect("orders are JSON");
        command.env(ORDERS, orders).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(open_for_append(&self.orders.record.join("stderr"))).kill_on_drop(true);
        let mut process = command.spawn().expect("a process is started");
        let pid = process.id().unwrap_or_default();
        let time = kill_after.unwrap_or(PROCESS_TIMEOUT);
        let status = match tokio::time::timeout(time, process.wait()).await {
            Ok(status) => status.expect("the process ends"),
            Err(_) if kill_after.is_none() => self.fail("the process hangs"),
            Err(_) => {
                process.start_kill().expect("the process can be killed");
                process.wait().await.expect("the process ends")
            }
        };
        let is_done = match (status.success(), status.signal()) {
            (true, _) => true,
            (false, Some(9)) => false,
            _ => self.fail(&format!("the process failed: {status}")),
        };
        let Orders { store, directory, session, .. } = &self.orders;
        store.settle(directory, &*self.store, session, pid).await;
        let checked = self.check(is_done).await;
        checked.unwrap_or_else(|why| self.fail(&why));
        is_done
    }

    /// Deletes the sessions, so that the checks of other families do not read them.
    async fn delete(self) {
        let deleted = self.store.delete(&self.orders.session).await;
        deleted.unwrap_or_else(|why| self.fail(&format!("it cannot be deleted: {why}")));
    }

    fn fail(&self, why: &str) -> ! {
        let folder = self.folder.path().with_extension("failed");
        let _ = std::fs::rename(self.folder.path(), &folder);
        let record = folder.join(&self.orders.session);
        let stderr = std::fs::read_to_string(record.join("stderr")).unwrap_or_default();
        let ledger = std::fs::read_to_string(record.join("ledger")).unwrap_or_default();
        let Orders { session, user, .. } = &self.orders;
        let mut logs = String::new();
        for (session, log) in &self.logs {
            let log = log.iter().map(|entry| format!("{entry:?}\n"));
            logs += &format!("\n{session}:\n{}", log.collect::<String>());
        }
        panic!(
            "{why}\nin {session} ({user:?}), process {}; kept in {}\nstderr: {stderr}\nledger:\n\
             {ledger}\n{logs}",
            self.processes,
            folder.display()
        )
    }

    async fn check(&mut self, is_done: bool) -> Checked {
        self.read().await?;
        for (session, log) in &self.logs {
            check_log(log).map_err(|why| format!("in `{session}`: {why}"))?;
            let (stored, expected) =
                (self.store.session(session).await, SessionInfo::of(session.clone(), log));
            ensure(stored.as_ref() == Ok(&expected), || {
                format!("the store's information does not match:\n{stored:?}\n{expected:?}")
            })?;
        }
        self.check_receipts()?;
        self.check_payments()?;
        self.check_list().await?;
        if is_done { self.check_done() } else { Ok(()) }
    }

    /// Reads all logs, and checks that they have lost no entry.
    async fn read(&mut self) -> Checked {
        let before = std::mem::take(&mut self.logs);
        let mut sessions = vec![Arc::from(&*self.orders.session)];
        while let Some(session) = sessions.pop() {
            let log = match self.store.read(&session, 0).await {
                Err(MemoryError::NoSession(_)) => continue,
                read => read.map_err(|error| error.to_string())?,
            };
            sessions.extend(log.iter().filter_map(LogEntry::sub_agent).cloned());
            self.logs.insert(session, log);
        }
        before.iter().try_for_each(|(session, before)| {
            let is_kept = self.logs.get(session).is_some_and(|log| log.starts_with(before));
            ensure(is_kept, || format!("entries have disappeared from the log of `{session}`"))
        })
    }

    fn root(&self) -> &[LogEntry] {
        self.logs.get(&*self.orders.session).map(Vec::as_slice).unwrap_or_default()
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.orders.record.join(file)).unwrap_or_default();
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Checks that every acknowledged input is in the log of the root.
    fn check_receipts(&self) -> Checked {
        self.lines("receipts").iter().try_for_each(|receipt| {
            let is_logged = self.root().iter().any(|entry| match entry {
                LogEntry::Queued { input, .. }
                | LogEntry::Decided { input, .. }
                | LogEntry::AbortRequested { input } => **input == **receipt,
                LogEntry::RunEnded { end: RunStatus::Aborted, .. } => receipt == "abort",
                _ => false,
            });
            ensure(is_logged, || format!("{receipt} was acknowledged, and is lost"))
        })
    }

    /// Checks that no session has paid twice, or without an approval in the log of the root.
    fn check_payments(&self) -> Checked {
        let mut paid = BTreeSet::new();
        for session in self.lines("ledger") {
            ensure(paid.insert(session.clone()), || format!("`{session}` has paid twice"))?;
            let is_approved = self.root().iter().any(|entry| {
                let LogEntry::Decided { call, decision, .. } = entry else { return false };
                **decision == Decision::Approve && self.session_of(call) == Some(&*session)
            });
            ensure(is_approved, || format!("`{session}` has paid without an approval"))?;
        }
        Ok(())
    }

    /// Returns the session of an action that the root shows under this name.
    fn session_of(&self, action: &str) -> Option<&str> {
        let mut session = &*self.orders.session;
        let path: Vec<&str> = action.split('~').collect();
        for outer in &path[..path.len() - 1] {
            session = self.logs.get(session)?.iter().find_map(|entry| match entry {
                LogEntry::ChildStarted { call, session, .. } if **call == **outer => {
                    Some(&**session)
                }
                _ => None,
            })?;
        }
        Some(session)
    }

    /// Checks that only the root is listed, and each action once.
    async fn check_list(&self) -> Checked {
        let listed = self.store.sessions().await.map_err(|error| error.to_string())?;
        let hidden = listed.iter().find(|info| info.sub_agent_of.is_some());
        ensure(hidden.is_none(), || format!("a sub-agent is listed: {hidden:?}"))?;
        let filter = PendingQuery::all().session(&*self.orders.session);
        let pending = self.store.pending(&filter).await.map_err(|error| error.to_string())?.actions;
        let calls: BTreeSet<_> = pending.iter().map(|pending| &pending.action.call).collect();
        ensure(calls.len() == pending.len(), || format!("an action is pending twice: {pending:?}"))
    }

    fn check_done(&self) -> Checked {
        for (session, log) in &self.logs {
            let info = SessionInfo::of(session.clone(), log);
            ensure(info.run.is_none() && info.pending.is_empty(), || {
                format!("`{session}` is open: {:?} {:?}", info.run, info.pending)
            })?;
            let count = |is_it: fn(&LogEntry) -> bool| log.iter().filter(|e| is_it(e)).count();
            let started = count(|entry| matches!(entry, LogEntry::ChildStarted { .. }));
            let ended = count(|entry| matches!(entry, LogEntry::ChildEnded { .. }));
            ensure(started == ended, || format!("of {started} sub-agents {ended} have ended"))?;
        }
        let end = self.root().iter().rev().find_map(|entry| match entry {
            LogEntry::RunEnded { end, .. } => Some(*end),
            _ => None,
        });
        let is_aborted = end == Some(RunStatus::Aborted) && self.orders.user == User::Aborts;
        ensure(end == Some(RunStatus::Done) || is_aborted, || format!("the root ends: {end:?}"))?;
        self.check_results()?;
        self.check_usage()
    }

    /// Checks that the results of payments match the ledger.
    fn check_results(&self) -> Checked {
        let ledger = self.lines("ledger");
        let results = self.results();
        let is_whole = self.orders.user == User::Aborts || results.len() == 3;
        ensure(is_whole, || format!("three payments have results: {results:?}"))?;
        for (session, status) in &results {
            let is_paid = ledger.iter().any(|paid| *paid == **session);
            let is_true = match status {
                ResultStatus::Ok => is_paid,
                ResultStatus::OutcomeUnknown => true,
                ResultStatus::Denied => !is_paid && self.orders.user == User::Denies,
                // A call that an abort interrupts may have paid.
                ResultStatus::Aborted => self.orders.user == User::Aborts,
                _ => false,
            };
            ensure(is_true, || format!("`{session}`: {status:?}, in the ledger: {is_paid}"))?;
        }
        Ok(())
    }

    /// Returns the results of payments by session.
    fn results(&self) -> Vec<(Arc<str>, ResultStatus)> {
        let mut results = Vec::new();
        for (session, log) in &self.logs {
            let all = log.iter().filter_map(|entry| match entry {
                LogEntry::CallFinished { result } => result.as_tool_result(),
                _ => None,
            });
            let of_payments = all.filter(|result| *result.name == *"pay");
            results.extend(of_payments.map(|result| (session.clone(), result.status)));
        }
        results
    }

    fn unknown(&self) -> usize {
        let results = self.results().into_iter();
        results.filter(|(_, status)| *status == ResultStatus::OutcomeUnknown).count()
    }

    /// Checks that the usage of the root is the sum of all logs.
    fn check_usage(&self) -> Checked {
        let (mut usage, mut requests) = (Usage::default(), 0);
        for entry in self.logs.values().flatten() {
            match entry {
                LogEntry::Replied { message, .. } => {
                    usage += message.as_assistant().map(|reply| reply.usage).unwrap_or_default();
                }
                LogEntry::Charged { usage: charged, .. } => usage += *charged,
                LogEntry::RequestStarted { .. } => requests += 1,
                // An abort came between the entry and the request.
                LogEntry::NotSent { messages } => requests -= messages.len() as u32,
                _ => {}
            }
        }
        let root = SessionInfo::of(&*self.orders.session, self.root());
        let turns = SessionLog::of(self.root()).spent().turns;
        ensure((root.usage, turns) == (usage, requests), || {
            format!("the root used {:?} in {turns} turns, not {usage:?} in {requests}", root.usage)
        })
    }
}
