//! Tests of the writer's flushes, and of its errors when another process blocks it.

use std::time::Duration;

use loopwright_core::log::LogEntry;
use tokio::sync::oneshot;

use super::*;
use crate::sqlite::connection::{connect, open};

fn job(write: Write, durable: bool) -> (Job, oneshot::Receiver<Result<(), MemoryError>>) {
    let (done, result) = oneshot::channel();
    (Job { session: "s".into(), write, durable, done }, result)
}

#[test]
fn only_durable_jobs_wait_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (owners, connection) = open(&path).unwrap();
    let mut writer = Writer::new(&connection, owners, &path, Arc::default()).unwrap();
    let level =
        || connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0)).unwrap();
    let normal = 1;
    let full = 2;
    for (durable, expected) in
        [(&[false][..], normal), (&[false, true, false], full), (&[true], full), (&[false], normal)]
    {
        let jobs = durable.iter().map(|durable| job(Write::Delete, *durable).0).collect();
        writer.write(jobs);
        assert_eq!(level(), expected);
    }
}

#[test]
fn an_append_that_times_out_returns_an_error_and_a_release_is_retried() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (owners, connection) = open(&path).unwrap();
    let other = connect(&path).unwrap();
    // A store that is being closed waits for a shorter time.
    let closing = Arc::new(AtomicBool::new(true));
    let mut writer = Writer::new(&connection, owners, &path, closing).unwrap();
    let owner: Arc<str> = format!("{}#1", writer.changes.owners.token()).into();
    let (open, mut opened) =
        job(Write::Open { owner: owner.clone(), posted: Arc::default() }, false);
    writer.write(vec![open]);
    assert_eq!(opened.try_recv().unwrap(), Ok(()));

    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let entries: Arc<[LogEntry]> = [LogEntry::Reset].into();
    let json = vec![crate::codec::encode(&entries[0]).unwrap()];
    let (append, mut appended) =
        job(Write::Append { owner: owner.clone(), at: 0, entries, json }, true);
    let (release, _) = job(Write::Release { owner }, false);
    writer.write(vec![append, release]);
    let why = appended.try_recv().unwrap().unwrap_err().to_string();
    assert!(why.contains("s.db cannot be written: another process has locked it"), "{why}");
    assert_eq!(writer.retries.len(), 1);

    other.execute_batch("ROLLBACK").unwrap();
    let retries = std::mem::take(&mut writer.retries);
    let (open, mut opened) =
        job(Write::Open { owner: "another#1".into(), posted: Arc::default() }, false);
    writer.write(retries.into_iter().chain([open]).collect());
    assert_eq!(opened.try_recv().unwrap(), Ok(()), "the session was released first");
}

#[tokio::test]
async fn a_failed_release_is_retried_without_another_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (owners, connection) = open(&path).unwrap();
    let other = connect(&path).unwrap();
    let owner: Arc<str> = format!("{}#1", owners.token()).into();
    let (jobs, received) = std::sync::mpsc::channel();
    let closing = Arc::new(AtomicBool::new(true));
    let writer = std::thread::spawn(move || run(connection, owners, path, received, closing));
    let (open, opened) = job(Write::Open { owner: owner.clone(), posted: Arc::default() }, false);
    jobs.send(open).unwrap();
    assert_eq!(opened.await.unwrap(), Ok(()));

    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (release, released) = job(Write::Release { owner }, false);
    let (delete, deleted) = job(Write::Delete, false);
    jobs.send(release).unwrap();
    jobs.send(delete).unwrap();
    assert!(deleted.await.unwrap().is_err(), "and the release before it has failed too");
    other.execute_batch("ROLLBACK").unwrap();
    let released = tokio::time::timeout(Duration::from_secs(60), released).await;
    assert_eq!(released.expect("the release is retried").unwrap(), Ok(()));
    drop(jobs);
    writer.join().unwrap().unwrap();
}

/// C318: readers that overlap all the time do not keep the write-ahead log from starting again.
#[test]
fn the_log_stays_short_while_there_are_always_readers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (owners, connection) = open(&path).unwrap();
    let mut writer = Writer::new(&connection, owners, &path, Arc::default()).unwrap();
    writer.restart_timeout = Duration::from_secs(60); // readers may wait for a processor
    let owner: Arc<str> = format!("{}#1", writer.changes.owners.token()).into();
    let (open, _) = job(Write::Open { owner: owner.clone(), posted: Arc::default() }, false);
    writer.write(vec![open]);

    let is_done = Arc::new(AtomicBool::new(false));
    let readers: Vec<Connection> = (0..2).map(|_| connect(&path).unwrap()).collect();
    let read_on = is_done.clone();
    let reading = std::thread::spawn(move || {
        let begin = |reader: &Connection| {
            reader.execute_batch("BEGIN; SELECT count(*) FROM entry;").unwrap();
            let busy = "WITH RECURSIVE n(x) AS \
                        (VALUES(1) UNION ALL SELECT x + 1 FROM n LIMIT 500) \
                        SELECT count(*) FROM n";
            reader.query_row(busy, (), |row| row.get::<_, i64>(0)).unwrap();
        };
        begin(&readers[0]);
        for n in 1.. {
            begin(&readers[n % 2]); // before the other one ends
            readers[(n + 1) % 2].execute_batch("ROLLBACK").unwrap();
            if read_on.load(Ordering::Relaxed) {
                break;
            }
        }
    });
    let entries: Arc<[LogEntry]> = [LogEntry::Reset].into();
    let json = vec![crate::codec::encode(&entries[0]).unwrap()];
    let mut max_bytes = 0;
    for at in 0..4_000 {
        let (entries, json) = (entries.clone(), json.clone());
        let append = Write::Append { owner: owner.clone(), at, entries, json };
        let (append, mut appended) = job(append, false);
        writer.write(vec![append]);
        assert_eq!(appended.try_recv().unwrap(), Ok(()));
        max_bytes = max_bytes.max(std::fs::metadata(folder.path().join("s.db-wal")).unwrap().len());
    }
    is_done.store(true, Ordering::Relaxed);
    reading.join().unwrap();
    let pages = max_bytes / 4096;
    assert!(pages < 6_000, "{pages} pages");
}
