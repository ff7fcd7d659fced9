//! `serve`: the memory of the process, with clients that do not read, and with long prompts.
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::time::Instant;

use loopwright_core::event::{RunCause, RunStatus};
use loopwright_core::log::LogEntry;
use loopwright_core::message::{AssistantMessage, MessageId, RunId, UserMessage};
use loopwright_core::{Message, SessionStore};
use loopwright_memory::Sqlite;
use loopwright_test_support::TEST_TIMEOUT;
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{STORE, project};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::sessions::Live;

const READERS: usize = 200;
/// The length of the text of a session.
const SESSION_BYTES: usize = 5_000_000;
const MAX_GROWTH_KIB: u64 = 64 * 1024;

/// C209: 200 readers, none of which reads anything: of a session with one reply of 5 MB, whose text
/// several events contain, and of sessions of 5 MB with many events. The readers share long events;
/// short ones are copied. The peak is compared with the memory before the first reader, without
/// what was read of the program's own file meanwhile.
#[test]
fn readers_that_read_nothing_take_little_memory() {
    for message_bytes in [SESSION_BYTES, 50_000, 700] {
        let (dir, model) = (project(), Server::start());
        write_session(&dir, "big", long_log(message_bytes));
        let live = Live::start(&dir, &model);
        assert_eq!(live.get("/healthz", "").response().unwrap().status, 200);
        let memory = Memory::of(&live);
        let (before, program) = (memory.resident_kib(), memory.program_kib());
        let path = "/api/sessions/big/events";
        let readers: Vec<_> = (0..READERS).map(|_| live.get_narrow(path)).collect();
        wait_for_streams(&live, READERS);
        // Two readers that read everything. Meanwhile the others are sent as much as they can hold.
        for _ in 0..2 {
            let mut reader = live.events("big", 0);
            while !reader.frame().unwrap().starts_with("event: agent_end") {}
        }
        let program = memory.program_kib().saturating_sub(program);
        let growth = memory.peak_kib().saturating_sub(before + program);
        let what = format!("{READERS} readers, messages of {message_bytes} bytes: {growth} KiB");
        println!("{what} more than {before}, and {program} of the program");
        assert!(growth < MAX_GROWTH_KIB, "{what}");
        drop(readers);
    }
}

/// C314: 30 sessions with a system prompt of 4 MB each, as the server starts and its list is read.
#[test]
fn the_list_does_not_read_long_prompts() {
    let measured = [String::new(), "x".repeat(4_000_000)].map(|system| {
        let (dir, model) = (project(), Server::start());
        for number in 0..30 {
            let settings = json!({ "agent": "coding", "system": &system });
            let text = UserMessage::from("What is it?");
            let log = vec![
                LogEntry::Opened { epoch: 1, time: 1, parent: None, owner: None },
                LogEntry::Settings { settings: Arc::new(settings) },
                LogEntry::Remembered { message: Message::new(MessageId(1), text).into() },
            ];
            write_session(&dir, &format!("s{number}"), log);
        }
        let live = Live::start(&dir, &model);
        let mut bytes = 0;
        for _ in 0..5 {
            let body = live.get("/api/sessions", "").response().unwrap().body;
            let list: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(list["sessions"].as_array().unwrap().len(), 30);
            bytes = body.len();
        }
        let memory = Memory::of(&live);
        (bytes, memory.peak_kib(), memory.cpu_ticks())
    });
    let [(bytes, peak, ticks), (long_bytes, long_peak, long_ticks)] = measured;
    println!("{long_bytes} bytes, {peak} and {long_peak} KiB, {ticks} and {long_ticks} ticks");
    assert_eq!(long_bytes, bytes);
    assert!(bytes < 16 * 1024, "{bytes} bytes");
    assert!(long_peak < peak + 16 * 1024, "{long_peak} KiB instead of {peak}");
    assert!(long_ticks < ticks + 50, "{long_ticks} hundredths of a second instead of {ticks}");
}

/// Returns the log of a session in which an agent says the text in messages of this length.
fn long_log(message_bytes: usize) -> Vec<LogEntry> {
    let run = RunId(1);
    let mut log = vec![
        LogEntry::Opened { epoch: 1, time: 1, parent: None, owner: None },
        LogEntry::Settings { settings: Arc::new(json!({ "agent": "coding" })) },
        LogEntry::RunStarted { run, cause: RunCause::Continue(None), time: 1, trace: None },
    ];
    log.extend((0..SESSION_BYTES / message_bytes).map(|number| {
        let reply = AssistantMessage::from("x".repeat(message_bytes));
        let message = Message::new(MessageId(number as u64 + 1), reply).into();
        LogEntry::Replied { message, cost: None }
    }));
    log.push(LogEntry::RunEnded {
        run,
        end: RunStatus::Done,
        time: 1,
        error: None,
        model_error: None,
        limit: None,
        value: None,
        handed_back: Vec::new(),
    });
    log
}

/// Writes a session into the store in the directory.
fn write_session(dir: &TempDir, session: &str, log: Vec<LogEntry>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let store = Sqlite::open(dir.path().join(STORE)).unwrap();
        store.open(session).await.unwrap().append(0, log.into()).await.unwrap()
    });
}

/// Waits until the server has this many open streams of events.
fn wait_for_streams(live: &Live, count: usize) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let metrics = live.get("/metrics", "").response().unwrap().body;
        if metrics.lines().any(|line| line.ends_with(&format!("event_streams {count}"))) {
            return;
        }
        assert!(Instant::now() < deadline, "{metrics}");
    }
}

/// The kernel's figures about a process.
struct Memory {
    process: String,
}

impl Memory {
    fn of(live: &Live) -> Self {
        Memory { process: format!("/proc/{}", live.process.id()) }
    }

    fn resident_kib(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// Returns the size of the program's file in memory, which is read when it is needed.
    fn program_kib(&self) -> u64 {
        self.status("RssFile:")
    }

    /// Returns the peak of the resident memory since the process was started.
    fn peak_kib(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// Returns the CPU time of the process, in hundredths of a second.
    fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("{}/stat", self.process)).unwrap();
        // After the name: the state is the third field, user and system time the 14th and 15th.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("{}/status", self.process)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}
