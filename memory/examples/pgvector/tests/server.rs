//! The example against a real server. `POSTGRES_BIN` is the folder of the programs `initdb` and
//! `pg_ctl` of a PostgreSQL with the extension `vector`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

use async_trait::async_trait;
use loopwright_core::retrieval::{Embedder, RetrievalError, Retriever};
use loopwright_test_support::postgres::Server;
use pgvector_example::PgFacts;

async fn connect(server: &Server, embedder: Letters) -> PgFacts {
    PgFacts::connect(&server.url(), embedder).await.unwrap()
}

/// An embedder that counts letters.
#[derive(Clone)]
struct Letters(&'static str);

#[async_trait]
impl Embedder for Letters {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, RetrievalError> {
        let count = |text: &String, c: char| text.chars().filter(|other| *other == c).count();
        let vector = |text| ('a'..='z').map(|c| count(text, c) as f32).collect();
        Ok(texts.iter().map(vector).collect())
    }

    fn dimensions(&self) -> usize {
        26
    }

    fn id(&self) -> &str {
        self.0
    }
}

/// C183: facts are stored, found and deleted by scope.
#[tokio::test]
async fn facts_are_stored_found_and_deleted_by_scope() {
    let server = Server::start();
    let facts = connect(&server, Letters("letters")).await;
    let cat = facts.store("ann", "ann has a cat").await.unwrap();
    assert_eq!(facts.store("ann", "ann has a cat").await.unwrap(), cat, "stored once");
    facts.store("ann", "ann reads old books").await.unwrap();
    let of_bob = facts.store("bob", "bob's cat is called max").await.unwrap();

    let ann = facts.scoped("ann");
    let found = ann.retrieve("a cat at hand", 5).await.unwrap();
    assert_eq!(found[0].text, "ann has a cat");
    assert_eq!((found.len(), found[0].source.as_str()), (2, &*format!("fact {cat}")));
    assert!(found[0].score > found[1].score);
    assert_eq!(ann.retrieve("a cat at hand", 1).await.unwrap().len(), 1);
    for (query, limit) in [("", 5), ("cat", 0)] {
        assert!(ann.retrieve(query, limit).await.unwrap().is_empty());
    }
    for scope in ["", "Ann", "ann' OR ''='", "%"] {
        let none = facts.scoped(scope).retrieve("bob's cat is called max", 9).await.unwrap();
        assert!(none.is_empty(), "{scope}");
    }

    // The vectors of another model are not compared.
    let other = connect(&server, Letters("other")).await;
    assert!(other.scoped("ann").retrieve("cat", 5).await.unwrap().is_empty());

    assert!(!facts.delete("ann", of_bob).await.unwrap(), "it is not a fact about ann");
    assert!(facts.delete("ann", cat).await.unwrap());
    assert!(!facts.delete("ann", cat).await.unwrap());
    assert_eq!(facts.delete_all("ann").await.unwrap(), 1);
    assert!(ann.retrieve("cat", 5).await.unwrap().is_empty());
    assert_eq!(facts.scoped("bob").retrieve("cat", 5).await.unwrap().len(), 1);
}
