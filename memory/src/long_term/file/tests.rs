//! Deletion while another connection reads.

use super::*;

/// Deleted data that a reader keeps in the write-ahead log is removed at the next write.
#[tokio::test]
async fn a_log_that_a_reader_uses_is_emptied_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("facts.db");
    let file = File::open(&path, |_| Ok(())).unwrap();
    let change = |sql: &'static str| move |tx: &Connection| Ok(tx.execute(sql, ())?);
    let log_bytes = || std::fs::metadata(folder.path().join("facts.db-wal")).unwrap().len();
    file.write(change("INSERT INTO scope (kind, name) VALUES ('user', 'ann')")).await.unwrap();
    lock(&file.0.writer).connection.busy_timeout(Duration::ZERO).unwrap();

    let reader = connect(&path).unwrap();
    let snapshot = reader.unchecked_transaction().unwrap();
    let count = |connection: &Connection| {
        connection.query_row("SELECT count(*) FROM scope", (), |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(count(&snapshot), 1);
    file.delete(change("DELETE FROM scope")).await.unwrap();
    assert!(log_bytes() > 0 && lock(&file.0.writer).keeps_deleted);
    assert_eq!(count(&snapshot), 1);
    drop(snapshot);

    file.write(change("INSERT INTO scope (kind, name) VALUES ('user', 'bob')")).await.unwrap();
    assert_eq!((log_bytes(), lock(&file.0.writer).keeps_deleted), (0, false));
}
