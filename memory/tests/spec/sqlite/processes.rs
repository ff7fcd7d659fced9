//! Several processes on one file.

use std::time::{Duration, Instant};

use super::child::Other;
use super::*;

/// C78: a session is its owner's as long as the process lives; when it is killed, the next one
/// takes the session over.
#[tokio::test]
async fn a_killed_owner_is_followed_at_once() {
    let (_folder, path) = place();
    let store = Sqlite::open(&path).unwrap();
    let (mut first, mut second) = (Other::start(&path), Other::start(&path));
    assert_eq!(first.does("open s"), "done");
    assert_eq!(first.does("append s 0 3"), "done");
    let refused = store.open("s").await.err().unwrap();
    assert!(matches!(&refused, MemoryError::InUse(s) if **s == *"s"), "{refused}");
    assert!(second.does("open s").contains("the session `s` is in use"));
    assert!(matches!(store.delete("s").await, Err(MemoryError::InUse(_))));
    assert_eq!(store.read("s", 0).await.unwrap(), numbered(0..3), "anybody may read");

    assert_eq!(first.does("close s"), "done");
    assert_eq!(second.does("open s"), "done", "what was closed is free while the process lives");
    assert_eq!(second.does("append s 3 5"), "done");
    second.kill();
    let heir = store.open("s").await.unwrap();
    assert_eq!(heir.load(0).await.unwrap(), numbered(0..5));
    heir.append(5, numbered(5..6).into()).await.unwrap();
    drop(heir);
    drop(store); // which waits until the session is released
    assert_eq!(first.does("open s"), "done");
    first.kill();
    let folder = path.with_file_name("sessions.db-owners");
    assert!(folder.read_dir().unwrap().count() > 0, "the killed leave their files");
    drop(Sqlite::open(&path).unwrap());
    assert_eq!(folder.read_dir().unwrap().count(), 0, "and the next one removes them");
}

#[tokio::test]
async fn processes_write_different_sessions_at_the_same_time() {
    let (_folder, path) = place();
    let mut others: Vec<Other> = (0..3).map(|_| Other::start(&path)).collect(); // one of them makes the file
    for (n, other) in others.iter_mut().enumerate() {
        other.tell(&format!("open s{n}"));
        other.tell(&format!("append s{n} 0 300"));
    }
    for other in &mut others {
        assert_eq!((other.said(), other.said()), ("done".into(), "done".into()));
    }
    let store = Sqlite::open(&path).unwrap();
    for n in 0..3 {
        assert_eq!(store.read(&format!("s{n}"), 0).await.unwrap(), numbered(0..300));
    }
    assert_eq!(store.sessions().await.unwrap().len(), 3);
}

#[tokio::test]
async fn of_processes_that_open_one_session_at_the_same_time_one_has_it() {
    let (_folder, path) = place();
    let mut others: Vec<Other> = (0..3).map(|_| Other::start(&path)).collect();
    for round in 0..20 {
        let session = format!("s{}", round / 2); // once new, and once there already
        others.iter_mut().for_each(|other| other.tell(&format!("open {session}")));
        let said: Vec<String> = others.iter_mut().map(Other::said).collect();
        let winner = said.iter().position(|said| said == "done").expect("one has it");
        assert_eq!(said.iter().filter(|said| said.contains("is in use")).count(), 2, "{said:?}");
        let (from, to) = (round % 2, round % 2 + 1);
        assert_eq!(others[winner].does(&format!("append {session} {from} {to}")), "done");
        others[winner].does(&format!("close {session}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_another_process_writes_for_half_a_second_an_append_waits_and_readers_do_not() {
    let (_folder, path) = place();
    let store = Sqlite::open(&path).unwrap();
    let memory = begin(&store, "s", &numbered(0..1)).await;
    let mut other = Other::start(&path);
    assert_eq!(other.does("lock"), "done");
    let began = Instant::now();
    let append = tokio::spawn(async move { memory.append(1, numbered(1..2).into()).await });
    let mut reads = 0;
    while began.elapsed() < Duration::from_millis(500) {
        assert_eq!(store.read("s", 0).await.unwrap(), numbered(0..1));
        assert_eq!(store.sessions().await.unwrap().len(), 1);
        reads += 1;
    }
    assert!(reads > 5 && !append.is_finished(), "{reads} reads");
    assert_eq!(other.does("unlock"), "done");
    append.await.unwrap().unwrap();
    assert_eq!(store.read("s", 0).await.unwrap(), numbered(0..2));
    assert_eq!(other.does("open t"), "done");
    assert_eq!(other.does("append t 0 2"), "done");
}
