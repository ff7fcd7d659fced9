//! The state of a session as bytes. Messages are written once: the context, and the messages that
//! compactions replaced, refer to the history.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::session_state::SessionState;
use crate::event::action::ExternalAction;
use crate::log::calls::Call;
#[cfg(feature = "testing")]
use crate::log::entry::LogEntry;
use crate::log::snapshots::Snapshot;
use crate::message::{
    AssistantMessage, CustomMessage, DetachedMessage, History, Message, MessageId, MessageKind,
    RunId, ToolResult, UserMessage,
};

/// The format of a snapshot. The state in another version may have other fields, or other values
/// after the same entries.
const FORMAT: &str = concat!(env!("CARGO_PKG_VERSION"), "/12");

/// A state, with the position of the session's events.
pub(crate) struct Restored {
    pub(crate) state: SessionState,
    /// Number of the last event.
    pub(crate) seq: u64,
    /// The last run.
    pub(crate) run: RunId,
}

/// The content of a snapshot after the format and a line break.
#[derive(Serialize)]
struct Written<'a> {
    seq: u64,
    run: RunId,
    history: Vec<Stored<'a>>,
    context: Vec<Reference<'a>>,
    replaced: Vec<Vec<Reference<'a>>>,
    state: &'a SessionState,
}

#[derive(Deserialize)]
struct Read {
    seq: u64,
    run: RunId,
    history: Vec<Stored<'static>>,
    context: Vec<Reference<'static>>,
    replaced: Vec<Vec<Reference<'static>>>,
    state: SessionState,
}

/// The number and content of a message, without the tags of its JSON, which are slow to parse.
#[derive(Serialize, Deserialize)]
struct Stored<'a>(u64, Body<'a>);

