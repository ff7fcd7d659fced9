//! Checks of branches and of deletion.

use loopwright_core::SessionStore;
use loopwright_core::event::RunStatus;
use loopwright_core::log::{Branch, LogEntry, MemoryError, PendingQuery, SessionInfo, SessionLog};

use super::expect::{
    Checked, append, broken, clear, expect_absent, expect_conflict, expect_eq, expect_eq_entries,
    expect_in_use, expect_reads, load, open_session, write_session,
};
use super::samples;

pub(super) async fn check(store: &dyn SessionStore) -> Checked {
    clear(store).await?;
    forked(store).await?;
    refused(store).await?;
    deleted(store).await?;
    parents(store).await
}

/// Returns two runs, the second with a pending call. A turn ends after six entries, and none later.
fn log() -> Vec<LogEntry> {
    let first = [
        samples::run(1, 1000, "one"),
        vec![samples::replied("1", 0.5), samples::ended(1, 2000, RunStatus::Done)],
    ];
    let second = [
        samples::run(2, 3000, "two"),
        vec![samples::calling("c1"), samples::awaiting("c1", "send", 3100)],
    ];
    [first.concat(), second.concat()].concat()
}

/// Forks `session`, checks the branch, and returns its entries.
async fn fork(
    store: &dyn SessionStore,
    session: &str,
    at: Option<u64>,
    to: &str,
    parent_entries: &[LogEntry],
) -> Result<Vec<LogEntry>, String> {
    let rule =
        format!("a fork at {at:?} begins with the entries of its parent up to the end of a turn");
    let shared = store.fork(session, at, to).await.map_err(|e| broken(&rule, e))?;
    let Branch { shared: expected, entries: own_entries, .. } =
        SessionLog::branch(parent_entries, at);
    expect_eq(&shared, &expected, &format!("{rule} (number of entries that both share)"))?;
    if expected == 0 {
        expect_absent(store, to, "a branch without entries is like a session without entries")
            .await?;
        return Ok(vec![]);
    }
    let entries = store.read(to, 0).await.map_err(|e| broken(&rule, e))?;
    let (head, tail) = entries.split_at((shared as usize).min(entries.len()));
    expect_eq_entries(head, &parent_entries[..shared as usize], &rule)?;
    let without_times = |entries: &[LogEntry]| -> Vec<LogEntry> {
        let mut entries = entries.to_vec();
        for entry in &mut entries {
            if let LogEntry::RunEnded { time, .. } = entry {
                *time = 0; // the time of the fork
            }
        }
        entries
    };
    let rule = "a branch continues with the entries that end its queue and its run";
    expect_eq_entries(&without_times(tail), &without_times(&own_entries), rule)?;
    let mut info =
        store.session(to).await.map_err(|e| broken("`session` describes a branch", e))?;
    let parent = info.parent.take();
    expect_eq(&info, &SessionInfo::of(to, &entries), "`session` describes a branch")?;
    if let Some(parent) = parent {
        expect_eq(
            &parent,
            &(session.into(), shared),
            "the parent of a branch is the session that it was forked from",
        )?;
    }
    Ok(entries)
}

async fn forked(store: &dyn SessionStore) -> Checked {
    let log = log();
    let memory = open_session(store, "trunk").await?;
    append(&*memory, 0, &log).await?;
    let mut branches = Vec::new();
    for at in
        [None, Some(0), Some(1), Some(5), Some(6), Some(8), Some(log.len() as u64), Some(1000)]
    {
        let to = format!("branch at {at:?}");
        branches.push((to.clone(), fork(store, "trunk", at, &to, &log).await?));
    }
    let more = [samples::remembered("in the trunk"), samples::remembered("again")];
    append(&*memory, log.len() as u64, &more).await?;
    let trunk = [&log[..], &more[..]].concat();
    let rule = "an append to a session does not change its branches, and the other way round";
    for (name, entries) in &branches {
        let branch = open_session(store, name).await?;
        expect_eq_entries(&load(&*branch, 0).await?, entries, rule)?;
        expect_conflict(&*branch, entries.len() as u64 + 1, entries.len() as u64).await?;
        append(&*branch, entries.len() as u64, &[samples::remembered(name)]).await?;
        let all = [&entries[..], &[samples::remembered(name)]].concat();
        for from in 0..=all.len() {
            expect_eq_entries(
                &load(&*branch, from as u64).await?,
                &all[from..],
                "`load` of a branch counts from its first entry",
            )?;
            let read = store
                .read(name, from as u64)
                .await
                .map_err(|e| broken("a branch can be read", e))?;
            expect_eq_entries(
                &read,
                &all[from..],
                "`read` of a branch counts from its first entry",
            )?;
        }
    }
    expect_reads(store, "trunk", &trunk, rule).await?;
    let (name, entries) = &branches[0];
    let entries = [&entries[..], &[samples::remembered(name)]].concat();
    let twig = fork(store, name, None, "twig", &entries).await?;
    append(
        &*open_session(store, name).await?,
        entries.len() as u64,
        &[samples::remembered("later")],
    )
    .await?;
    expect_reads(store, "twig", &twig, "a branch of a branch is independent").await
}

