//! Stores under test: in files, or with `LOOPWRIGHT_STORE=postgres` in PostgreSQL, with a server
//! started for it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loopwright_core::log::MemoryError;
use loopwright_core::{Memory, SessionStore};
use loopwright_memory::{Jsonl, Postgres, Sqlite};
use loopwright_test_support::postgres::Server;
use serde::{Deserialize, Serialize};
use tokio_postgres::NoTls;

/// The file in the directory of a store with the address of its server.
const ADDRESS: &str = "address";

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Kind {
    Jsonl,
    Sqlite,
    Postgres,
}

/// Returns the stores under test.
pub(crate) fn all() -> &'static [Kind] {
    match std::env::var("LOOPWRIGHT_STORE").as_deref() {
        Ok("postgres") => &[Kind::Postgres],
        Ok(other) => panic!("LOOPWRIGHT_STORE is `{other}`: it can be `postgres`"),
        Err(_) => &[Kind::Jsonl, Kind::Sqlite],
    }
}

impl Kind {
    /// Starts the server for the store in this directory, if it needs one.
    pub(crate) fn serve(self, directory: &Path) -> Option<Server> {
        (self == Kind::Postgres).then(|| {
            let server = Server::start();
            std::fs::write(directory.join(ADDRESS), server.url()).expect("the address is written");
            server
        })
    }

    /// Opens the store in this directory.
    pub(crate) async fn open(self, directory: &Path) -> Arc<dyn SessionStore> {
        match self {
            Kind::Jsonl => Arc::new(Jsonl::open(directory).expect("the store can be opened")),
            Kind::Sqlite => Arc::new(
                Sqlite::open(directory.join("sessions.db")).expect("the store can be opened"),
            ),
            Kind::Postgres => {
                let address =
                    format!("{}?application_name={}", address(directory), std::process::id());
                let store = Postgres::connect(address).await;
                Arc::new(store.expect("the store can be opened"))
            }
        }
    }

    /// Waits until the server has written everything that a killed process sent to it. First its
    /// session is opened and closed: the opening waits for everything sent for it. Everything sent
    /// for sub-agents is written while its connections last.
    pub(crate) async fn settle(
        self,
        directory: &Path,
        store: &dyn SessionStore,
        session: &str,
        pid: u32,
    ) {
        if self != Kind::Postgres {
            return;
        }
        open_session(store, session).await.close().await;
        let (client, connection) =
            tokio_postgres::connect(&address(directory), NoTls).await.expect("the server is there");
        let connection = tokio::spawn(connection);
        let start = Instant::now();
        let connections = "SELECT FROM pg_stat_activity WHERE application_name = $1";
        let name = pid.to_string();
        while !client.query(connections, &[&name]).await.expect("an answer").is_empty() {
            assert!(start.elapsed() < KILLED_TIMEOUT, "a killed process still has connections");
        }
        drop(client);
        let _ = connection.await;
    }
}

/// Returns the address of the server of the store in this directory.
fn address(directory: &Path) -> String {
    std::fs::read_to_string(directory.join(ADDRESS)).expect("the server has an address")
}

/// Timeout for a server to notice that a process was killed.
const KILLED_TIMEOUT: Duration = Duration::from_secs(120);

/// Opens a session whose owner has been killed.
pub(crate) async fn open_session(store: &dyn SessionStore, session: &str) -> Arc<dyn Memory> {
    let start = Instant::now();
    loop {
        match store.open(session).await {
            Err(MemoryError::InUse(_)) if start.elapsed() < KILLED_TIMEOUT => {
                tokio::task::yield_now().await;
            }
            opened => return opened.expect("the session can be opened"),
        }
    }
}
