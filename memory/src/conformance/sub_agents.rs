//! Checks of the sessions of sub-agents: they belong to the session at their root.

use std::sync::Arc;

use loopwright_core::SessionStore;
use loopwright_core::event::{ExternalAction, Parent, RunStatus};
use loopwright_core::limits::Budget;
use loopwright_core::log::{LogEntry, MemoryError, PendingAction, PendingQuery, SessionInfo};
use serde_json::json;

use super::expect::{
    Checked, broken, clear, expect_absent, expect_conflict, expect_eq, expect_eq_entries,
    expect_in_use, expect_reads, ids, load, open_session, write_session,
};
use super::samples;

/// A root with a sub-agent that waits for its own sub-agent, which waits for a decision.
const ROOT: &str = "root";
const CHILD: &str = "root/m11.1";
const GRANDCHILD: &str = "root/m11.1/m11.1";

/// A user's session whose name a sub-agent of the root would have.
const NAMESAKE: &str = "root/m11.2";

pub(super) async fn check(store: &dyn SessionStore) -> Checked {
    clear(store).await?;
    let logs = logs();
    for (session, entries) in &logs {
        write_session(store, session, entries).await?;
    }
    listed(store, &logs).await?;
    opened(store, &logs).await?;
    deleted(store, &logs).await?;
    forked(store).await
}

