//! The tables: creation, versions, and servers that are refused.

use loopwright_core::SessionStore;
use loopwright_core::log::MemoryError;
use loopwright_memory::Postgres;
use loopwright_test_support::postgres::Server;

use crate::kit::{begin, connect, numbered, raw};

/// C330: stores opened at the same time create the tables once, and find them afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tables_are_created_once() {
    let server = Server::start();
    let open = || async { Postgres::connect(server.url()).await };
    let stores = futures::future::join_all((0..6).map(|_| open())).await;
    for store in stores {
        assert!(store.unwrap().sessions().await.unwrap().is_empty());
    }
    let store = connect(&server, "loopwright").await;
    drop(begin(&store, "s", &[numbered(0)]).await);
    assert_eq!(connect(&server, "loopwright").await.read("s", 0).await.unwrap(), [numbered(0)]);
    assert!(connect(&server, "other").await.sessions().await.unwrap().is_empty());
}

/// C330: a newer format, a standby and another encoding are refused, with advice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_used_is_refused() {
    let server = Server::start();
    drop(connect(&server, "loopwright").await);
    let client = raw(&server).await;
    client.batch_execute("UPDATE loopwright.format SET version = 7").await.unwrap();
    let newer = Postgres::connect(server.url()).await.err().unwrap();
    assert!(matches!(newer, MemoryError::Newer { found: 7, .. }), "{newer}");
    assert!(newer.to_string().contains("update loopwright"), "{newer}");

    let create = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0";
    client.batch_execute(create).await.unwrap();
    let latin = server.url().replace("/postgres", "/latin");
    let refused = Postgres::connect(latin).await.err().unwrap().to_string();
    assert!(refused.contains("encoding LATIN1"), "{refused}");

    client.batch_execute("CREATE ROLE poor LOGIN").await.unwrap();
    let poor = server.url().replace("test@", "poor@");
    let refused = Postgres::builder(poor).schema("poor").connect().await.err().unwrap();
    assert!(refused.to_string().contains("permission denied"), "{refused}");

    let unknown = server.url().replace("/postgres", "/none");
    let refused = Postgres::connect(unknown).await.err().unwrap().to_string();
    assert!(refused.contains("database \"none\" does not exist"), "{refused}");
    server.stop("fast");
    let refused = Postgres::connect(server.url()).await.err().unwrap().to_string();
    assert!(refused.contains("check that the server runs"), "{refused}");
}
