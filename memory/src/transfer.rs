//! Export of sessions as JSON Lines, and import.

use std::fmt::Display;

use loopwright_core::SessionStore;
use loopwright_core::log::{LogEntry, MemoryError, SessionLog, check_log};
use serde::{Deserialize, Serialize};

use crate::codec;

/// The format that [`to_jsonl`] writes.
const VERSION: u64 = 1;

/// The first line of an exported log.
#[derive(Serialize, Deserialize)]
struct Header {
    /// The kind of file: `log`.
    loopwright: String,
    version: u64,
    session: String,
}

/// Exports a log as JSON Lines: a header line, then one line for each entry.
///
/// [`from_jsonl`] and `loopwright_core::testing::Replay` read the result.
///
/// # Errors
///
/// Returns [`MemoryError::Failed`] if an entry is nested too deep to be read back.
///
/// ```
/// use loopwright_core::log::LogEntry;
/// use loopwright_memory::{from_jsonl, to_jsonl};
///
/// let log = [LogEntry::Opened { epoch: 1, time: 1_700_000_000_000, parent: None, owner: None }];
/// let text = to_jsonl("s", &log)?;
/// assert_eq!(text.lines().next(), Some(r#"{"loopwright":"log","version":1,"session":"s"}"#));
/// assert_eq!(from_jsonl(&text)?, log);
/// # Ok::<(), loopwright_core::log::MemoryError>(())
/// ```
pub fn to_jsonl(session: &str, entries: &[LogEntry]) -> Result<String, MemoryError> {
    let header = Header { loopwright: "log".into(), version: VERSION, session: session.into() };
    let mut text = codec::encode(&header)?;
    for entry in entries {
        text.push('\n');
        text.push_str(&codec::encode(entry)?);
    }
    text.push('\n');
    Ok(text)
}

/// Reads the entries of an exported log.
///
/// # Errors
///
/// Returns [`MemoryError::Damaged`], which names the line, if the text is not an exported log or
/// its entries break the rules of a session, and [`MemoryError::Newer`] if a newer version of
/// loopwright wrote it.
///
/// See [`to_jsonl`] for an example.
pub fn from_jsonl(text: &str) -> Result<Vec<LogEntry>, MemoryError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header = lines.next().and_then(|(_, line)| serde_json::from_str::<Header>(line).ok());
    match header {
        Some(header) if header.loopwright != "log" => {
            let why = format!("the file is a `{}`, not an exported `log`", header.loopwright);
            return Err(damaged(1, why));
        }
        Some(header) if header.version > VERSION => {
            return Err(MemoryError::Newer {
                source_name: "the exported log".into(),
                found: header.version,
                known: VERSION,
            });
        }
        Some(_) => {}
        None => {
            let why = "it is not the header of an exported log: export one with \
                `loopwright sessions export`";
            return Err(damaged(1, why));
        }
    }
    let entries: Vec<LogEntry> = lines
        .map(|(at, line)| codec::decode(line.as_bytes()).map_err(|why| damaged(at + 1, why)))
        .collect::<Result<_, _>>()?;
    check_log(&entries).map_err(|why| {
        MemoryError::Damaged(
            format!("the exported log breaks the rules of a session: {why}").into(),
        )
    })?;
    Ok(entries)
}

fn damaged(line: usize, why: impl Display) -> MemoryError {
    MemoryError::Damaged(format!("line {line} of the exported log cannot be read: {why}").into())
}

