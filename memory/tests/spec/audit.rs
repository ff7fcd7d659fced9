//! Decisions outlive their sessions.

use std::fs;
use std::sync::Arc;

use loopwright_core::SessionStore;
use loopwright_core::event::ExternalAction;
use loopwright_core::log::{
    AuditQuery, DecisionRecord, InMemoryStore, LogEntry, MemoryError, PendingQuery,
};
use loopwright_memory::{Jsonl, Sqlite};

/// Returns the digest of a call of `pay`.
fn digest() -> Arc<str> {
    ExternalAction::new("a", "pay", serde_json::json!({}), "").computed_digest()
}

/// Returns a log in which `ann` has approved a call, and another one waits since this time.
fn log(time: u64) -> Vec<LogEntry> {
    let digest = digest();
    let awaiting = |call: &str| {
        format!(
            r#"{{"type":"call_awaiting","call":"{call}","name":"pay","arguments":{{}},
                "digest":"{digest}","time":{time}}}"#
        )
    };
    let decided = format!(
        r#"{{"type":"decided","input":"i{time}","call":"a","name":"pay","digest":"{digest}",
            "decision":"approve","by":"ann","source":"http","time":{time}}}"#
    );
    let read = |text: &String| serde_json::from_str(text).unwrap();
    [awaiting("a"), awaiting("b"), decided].iter().map(read).collect()
}

async fn write(store: &dyn SessionStore, session: &str, entries: Vec<LogEntry>) {
    store.open(session).await.unwrap().append(0, entries.into()).await.unwrap();
}

async fn of_session(store: &dyn SessionStore, session: &str) -> Vec<DecisionRecord> {
    store.decisions(&AuditQuery::new(9).session(session)).await.unwrap().decisions
}

/// C290: the decisions of a deleted session can still be read, once, even if a session of its name
/// is written again, and after the store is reopened.
#[tokio::test]
async fn decisions_outlive_their_session() {
    let folder = tempfile::tempdir().unwrap();
    let memory = InMemoryStore::new();
    let open = |kind| -> Arc<dyn SessionStore> {
        match kind {
            0 => Arc::new(memory.clone()),
            1 => Arc::new(Sqlite::open(folder.path().join("sessions.db")).unwrap()),
            _ => Arc::new(Jsonl::open(folder.path().join("sessions")).unwrap()),
        }
    };
    for kind in 0..3 {
        let store = open(kind);
        write(&*store, "s", log(5)).await;
        write(&*store, "t", log(6)).await;
        let before = of_session(&*store, "s").await;
        let record = &before[0];
        assert_eq!((before.len(), record.by.as_deref()), (1, Some("ann")));
        assert_eq!(
            (record.digest.as_deref(), record.source.as_deref()),
            (Some(&*digest()), Some("http"))
        );
        store.delete("s").await.unwrap();
        drop(store);
        let store = open(kind);
        assert_eq!(of_session(&*store, "s").await, before, "{kind}");
        let all = store.decisions(&AuditQuery::new(9)).await.unwrap().decisions;
        let sessions: Vec<_> = all.iter().map(|record| &*record.session).collect();
        assert_eq!(sessions, ["t", "s"], "the latest first");
        let of_ann = AuditQuery::new(1).by("ann");
        let first = store.decisions(&of_ann).await.unwrap();
        let second = store.decisions(&of_ann.after(first.next.unwrap())).await.unwrap();
        assert_eq!((second.decisions, second.next), (before.clone(), None), "{kind}");

        write(&*store, "s", log(5)).await; // the same log, such as one of a backup
        assert_eq!(of_session(&*store, "s").await, before, "{kind}");
        store.delete("s").await.unwrap();
        write(&*store, "s", log(7)).await;
        let times: Vec<_> = of_session(&*store, "s").await.iter().map(|r| r.time).collect();
        assert_eq!(times, [7, 5], "{kind}");
        let pending = store.pending(&PendingQuery::new(9).session("s")).await.unwrap().actions;
        assert_eq!((pending.len(), &*pending[0].action.call), (1, "b"), "{kind}");
        let before = PendingQuery::new(9).session("s").before(7);
        assert!(store.pending(&before).await.unwrap().actions.is_empty(), "{kind}");
    }
}

/// C290: a truncated file of decisions is read up to its end; a changed one is an error that names
/// its line.
#[tokio::test]
async fn the_decisions_of_deleted_sessions_have_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let store = Jsonl::open(folder.path()).unwrap();
    for (session, time) in [("s", 5), ("t", 6)] {
        write(&store, session, log(time)).await;
        store.delete(session).await.unwrap();
    }
    let file = folder.path().join(".decisions");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() - 9]).unwrap();
    assert_eq!(of_session(&store, "s").await.len(), 1);
    assert_eq!(of_session(&store, "t").await.len(), 0);
    write(&store, "t", log(6)).await;
    store.delete("t").await.unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), text, "the rest was written again");
    fs::write(&file, text.replacen("ann", "bob", 1)).unwrap();
    let why = store.decisions(&AuditQuery::new(9)).await.unwrap_err();
    assert!(matches!(why, MemoryError::Damaged(_)), "{why}");
    assert!(why.to_string().contains("line 2 of") && why.to_string().contains(".decisions"));
}
