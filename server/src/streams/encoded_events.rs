//! [`EncodedEvents`]: the JSON of events, shared by the readers of a session.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::body::Bytes;
use loopwright_core::event::{AgentEvent, Envelope};
use schemars::JsonSchema;
use serde::Serialize;

/// Maximum size of an event's JSON that is kept for later readers. Longer JSON is shared only by
/// readers that have it at the same time.
const MAX_KEPT_BYTES: usize = 4 * 1024;
/// Maximum number of events kept.
const MAX_KEPT_EVENTS: usize = 32;
/// Minimum number of known events before events without a reader are removed.
const MIN_KNOWN_EVENTS: usize = 64;

/// An event and its JSON.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct EncodedEvent {
    pub(crate) event: Arc<Envelope>,
    #[serde(skip)]
    pub(crate) json: Bytes,
}

/// The JSON of the events that a session's readers have received, encoded once for all of them.
/// Clones share it.
#[derive(Clone, Default)]
pub(crate) struct EncodedEvents(pub(crate) Arc<Mutex<Events>>);

#[derive(Default)]
pub(crate) struct Events {
    /// The events by their addresses. No other event has the same address while its `Weak` exists.
    known: HashMap<usize, (Weak<Envelope>, Weak<Vec<u8>>)>,
    /// The number of known events at which events without a reader are removed.
    sweep_at: usize,
    kept: VecDeque<Arc<Vec<u8>>>,
}

/// The JSON of an event, as the owner of [`Bytes`].
struct SharedJson(Arc<Vec<u8>>);

impl AsRef<[u8]> for SharedJson {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl EncodedEvents {
    /// Returns an event with its JSON, or `None` if it cannot be serialised.
    pub(crate) fn encode(&self, event: Arc<Envelope>) -> Option<EncodedEvent> {
        let json = self.0.lock().unwrap_or_else(PoisonError::into_inner).json(&event)?;
        Some(EncodedEvent { event, json: Bytes::from_owner(SharedJson(json)) })
    }
}

impl Events {
    fn json(&mut self, event: &Arc<Envelope>) -> Option<Arc<Vec<u8>>> {
        let address = Arc::as_ptr(event) as usize;
        if let Some(json) = self.known.get(&address).and_then(|(_, json)| json.upgrade()) {
            return Some(json);
        }
        let json = match encode(event) {
            Ok(json) => Arc::new(json),
            Err(error) => {
                tracing::error!(name = event.event.name(), %error, "an event cannot be serialised");
                return None;
            }
        };
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, (_, json)| json.strong_count() > 0);
            self.sweep_at = MIN_KNOWN_EVENTS.max(2 * self.known.len());
        }
        self.known.insert(address, (Arc::downgrade(event), Arc::downgrade(&json)));
        if json.len() <= MAX_KEPT_BYTES {
            if self.kept.len() == MAX_KEPT_EVENTS {
                self.kept.pop_front();
            }
            self.kept.push_back(json.clone());
        }
        Some(json)
    }
}

/// Returns the JSON of an event. A long event is written into a buffer of the exact size: a growing
/// buffer is copied, and takes up to three times as much memory meanwhile.
fn encode(event: &Envelope) -> serde_json::Result<Vec<u8>> {
    // Most events are deltas. They are short and not worth a second pass.
    let is_delta =
        matches!(event.event, AgentEvent::MessageUpdate { .. } | AgentEvent::DetachedUpdate { .. });
    let mut length = Length(0);
    if !is_delta {
        serde_json::to_writer(&mut length, event)?;
    }
    let mut json = Vec::with_capacity(length.0);
    serde_json::to_writer(&mut json, event)?;
    Ok(json)
}

/// A writer that only counts bytes.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::message::{AssistantMessage, Message, MessageId, RunId};
    use loopwright_core::model::Update;

    use super::*;

    fn event(text: &str) -> Arc<Envelope> {
        let update = Update::Text { block: 0, delta: text.into() };
        let event = AgentEvent::MessageUpdate { message_id: MessageId(1), update };
        Arc::new(Envelope::new(1, "s", RunId(1), 1, event))
    }

    /// C278: Long JSON exists once, as long as a reader has it.
    #[test]
    fn readers_share_the_json_of_an_event() {
        let events = EncodedEvents::default();
        let (long, short) = (event(&"x".repeat(2 * MAX_KEPT_BYTES)), event("x"));
        let first = events.encode(long.clone()).unwrap().json;
        assert_eq!(first, serde_json::to_vec(&*long).unwrap());
        assert_eq!(events.encode(long.clone()).unwrap().json.as_ptr(), first.as_ptr());
        drop(first);
        let address = Arc::as_ptr(&long) as usize;
        let is_held = |address| events.0.lock().unwrap().known[&address].1.strong_count() > 0;
        assert!(!is_held(address), "nobody has it");
        let first = events.encode(short.clone()).unwrap().json.as_ptr();
        assert_eq!(events.encode(short).unwrap().json.as_ptr(), first, "it was kept");
    }

    /// C209
    #[test]
    fn a_long_event_takes_no_more_memory_than_its_json() {
        let message = Message::new(MessageId(1), AssistantMessage::from("x".repeat(100_000)));
        let event = AgentEvent::MessageEnd { message: message.into() };
        let event = Envelope::new(1, "s", RunId(1), 1, event);
        let json = encode(&event).unwrap();
        assert_eq!(json, serde_json::to_vec(&event).unwrap());
        assert_eq!(json.capacity(), json.len());
    }

    /// C278
    #[test]
    fn events_that_nobody_has_are_forgotten() {
        let events = EncodedEvents::default();
        for number in 0..1_000 {
            let event = event(&number.to_string());
            let json = events.encode(event.clone()).unwrap().json;
            assert_eq!(json, serde_json::to_vec(&*event).unwrap(), "{number}");
        }
        let events = events.0.lock().unwrap();
        assert!(events.known.len() <= MIN_KNOWN_EVENTS + 1, "{}", events.known.len());
        assert_eq!(events.kept.len(), MAX_KEPT_EVENTS);
    }
}
