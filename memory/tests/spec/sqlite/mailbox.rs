//! Posted inputs, in the file.

use loopwright_core::agent::InputError;
use loopwright_core::event::InputEvent;
use loopwright_core::log::{AuditQuery, InputReceipt, LogEntry, PendingQuery, PostedInput};

use super::*;

/// Statements that convert a file without posted inputs to format 2.
const TO_FORMAT_2: &str = "DROP TABLE schedule; DROP TABLE schedule_total; \
    DROP TABLE snapshot; DROP TABLE listing; DROP TABLE listing_total; \
    DROP TABLE pending; DROP TABLE pending_total; DROP TABLE decision; \
    PRAGMA user_version = 2";
/// Statements that convert a file to format 5.
const TO_FORMAT_5: &str = "DROP TABLE schedule; DROP TABLE schedule_total; PRAGMA user_version = 5";
/// Statements that convert a file to format 4.
const TO_FORMAT_4: &str = "DROP TABLE schedule; DROP TABLE schedule_total; \
    DROP TABLE snapshot; PRAGMA user_version = 4";
/// Statements that convert a file to format 3.
const TO_FORMAT_3: &str = "DROP TABLE schedule; DROP TABLE schedule_total; \
    DROP TABLE snapshot; DROP TABLE listing; DROP TABLE listing_total; \
    DROP INDEX pending_of_session; PRAGMA user_version = 3";

fn steer(id: &str) -> PostedInput {
    PostedInput::new(id, InputEvent::Steer("x".into())).unwrap()
}

/// C290: a file of format 3, 4 or 5 gets what it lacks when it is opened, and keeps its lists.
#[tokio::test]
async fn a_file_of_the_third_to_fifth_format_is_opened() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let awaiting = r#"{"type":"call_awaiting","call":"a","name":"pay","arguments":{},"digest":"d",
        "time":5}"#;
    drop(begin(&store, "s", &[serde_json::from_str(awaiting).unwrap()]).await);
    drop(store);
    for to_older in [TO_FORMAT_5, TO_FORMAT_4, TO_FORMAT_3] {
        raw_connection(&path).execute_batch(to_older).unwrap();
        let store = Sqlite::open(&path).unwrap();
        let pending = store.pending(&PendingQuery::new(9).session("s")).await.unwrap();
        assert_eq!(pending.actions.len(), 1);
        let memory = store.open("s").await.unwrap();
        assert_eq!(memory.snapshots().unwrap().latest().await, Ok(None));
        drop((memory, store));
        let format: i64 =
            raw_connection(&path).query_row("PRAGMA user_version", (), |row| row.get(0)).unwrap();
        assert_eq!(format, 6);
    }
}

/// C219: a file of the format without mailboxes gets them when it is opened.
#[tokio::test]
async fn a_file_of_the_first_format_gets_mailboxes() {
    let (_folder, path) = temp_store_path();
    drop(begin(&Sqlite::open(&path).unwrap(), "s", &numbered(0..3)).await);
    let raw = raw_connection(&path);
    raw.execute_batch(TO_FORMAT_2).unwrap();
    raw.execute_batch("DROP TABLE mailbox; PRAGMA user_version = 1").unwrap();
    drop(raw);
    let stores = [Sqlite::open(&path).unwrap(), Sqlite::open(&path).unwrap()];
    for store in &stores {
        assert_eq!(store.post("s", &steer("i")).await, Ok(None));
    }
    let memory = stores[0].open("s").await.unwrap();
    assert_eq!(memory.mailbox().unwrap().unread().await.unwrap().len(), 1);
    assert_eq!(memory.load(0).await.unwrap(), numbered(0..3));
    drop((memory, stores));
    let raw = raw_connection(&path);
    raw.execute_batch("DROP TABLE mailbox").unwrap();
    drop(raw);
    let damaged = Sqlite::open(&path).err().unwrap();
    assert!(matches!(damaged, MemoryError::Damaged(_)), "{damaged}");
}

/// C82: a posted input that was changed in the file, or can no longer be reached, is damage.
#[tokio::test]
async fn a_damaged_mailbox_is_reported() {
    for damage in ["UPDATE mailbox SET json = '\"reset\"'", "DELETE FROM mailbox WHERE input = 'i'"]
    {
        let (_folder, path) = temp_store_path();
        let store = Sqlite::open(&path).unwrap();
        let memory = begin(&store, "s", &numbered(0..1)).await;
        for id in ["i", "j"] {
            store.post("s", &steer(id)).await.unwrap();
        }
        raw_connection(&path).execute(damage, ()).unwrap();
        let damaged = memory.mailbox().unwrap().unread().await.err().unwrap();
        assert!(matches!(damaged, MemoryError::Damaged(_)), "{damage}: {damaged}");
    }
}

