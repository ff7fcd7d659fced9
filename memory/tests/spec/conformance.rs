//! The suite itself: a right store passes, and a wrong one is told what is wrong with it.

use loopwright::{InMemoryStore, MemoryError};
use loopwright_memory::conformance::{check, check_reopened};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_in_ram_conforms() {
    check(&InMemoryStore::new()).await.unwrap();
    let store = InMemoryStore::new();
    check_reopened(async || Ok::<_, MemoryError>(store.clone())).await.unwrap();
}
