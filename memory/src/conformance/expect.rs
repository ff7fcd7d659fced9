//! The assertions of the suite. Each takes the rule that it checks.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use loopwright_core::log::{LogEntry, MemoryError};
use loopwright_core::{Memory, SessionStore};

use super::samples;

/// The result of a check. The error names the broken rule.
pub(super) type Checked = Result<(), String>;

/// Maximum number of characters of a value in an error.
const MAX_SHOWN_CHARS: usize = 1000;

/// The rule for [`SessionStore::sessions`].
const CAN_BE_LISTED: &str = "sessions can be listed";

/// Returns the error for a broken rule.
pub(super) fn broken(rule: &str, observed: impl Display) -> String {
    format!("the store breaks a rule: {rule}. Observed: {observed}")
}

/// Checks that both values are equal.
pub(super) fn expect_eq<T: PartialEq + Debug + ?Sized>(
    observed: &T,
    expected: &T,
    rule: &str,
) -> Checked {
    if observed == expected {
        return Ok(());
    }
    let shorten = |value: &T| {
        let text = format!("{value:?}");
        let start: String = text.chars().take(MAX_SHOWN_CHARS).collect();
        if start.len() < text.len() { format!("{start} … ({} bytes)", text.len()) } else { text }
    };
    let why = format!("{}, instead of {}", shorten(observed), shorten(expected));
    Err(broken(rule, why))
}

/// Checks that both logs are equal. The error names the first entry that differs.
pub(super) fn expect_eq_entries(
    observed: &[LogEntry],
    expected: &[LogEntry],
    rule: &str,
) -> Checked {
    for (n, (observed, expected)) in observed.iter().zip(expected).enumerate() {
        expect_eq(observed, expected, &format!("{rule} (entry {n})"))?;
    }
    expect_eq(&observed.len(), &expected.len(), &format!("{rule} (number of entries)"))
}

/// Copies ids, to compare them.
pub(super) fn ids<'a>(ids: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    ids.into_iter().map(str::to_owned).collect()
}

/// Checks that an operation returned [`MemoryError::InUse`].
pub(super) fn expect_in_use<T>(result: Result<T, MemoryError>, rule: &str) -> Checked {
    match result {
        Err(MemoryError::InUse(_)) => Ok(()),
        Err(other) => Err(broken(rule, format_args!("the error `{other}` instead of InUse"))),
        Ok(_) => Err(broken(rule, "success instead of InUse")),
    }
}

/// Opens a session that is not open anywhere.
pub(super) async fn open_session(
    store: &dyn SessionStore,
    session: &str,
) -> Result<Arc<dyn Memory>, String> {
    let rule = "a session that nobody has open can be opened";
    store.open(session).await.map_err(|e| broken(rule, format_args!("for {session:?}: {e}")))
}

/// Loads the entries of an open session.
pub(super) async fn load(memory: &dyn Memory, from: u64) -> Result<Vec<LogEntry>, String> {
    memory.load(from).await.map_err(|e| broken("an open session can be loaded", e))
}

/// Appends entries at the end of the log.
pub(super) async fn append(memory: &dyn Memory, at: u64, entries: &[LogEntry]) -> Checked {
    let rule = "an append at the end of the log succeeds";
    memory
        .append(at, entries.into())
        .await
        .map_err(|e| broken(rule, format_args!("after {at} entries: {e}")))
}

/// Appends the entries one by one.
pub(super) async fn append_each(memory: &dyn Memory, entries: &[LogEntry]) -> Checked {
    for (at, entry) in entries.iter().enumerate() {
        append(memory, at as u64, std::slice::from_ref(entry)).await?;
    }
    Ok(())
}

/// Checks that an append that is not at the end returns [`MemoryError::Conflict`].
pub(super) async fn expect_conflict(memory: &dyn Memory, at: u64, end: u64) -> Checked {
    let rule = "an append that is not at the end is a Conflict";
    for entries in [vec![], vec![samples::remembered("misplaced")]] {
        let result = memory.append(at, entries.into()).await;
        expect_eq(&result, &Err(MemoryError::Conflict { at, end }), rule)?;
    }
    Ok(())
}

/// Writes a new session and closes it.
pub(super) async fn write_session(
    store: &dyn SessionStore,
    session: &str,
    entries: &[LogEntry],
) -> Checked {
    append(&*open_session(store, session).await?, 0, entries).await
}

/// Checks that a reader gets these entries.
pub(super) async fn expect_reads(
    store: &dyn SessionStore,
    session: &str,
    entries: &[LogEntry],
    rule: &str,
) -> Checked {
    let observed = store
        .read(session, 0)
        .await
        .map_err(|e| broken(rule, format_args!("for {session:?}: {e}")))?;
    expect_eq_entries(&observed, entries, rule)
}

/// Checks that the session does not exist for readers.
pub(super) async fn expect_absent(store: &dyn SessionStore, session: &str, rule: &str) -> Checked {
    let none = MemoryError::NoSession(session.into());
    let read = store.read(session, 0).await;
    expect_eq(&read, &Err(none.clone()), &format!("{rule}: `read` returns NoSession"))?;
    let info = store.session(session).await;
    expect_eq(&info, &Err(none), &format!("{rule}: `session` returns NoSession"))?;
    let listed = store.sessions().await.map_err(|e| broken(CAN_BE_LISTED, e))?;
    let is_listed = listed.iter().any(|info| *info.id == *session);
    expect_eq(&is_listed, &false, &format!("{rule}: `sessions` does not list it"))
}

/// Checks that the store lists no session.
pub(super) async fn expect_empty(store: &dyn SessionStore, rule: &str) -> Checked {
    let listed = store.sessions().await.map_err(|e| broken(CAN_BE_LISTED, e))?;
    expect_eq(&ids(listed.iter().map(|info| &*info.id)), &vec![], rule)
}

/// Deletes all sessions, branches first.
pub(super) async fn clear(store: &dyn SessionStore) -> Checked {
    let rule = "sessions that nobody has open can be deleted, branches first";
    loop {
        let listed = store.sessions().await.map_err(|e| broken(CAN_BE_LISTED, e))?;
        let count = listed.len();
        let mut remaining = Vec::new();
        for info in listed {
            match store.delete(&info.id).await {
                Ok(()) => expect_absent(store, &info.id, "a deleted session is gone").await?,
                Err(MemoryError::HasBranches { .. }) => remaining.push(info.id),
                Err(other) => return Err(broken(rule, format_args!("for {:?}: {other}", info.id))),
            }
        }
        if remaining.is_empty() {
            return expect_empty(store, "deleted sessions are gone").await;
        }
        if remaining.len() == count {
            let why = format!("{remaining:?} have branches, and no other session exists");
            return Err(broken(rule, why));
        }
    }
}
