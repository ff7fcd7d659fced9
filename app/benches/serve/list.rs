//! The list of many stored sessions.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use loopwright_core::SessionStore;
use loopwright_core::log::LogEntry;
use loopwright_core::message::{Message, MessageId, UserMessage};
use loopwright_memory::Sqlite;
use serde_json::{Value, json};

use crate::client::fetch;
use crate::process::Process;

/// The length of each session's system prompt, which the list must not contain.
const SYSTEM_BYTES: usize = 4 * 1024;
/// The number of sessions that are written at the same time.
const CONCURRENT: usize = 64;
/// Number of requests for the first page.
const ROUNDS: usize = 21;

/// The size of the list, and the time to read it.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) sessions: usize,
    /// The size of the first page, which clients get by default.
    pub(crate) page_bytes: usize,
    /// The median time to read it.
    pub(crate) page_time: Duration,
    /// The size of all pages, of 1,000 sessions each.
    pub(crate) bytes: usize,
    /// The time to read all pages.
    pub(crate) time: Duration,
}

/// Writes sessions with a system prompt and a request each into the store.
pub(crate) async fn write(store: &Path, sessions: u64) {
    let store = Sqlite::open(store).unwrap();
    let system = "x".repeat(SYSTEM_BYTES);
    let settings = Arc::new(json!({ "agent": "coding", "system": system }));
    let write = async |number: u64| {
        let text = format!("Request {number} of someone who says in one line what to do first");
        let message = Message::new(MessageId(1), UserMessage::from(text));
        let log = [
            LogEntry::Opened { epoch: 1, time: number, parent: None, owner: None },
            LogEntry::Settings { settings: settings.clone() },
            LogEntry::Remembered { message: message.into() },
        ];
        let memory = store.open(&format!("session-{number}")).await.unwrap();
        memory.append(0, log.into()).await.unwrap();
    };
    stream::iter(0..sessions).for_each_concurrent(CONCURRENT, write).await;
}

/// Reads the list.
pub(crate) async fn read(server: &Process) -> List {
    let get = async |path: &str| {
        let start = Instant::now();
        let page = fetch(server.address, "GET", path, "").await.unwrap();
        (page, start.elapsed())
    };
    let mut times = Vec::new();
    let mut page_bytes = 0;
    for _ in 0..ROUNDS {
        let (page, time) = get("/api/sessions").await;
        page_bytes = page.len();
        times.push(time);
    }
    times.sort();
    let page_time = times[ROUNDS / 2];
    let mut list = List { sessions: 0, page_bytes, page_time, bytes: 0, time: Duration::ZERO };
    let mut path = "/api/sessions?limit=1000".to_owned();
    loop {
        let (page, time) = get(&path).await;
        list.bytes += page.len();
        list.time += time;
        let page: Value = serde_json::from_str(&page).unwrap();
        list.sessions += page["sessions"].as_array().unwrap().len();
        let Some(next) = page["next"].as_str() else { return list };
        path = format!("/api/sessions?limit=1000&after={next}");
    }
}
