//! What the writer asks of the disk, and what it says when another process does not let it write.

use std::time::Duration;

use super::*;
use crate::sqlite::db;

fn job(write: Write, durable: bool) -> (Job, oneshot::Receiver<Result<(), MemoryError>>) {
    let (done, told) = oneshot::channel();
    (Job { session: "s".into(), write, durable, done }, told)
}

#[test]
fn only_what_must_be_durable_waits_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (owners, connection) = db::open(&path).unwrap();
    let mut writer = Writer::new(&connection, owners, path).unwrap();
    let level =
        || connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0)).unwrap();
    let (normal, full) = (1, 2);
    for (durable, wanted) in
        [(&[false][..], normal), (&[false, true, false], full), (&[true], full), (&[false], normal)]
    {
        let jobs = durable.iter().map(|durable| job(Write::Delete, *durable).0).collect();
        writer.write(jobs);
        assert_eq!(level(), wanted);
    }
}

#[test]
fn whoever_waits_too_long_is_told_why_and_a_release_is_done_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (owners, connection) = db::open(&path).unwrap();
    let other = db::connect(&path).unwrap();
    let mut writer = Writer::new(&connection, owners, path).unwrap();
    let owner: Arc<str> = format!("{}#1", writer.owners.token()).into();
    let (open, mut opened) = job(Write::Open { owner: owner.clone() }, false);
    writer.write(vec![open]);
    assert_eq!(opened.try_recv().unwrap(), Ok(()));

    connection.busy_timeout(Duration::ZERO).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let item: Arc<[LogEntry]> = [LogEntry::Reset].into();
    let json = vec![crate::codec::encode(&item[0]).unwrap()];
    let (append, mut appended) =
        job(Write::Append { owner: owner.clone(), at: 0, items: item, json }, true);
    let (release, _) = job(Write::Release { owner }, false);
    writer.write(vec![append, release]);
    let why = appended.try_recv().unwrap().unwrap_err().to_string();
    assert!(
        why.contains(
            "s.db: another process has been writing to it for 10 seconds; nothing was written"
        ),
        "{why}"
    );
    assert_eq!(writer.later.len(), 1);

    other.execute_batch("ROLLBACK").unwrap();
    let later = std::mem::take(&mut writer.later);
    let (open, mut opened) = job(Write::Open { owner: "another#1".into() }, false);
    writer.write(later.into_iter().chain([open]).collect());
    assert_eq!(opened.try_recv().unwrap(), Ok(()), "it was released first");
}

#[tokio::test]
async fn a_release_that_failed_is_tried_again_though_nothing_else_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (owners, connection) = db::open(&path).unwrap();
    let other = db::connect(&path).unwrap();
    connection.busy_timeout(Duration::ZERO).unwrap();
    let owner: Arc<str> = format!("{}#1", owners.token()).into();
    let (jobs, given) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || run(connection, owners, path, given));
    let (open, opened) = job(Write::Open { owner: owner.clone() }, false);
    jobs.send(open).unwrap();
    assert_eq!(opened.await.unwrap(), Ok(()));

    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (release, released) = job(Write::Release { owner }, false);
    let (refused, told) = job(Write::Delete, false);
    jobs.send(release).unwrap();
    jobs.send(refused).unwrap();
    assert!(told.await.unwrap().is_err(), "and the release before it has failed too");
    other.execute_batch("ROLLBACK").unwrap();
    let released = tokio::time::timeout(Duration::from_secs(60), released).await;
    assert_eq!(released.expect("it is tried again").unwrap(), Ok(()));
    drop(jobs);
    writer.join().unwrap().unwrap();
}
