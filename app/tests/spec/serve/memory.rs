//! `serve`: the memory of the process, with clients that do not read.
#![cfg(target_os = "linux")]

use std::sync::Arc;

use loopwright_core::event::RunCause;
use loopwright_core::log::LogEntry;
use loopwright_core::message::{MessageId, RunId, UserMessage};
use loopwright_core::{Message, SessionStore};
use loopwright_memory::Sqlite;
use serde_json::json;

use super::sessions::Live;
use crate::process::{STORE, TEST_TIMEOUT, project};
use crate::server::Server;

const READERS: usize = 200;
const MAX_GROWTH_KIB: u64 = 64 * 1024;

/// C209: 200 readers of a session of 5 MB, none of which reads anything.
#[test]
fn readers_that_read_nothing_take_little_memory() {
    let (dir, model) = (project(), Server::start());
    let store = Sqlite::open(dir.path().join(STORE)).unwrap();
    let mut log = vec![
        LogEntry::Opened { epoch: 1, time: 1, parent: None, owner: None },
        LogEntry::Settings { settings: Arc::new(json!({ "agent": "coding" })) },
        LogEntry::RunStarted { run: RunId(1), cause: RunCause::Continue(None), time: 1 },
    ];
    log.extend((1..=100).map(|number| {
        let text = UserMessage::from("x".repeat(50_000));
        LogEntry::Remembered { message: Message::new(MessageId(number), text).into() }
    }));
    let written = async { store.open("big").await.unwrap().append(0, log.into()).await.unwrap() };
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(written);
    drop(store);
    let live = Live::start(&dir, &model);
    let status = format!("/proc/{}/status", live.process.id());
    let resident = || -> u64 {
        let status = std::fs::read_to_string(&status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    // One reader has received everything, so the session is open, and a copy was made.
    let mut first = live.events("big", 0);
    while !first.frame().unwrap().contains("\"m100\"") {}
    let before = resident();
    let path = "/api/sessions/big/events";
    let readers: Vec<_> = (0..READERS).map(|_| live.get(path, "")).collect();
    let deadline = std::time::Instant::now() + TEST_TIMEOUT;
    loop {
        let metrics = live.get("/metrics", "").response().unwrap().body;
        if metrics.lines().any(|line| line.ends_with(&format!("event_streams {}", READERS + 1))) {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{metrics}");
    }
    let growth = resident().saturating_sub(before);
    assert!(growth < MAX_GROWTH_KIB, "{growth} KiB more");
    println!("{READERS} readers: {growth} KiB more");
    drop(readers);
}
