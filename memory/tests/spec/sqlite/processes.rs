//! Several processes that use one file.

use std::time::{Duration, Instant};

use super::other_process::OtherProcess;
use super::*;

/// C81: a session keeps its owner as long as the process lives. When the process is killed, the
/// next owner takes the session over.
#[tokio::test]
async fn a_killed_owner_is_replaced_at_once() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let mut first = OtherProcess::start(&path);
    let mut second = OtherProcess::start(&path);
    assert_eq!(first.run("open s"), "done");
    assert_eq!(first.run("append s 0 3"), "done");
    let refused = store.open("s").await.err().unwrap();
    assert!(matches!(&refused, MemoryError::InUse(s) if **s == *"s"), "{refused}");
    assert!(second.run("open s").contains("the session `s` is in use"));
    assert!(matches!(store.delete("s").await, Err(MemoryError::InUse(_))));
    assert_eq!(store.read("s", 0).await.unwrap(), numbered(0..3), "every process may read");

    assert_eq!(first.run("close s"), "done");
    assert_eq!(second.run("open s"), "done", "a closed session is free while the process lives");
    assert_eq!(second.run("append s 3 5"), "done");
    second.kill();
    let successor = store.open("s").await.unwrap();
    assert_eq!(successor.load(0).await.unwrap(), numbered(0..5));
    successor.append(5, numbered(5..6).into()).await.unwrap();
    drop(successor);
    drop(store); // waits until the session is released
    assert_eq!(first.run("open s"), "done");
    first.kill();
    let folder = path.with_file_name("sessions.db-owners");
    assert!(folder.read_dir().unwrap().count() > 0, "killed processes leave their files");
    drop(Sqlite::open(&path).unwrap());
    assert_eq!(folder.read_dir().unwrap().count(), 0, "the next process removes them");
}

#[tokio::test]
async fn processes_write_different_sessions_at_the_same_time() {
    let (_folder, path) = temp_store_path();
    // One of them creates the file.
    let mut others: Vec<OtherProcess> = (0..3).map(|_| OtherProcess::start(&path)).collect();
    for (n, other) in others.iter_mut().enumerate() {
        other.send(&format!("open s{n}"));
        other.send(&format!("append s{n} 0 300"));
    }
    for other in &mut others {
        assert_eq!(other.result(), "done");
        assert_eq!(other.result(), "done");
    }
    let store = Sqlite::open(&path).unwrap();
    for n in 0..3 {
        assert_eq!(store.read(&format!("s{n}"), 0).await.unwrap(), numbered(0..300));
    }
    assert_eq!(store.sessions().await.unwrap().len(), 3);
}

#[tokio::test]
async fn of_processes_that_open_a_session_at_the_same_time_one_owns_it() {
    let (_folder, path) = temp_store_path();
    let mut others: Vec<OtherProcess> = (0..3).map(|_| OtherProcess::start(&path)).collect();
    for round in 0..20 {
        let session = format!("s{}", round / 2); // once new, and once existing
        others.iter_mut().for_each(|other| other.send(&format!("open {session}")));
        let results: Vec<String> = others.iter_mut().map(OtherProcess::result).collect();
        let winner = results.iter().position(|result| result == "done").expect("one owns it");
        let in_use = results.iter().filter(|result| result.contains("is in use")).count();
        assert_eq!(in_use, 2, "{results:?}");
        let from = round % 2;
        let to = from + 1;
        assert_eq!(others[winner].run(&format!("append {session} {from} {to}")), "done");
        others[winner].run(&format!("close {session}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_another_process_writes_for_half_a_second_an_append_waits_and_readers_do_not() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let memory = begin(&store, "s", &numbered(0..1)).await;
    let mut other = OtherProcess::start(&path);
    assert_eq!(other.run("lock"), "done");
    let start = Instant::now();
    let append = tokio::spawn(async move { memory.append(1, numbered(1..2).into()).await });
    let mut reads = 0;
    while start.elapsed() < Duration::from_millis(500) {
        assert_eq!(store.read("s", 0).await.unwrap(), numbered(0..1));
        assert_eq!(store.sessions().await.unwrap().len(), 1);
        reads += 1;
    }
    assert!(reads > 5 && !append.is_finished(), "{reads} reads");
    assert_eq!(other.run("unlock"), "done");
    append.await.unwrap().unwrap();
    assert_eq!(store.read("s", 0).await.unwrap(), numbered(0..2));
    assert_eq!(other.run("open t"), "done");
    assert_eq!(other.run("append t 0 2"), "done");
}
