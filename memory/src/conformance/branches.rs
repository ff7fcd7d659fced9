//! Branches, and the end of a session.

use loopwright_core::SessionStore;
use loopwright_core::event::RunStatus;
use loopwright_core::log::{Branch, LogEntry, MemoryError, SessionInfo, SessionLog};

use super::{
    Checked, absent, append, broken, clear, in_use, load, opened, read_is, same, same_items,
    samples, written,
};

pub(super) async fn check(store: &dyn SessionStore) -> Checked {
    clear(store).await?;
    forked(store).await?;
    refused(store).await?;
    deleted(store).await?;
    parents(store).await
}

/// Two runs; the second waits for an answer. Six items of the first are between turns, and what
/// follows is not.
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

/// Forks `session`, checks the branch, and gives its items.
async fn fork(
    store: &dyn SessionStore,
    session: &str,
    at: Option<u64>,
    to: &str,
    past: &[LogEntry],
) -> Result<Vec<LogEntry>, String> {
    let rule = format!("a fork at {at:?} begins with the past up to where a turn had ended");
    let shared = store.fork(session, at, to).await.map_err(|e| broken(&rule, e))?;
    let Branch { shared: wanted, items: first, .. } = SessionLog::branch(past, at);
    same(&shared, &wanted, &format!("{rule} (number of items that both share)"))?;
    if wanted == 0 {
        absent(store, to, "a branch without an item is as a session without one").await?;
        return Ok(vec![]);
    }
    let items = store.read(to, 0).await.map_err(|e| broken(&rule, e))?;
    let (head, tail) = items.split_at((shared as usize).min(items.len()));
    same_items(head, &past[..shared as usize], &rule)?;
    let timeless = |items: &[LogEntry]| -> Vec<LogEntry> {
        let mut items = items.to_vec();
        for item in &mut items {
            if let LogEntry::RunEnded { time, .. } = item {
                *time = 0; // when it was forked
            }
        }
        items
    };
    let rule = "a branch goes on with what ends its queue and its run";
    same_items(&timeless(tail), &timeless(&first), rule)?;
    let mut info =
        store.session(to).await.map_err(|e| broken("a branch is known like any session", e))?;
    let parent = info.parent.take();
    same(&info, &SessionInfo::of(to, &items), "a branch is known like any session")?;
    if let Some(parent) = parent {
        same(
            &parent,
            &(session.into(), shared),
            "the parent of a branch is the session that it was forked from",
        )?;
    }
    Ok(items)
}

async fn forked(store: &dyn SessionStore) -> Checked {
    let past = log();
    let memory = opened(store, "trunk").await?;
    append(&*memory, 0, &past).await?;
    let mut branches = Vec::new();
    for at in
        [None, Some(0), Some(1), Some(5), Some(6), Some(8), Some(past.len() as u64), Some(1000)]
    {
        let to = format!("branch at {at:?}");
        branches.push((to.clone(), fork(store, "trunk", at, &to, &past).await?));
    }
    let more = [samples::said("in the trunk"), samples::said("again")];
    append(&*memory, past.len() as u64, &more).await?;
    let trunk = [&past[..], &more[..]].concat();
    let apart = "what a session appends is not in its branches, nor the other way round";
    for (name, items) in &branches {
        let branch = opened(store, name).await?;
        same_items(&load(&*branch, 0).await?, items, apart)?;
        super::refused(&*branch, items.len() as u64 + 1, items.len() as u64).await?;
        append(&*branch, items.len() as u64, &[samples::said(name)]).await?;
        let all = [&items[..], &[samples::said(name)]].concat();
        for from in 0..=all.len() {
            same_items(
                &load(&*branch, from as u64).await?,
                &all[from..],
                "`load` of a branch counts from its first item",
            )?;
            let read = store
                .read(name, from as u64)
                .await
                .map_err(|e| broken("a branch can be read", e))?;
            same_items(&read, &all[from..], "`read` of a branch counts from its first item")?;
        }
    }
    read_is(store, "trunk", &trunk, apart).await?;
    let (name, items) = &branches[0];
    let items = [&items[..], &[samples::said(name)]].concat();
    let twig = fork(store, name, None, "twig", &items).await?;
    append(&*opened(store, name).await?, items.len() as u64, &[samples::said("later")]).await?;
    read_is(store, "twig", &twig, "a branch of a branch is its own").await
}

