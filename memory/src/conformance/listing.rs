//! What is known of sessions: the list, open actions, words that were said.

use std::cmp::Reverse;
use std::sync::Arc;

use loopwright_core::event::RunStatus;
use loopwright_core::log::{LogEntry, PendingAction, PendingFilter, SessionInfo};
use loopwright_core::{Message, SessionStore};
use serde_json::json;

use super::{Checked, append, broken, clear, load, opened, same, samples, written};

pub(super) async fn check(store: &dyn SessionStore) -> Checked {
    clear(store).await?;
    let logs = logs();
    for (session, items) in &logs {
        let memory = opened(store, session).await?;
        for (n, batch) in items.chunks(2).enumerate() {
            append(&*memory, 2 * n as u64, batch).await?;
            let known =
                store.session(session).await.map_err(|e| broken("an open session is known", e))?;
            let so_far = &items[..(2 * n + 2).min(items.len())];
            same(
                &known,
                &SessionInfo::of(*session, so_far),
                "`session` is `SessionInfo::of` its log at any time",
            )?;
        }
    }
    listed(store, &logs).await?;
    pending(store).await?;
    found(store, &logs).await?;
    recalled(store).await
}

/// Three sessions: one that is done, one that waits for two answers, one that has had one of two.
fn logs() -> Vec<(&'static str, Vec<LogEntry>)> {
    let done = [
        vec![
            LogEntry::Opened { epoch: 1, time: 900 },
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
    let waits = [
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
    vec![("done", done.concat()), ("waits", waits.concat()), ("answered", answered.concat())]
}

async fn listed(store: &dyn SessionStore, logs: &[(&str, Vec<LogEntry>)]) -> Checked {
    let mut wanted: Vec<_> =
        logs.iter().map(|(session, items)| SessionInfo::of(*session, items)).collect();
    wanted.sort_by_key(|info| Reverse(info.changed));
    let seen = store.sessions().await.map_err(|e| broken("sessions can be listed", e))?;
    same(&seen, &wanted, "`sessions` gives `SessionInfo::of` each log, the one changed last first")
}

async fn pending(store: &dyn SessionStore) -> Checked {
    let filters = [
        ("all", PendingFilter::new(), vec!["waits/c1", "answered/c2", "waits/c2"]),
        ("of a session", PendingFilter::new().session("waits"), vec!["waits/c1", "waits/c2"]),
        ("of a tool", PendingFilter::new().tool("send"), vec!["waits/c1", "answered/c2"]),
        ("before a time", PendingFilter::new().before(3300), vec!["waits/c1", "answered/c2"]),
        (
            "of a session and a tool",
            PendingFilter::new().session("waits").tool("erase"),
            vec!["waits/c2"],
        ),
        ("of no session", PendingFilter::new().session("nobody"), vec![]),
    ];
    for (what, filter, wanted) in filters {
        let rule = format!(
            "`pending` gives the actions that wait and fit the filter, the oldest first ({what})"
        );
        let seen = store.pending(&filter).await.map_err(|e| broken(&rule, e))?;
        let names = |p: &PendingAction| format!("{}/{}", p.session, p.action.call);
        same(&seen.iter().map(names).collect::<Vec<_>>(), &super::ids(wanted), &rule)?;
        for action in &seen {
            let digest = format!("digest of {}", action.action.call);
            same(
                &*action.action.digest,
                &*digest,
                "an action that waits has the digest that was asked with",
            )
            .and(same(
                &*action.action.arguments,
                &json!({"to": &*action.action.call}),
                "it has its arguments",
            ))?;
        }
    }
    Ok(())
}

async fn found(store: &dyn SessionStore, logs: &[(&str, Vec<LogEntry>)]) -> Checked {
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
    for (query, limit, wanted) in queries {
        let rule = format!(
            "`search` finds the messages with all words, whatever the case, latest first ({query:?}, {limit})"
        );
        let seen = store.search(query, limit).await.map_err(|e| broken(&rule, e))?;
        let kept = |session: &str, message: &Arc<Message>| {
            let log = logs
                .iter()
                .find(|(id, _)| *id == session)
                .map(|(_, items)| &items[..])
                .unwrap_or_default();
            log.iter().filter_map(LogEntry::message).any(|m| m == message)
        };
        if let Some(other) = seen.iter().find(|found| !kept(&found.session, &found.message)) {
            return Err(broken("what is found is what was said", format_args!("{other:?}")));
        }
        let seen: Vec<_> =
            seen.iter().map(|found| format!("{} {}", found.session, found.message.id.0)).collect();
        same(&seen, &super::ids(wanted), &rule)?;
    }
    Ok(())
}

async fn recalled(store: &dyn SessionStore) -> Checked {
    let rule =
        "`recall` gives messages of this session that have to do with the query, at most `limit`";
    written(store, "recalls", &["a red fox", "a blue whale", "a blue fox"].map(samples::said))
        .await?;
    written(store, "other", &[samples::said("a fox elsewhere")]).await?;
    let memory = opened(store, "recalls").await?;
    let log = load(&*memory, 0).await?;
    for (query, limit, wanted) in
        [("whale", 9, Some("a blue whale")), ("fox", 1, None), ("fox", 0, None), ("", 9, None)]
    {
        let rule = format!("{rule} ({query:?}, {limit})");
        let seen = memory.recall(query, limit).await.map_err(|e| broken(&rule, e))?;
        let texts: Vec<String> = seen.iter().map(|message| message.text()).collect();
        let own = seen
            .iter()
            .all(|message| log.iter().filter_map(LogEntry::message).any(|m| m == message));
        let has = wanted.is_none_or(|wanted| texts.iter().any(|text| text == wanted));
        if !own || !has || texts.len() > limit {
            return Err(broken(&rule, format_args!("{texts:?}")));
        }
    }
    Ok(())
}
