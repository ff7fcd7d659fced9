//! Logs as text, one short line per entry.

use serde_json::Value;

use super::trace::message_text;
use crate::excerpt;
use crate::log::entry::{BUDGET_KEY, LogEntry};
use crate::message::{Message, StopReason};

/// Maximum length of the words of a line, in characters.
const MAX_WORDS_CHARS: usize = 80;

/// Formats a log, one line per entry: its number from zero, its kind, and its first words.
///
/// ```
/// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
/// # struct Once;
/// # #[async_trait::async_trait]
/// # impl BehaviorPattern for Once {
/// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
/// #         step.take_input().await?;
/// #         step.ask().await?.finish()
/// #     }
/// # }
/// use loopwright_core::testing::{Harness, Script, log_text};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let harness = Harness::new(Once, [Script::text("Hello.")], |agent| agent).await;
/// harness.handle.prompt("Hi!").await.unwrap();
/// let text = log_text(&harness.memory.entries());
/// assert!(text.contains("   5  replied          assistant: Hello.\n"), "{text}");
/// # }
/// ```
pub fn log_text(entries: &[LogEntry]) -> String {
    lines(entries, 0)
}

/// Returns the number and the kind of an entry, for sentences: "entry 5 (`replied`)".
pub fn entry_name(entries: &[LogEntry], at: usize) -> String {
    let kind = entries.get(at).map(|entry| kind(&comparable(entry)));
    format!("entry {at} (`{}`)", kind.unwrap_or_else(|| "missing".into()))
}

/// Returns an entry as JSON without the values that differ from run to run: times, message ids, and
/// costs, which are rounded.
pub(super) fn comparable(entry: &LogEntry) -> Value {
    let mut value = serde_json::to_value(entry).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        for key in ["time", "cost", "estimate"] {
            map.remove(key);
        }
        if let LogEntry::State { key, .. } = entry
            && key.starts_with(BUDGET_KEY)
        {
            map.remove("value"); // has a time
        }
        if map.contains_key("limit") {
            map.remove("error"); // says how much was used
        }
        if matches!(entry, LogEntry::AbortRequested { .. }) {
            map.remove("input"); // a generated id
        }
        if map.get("message").is_some_and(Value::is_string) {
            map.remove("message");
        }
        for key in ["message", "result"] {
            map.get_mut(key).and_then(Value::as_object_mut).map(|message| message.remove("id"));
        }
    }
    value
}

/// Formats the entries from this position on.
pub(super) fn lines(entries: &[LogEntry], from: usize) -> String {
    let line = |(at, entry)| format!("{at:>4}  {}\n", entry_line(entry));
    entries.iter().enumerate().skip(from).map(line).collect()
}

/// Formats an entry: its kind, and its first words.
pub(super) fn entry_line(entry: &LogEntry) -> String {
    let fields = comparable(entry);
    let words = words(entry, &fields);
    let words: Vec<&str> = words.split_whitespace().collect();
    let words = words.join(" ");
    let words = excerpt::chars(&words, MAX_WORDS_CHARS);
    format!("{:<15}  {words}", kind(&fields)).trim_end().to_owned()
}

fn kind(fields: &Value) -> String {
    fields["type"].as_str().unwrap_or_default().to_owned()
}

/// Returns the content of an entry: its message, or its fields.
fn words(entry: &LogEntry, fields: &Value) -> String {
    match entry {
        LogEntry::Queued { message, .. } => {
            format!("{}, {}", plain(&fields["kind"]), said(message))
        }
        LogEntry::Detached { message, key, .. } => {
            let key = key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default();
            format!("{key}{}", said(message))
        }
        LogEntry::Opened { epoch, .. } if *epoch > 1 => "again".into(),
        LogEntry::Opened { .. } => String::new(),
        LogEntry::DetachedStarted { requests } => format!("requests: {}", requests.len()),
        _ => entry.message().map_or_else(|| fields_text(fields), |message| said(message)),
    }
}

fn fields_text(fields: &Value) -> String {
    let fields = fields.as_object().into_iter().flatten();
    let is_shown = |name: &str| !matches!(name, "type" | "run") && !name.contains("digest");
    let shown = fields.filter(|(name, _)| is_shown(name));
    let field = |(name, value): (&String, &Value)| format!("{name}: {}", plain(value));
    shown.map(field).collect::<Vec<_>>().join(", ")
}

/// Formats a message, and the end of a reply that is not whole.
fn said(message: &Message) -> String {
    let text = message_text(&message.body);
    match message.as_assistant().map(|reply| reply.stop) {
        None | Some(StopReason::Stop | StopReason::ToolCalls) => text,
        Some(stop) => format!("{text} ({stop:?})"),
    }
}

/// Formats a value without quotes, and a choice as its name and its value.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) if fields.len() == 1 => {
            fields.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect()
        }
        _ => value.to_string(),
    }
}
