//! Schedules in files: restarts and damage.

use std::fs;
use std::future::ready;

use loopwright_core::SessionStore;
use loopwright_core::event::InputEvent;
use loopwright_core::log::{
    Interrupted, LogEntry, MemoryError, Schedule, ScheduleQuery, post_due_schedules,
};
use loopwright_memory::{Jsonl, Sqlite};

use crate::kit::{directory, remembered};

async fn fill(store: &dyn SessionStore) {
    let memory = store.open("s").await.unwrap();
    memory.append(0, [LogEntry::Reset, remembered("hello")].into()).await.unwrap();
    memory.close().await;
    for id in ["a", "b"] {
        let event = InputEvent::UserRequest("Wake up.".into());
        store.schedules().unwrap().put(&Schedule::once("s", id, 1, event)).await.unwrap();
    }
}

async fn due(store: &dyn SessionStore) -> Vec<String> {
    let due = store.schedules().unwrap().due(9).await.unwrap();
    let mut ids: Vec<String> = due.iter().map(|it| it.id.to_string()).collect();
    ids.sort();
    ids
}

/// C534: schedules survive a restart of `Sqlite`. A damaged one is left out when they are carried
/// out, and damage is reported when they are listed.
#[tokio::test]
async fn schedules_in_sqlite_survive_restarts_and_damage_is_reported() {
    let folder = directory();
    let path = folder.path().join("sessions.db");
    fill(&Sqlite::open(&path).unwrap()).await;
    assert_eq!(due(&Sqlite::open(&path).unwrap()).await, ["a", "b"]);
    let change = |sql: &str| rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    for (sql, left) in [
        ("UPDATE schedule SET json = replace(json, 'Wake', 'Woke') WHERE id = 'a'", &["b"][..]),
        ("DELETE FROM schedule WHERE id = 'a'", &["b"]),
    ] {
        change(sql);
        let store = Sqlite::open(&path).unwrap();
        assert_eq!(due(&store).await, left);
        let listed = store.schedules().unwrap().page(&ScheduleQuery::new(9)).await;
        assert!(matches!(listed, Err(MemoryError::Damaged(_))), "{listed:?}");
    }
    change("UPDATE schedule SET json = replace(json, 'Wake', 'Woke')");
    let store = Sqlite::open(&path).unwrap();
    assert!(due(&store).await.is_empty());
    let removed = store.schedules().unwrap().remove("s", "b").await;
    assert_eq!(removed, Ok(true), "a damaged one can be removed");
}

/// C534: schedules survive a restart of `Jsonl`, in a file whose damaged line is reported.
#[tokio::test]
async fn schedules_in_jsonl_survive_restarts_and_damage_is_reported() {
    let folder = directory();
    fill(&Jsonl::open(folder.path()).unwrap()).await;
    assert_eq!(due(&Jsonl::open(folder.path()).unwrap()).await, ["a", "b"]);
    let file = folder.path().join(".schedules");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("Wake", "Woke", 1)).unwrap();
    let store = Jsonl::open(folder.path()).unwrap();
    assert_eq!(due(&store).await, ["b"]);
    let schedules = store.schedules().unwrap();
    assert_eq!(schedules.remove("s", "b").await, Ok(true));
    let left = fs::read_to_string(&file).unwrap();
    assert!(left.lines().count() == 2 && left.contains("Woke"), "damage is kept: {left}");
    store.delete("s").await.unwrap();

    fs::write(&file, "another file").unwrap();
    let listed = schedules.due(9).await.unwrap_err().to_string();
    assert!(listed.contains("does not begin as a file of schedules does"), "{listed}");
    fill(&Jsonl::open(folder.path().join("other")).unwrap()).await;
    let other = folder.path().join("other/.schedules");
    fs::copy(&file, &other).unwrap();
    let store = Jsonl::open(folder.path().join("other")).unwrap();
    assert_eq!(store.delete("s").await, Ok(()), "sessions can be deleted");
}

/// C528: a schedule whose session is missing is removed when it is due.
#[tokio::test]
async fn a_schedule_without_its_session_is_removed() {
    let folder = directory();
    let store = Jsonl::open(folder.path()).unwrap();
    fill(&store).await;
    fs::remove_file(folder.path().join("s.jsonl")).unwrap();
    assert_eq!(post_due_schedules(&store, None, Interrupted::Left, |_| ready(())).await, Ok(0));
    assert!(due(&store).await.is_empty());
}