async fn refused(store: &dyn SessionStore) -> Checked {
    let exists = MemoryError::Exists("twig".into());
    let before = store.read("twig", 0).await.map_err(|e| broken("a branch can be read", e))?;
    expect_eq(
        &store.fork("trunk", None, "twig").await,
        &Err(exists),
        "a fork to an existing session is refused",
    )?;
    expect_reads(store, "twig", &before, "a refused fork changes nothing").await?;
    let none = MemoryError::NoSession("nobody".into());
    expect_eq(
        &store.fork("nobody", None, "new").await,
        &Err(none),
        "a missing session cannot be forked",
    )?;
    expect_absent(store, "new", "a refused fork leaves no session").await?;
    let open = open_session(store, "taken").await?;
    append(&*open, 0, &[samples::remembered("mine")]).await?;
    match store.fork("trunk", None, "taken").await {
        Err(MemoryError::InUse(_) | MemoryError::Exists(_)) => {}
        other => {
            return Err(broken(
                "a fork to a session that is open is refused",
                format_args!("{other:?}"),
            ));
        }
    }
    expect_reads(store, "taken", &[samples::remembered("mine")], "a refused fork changes nothing")
        .await
}

async fn deleted(store: &dyn SessionStore) -> Checked {
    let none = MemoryError::NoSession("nobody".into());
    expect_eq(
        &store.delete("nobody").await,
        &Err(none),
        "deleting a missing session returns NoSession",
    )?;
    let memory = open_session(store, "short").await?;
    append(&*memory, 0, &log()).await?;
    expect_in_use(store.delete("short").await, "a session that is open is not deleted")?;
    expect_reads(store, "short", &log(), "a refused deletion changes nothing").await?;
    drop(memory);
    store
        .delete("short")
        .await
        .map_err(|e| broken("a session that nobody has open can be deleted", e))?;
    expect_absent(store, "short", "a deleted session is gone").await?;
    let pending = store.pending(&PendingQuery::all().session("short")).await;
    expect_eq(
        &pending.map(|page| page.actions),
        &Ok(vec![]),
        "a deleted session has no pending actions",
    )?;
    let new = open_session(store, "short").await?;
    expect_eq(
        &load(&*new, 0).await?,
        &vec![],
        "a new session with the name of a deleted one is empty",
    )?;
    append(&*new, 0, &[samples::remembered("new")]).await?;
    expect_reads(
        store,
        "short",
        &[samples::remembered("new")],
        "a new session with the name of a deleted one has only its own entries",
    )
    .await
}

/// Checks that a session with branches is deleted after them, or that they stay complete.
async fn parents(store: &dyn SessionStore) -> Checked {
    let rule =
        "a session with branches is not deleted (HasBranches), or its branches stay complete";
    write_session(store, "parent", &log()).await?;
    let child = fork(store, "parent", None, "child", &log()).await?;
    match store.delete("parent").await {
        Ok(()) => expect_absent(store, "parent", "a deleted session is gone").await?,
        Err(MemoryError::HasBranches { session, branches }) => {
            expect_eq(
                &(&*session, &*branches),
                &("parent", &["child".to_owned()][..]),
                "HasBranches names the branches",
            )?;
            expect_reads(store, "parent", &log(), "a refused deletion changes nothing").await?;
        }
        Err(other) => return Err(broken(rule, other)),
    }
    expect_reads(store, "child", &child, rule).await?;
    write_session(store, "unrelated", &log()).await?;
    store.delete("child").await.map_err(|e| broken("a branch can be deleted", e))?;
    match store.delete("parent").await {
        Ok(()) | Err(MemoryError::NoSession(_)) => {
            expect_absent(store, "parent", "a deleted session is gone").await
        }
        Err(other) => Err(broken("a session whose branches are deleted can be deleted", other)),
    }
}
