//! Two servers, a chat and commands on one store: every input is sent through every process, while
//! processes are killed.

#[path = "shared/processes.rs"]
mod processes;
#[path = "shared/senders.rs"]
mod senders;

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use loopwright_core::SessionStore;
use loopwright_core::log::{LogEntry, SessionInfo};
use loopwright_memory::Sqlite;
use loopwright_test_support::http::Connection;
use loopwright_test_support::process::{STORE, database};
use serde_json::Value;
use tempfile::TempDir;

use self::processes::{Chat, Server};
use self::senders::{Answer, Random, Shared};
use crate::BIN;

/// The number of threads that send inputs.
const SENDERS: u64 = 4;

/// Number of answers per kill of a server or of the chat.
const ANSWERS_PER_KILL: u64 = 8;

/// Number of answers per prompt through a command, and per line in the chat.
const ANSWERS_PER_COMMAND: u64 = 10;
const ANSWERS_PER_LINE: u64 = 4;

/// Maximum number of calls that are requested at the end, and the time that each waits for its
/// decision.
const MAX_LAST_CALLS: u64 = 20;
const DECISION_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends every input (prompts, steers, follow-ups, aborts, and decisions about calls) through two
/// servers, and some through a command or the chat. Meanwhile servers and the chat are killed. Each
/// input must arrive exactly once, and both servers answer the same. `LOOPWRIGHT_INPUTS` sets the
/// number of inputs (100 by default); `LOOPWRIGHT_SEED` repeats their kinds and the times of the
/// kills. The servers are started with these flags, too.
pub(crate) fn check(dir: &TempDir, flags: &[&str]) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let inputs = number("LOOPWRIGHT_INPUTS").unwrap_or(100);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = number("LOOPWRIGHT_SEED").unwrap_or_else(now);
    println!("LOOPWRIGHT_SEED={seed}");
    let mut random = Random::new(seed);

    let mut servers = [Server::start(dir, flags), Server::start(dir, flags)];
    let created = Connection::try_post(&servers[0].address, "/api/sessions", "{}").unwrap();
    let created: Value = serde_json::from_str(&created.body).unwrap();
    let session = created["id"].as_str().unwrap().to_owned();
    let addresses = [servers[0].address.clone(), servers[1].address.clone()];
    let shared = Shared::new(&session, addresses, inputs);
    let mut chat = Chat::start(dir, &session);
    let (sender, answers) = channel();
    let mut receipts = BTreeMap::new();
    let (mut commands, mut kills) = (Vec::new(), 0);
    thread::scope(|scope| {
        for n in 0..SENDERS {
            let (shared, sender) = (&shared, sender.clone());
            scope.spawn(move || shared.send_all(&mut Random::new(seed ^ n), &sender));
        }
        scope.spawn(|| shared.decide_all(&mut Random::new(seed ^ SENDERS), &sender));
        let _end = shared.end_on_drop();
        let mut sent = 0;
        while sent < inputs {
            // None arrives if a sender has failed.
            let answer = answers.recv_timeout(shared.time_left()).unwrap();
            let Answer { id, is_accepted, is_decision } = answer;
            receipts.insert(id, is_accepted);
            sent += u64::from(!is_decision);
            if random.below(ANSWERS_PER_COMMAND) == 0 {
                let prompt = format!("command {}", commands.len());
                let ran = BIN.run(dir, &["run", "-q", "--session", &session, &prompt]);
                let is_refused = ran.code == 2 && ran.err.contains("was not accepted");
                // 3: a call waits; 5: a server was killed; 130: the run was aborted.
                assert!(is_refused || [0, 3, 5, 130].contains(&ran.code), "{ran:?}");
                commands.push(!is_refused);
            }
            if random.below(ANSWERS_PER_LINE) == 0 {
                chat.say();
            }
            if random.below(ANSWERS_PER_KILL) == 0 {
                kills += 1;
                match random.below(3) as usize {
                    2 => chat.restart(dir),
                    at => {
                        let new = Server::start(dir, flags);
                        shared.set_address(at, &new.address);
                        std::mem::replace(&mut servers[at], new).kill();
                    }
                }
            }
        }
        // The next message of a user would supersede a call, but none follows any more.
        let is_decided = |answer: &Answer| answer.is_decision && answer.is_accepted;
        for number in 0..MAX_LAST_CALLS {
            shared.ask_for_a_call(&mut random, number);
            let Ok(answer) = answers.recv_timeout(DECISION_TIMEOUT) else { continue };
            let has_decided = is_decided(&answer);
            receipts.insert(answer.id, answer.is_accepted);
            if has_decided {
                break;
            }
        }
    });
    drop(sender);
    receipts.extend(answers.iter().map(|Answer { id, is_accepted, .. }| (id, is_accepted)));
    let lines = chat.end();
    let (log, info) = shared.when_all_are_handled(|| read(dir, &session));
    assert_eq!(info.unread, 0);

    let times = |id: &str| {
        let ids = log.iter().filter_map(|entry| entry.input());
        ids.filter(|input| ***input == *id).count()
    };
    for (id, is_accepted) in &receipts {
        // An abort that found nothing to abort leaves no trace.
        let is_right = match id.starts_with("abort") {
            true => times(id) <= usize::from(*is_accepted),
            false => times(id) == usize::from(*is_accepted),
        };
        assert!(is_right, "{id}: {} times, accepted: {is_accepted}", times(id));
    }
    let sent = |text: &str| {
        let queued = log.iter().filter(|entry| match entry {
            LogEntry::Queued { message, .. } => message.text() == text,
            _ => false,
        });
        queued.count()
    };
    for (n, is_accepted) in commands.iter().enumerate() {
        assert_eq!(sent(&format!("command {n}")), usize::from(*is_accepted), "command {n}");
    }
    let (mut missing, mut of_killed) = (0, 0);
    for (line, was_killed) in &lines.all {
        let times = sent(line);
        assert!(times <= 1, "{line}: {times} times");
        (missing, of_killed) = match (times, was_killed) {
            (0, true) => (missing, of_killed + 1),
            (0, false) => (missing + 1, of_killed),
            _ => (missing, of_killed),
        };
    }
    assert!(missing <= lines.refused, "{missing} lines are missing: {lines:?}");
    let mut decided = BTreeMap::new();
    for entry in &log {
        if let LogEntry::Decided { call, .. } = entry {
            *decided.entry(call.clone()).or_insert(0) += 1;
        }
    }
    assert!(decided.values().all(|times| *times == 1), "{decided:?}");
    let refused = receipts.values().filter(|is_accepted| !**is_accepted).count();
    println!(
        "{} inputs and decisions, {refused} of them refused; {} commands, {} lines ({} of them \
         lost with their chat), {} decided calls, {kills} kills",
        receipts.len(),
        commands.len(),
        lines.all.len(),
        of_killed,
        decided.len(),
    );
    assert!(receipts.len() as u64 >= inputs && !decided.is_empty() && kills > 0);
    servers.into_iter().for_each(Server::kill);
}

fn read(dir: &TempDir, session: &str) -> (Vec<LogEntry>, SessionInfo) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store: Box<dyn SessionStore> = match database(dir) {
            #[cfg(feature = "postgres")]
            Some(address) => Box::new(loopwright_memory::Postgres::connect(address).await.unwrap()),
            #[cfg(not(feature = "postgres"))]
            Some(_) => unreachable!("the program cannot use a database"),
            None => Box::new(Sqlite::open(dir.path().join(STORE)).unwrap()),
        };
        (store.read(session, 0).await.unwrap(), store.session(session).await.unwrap())
    })
}
