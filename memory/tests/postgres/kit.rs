//! Helpers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loopwright_core::log::{LogEntry, MemoryError, StateScope};
use loopwright_core::message::{MessageId, UserMessage};
use loopwright_core::{Memory, Message, SessionStore};
use loopwright_memory::Postgres;
use loopwright_test_support::postgres::Server;
use serde_json::json;

/// Timeout for anything that must happen.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// Opens the store in a schema.
pub(crate) async fn connect(server: &Server, schema: &str) -> Postgres {
    Postgres::builder(server.url()).schema(schema).connect().await.unwrap()
}

/// Opens a connection that bypasses the store.
pub(crate) async fn raw(server: &Server) -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Waits until a statement waits for a lock.
pub(crate) async fn until_one_waits(server: &Server) {
    let client = raw(server).await;
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
}

/// Returns an entry with a number.
pub(crate) fn numbered(n: u64) -> LogEntry {
    let value = Arc::new(json!(format!("entry {n}")));
    LogEntry::State { scope: StateScope::Session, key: "n".into(), value }
}

/// Returns an entry with a message of the user.
pub(crate) fn remembered(text: &str) -> LogEntry {
    LogEntry::Remembered { message: Arc::new(Message::new(MessageId(1), UserMessage::from(text))) }
}

/// Opens a session and appends entries.
pub(crate) async fn begin(
    store: &Postgres,
    session: &str,
    entries: &[LogEntry],
) -> Arc<dyn Memory> {
    let memory = store.open(session).await.unwrap();
    memory.append(0, entries.into()).await.unwrap();
    memory
}

/// Opens a session as soon as it is free, and returns the time that took.
pub(crate) async fn open_when_free(store: &Postgres, session: &str) -> (Arc<dyn Memory>, Duration) {
    let start = Instant::now();
    loop {
        match store.open(session).await {
            Err(MemoryError::InUse(_)) if start.elapsed() < TIMEOUT => {
                tokio::task::yield_now().await;
            }
            opened => return (opened.unwrap(), start.elapsed()),
        }
    }
}
