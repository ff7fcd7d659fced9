//! Sessions as files: out as JSON Lines or Markdown, in again from JSON Lines.

use std::fmt::Write;

use loopwright_core::log::{LogEntry, MemoryError, SessionInfo, SessionLog};
use loopwright_core::message::{Content, ContentPart, MessageKind, ResultStatus};
use loopwright_core::testing::check_log;
use loopwright_core::{Message, SessionStore};
use serde::{Deserialize, Serialize};

use crate::codec;

/// The format that [`to_jsonl`] writes.
const VERSION: u64 = 1;

/// The first line of an exported log.
#[derive(Serialize, Deserialize)]
struct Header {
    /// What kind of file it is.
    loopwright: String,
    version: u64,
    session: String,
}

/// A log as JSON Lines: a line that says what it is, then an item a line. [`from_jsonl`] reads it,
/// and so does `loopwright_core::testing::Replay`.
pub fn to_jsonl(session: &str, items: &[LogEntry]) -> Result<String, MemoryError> {
    let header = Header { loopwright: "log".into(), version: VERSION, session: session.into() };
    let mut text = codec::encode(&header)?;
    for item in items {
        text.push('\n');
        text.push_str(&codec::encode(item)?);
    }
    text.push('\n');
    Ok(text)
}

/// The items of an exported log. What is no log, or breaks its rules, is refused with the line.
pub fn from_jsonl(text: &str) -> Result<Vec<LogEntry>, MemoryError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header = lines.next().and_then(|(_, line)| serde_json::from_str::<Header>(line).ok());
    match header {
        Some(header) if header.loopwright != "log" => {
            return Err(damaged(
                1,
                format!("it is a `{}`, not an exported `log`", header.loopwright),
            ));
        }
        Some(header) if header.version > VERSION => {
            let place = "the exported log".into();
            return Err(MemoryError::Newer { place, found: header.version, known: VERSION });
        }
        Some(_) => {}
        None => {
            return Err(damaged(
                1,
                "it does not say that it is a log: export one with `loopwright sessions export`",
            ));
        }
    }
    let items =
        lines.map(|(at, line)| codec::decode(line.as_bytes()).map_err(|why| damaged(at + 1, why)));
    let items: Vec<LogEntry> = items.collect::<Result<_, _>>()?;
    check_log(&items).map_err(|why| {
        MemoryError::Damaged(format!("the log breaks the rules of a session: {why}"))
    })?;
    Ok(items)
}

fn damaged(line: usize, why: impl std::fmt::Display) -> MemoryError {
    MemoryError::Damaged(format!("line {line} of the exported log cannot be read: {why}"))
}

/// Puts an exported log into a store, as the session `session`, and gives its length. Fails with
/// [`MemoryError::Exists`] where there is one.
///
/// It is taken in as a branch: back to where a turn had ended, with nothing that waits, no call
/// that is approved or could be approved twice, and without the settings of whoever exported it. So
/// a stranger's log does nothing by itself.
pub async fn import(
    store: &dyn SessionStore,
    session: &str,
    text: &str,
) -> Result<u64, MemoryError> {
    let items = from_jsonl(text)?;
    let mut items = SessionLog::branch(&items, None).log(items);
    items.retain(|item| !matches!(item, LogEntry::Settings { .. }));
    if items.is_empty() {
        return Err(MemoryError::Damaged(
            "the exported log has no turn that has ended: there is nothing to take in".into(),
        ));
    }
    let memory = store.open(session).await?;
    if !memory.load(0).await?.is_empty() {
        return Err(MemoryError::Exists(session.into()));
    }
    let length = items.len() as u64;
    memory.append(0, items.into()).await?;
    Ok(length)
}

/// The conversation as Markdown, for people: what was said, the calls and their results.
pub fn to_markdown(info: &SessionInfo, items: &[LogEntry]) -> String {
    let title = if info.title.is_empty() { "An empty conversation" } else { &info.title };
    let mut text = format!("# {}\n\nSession `{}`.\n", title.replace('\n', " "), info.id);
    for message in SessionLog::of(items).messages().iter() {
        show(&mut text, message);
    }
    text
}

// A String takes all that is written.
fn show(text: &mut String, message: &Message) {
    match &message.body {
        MessageKind::User(said) => {
            let _ = writeln!(text, "\n## User ({})\n", message.id);
            content(text, &said.content);
        }
        MessageKind::Assistant(reply) => {
            let _ = writeln!(text, "\n## Assistant ({}, {})\n", message.id, reply.model);
            for part in &reply.parts {
                match part {
                    ContentPart::Text { text: said, .. } => paragraph(text, said),
                    ContentPart::Thinking { text: thought, .. } if !thought.trim().is_empty() => {
                        let quoted: Vec<String> =
                            thought.trim().lines().map(|line| format!("> {line}")).collect();
                        paragraph(text, &quoted.join("\n"));
                    }
                    ContentPart::ToolCall(call) => {
                        let _ = writeln!(text, "Call of `{}`:\n", call.name);
                        fenced(text, "json", &call.arguments);
                    }
                    _ => {}
                }
            }
        }
        MessageKind::ToolResult(result) => {
            let how = match result.status {
                ResultStatus::Ok => "",
                ResultStatus::Error => ", an error",
                ResultStatus::Denied => ", denied",
                ResultStatus::Skipped => ", skipped",
                ResultStatus::Aborted => ", aborted",
                _ => ", its outcome unknown",
            };
            let _ = writeln!(text, "\n### Result of `{}`{how}\n", result.name);
            fenced(text, "text", &result.text());
            let pictures = result
                .content
                .iter()
                .filter(|piece| !matches!(piece, Content::Text { .. }))
                .count();
            if pictures > 0 {
                let _ = writeln!(text, "({pictures} more piece(s) that are not text)\n");
            }
        }
        MessageKind::Custom(custom) => {
            let _ = writeln!(text, "\n### {}\n", custom.kind);
            fenced(text, "json", &custom.data.to_string());
        }
    }
}

