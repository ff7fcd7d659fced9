//! Checks of lists and searches: sessions, pending actions, messages.

use std::cmp::Reverse;
use std::sync::Arc;

use loopwright_core::event::RunStatus;
use loopwright_core::log::{LogEntry, PendingAction, PendingQuery, SessionInfo, SessionQuery};
use loopwright_core::{Message, Principal, SessionStore};
use serde_json::json;

use super::expect::{
    Checked, append, broken, clear, expect_eq, ids, load, open_session, write_session,
};
use super::samples;

pub(super) async fn check(store: &dyn SessionStore) -> Checked {
    clear(store).await?;
    let logs = logs();
    for (session, entries) in &logs {
        let memory = open_session(store, session).await?;
        for (n, batch) in entries.chunks(2).enumerate() {
            append(&*memory, 2 * n as u64, batch).await?;
            let info = store
                .session(session)
                .await
                .map_err(|e| broken("`session` describes an open session", e))?;
            let so_far = &entries[..(2 * n + 2).min(entries.len())];
            expect_eq(
                &info,
                &SessionInfo::of(*session, so_far),
                "`session` is `SessionInfo::of` its log at any time",
            )?;
        }
    }
    listed(store, &logs).await?;
    pending(store).await?;
    searched(store, &logs).await?;
    recalled(store).await
}

/// Returns three logs: a finished one, one with two pending decisions, and one with two calls, one
/// of them approved.
fn logs() -> Vec<(&'static str, Vec<LogEntry>)> {
    let done = [
        vec![
            LogEntry::Opened {
                epoch: 1,
                time: 900,
                parent: None,
                owner: Some(Principal::new("ann")),
            },
            LogEntry::Settings { settings: Arc::new(json!({"model": "m"})) },
        ],
        samples::run(1, 1000, "Grüße an alle\nZweite Zeile"),
        vec![
            samples::replied("Where is the LIGHTHOUSE keeper?", 0.25),
            samples::ended(1, 1500, RunStatus::Done),
        ],
        samples::run(2, 2000, "the lighthouse again"),
        vec![samples::replied("no keeper there", 0.125), samples::ended(2, 5000, RunStatus::Done)],
    ];
    let waiting = [
        samples::run(1, 3000, "  send two letters"),
        vec![
            samples::calling("c1"),
            samples::awaiting("c1", "send", 3100),
            samples::awaiting("c2", "erase", 3300),
        ],
        vec![samples::ended(1, 3400, RunStatus::AwaitingAction)],
    ];
    let answered = [
        samples::run(1, 3000, "keeper of the Lighthouse"),
        vec![
            samples::calling("c1"),
            samples::awaiting("c1", "send", 3050),
            samples::awaiting("c2", "send", 3200),
        ],
        vec![
            samples::approved("c1"),
            samples::awaiting("c3", "send", 3250),
            samples::finished("c3"),
        ],
    ];
    vec![("done", done.concat()), ("waiting", waiting.concat()), ("answered", answered.concat())]
}

async fn listed(store: &dyn SessionStore, logs: &[(&str, Vec<LogEntry>)]) -> Checked {
    let mut expected: Vec<_> =
        logs.iter().map(|(session, entries)| SessionInfo::of(*session, entries)).collect();
    expected.sort_by_key(|info| Reverse(info.changed));
    let listed = store.sessions().await.map_err(|e| broken("sessions can be listed", e))?;
    let rule = "`sessions` returns `SessionInfo::of` each log, the one changed last first";
    expect_eq(&listed, &expected, rule)?;
    for limit in 1..=expected.len() + 1 {
        let rule = format!("the pages of `sessions_page` are `sessions`, in its order ({limit})");
        let (mut pages, mut next) = (Vec::new(), Some(SessionQuery::new(limit)));
        while let Some(query) = next.take() {
            let page = store.sessions_page(&query).await.map_err(|e| broken(&rule, e))?;
            let is_full = page.sessions.len() == limit || page.next.is_none();
            expect_eq(&is_full, &true, &rule)?;
            pages.extend(page.sessions);
            next = page.next.map(|cursor| SessionQuery::new(limit).after(cursor));
            if pages.len() > expected.len() {
                break;
            }
        }
        expect_eq(&pages, &expected, &rule)?;
    }
    let rule = "a brief page has `SessionInfo::brief` of each session";
    let page = store.sessions_page(&SessionQuery::new(expected.len()).brief()).await;
    let brief: Vec<_> = expected.iter().map(SessionInfo::brief).collect();
    expect_eq(&page.map_err(|e| broken(rule, e))?.sessions, &brief, rule)?;
    for owner in ["ann", "bob"].map(Principal::new) {
        let rule = format!("a page of the sessions of {owner} has no others");
        let query = SessionQuery::new(1).owner(owner.clone());
        let page = store.sessions_page(&query).await.map_err(|e| broken(&rule, e))?;
        let own = expected.iter().filter(|info| info.owner.as_ref() == Some(&owner));
        expect_eq(&page.sessions, &own.cloned().collect(), &rule)?;
    }
    Ok(())
}

