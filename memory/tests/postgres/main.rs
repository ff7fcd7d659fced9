//! Sessions in PostgreSQL, with real servers that are killed, and processes that are killed and
//! stopped.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

mod connections;
mod kit;
mod owners;
mod schema;
mod searches;
mod tls;

use loopwright_core::log::MemoryError;
use loopwright_memory::conformance::{check, check_reopened};
use loopwright_memory::{Durability, Postgres};
use loopwright_test_support::postgres::Server;

use kit::connect;

/// C329: the store keeps the contract of session stores, even when another process opens it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_conforms() {
    let server = Server::start();
    for (n, durability) in [Durability::Effects, Durability::Every].into_iter().enumerate() {
        let schema = format!("s{n}");
        check(&connect(&server, &schema).await.durability(durability)).await.unwrap();
        let reopen = async || {
            let store = Postgres::builder(server.url()).schema(&schema).connect().await?;
            Ok::<_, MemoryError>(store.durability(durability))
        };
        check_reopened(reopen).await.unwrap();
    }
}