async fn refused(store: &dyn SessionStore) -> Checked {
    let exists = MemoryError::Exists("twig".into());
    let before = store.read("twig", 0).await.map_err(|e| broken("a branch can be read", e))?;
    same(
        &store.fork("trunk", None, "twig").await,
        &Err(exists),
        "a fork to a session that is there is refused",
    )?;
    read_is(store, "twig", &before, "a refused fork changes nothing").await?;
    let none = MemoryError::NoSession("nobody".into());
    same(
        &store.fork("nobody", None, "heir").await,
        &Err(none),
        "a session that is not there cannot be forked",
    )?;
    absent(store, "heir", "a refused fork leaves no session").await?;
    let open = opened(store, "taken").await?;
    append(&*open, 0, &[samples::said("mine")]).await?;
    match store.fork("trunk", None, "taken").await {
        Err(MemoryError::InUse(_) | MemoryError::Exists(_)) => {}
        other => {
            return Err(broken(
                "a fork to a session that is open is refused",
                format_args!("{other:?}"),
            ));
        }
    }
    read_is(store, "taken", &[samples::said("mine")], "a refused fork changes nothing").await
}

async fn deleted(store: &dyn SessionStore) -> Checked {
    let none = MemoryError::NoSession("nobody".into());
    same(
        &store.delete("nobody").await,
        &Err(none),
        "deleting a session that is not there says NoSession",
    )?;
    let memory = opened(store, "short").await?;
    append(&*memory, 0, &log()).await?;
    in_use(store.delete("short").await, "a session that is open is not deleted")?;
    read_is(store, "short", &log(), "a refused deletion changes nothing").await?;
    drop(memory);
    store
        .delete("short")
        .await
        .map_err(|e| broken("a session that nobody has open can be deleted", e))?;
    absent(store, "short", "a deleted session is gone").await?;
    let waiting = store.pending(&loopwright_core::log::PendingFilter::new().session("short")).await;
    same(&waiting, &Ok(vec![]), "no action of a deleted session waits")?;
    let again = opened(store, "short").await?;
    same(&load(&*again, 0).await?, &vec![], "a new session of a deleted one's name is empty")?;
    append(&*again, 0, &[samples::said("new")]).await?;
    read_is(
        store,
        "short",
        &[samples::said("new")],
        "a new session of a deleted one's name goes on by itself",
    )
    .await
}

/// A session with branches is deleted after them, or they stay whole.
async fn parents(store: &dyn SessionStore) -> Checked {
    let rule = "a session with branches is not deleted (HasBranches), or its branches stay whole";
    written(store, "parent", &log()).await?;
    let child = fork(store, "parent", None, "child", &log()).await?;
    match store.delete("parent").await {
        Ok(()) => absent(store, "parent", "a deleted session is gone").await?,
        Err(MemoryError::HasBranches { session, branches }) => {
            same(
                &(&*session, &*branches),
                &("parent", &["child".to_owned()][..]),
                "HasBranches names the branches",
            )?;
            read_is(store, "parent", &log(), "a refused deletion changes nothing").await?;
        }
        Err(other) => return Err(broken(rule, other)),
    }
    read_is(store, "child", &child, rule).await?;
    written(store, "unrelated", &log()).await?;
    store.delete("child").await.map_err(|e| broken("a branch can be deleted", e))?;
    match store.delete("parent").await {
        Ok(()) | Err(MemoryError::NoSession(_)) => {
            absent(store, "parent", "a deleted session is gone").await
        }
        Err(other) => Err(broken("a session whose branches are deleted can be deleted", other)),
    }
}
