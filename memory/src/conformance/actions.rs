//! Checks of pages: pending actions, and decisions.

use std::sync::Arc;

use loopwright_core::SessionStore;
use loopwright_core::event::{Decision, RunStatus};
use loopwright_core::log::{
    AuditQuery, DecisionRecord, LogEntry, MemoryError, PendingAction, PendingQuery, SessionInfo,
};
use loopwright_core::tool::ActionTerms;

use super::expect::{Checked, broken, clear, expect_eq, ids, write_session};
use super::samples;

pub(super) async fn check(store: &dyn SessionStore) -> Checked {
    clear(store).await?;
    let logs = logs();
    for (session, entries) in &logs {
        write_session(store, session, entries).await?;
    }
    pending(store, &logs).await?;
    decisions(store, &logs).await?;
    let rule = "a fork does not repeat the decisions that it shares with its parent";
    store.fork("b", None, "fork").await.map_err(|e| broken(rule, e))?;
    let parent = store.session("fork").await.map_err(|e| broken(rule, e))?.parent;
    if parent.is_some() {
        expect_decisions(store, &audit(9).session("fork"), &[], rule).await?;
    }
    store.delete("fork").await.map_err(|e| broken(rule, e))?;
    store.delete("b").await.map_err(|e| broken(rule, e))?;
    let rule = "the decisions of a deleted session are kept as they were, or are all gone";
    // A fork that shares nothing with its parent has a copy.
    let copied = if parent.is_none() { &["fork/6"][..] } else { &[] };
    let all = [copied, &["b/6", "a/9", "a/8"]].concat();
    let kept = expect_decisions(store, &audit(9), &all, rule).await;
    if kept.is_err() {
        expect_decisions(store, &audit(9), &["a/9", "a/8"], rule).await?;
    }
    Ok(())
}

/// A time before all decisions of this check, far from the decisions of other logs that the store
/// may have kept.
const START: u64 = 4_000_000_000_000_000;

/// Selects the decisions of this check.
fn audit(limit: usize) -> AuditQuery {
    AuditQuery::new(limit).since(START).until(START + 1_000)
}

fn terms(role: &str, quorum: u32) -> Arc<ActionTerms> {
    let mut terms = ActionTerms::default();
    (terms.roles, terms.quorum) = (vec![role.into()], quorum);
    Arc::new(terms)
}

fn awaiting(call: &str, terms: Arc<ActionTerms>, time: u64) -> LogEntry {
    match samples::awaiting(call, "send", time) {
        LogEntry::CallAwaiting { call, name, arguments, digest, request, time, .. } => {
            LogEntry::CallAwaiting { call, name, arguments, digest, request, terms, time }
        }
        entry => entry,
    }
}

fn approved(call: &str, by: &str, time: u64) -> LogEntry {
    LogEntry::Approved {
        input: format!("{by}'s approval of {call}").into(),
        call: call.into(),
        name: "send".into(),
        digest: samples::digest(call, "send"),
        by: by.into(),
        source: Some("http".into()),
        change: None,
        time,
    }
}

fn decided(call: &str, decision: Decision, by: &str, time: u64) -> LogEntry {
    LogEntry::Decided {
        input: format!("decision on {call}").into(),
        call: call.into(),
        name: Some("send".into()),
        digest: Some(samples::digest(call, "send")),
        decision: Arc::new(decision),
        by: Some(by.into()),
        source: Some("command".into()),
        change: None,
        time,
    }
}

/// Returns two logs: in one an action waits for a second approval, the other has decided all.
fn logs() -> Vec<(&'static str, Vec<LogEntry>)> {
    let a = [
        samples::run(1, 10, "x"),
        vec![samples::calling("c1"), awaiting("c1", terms("boss", 2), 20)],
        vec![awaiting("c2", Arc::default(), 20), awaiting("c3", terms("clerk", 1), 15)],
        vec![
            approved("c1", "ann", START + 40),
            decided("c4", Decision::Deny("no".into()), "bob", START + 50),
        ],
    ];
    let b = [
        samples::run(1, 10, "x"),
        vec![samples::calling("c"), awaiting("c", terms("boss", 1), 20)],
        vec![decided("c", Decision::Approve, "ann", START + 50), samples::finished("c")],
        vec![samples::replied("done", 0.1), samples::ended(1, 60, RunStatus::Done)],
    ];
    vec![("a", a.concat()), ("b", b.concat())]
}