/// Imports an exported log into `store` as the session `session`, and returns its number of
/// entries.
///
/// The log is imported as a branch: up to the end of a turn, without queued messages, without
/// pending or approved calls, and without the settings of the original session. So a log from an
/// untrusted source starts no work. The log of a sub-agent becomes a user's session.
///
/// # Errors
///
/// Returns the errors of [`from_jsonl`], [`MemoryError::Damaged`] if the log has no complete turn,
/// and [`MemoryError::Exists`] if `session` has entries already.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use loopwright_core::SessionStore;
/// use loopwright_core::log::{InMemoryStore, LogEntry};
/// use loopwright_memory::{import, to_jsonl};
///
/// let log = [LogEntry::Opened { epoch: 1, time: 1_700_000_000_000, parent: None, owner: None }];
/// let store = InMemoryStore::new();
/// assert_eq!(import(&store, "copy", &to_jsonl("original", &log)?).await?, 1);
/// assert_eq!(store.read("copy", 0).await?, log);
/// # Ok(()) }
/// ```
pub async fn import(
    store: &dyn SessionStore,
    session: &str,
    text: &str,
) -> Result<u64, MemoryError> {
    let entries = from_jsonl(text)?;
    let mut entries = SessionLog::branch(&entries, None).log(entries);
    entries.retain(|entry| !matches!(entry, LogEntry::Settings { .. }));
    for entry in &mut entries {
        if let LogEntry::Opened { parent, .. } = entry {
            parent.take_if(|parent| parent.root.is_some());
        }
    }
    if entries.is_empty() {
        return Err(MemoryError::Damaged(
            "the exported log has no complete turn, so there is nothing to import".into(),
        ));
    }
    let memory = store.open(session).await?;
    if !memory.load(0).await?.is_empty() {
        return Err(MemoryError::Exists(session.into()));
    }
    let length = entries.len() as u64;
    memory.append(0, entries.into()).await?;
    Ok(length)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use loopwright_core::event::Parent;
    use loopwright_core::log::StateScope;
    use loopwright_core::log::{InMemoryStore, SessionInfo};
    use loopwright_core::testing::{Script, ScriptedModel};
    use loopwright_core::{
        BehaviorPattern, GenericAgent, RunContext, StepContext, StepEnd, StepError,
    };
    use serde_json::json;

    use super::*;
    use crate::to_markdown;

    struct Once;

    #[async_trait]
    impl BehaviorPattern for Once {
        async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
            step.take_input().await?;
            step.ask().await?;
            Ok(StepEnd::Done)
        }
    }

    /// Runs a session of one turn and returns its store and its log.
    async fn one_turn() -> (InMemoryStore, Vec<LogEntry>) {
        let store = InMemoryStore::new();
        let model = ScriptedModel::new([Script::text("Use ````rust\nfn``` so.")]);
        let agent = GenericAgent::builder(model, Once).build().unwrap();
        let cx = RunContext::new().stored(&store, "s").await.unwrap();
        let (handle, _events) = agent.run(cx).await.unwrap();
        handle.prompt("How?\nTell me.").await.unwrap();
        handle.close().await;
        let entries = store.read("s", 0).await.unwrap();
        (store, entries)
    }

    #[tokio::test]
    async fn an_exported_log_is_imported_unchanged() {
        let (store, entries) = one_turn().await;
        let text = to_jsonl("s", &entries).unwrap();
        assert_eq!(import(&store, "t", &text).await.unwrap(), entries.len() as u64);
        assert_eq!(store.read("t", 0).await.unwrap(), entries);
        let second = import(&store, "t", &text).await;
        assert_eq!(second, Err(MemoryError::Exists("t".into())));
    }

    #[tokio::test]
    async fn an_untrusted_log_starts_no_work() {
        let (store, mut entries) = one_turn().await;
        let end = entries.len();
        entries.push(LogEntry::Settings { settings: Arc::new(json!({"approve": ["all"]})) });
        let is_queued = |entry: &&LogEntry| matches!(entry, LogEntry::Queued { .. });
        let mut queued = entries.iter().find(is_queued).unwrap().clone();
        if let LogEntry::Queued { input, .. } = &mut queued {
            *input = "x".into();
        }
        entries.push(queued);
        import(&store, "t", &to_jsonl("s", &entries).unwrap()).await.unwrap();
        let log = SessionLog::of(&store.read("t", 0).await.unwrap());
        assert!(log.settings().is_none() && log.waiting().is_empty() && log.run().is_none());
        assert_eq!(log.messages(), SessionLog::of(&entries[..end]).messages());
    }

    /// C164
    #[tokio::test]
    async fn the_log_of_a_sub_agent_becomes_a_session_of_its_own() {
        let (store, mut entries) = one_turn().await;
        let mut of_sub_agent = Parent::new("root", "c");
        of_sub_agent.root = Some("root".into());
        let LogEntry::Opened { parent, .. } = &mut entries[0] else { panic!("{:?}", entries[0]) };
        *parent = Some(of_sub_agent.into());
        import(&store, "t", &to_jsonl("root/m2.1", &entries).unwrap()).await.unwrap();
        let listed = store.sessions().await.unwrap();
        assert!(listed.iter().any(|info| *info.id == *"t"), "{listed:?}");
    }

    #[tokio::test]
    async fn deep_values_that_a_store_accepts_are_imported() {
        let (store, mut entries) = one_turn().await;
        let deep = (0..200).fold(json!(1), |value, _| json!([value]));
        let state = LogEntry::State {
            scope: StateScope::Session,
            key: "deep".into(),
            value: Arc::new(deep),
        };
        entries.insert(entries.len() - 1, state);
        import(&store, "t", &to_jsonl("s", &entries).unwrap()).await.unwrap();
        assert_eq!(store.read("t", 0).await.unwrap(), entries);
    }

    #[tokio::test]
    async fn text_that_is_not_a_log_is_refused_with_its_line() {
        let (_, entries) = one_turn().await;
        let text = to_jsonl("s", &entries).unwrap();
        let newer = text.replacen("\"version\":1", "\"version\":2", 1);
        assert!(matches!(from_jsonl(&newer), Err(MemoryError::Newer { found: 2, known: 1, .. })));
        for (text, why) in [
            (text.replacen("run_started", "run_walked", 1), "line 4"),
            (text.replacen("\"log\"", "\"session\"", 1), "line 1"),
            (text.lines().skip(1).collect::<Vec<_>>().join("\n"), "line 1"),
            (format!("{text}{}\n", text.lines().last().unwrap()), "rules of a session"),
            (String::new(), "line 1"),
        ] {
            let refused = from_jsonl(&text).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[tokio::test]
    async fn markdown_shows_the_conversation() {
        let (_, entries) = one_turn().await;
        let text = to_markdown(&SessionInfo::of("s", &entries), &entries);
        let start = "# How?\n\nSession `s`.\n\n## User (m1)\n\nHow?\nTell me.\n\n\n## Assistant";
        assert!(text.starts_with(start), "{text}");
    }
}