type Logs = [(&'static str, Vec<LogEntry>)];

fn logs() -> [(&'static str, Vec<LogEntry>); 5] {
    let grandchild = [
        vec![opened_by(CHILD, "x")],
        samples::run(1, 1200, "Count the seagulls."),
        vec![samples::calling("p"), samples::awaiting("p", "send", 1250)],
        vec![samples::ended(1, 1300, RunStatus::AwaitingAction)],
    ];
    let child = [
        vec![opened_by(ROOT, "c")],
        samples::run(1, 1100, "Let them count the seagulls."),
        vec![samples::calling("x")],
        started("x", GRANDCHILD),
        vec![awaits("x", "x~p", 1350), samples::ended(1, 1400, RunStatus::AwaitingAction)],
    ];
    let root = [
        vec![LogEntry::Opened { epoch: 1, time: 900, parent: None, owner: None }],
        samples::run(1, 1000, "How many seagulls are there?"),
        vec![samples::calling("c")],
        started("c", CHILD),
        vec![awaits("c", "c~x~p", 1450)],
        started("d", NAMESAKE),     // its session could not be opened
        started("e", "root/m11.3"), // its session was not opened before a crash
        vec![samples::ended(1, 1500, RunStatus::AwaitingAction)],
    ];
    let parent = Parent::new(ROOT, "c"); // set by the host: not a sub-agent
    let related = [
        vec![LogEntry::Opened { epoch: 1, time: 100, parent: Some(parent.into()), owner: None }],
        samples::run(1, 200, "A seagull of its own"),
    ];
    let namesake = [
        vec![LogEntry::Opened { epoch: 1, time: 10, parent: None, owner: None }],
        samples::run(1, 20, "Another seagull"),
    ];
    [
        (ROOT, root.concat()),
        (CHILD, child.concat()),
        (GRANDCHILD, grandchild.concat()),
        ("related", related.concat()),
        (NAMESAKE, namesake.concat()),
    ]
}

/// Returns the first entry of a sub-agent of the root that works for a call of `parent`.
fn opened_by(parent: &str, call: &str) -> LogEntry {
    opened_in(ROOT, parent, call)
}

/// Returns the first entry of a sub-agent.
fn opened_in(root: &str, parent: &str, call: &str) -> LogEntry {
    let mut parent = Parent::new(parent, call);
    parent.root = Some(root.into());
    LogEntry::Opened { epoch: 1, time: 1050, parent: Some(parent.into()), owner: None }
}

fn started(call: &str, session: &str) -> Vec<LogEntry> {
    let share = Budget::default().turns(3);
    vec![
        LogEntry::ChildStarted { call: call.into(), session: session.into(), share },
        LogEntry::CallStarted { call: call.into(), arguments: json!({ "task": "Count." }).into() },
    ]
}

fn awaits(call: &str, action: &str, time: u64) -> LogEntry {
    let digest = samples::digest(action, "send");
    let action = ExternalAction::new(action, "send", json!({ "to": action }), digest);
    LogEntry::ChildAwaits { call: call.into(), actions: vec![Arc::new(action)], time, idle: true }
}

async fn listed(store: &dyn SessionStore, logs: &Logs) -> Checked {
    let rule = "`sessions` leaves out the sessions of sub-agents, and only those";
    let listed = store.sessions().await.map_err(|e| broken(rule, e))?;
    let listed = ids(listed.iter().map(|info| &*info.id));
    expect_eq(&listed, &ids([ROOT, "related", NAMESAKE]), rule)?;
    for (session, entries) in logs {
        let rule = "`session` describes also the session of a sub-agent";
        let info = store.session(session).await;
        expect_eq(&info, &Ok(SessionInfo::of(*session, entries)), rule)?;
    }
    let rule = "`pending` returns an action of a sub-agent once, as the session at the root has it";
    for filter in [PendingQuery::all(), PendingQuery::all().tool("send")] {
        let pending = store.pending(&filter).await.map_err(|e| broken(rule, e))?.actions;
        let names = |p: &PendingAction| format!("{}: {}", p.session, p.action.call);
        let names: Vec<String> = pending.iter().map(names).collect();
        expect_eq(&names, &ids(["root: c~x~p"]), rule)?;
    }
    let rule = "`search` finds messages only in sessions that `sessions` returns";
    let hits = store.search("seagull", 9).await.map_err(|e| broken(rule, e))?;
    let found = ids(hits.iter().map(|hit| &*hit.session));
    expect_eq(&found, &ids([ROOT, "related", NAMESAKE]), rule)
}

/// Checks that the session of a sub-agent is opened as any other: by the process that has the root
/// open.
async fn opened(store: &dyn SessionStore, logs: &Logs) -> Checked {
    let rule = "the session of a sub-agent is opened and read while that of its root is open";
    let root = open_session(store, ROOT).await?;
    for (session, entries) in &logs[1..3] {
        let memory = open_session(store, session).await?;
        expect_eq_entries(&load(&*memory, 0).await?, entries, rule)?;
        expect_conflict(&*memory, 0, entries.len() as u64).await?;
        expect_reads(store, session, entries, rule).await?;
    }
    drop(root);
    Ok(())
}

async fn deleted(store: &dyn SessionStore, logs: &Logs) -> Checked {
    let rule = "sub-agents of other sessions keep their sessions when a session is deleted";
    store.delete("related").await.map_err(|e| broken(rule, e))?;
    for (session, entries) in &logs[..3] {
        expect_reads(store, session, entries, rule).await?;
    }
    let open = open_session(store, ROOT).await?;
    expect_in_use(store.delete(ROOT).await, "a session that is open is not deleted")?;
    for (session, entries) in &logs[..3] {
        let rule = "a refused deletion leaves the sessions of sub-agents";
        expect_reads(store, session, entries, rule).await?;
    }
    drop(open);
    for session in [CHILD, GRANDCHILD] {
        let rule = "a session is not deleted while that of a sub-agent is open";
        let open = open_session(store, session).await?;
        expect_in_use(store.delete(ROOT).await, rule)?;
        drop(open);
        for (session, entries) in &logs[..3] {
            expect_reads(store, session, entries, rule).await?;
        }
        let rule = "the session of a sub-agent is deleted with that of its root only";
        let sub_agent = MemoryError::SubAgent { session: session.into(), root: ROOT.into() };
        expect_eq(&store.delete(session).await, &Err(sub_agent), rule)?;
        expect_reads(store, session, &logs[if session == CHILD { 1 } else { 2 }].1, rule).await?;
    }
    let rule = "a session is deleted with those of its sub-agents, and of theirs";
    store.delete(ROOT).await.map_err(|e| broken(rule, e))?;
    for session in [ROOT, CHILD, GRANDCHILD] {
        expect_absent(store, session, rule).await?;
        let new = open_session(store, session).await?;
        expect_eq_entries(&load(&*new, 0).await?, &[], rule)?;
    }
    let rule = "a user's session stays when one is deleted whose sub-agent would have its name";
    let (session, entries) = &logs[4];
    expect_reads(store, session, entries, rule).await?;
    let pending = store.pending(&PendingQuery::all()).await;
    expect_eq(
        &pending.map(|page| page.actions),
        &Ok(vec![]),
        "sub-agents that are deleted have no pending actions",
    )
}

/// Checks that sub-agents belong to the session that started them, not to its branches.
async fn forked(store: &dyn SessionStore) -> Checked {
    let child = [
        vec![opened_by(ROOT, "c")],
        samples::run(1, 1100, "Count."),
        vec![samples::replied("Nine.", 0.5), samples::ended(1, 1200, RunStatus::Done)],
    ];
    let root = [
        samples::run(1, 1000, "How many?"),
        vec![samples::calling("c")],
        started("c", CHILD),
        vec![LogEntry::ChildEnded { call: "c".into(), used: Default::default() }],
        vec![samples::finished("c"), samples::replied("Nine.", 0.5)],
        vec![samples::ended(1, 1300, RunStatus::Done)],
    ];
    let (root, child) = (root.concat(), child.concat());
    write_session(store, ROOT, &root).await?;
    write_session(store, CHILD, &child).await?;
    let rule = "a session with sub-agents can be forked";
    let shared = store.fork(ROOT, None, "branch").await.map_err(|e| broken(rule, e))?;
    expect_eq(&shared, &(root.len() as u64), rule)?;
    let rule = "a branch is deleted without the sub-agents of the session that it was forked from";
    store.delete("branch").await.map_err(|e| broken(rule, e))?;
    expect_reads(store, CHILD, &child, rule).await?;
    expect_reads(store, ROOT, &root, rule).await?;
    let rule = "the session of a sub-agent cannot be forked";
    let refused = store.fork(CHILD, None, "copy").await;
    let sub_agent = MemoryError::SubAgent { session: CHILD.into(), root: ROOT.into() };
    expect_eq(&refused, &Err(sub_agent), rule)?;
    expect_absent(store, "copy", "a refused fork leaves no session").await?;
    let rule = "the session of a sub-agent whose root is missing can be deleted";
    write_session(store, "orphan", &[opened_in("missing", "missing", "c")]).await?;
    store.delete("orphan").await.map_err(|e| broken(rule, e))?;
    expect_absent(store, "orphan", rule).await
}