async fn pending(store: &dyn SessionStore, logs: &[(&str, Vec<LogEntry>)]) -> Checked {
    let infos = logs.iter().map(|(session, log)| SessionInfo::of(*session, log));
    let mut all: Vec<PendingAction> = infos.flat_map(|info| info.pending).collect();
    all.sort_by_key(|pending| (pending.since, pending.action.call.clone()));
    for limit in 1..=all.len() + 1 {
        let rule = format!("the pages of `pending` are all actions, unchanged ({limit})");
        let (mut pages, mut next) = (Vec::new(), Some(PendingQuery::new(limit)));
        while let Some(query) = next.take() {
            let page = store.pending(&query).await.map_err(|e| broken(&rule, e))?;
            expect_eq(&(page.actions.len() == limit || page.next.is_none()), &true, &rule)?;
            pages.extend(page.actions);
            next = page.next.map(|cursor| PendingQuery::new(limit).after(cursor));
        }
        expect_eq(&pages, &all, &rule)?;
    }
    for (roles, expected) in
        [(&["boss"][..], ["c1", "c2"]), (&["clerk"], ["c3", "c2"]), (&["x", "boss"], ["c1", "c2"])]
    {
        let rule = "`pending` selects the actions that a role may decide, and those without roles";
        let query = roles.iter().fold(PendingQuery::all(), |query, role| query.role(*role));
        let page = store.pending(&query).await.map_err(|e| broken(rule, e))?;
        let calls: Vec<String> = page.actions.iter().map(|p| p.action.call.to_string()).collect();
        expect_eq(&calls, &ids(expected), rule)?;
        let mut limited = query;
        limited.limit = 1;
        let page = store.pending(&limited).await.map_err(|e| broken(rule, e))?;
        expect_eq(&page.next.is_some(), &true, rule)?;
    }
    Ok(())
}

async fn decisions(store: &dyn SessionStore, logs: &[(&str, Vec<LogEntry>)]) -> Checked {
    let rule = "`decisions` returns the decisions of the logs, the latest first";
    let all = ["b/6", "a/9", "a/8"];
    expect_decisions(store, &audit(9), &all, rule).await?;
    let page = store.decisions(&audit(9)).await.map_err(|e| broken(rule, e))?;
    for record in page.decisions {
        let log = logs.iter().find(|(session, _)| **session == *record.session);
        let entry = log.and_then(|(_, log)| log.get(record.position as usize));
        let expected = entry.and_then(|e| DecisionRecord::of(&record.session, record.position, e));
        expect_eq(&Some(record), &expected, "a decision is that of its log entry")?;
    }
    for (what, query, expected) in [
        ("in a session", audit(9).session("a"), vec!["a/9", "a/8"]),
        ("of a principal", audit(9).by("ann"), vec!["b/6", "a/8"]),
        ("since", audit(9).since(START + 50), vec!["b/6", "a/9"]),
        ("until", audit(9).until(START + 50), vec!["a/8"]),
        ("of nobody", audit(9).by("nobody"), vec![]),
        (
            "all of it",
            audit(9).session("b").by("ann").since(START + 1).until(START + 51),
            vec!["b/6"],
        ),
    ] {
        let rule = format!("`decisions` returns those that the query selects ({what})");
        expect_decisions(store, &query, &expected, &rule).await?;
    }
    for limit in 1..=all.len() + 1 {
        let rule = format!("the pages of `decisions` are all of them, in order ({limit})");
        let (mut pages, mut next) = (Vec::new(), Some(audit(limit)));
        while let Some(query) = next.take() {
            let page = store.decisions(&query).await.map_err(|e| broken(&rule, e))?;
            expect_eq(&(page.decisions.len() <= limit), &true, &rule)?;
            pages.extend(page.decisions.iter().map(name));
            next = page.next.map(|cursor| audit(limit).after(cursor));
        }
        expect_eq(&pages, &ids(all), &rule)?;
    }
    Ok(())
}

async fn expect_decisions(
    store: &dyn SessionStore,
    query: &AuditQuery,
    expected: &[&str],
    rule: &str,
) -> Checked {
    let page: Result<_, MemoryError> = store.decisions(query).await;
    let page = page.map_err(|e| broken(rule, e))?;
    let names: Vec<String> = page.decisions.iter().map(name).collect();
    expect_eq(&names, &ids(expected.iter().copied()), rule)
}

fn name(record: &DecisionRecord) -> String {
    format!("{}/{}", record.session, record.position)
}