fn content(text: &mut String, pieces: &[Content]) {
    for piece in pieces {
        match piece {
            Content::Text { text: said } => paragraph(text, said),
            Content::Image { media_type, .. } => {
                paragraph(text, &format!("(an image, {media_type})"))
            }
            _ => paragraph(text, "(something that is not text)"),
        }
    }
}

fn paragraph(text: &mut String, said: &str) {
    text.push_str(said.trim_end());
    text.push_str("\n\n");
}

/// In a fence that is longer than any in the text.
fn fenced(text: &mut String, language: &str, inner: &str) {
    let longest = inner.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let _ = writeln!(text, "{fence}{language}\n{}\n{fence}\n", inner.trim_end());
}

#[cfg(test)]
mod tests {
    use loopwright_core::log::InMemoryStore;
    use loopwright_core::testing::{Script, ScriptedModel};
    use loopwright_core::{GenericAgent, RunContext, StepContext, StepEnd, StepError};

    use super::*;

    struct Once;
    #[async_trait::async_trait]
    impl loopwright_core::BehaviorPattern for Once {
        async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
            step.take_input().await?;
            step.ask().await?;
            Ok(StepEnd::Done)
        }
    }

    async fn said() -> (InMemoryStore, Vec<LogEntry>) {
        let (store, model) =
            (InMemoryStore::new(), ScriptedModel::new([Script::text("Use ````rust\nfn``` so.")]));
        let agent = GenericAgent::builder(model, Once).build().unwrap();
        let (handle, mut events) =
            agent.run(RunContext::new().stored(&store, "s").await.unwrap()).await.unwrap();
        handle.prompt("How?\nTell me.").await.unwrap();
        drop(handle);
        while events.next().await.is_some() {}
        let items = store.read("s", 0).await.unwrap();
        (store, items)
    }

    #[tokio::test]
    async fn what_went_out_comes_in_again() {
        let (store, items) = said().await;
        let text = to_jsonl("s", &items).unwrap();
        assert_eq!(import(&store, "t", &text).await.unwrap(), items.len() as u64);
        assert_eq!(store.read("t", 0).await.unwrap(), items);
        let again = import(&store, "t", &text).await;
        assert_eq!(again, Err(MemoryError::Exists("t".into())));
    }

    #[tokio::test]
    async fn a_strangers_log_does_nothing_by_itself() {
        let (store, mut items) = said().await;
        let end = items.len();
        items.push(LogEntry::Settings {
            settings: std::sync::Arc::new(serde_json::json!({"approve": ["all"]})),
        });
        let queued =
            items.iter().find(|item| matches!(item, LogEntry::Queued { .. })).unwrap().clone();
        if let LogEntry::Queued { kind, message, .. } = queued {
            items.push(LogEntry::Queued {
                input: "x".into(),
                kind,
                urgency: Default::default(),
                message,
                output: None,
            });
        }
        import(&store, "t", &to_jsonl("s", &items).unwrap()).await.unwrap();
        let past = SessionLog::of(&store.read("t", 0).await.unwrap());
        assert!(past.settings().is_none() && past.waiting().is_empty() && past.run().is_none());
        assert_eq!(past.messages(), SessionLog::of(&items[..end]).messages());
    }

    #[tokio::test]
    async fn what_a_store_takes_comes_in_however_deep_it_is() {
        let (store, mut items) = said().await;
        let deep = (0..200).fold(serde_json::json!(1), |value, _| serde_json::json!([value]));
        items.insert(
            items.len() - 1,
            LogEntry::State { key: "deep".into(), value: std::sync::Arc::new(deep) },
        );
        import(&store, "t", &to_jsonl("s", &items).unwrap()).await.unwrap();
        assert_eq!(store.read("t", 0).await.unwrap(), items);
    }

    #[tokio::test]
    async fn what_is_no_log_is_refused_with_its_line() {
        let (_, items) = said().await;
        let text = to_jsonl("s", &items).unwrap();
        let newer = text.replacen("\"version\":1", "\"version\":2", 1);
        assert!(matches!(from_jsonl(&newer), Err(MemoryError::Newer { found: 2, known: 1, .. })));
        for (text, why) in [
            (text.replacen("run_started", "run_walked", 1), "line 4"),
            (text.replacen("\"log\"", "\"session\"", 1), "line 1"),
            (text.lines().skip(1).collect::<Vec<_>>().join("\n"), "line 1"),
            (format!("{text}{}\n", text.lines().last().unwrap()), "item"),
            (String::new(), "line 1"),
        ] {
            let refused = from_jsonl(&text).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[tokio::test]
    async fn markdown_is_for_people() {
        let (_, items) = said().await;
        let text = to_markdown(&SessionInfo::of("s", &items), &items);
        assert!(
            text.starts_with(
                "# How?\n\nSession `s`.\n\n## User (m1)\n\nHow?\nTell me.\n\n\n## Assistant"
            ),
            "{text}"
        );
        let mut fence = String::new();
        fenced(&mut fence, "text", "a ```` b");
        assert_eq!(fence, "`````text\na ```` b\n`````\n\n");
    }
}
