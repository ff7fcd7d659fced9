//! Searching.

use loopwright_core::SessionStore;
use loopwright_test_support::postgres::Server;

use crate::kit::{begin, connect, raw, remembered};

/// C331: a search uses an index, finds parts of words like other stores, and works without the
/// extension.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_finds_parts_of_words_by_an_index() {
    let server = Server::start();
    let store = connect(&server, "loopwright").await;
    let texts = ["The Lighthouse Keeper", "100 % of a_b\\c", "Grüße aus Łódź", "nul \0 and \u{1}"];
    let entries: Vec<_> = texts.iter().map(|text| remembered(text)).collect();
    drop(begin(&store, "s", &entries).await);
    let queries = [
        ("thouse KEEP", Some(0)),
        ("100 %", Some(1)),
        ("a_b\\c", Some(1)),
        ("axb", None),
        ("GRÜSSE", None),
        ("łódź", Some(2)),
        ("\0", Some(3)),
        ("nul \u{1}", Some(3)),
        ("keeper absent", None),
    ];
    let client = raw(&server).await;
    for index in [true, false] {
        for (query, expected) in queries {
            let hits = store.search(query, 5).await.unwrap();
            let found: Vec<String> = hits.iter().map(|hit| hit.message.text()).collect();
            let expected: Vec<&str> = expected.map(|n: usize| texts[n]).into_iter().collect();
            assert_eq!(found, expected, "{query:?}, with an index: {index}");
        }
        if index {
            let plan = "SET enable_seqscan = off; SET search_path = loopwright";
            client.batch_execute(plan).await.unwrap();
            let explain = "EXPLAIN SELECT json FROM entry WHERE words LIKE '%lighthouse%'";
            let plan = client.query(explain, &[]).await.unwrap();
            let plan: String = plan.iter().map(|row| row.get::<_, String>(0)).collect();
            assert!(plan.contains("entry_words"), "{plan}");
            client.batch_execute("DROP EXTENSION pg_trgm CASCADE").await.unwrap();
        }
    }
}