/// C213: the owner and its receipt are checked in one transaction.
#[tokio::test]
async fn a_former_owner_writes_no_receipt() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let memory = begin(&store, "s", &numbered(0..1)).await;
    store.post("s", &steer("i")).await.unwrap();
    // Without its lock file, an owner counts as dead.
    std::fs::remove_dir_all(path.with_file_name("sessions.db-owners")).unwrap();
    let _successor = Sqlite::open(&path).unwrap().open("s").await.unwrap();
    let refused = InputReceipt::Refused(InputError::Busy);
    let written = memory.mailbox().unwrap().acknowledge(&"i".into(), &refused).await;
    assert_eq!(written, Err(MemoryError::Lost));
    assert_eq!(store.post("s", &steer("i")).await, Ok(None));
}

/// C241: a file of the previous format gets times of posting, pending actions and decisions when it
/// is opened. They are listed as if this version had written the file.
#[tokio::test]
async fn a_file_of_the_second_format_gets_pending_actions_and_decisions() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let awaiting = |call: &str| {
        let text = format!(
            r#"{{"type":"call_awaiting","call":"{call}","name":"pay","arguments":{{}},
                "digest":"d","time":5}}"#
        );
        serde_json::from_str::<LogEntry>(&text).unwrap()
    };
    let decided = r#"{"type":"decided","input":"i","call":"a","decision":"approve","by":"ann",
        "time":7}"#;
    let decided: LogEntry = serde_json::from_str(decided).unwrap();
    drop(begin(&store, "s", &[awaiting("a"), awaiting("b"), decided]).await);
    store.post("s", &steer("old")).await.unwrap();
    let lists = async |store: &Sqlite| {
        let pending = store.pending(&PendingQuery::all()).await.unwrap().actions;
        (pending, store.decisions(&AuditQuery::new(9)).await.unwrap().decisions)
    };
    let before = lists(&store).await;
    assert_eq!((before.0.len(), before.1.len()), (1, 1));
    drop(store);
    // The input as in format 2: its event, and another checksum.
    let raw = raw_connection(&path);
    let json = r#"{"steer":{"message":{"content":[{"type":"text","text":"x"}]}}}"#;
    let event: InputEvent = serde_json::from_str(json).unwrap();
    let json = serde_json::to_string(&event).unwrap();
    let row = raw
        .query_row("SELECT number, session, input FROM mailbox", (), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?))
        })
        .unwrap();
    let fields: [&[u8]; 5] =
        [&row.0.to_le_bytes(), &row.1.to_le_bytes(), row.2.as_bytes(), json.as_bytes(), b""];
    let mut crc = crc32fast::Hasher::new();
    for field in fields {
        crc.update(&(field.len() as u64).to_le_bytes());
        crc.update(field);
    }
    raw.execute("UPDATE mailbox SET json = ?1, crc = ?2", (&json, crc.finalize())).unwrap();
    raw.execute_batch(TO_FORMAT_2).unwrap();
    drop(raw);

    let stores = [Sqlite::open(&path).unwrap(), Sqlite::open(&path).unwrap()];
    for store in &stores {
        assert_eq!(lists(store).await, before);
    }
    let memory = stores[0].open("s").await.unwrap();
    let unread = memory.mailbox().unwrap().unread().await.unwrap();
    let unread: Vec<_> = unread.iter().map(|input| (&*input.id, input.time)).collect();
    assert_eq!(unread, [("old", None)]);
}

/// C242: a pending action that was changed in the file, or can no longer be reached, is damage. A
/// changed decision is damage, too.
#[tokio::test]
async fn damaged_lists_are_reported() {
    for damage in [
        "UPDATE pending SET tool = 'other'",
        "DELETE FROM pending",
        "UPDATE pending_total SET pending = 0",
        "UPDATE decision SET principal = 'bob'",
    ] {
        let (_folder, path) = temp_store_path();
        let store = Sqlite::open(&path).unwrap();
        let awaiting = r#"{"type":"call_awaiting","call":"a","name":"pay","arguments":{},
            "digest":"d","time":5}"#;
        let decided = r#"{"type":"decided","input":"i","call":"b","decision":"approve","time":7}"#;
        let entries = [awaiting, decided].map(|text| serde_json::from_str(text).unwrap());
        drop(begin(&store, "s", &entries).await);
        raw_connection(&path).execute(damage, ()).unwrap();
        let pending = store.pending(&PendingQuery::all()).await.map(drop);
        let damaged = pending.and(store.decisions(&AuditQuery::new(9)).await.map(drop));
        assert!(matches!(damaged, Err(MemoryError::Damaged(_))), "{damage}: {damaged:?}");
    }
}

/// C236: the clock of the store waits for a process that is posting: inputs posted before the
/// returned time can be read.
#[tokio::test]
async fn the_clock_waits_for_inputs_that_are_being_posted() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let memory = begin(&store, "s", &numbered(0..1)).await;
    let mailbox = memory.mailbox().unwrap();
    let posting = raw_connection(&path);
    posting.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut now = mailbox.now();
    let early = tokio::time::timeout(std::time::Duration::from_millis(200), &mut now).await;
    assert!(early.is_err(), "{early:?}");
    posting.execute_batch("COMMIT").unwrap();
    now.await.unwrap();
}