async fn pending(store: &dyn SessionStore) -> Checked {
    let filters = [
        ("all", PendingQuery::all(), vec!["waiting/c1", "answered/c2", "waiting/c2"]),
        ("of a session", PendingQuery::all().session("waiting"), vec!["waiting/c1", "waiting/c2"]),
        ("of a tool", PendingQuery::all().tool("send"), vec!["waiting/c1", "answered/c2"]),
        ("before a time", PendingQuery::all().before(3300), vec!["waiting/c1", "answered/c2"]),
        (
            "of a session and a tool",
            PendingQuery::all().session("waiting").tool("erase"),
            vec!["waiting/c2"],
        ),
        ("of no session", PendingQuery::all().session("nobody"), vec![]),
    ];
    for (what, filter, expected) in filters {
        let rule = format!(
            "`pending` returns the pending actions that match the filter, the oldest first ({what})"
        );
        let pending = store.pending(&filter).await.map_err(|e| broken(&rule, e))?.actions;
        let names = |p: &PendingAction| format!("{}/{}", p.session, p.action.call);
        expect_eq(&pending.iter().map(names).collect::<Vec<_>>(), &ids(expected), &rule)?;
        for action in &pending {
            let digest = samples::digest(&action.action.call, &action.action.name);
            expect_eq(
                &*action.action.digest,
                &*digest,
                "a pending action has the digest of its log entry",
            )
            .and(expect_eq(
                &*action.action.arguments,
                &json!({"to": &*action.action.call}),
                "a pending action has its arguments",
            ))?;
        }
    }
    Ok(())
}

async fn searched(store: &dyn SessionStore, logs: &[(&str, Vec<LogEntry>)]) -> Checked {
    let queries = [
        ("lighthouse", 9, vec!["done 20", "done 2", "answered 10"]),
        ("KEEPER lighthouse", 9, vec!["done 2", "answered 10"]),
        ("lighthouse", 2, vec!["done 20", "done 2"]),
        ("GRÜSSE", 9, vec![]),
        ("GRÜßE", 9, vec!["done 10"]),
        ("lighthouse absent", 9, vec![]),
        ("lighthouse", 0, vec![]),
        (" ", 9, vec![]),
    ];
    for (query, limit, expected) in queries {
        let rule = format!(
            "`search` finds the messages with all words, ignoring case, the latest first \
             ({query:?}, {limit})"
        );
        let hits = store.search(query, limit).await.map_err(|e| broken(&rule, e))?;
        let is_logged = |session: &str, message: &Arc<Message>| {
            let log = logs
                .iter()
                .find(|(id, _)| *id == session)
                .map(|(_, entries)| &entries[..])
                .unwrap_or_default();
            log.iter().filter_map(LogEntry::message).any(|m| m == message)
        };
        if let Some(other) = hits.iter().find(|hit| !is_logged(&hit.session, &hit.message)) {
            return Err(broken("a hit is a message of the log", format_args!("{other:?}")));
        }
        let hits: Vec<_> =
            hits.iter().map(|hit| format!("{} {}", hit.session, hit.message.id.0)).collect();
        expect_eq(&hits, &ids(expected), &rule)?;
    }
    Ok(())
}

async fn recalled(store: &dyn SessionStore) -> Checked {
    let rule = "`recall` returns messages of this session that match the query, at most `limit`";
    write_session(
        store,
        "recalls",
        &["a red fox", "a blue whale", "a blue fox"].map(samples::remembered),
    )
    .await?;
    write_session(store, "other", &[samples::remembered("a fox elsewhere")]).await?;
    let memory = open_session(store, "recalls").await?;
    let log = load(&*memory, 0).await?;
    for (query, limit, expected) in
        [("whale", 9, Some("a blue whale")), ("fox", 1, None), ("fox", 0, None), ("", 9, None)]
    {
        let rule = format!("{rule} ({query:?}, {limit})");
        let recalled = memory.recall(query, limit).await.map_err(|e| broken(&rule, e))?;
        let texts: Vec<String> = recalled.iter().map(|message| message.text()).collect();
        let own = recalled
            .iter()
            .all(|message| log.iter().filter_map(LogEntry::message).any(|m| m == message));
        let has = expected.is_none_or(|expected| texts.iter().any(|text| text == expected));
        if !own || !has || texts.len() > limit {
            return Err(broken(&rule, format_args!("{texts:?}")));
        }
    }
    Ok(())
}