#[derive(Serialize, Deserialize)]
enum Body<'a> {
    User(Cow<'a, UserMessage>),
    Assistant(Cow<'a, AssistantMessage>),
    Result(Cow<'a, ToolResult>),
    Custom(Cow<'a, CustomMessage>),
    Detached(Cow<'a, DetachedMessage>),
}

/// A message: an index into the history, or the message itself.
#[derive(Serialize, Deserialize)]
enum Reference<'a> {
    #[serde(rename = "h")]
    History(usize),
    #[serde(rename = "m")]
    Message(Stored<'a>),
}

impl<'a> From<&'a Message> for Stored<'a> {
    fn from(message: &'a Message) -> Self {
        let body = match &message.body {
            MessageKind::User(body) => Body::User(Cow::Borrowed(body)),
            MessageKind::Assistant(body) => Body::Assistant(Cow::Borrowed(body)),
            MessageKind::ToolResult(body) => Body::Result(Cow::Borrowed(body)),
            MessageKind::Custom(body) => Body::Custom(Cow::Borrowed(body)),
            MessageKind::Detached(body) => Body::Detached(Cow::Borrowed(body)),
        };
        Stored(message.id.0, body)
    }
}

impl From<Stored<'_>> for Arc<Message> {
    fn from(Stored(id, body): Stored<'_>) -> Self {
        let body = match body {
            Body::User(body) => MessageKind::User(body.into_owned()),
            Body::Assistant(body) => MessageKind::Assistant(body.into_owned()),
            Body::Result(body) => MessageKind::ToolResult(body.into_owned()),
            Body::Custom(body) => MessageKind::Custom(body.into_owned()),
            Body::Detached(body) => MessageKind::Detached(body.into_owned()),
        };
        Arc::new(Message::new(MessageId(id), body))
    }
}

impl SessionState {
    /// Returns a snapshot of the state, or `None` if the state cannot be written as JSON.
    pub(crate) fn snapshot(&self, seq: u64, run: RunId) -> Option<Snapshot> {
        let indices = self.history.iter().enumerate().map(|(at, message)| (message.id, at));
        let indices: HashMap<MessageId, usize> = indices.collect();
        let written = Written {
            seq,
            run,
            history: self.history.iter().map(|message| (&**message).into()).collect(),
            context: self.references(&self.context, &indices),
            replaced: self
                .summaries
                .iter()
                .map(|summary| self.references(&summary.replaced, &indices))
                .collect(),
            state: self,
        };
        let mut data = format!("{FORMAT}\n").into_bytes();
        serde_json::to_writer(&mut data, &written).ok()?;
        Some(Snapshot::new(self.info.entries, data))
    }

    /// Returns a snapshot of the state after these entries.
    #[cfg(feature = "testing")]
    pub(crate) fn snapshot_of(entries: &[LogEntry]) -> Option<Snapshot> {
        let (mut state, mut seq, mut run) = (SessionState::default(), 0, RunId::default());
        for entry in entries {
            if let LogEntry::RunStarted { run: started, .. } = entry {
                run = *started;
            }
            state.apply(entry, &mut |_| seq += 1);
        }
        state.snapshot(seq, run)
    }

    fn references<'a>(
        &self,
        messages: &'a [Arc<Message>],
        indices: &HashMap<MessageId, usize>,
    ) -> Vec<Reference<'a>> {
        let one = |message: &'a Arc<Message>| {
            let at = indices.get(&message.id).copied();
            match at.filter(|at| Arc::ptr_eq(&self.history[*at], message)) {
                Some(at) => Reference::History(at),
                None => Reference::Message((&**message).into()),
            }
        };
        messages.iter().map(one).collect()
    }

    /// Returns the state of a snapshot, or `None` if it has another format or is damaged.
    pub(crate) fn restore(snapshot: &Snapshot) -> Option<Restored> {
        let json = snapshot.data.strip_prefix(FORMAT.as_bytes())?;
        let read: Read = serde_json::from_slice(json.strip_prefix(b"\n")?).ok()?;
        let Read { seq, run, history, context, replaced, mut state } = read;
        let history: Vec<Arc<Message>> = history.into_iter().map(Arc::from).collect();
        let messages = |references: Vec<Reference<'_>>| -> Option<Vec<Arc<Message>>> {
            let one = |reference| match reference {
                Reference::History(at) => history.get(at).cloned(),
                Reference::Message(message) => Some(message.into()),
            };
            references.into_iter().map(one).collect()
        };
        state.context = Arc::new(messages(context)?);
        for (summary, replaced) in state.summaries.iter_mut().zip(replaced) {
            summary.replaced = messages(replaced)?;
        }
        state.history = History::new(history);
        // A decision must not hold for another action than the one in the log.
        let is_true = |action: &Arc<ExternalAction>| action.computed_digest() == action.digest;
        let is_whole = state.info.pending.iter().all(|pending| is_true(&pending.action))
            && state.calls().iter().flat_map(Call::actions).all(is_true);
        (is_whole && state.info.entries == snapshot.entries).then_some(Restored { state, seq, run })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Older snapshots would lack a new field, and would misread a changed one. In both cases,
    /// `FORMAT` and this list must change.
    #[test]
    fn the_format_has_these_fields() {
        let snapshot = SessionState::default().snapshot(0, RunId(0)).unwrap();
        let text = String::from_utf8(snapshot.data).unwrap();
        let (format, json) = text.split_once('\n').unwrap();
        assert!(format.ends_with("/12"));
        let written: Value = serde_json::from_str(json).unwrap();
        let fields: Vec<&String> = written["state"].as_object().unwrap().keys().collect();
        let expected = "abort_requested after_batch batch call_ids cause created epoch \
            fresh_after incomplete info inputs keyed_replies keyed_results last_error messages \
            of_user offered outcome output principal queue removed request \
            request_digest requested reserved run_at runs size spent stages started summaries \
            terminated trace turn uncounted undelivered values wrap_up";
        let mut expected: Vec<&str> = expected.split_whitespace().collect();
        let mut fields: Vec<&str> = fields.into_iter().map(|field| field.as_str()).collect();
        expected.sort_unstable();
        fields.sort_unstable();
        assert_eq!(fields, expected);
    }
}
