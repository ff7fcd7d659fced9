//! [`Frames`]: what a server sends, read as the protocol means it. Servers get a lot wrong, and an
//! answer that is dropped lets its call wait for its time limit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, RequestId, ServerJsonRpcMessage,
};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::repair::Expected;
use crate::lines::{Heard, Line, Reader};

/// The maximum number of requests that are known to await their responses.
const MAX_OPEN: usize = 1024;
/// The code of an error in JSON-RPC that has none.
const INTERNAL_ERROR: i64 = -32603;
/// The `data` of the error that takes the place of an answer that cannot be read.
pub(super) const UNREADABLE: &str = "loopwright/unreadable";

/// A reader of a connection's messages. Clones share the open requests.
#[derive(Clone, Default)]
pub(super) struct Frames(Arc<State>);

#[derive(Default)]
struct State {
    /// The requests that await their responses. The oldest are forgotten if there are too many.
    open: Mutex<VecDeque<(RequestId, Expected)>>,
    /// The id of an answer that is spread over several lines, as far as it was read.
    spread: Mutex<Option<Option<RequestId>>>,
    /// `true` if the server has refused a request for lack of authorization.
    is_refused: AtomicBool,
}

impl Frames {
    /// Notes a message that is sent to the server.
    pub(super) fn sent(&self, message: &ClientJsonRpcMessage) {
        match message {
            // Its response comes when the subscription ends.
            ClientJsonRpcMessage::Request(request)
                if matches!(request.request, ClientRequest::SubscriptionsListenRequest(_)) => {}
            ClientJsonRpcMessage::Request(request) => {
                let mut open = self.open();
                match request.request {
                    // The requests before it have found no answer.
                    ClientRequest::InitializeRequest(_) => open.clear(),
                    // It may be sent again.
                    _ => open.retain(|(id, _)| *id != request.id),
                }
                if open.len() >= MAX_OPEN {
                    open.pop_front();
                }
                open.push_back((request.id.clone(), Expected::of(&request.request)));
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(it) = &notification.notification {
                    self.open().retain(|(id, _)| Some(id) != it.params.request_id.as_ref());
                }
            }
            _ => {}
        }
    }

    /// Returns the messages of a line: none if it is noise, as servers log to standard output.
    /// `asked` is the request that it answers, if the transport tells that.
    pub(super) fn read(&self, line: &Line, asked: Option<&RequestId>) -> Vec<ServerJsonRpcMessage> {
        let messages = match line.parse() {
            Ok(Value::Array(batch)) => {
                batch.into_iter().filter_map(|item| self.message(item, asked)).collect()
            }
            Ok(value) => Vec::from_iter(self.message(value, asked)),
            Err(why) => Vec::from_iter(self.unreadable(line, &why, asked)),
        };
        messages.into_iter().filter_map(typed).collect()
    }

    /// Returns a response that the SDK has read, with its result repaired.
    pub(super) fn repair(
        &self,
        message: ServerJsonRpcMessage,
        asked: Option<&RequestId>,
    ) -> ServerJsonRpcMessage {
        let value = serde_json::to_value(&message).ok();
        value.and_then(|value| self.message(value, asked)).and_then(typed).unwrap_or(message)
    }

    /// Records that the server has refused a request for lack of authorization.
    pub(super) fn set_refused(&self) {
        self.0.is_refused.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_refused(&self) -> bool {
        self.0.is_refused.load(Ordering::Relaxed)
    }

    /// Returns the message in the form that the SDK reads, or `None` for noise.
    fn message(&self, value: Value, asked: Option<&RequestId>) -> Option<Value> {
        let Value::Object(mut message) = value else { return None };
        let is_marked = message.insert("jsonrpc".into(), "2.0".into()).is_some();
        let error = message.remove("error").filter(|error| !error.is_null());
        let result = message.remove("result");
        let is_empty = error.is_none() && result.as_ref().is_none_or(Value::is_null);
        if is_empty && message.get("method").is_some_and(Value::is_string) {
            return is_marked.then_some(Value::Object(message)); // a request, or a notification
        }
        message.remove("method");
        let id = message.get("id").and_then(|id| RequestId::deserialize(id).ok());
        // What a server logs can have an `id` and a `result`, too.
        let is_answer = id.is_some()
            && message.len() == 2
            && [&error, &result].into_iter().flatten().any(Value::is_object);
        if !is_marked && !is_answer {
            return None;
        }
        let is_known = error.is_some() || result.is_some();
        let (id, expected) = match id {
            // Unless it is open, it can be the end of a subscription.
            Some(id) => self.take(&id).or(is_known.then_some((id, Expected::Other)))?,
            None if is_known => self.take_asked(asked)?,
            None => return None,
        };
        Some(match (error, result) {
            (Some(error), _) => answer(id, "error", readable_error(error)),
            (None, Some(result)) => answer(id, "result", expected.repair(result)),
            (None, None) => unreadable(id, "has neither a result nor an error"),
        })
    }

    /// Returns the error that takes the place of an answer that cannot be parsed.
    fn unreadable(&self, line: &Line, why: &str, asked: Option<&RequestId>) -> Option<Value> {
        if let Some(id) = self.spread(&line.text) {
            let (id, _) = id.map_or_else(|| self.take_asked(asked), |id| self.take(&id))?;
            return Some(unreadable(id, "is spread over several lines"));
        }
        let is_marked = match line.text.starts_with("[{") {
            true => line.text.contains(r#""jsonrpc""#),
            // A line that is cut may have its mark at the end.
            false => {
                line.text.starts_with('{') && (line.is_cut || line.member("jsonrpc").is_some())
            }
        };
        if !is_marked || line.member("method").is_some_and(|method| method.is_string()) {
            return None;
        }
        let (id, _) = match line.member("id") {
            Some(id) if !id.is_null() => self.take(&RequestId::deserialize(id).ok()?),
            _ => self.take_asked(asked),
        }?;
        Some(unreadable(id, why))
    }

    /// Returns whether the line begins the result of an answer that is spread over several lines,
    /// with the id of the answer if it came before.
    fn spread(&self, line: &str) -> Option<Option<RequestId>> {
        let begins = |name: &str| line.starts_with(&format!("\"{name}\""));
        let mut spread = self.0.spread.lock().unwrap_or_else(PoisonError::into_inner);
        if begins("jsonrpc") {
            *spread = Some(None);
        } else if begins("method") {
            *spread = None; // a server that logs what it receives
        } else if begins("result") || begins("error") {
            return spread.take();
        } else if begins("id")
            && let Some(id) = &mut *spread
        {
            let value = line.split_once(':').map_or("", |(_, value)| value.trim_end_matches(','));
            *id = serde_json::from_str(value).ok();
        }
        None
    }

    /// Removes the request with this id. Numbers may come back as strings.
    pub(super) fn take(&self, id: &RequestId) -> Option<(RequestId, Expected)> {
        let (mut open, id) = (self.open(), id.to_string());
        let at = open.iter().position(|(known, _)| known.to_string() == id)?;
        open.remove(at)
    }

    /// Removes the request that an answer without an id belongs to: `asked`, or the only open one.
    fn take_asked(&self, asked: Option<&RequestId>) -> Option<(RequestId, Expected)> {
        if let Some(id) = asked {
            return self.take(id);
        }
        let mut open = self.open();
        if open.len() == 1 { open.pop_front() } else { None }
    }

    fn open(&self) -> MutexGuard<'_, VecDeque<(RequestId, Expected)>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader<RoleClient> for Frames {
    fn sent(&mut self, message: &ClientJsonRpcMessage) {
        Frames::sent(self, message);
    }

    fn read(&mut self, line: Line) -> Vec<Heard<RoleClient>> {
        Frames::read(self, &line, None).into_iter().map(Heard::Message).collect()
    }
}

/// Returns the message as the type of the SDK, or the error that takes the place of an answer.
fn typed(message: Value) -> Option<ServerJsonRpcMessage> {
    let id = match message.get("method") {
        None => message.get("id").and_then(|id| RequestId::deserialize(id).ok()),
        Some(_) => None,
    };
    match serde_json::from_value(message) {
        Ok(typed) => Some(typed),
        Err(why) => {
            tracing::debug!(%why, "a message of an MCP server cannot be read");
            serde_json::from_value(unreadable(id?, &format!("cannot be read ({why})"))).ok()
        }
    }
}

fn answer(id: RequestId, name: &str, value: Value) -> Value {
    let id = id.into_json_value();
    json!({ "jsonrpc": "2.0", "id": id, name: value })
}

/// Returns the error that takes the place of an answer. `why` is a sentence without its subject.
fn unreadable(id: RequestId, why: &str) -> Value {
    let message = format!("its answer {why}");
    answer(id, "error", json!({ "code": INTERNAL_ERROR, "message": message, "data": UNREADABLE }))
}

/// Returns an error with a whole number as its code, and a text as its message.
fn readable_error(error: Value) -> Value {
    let Value::Object(error) = error else {
        let text = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
        return json!({ "code": INTERNAL_ERROR, "message": text });
    };
    let text = |name: &str| match error.get(name) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Null) | None => None,
        Some(other) => Some(other.to_string()),
    };
    let number = error.get("code").and_then(whole_number);
    let mut message = text("message").unwrap_or_else(|| "it does not say why".into());
    if let (None, Some(code)) = (number, text("code")) {
        message = format!("{code}: {message}");
    }
    let mut readable = Map::new();
    readable.insert("code".into(), number.unwrap_or(INTERNAL_ERROR).into());
    readable.insert("message".into(), message.into());
    readable.extend(error.get("data").map(|data| ("data".into(), data.clone())));
    Value::Object(readable)
}

/// Returns a code, which may be written as `-32602.0`.
fn whole_number(code: &Value) -> Option<i64> {
    let float = code.as_f64().filter(|float| float.fract() == 0.0)?;
    (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&float).then_some(float as i64)
}

#[cfg(test)]
mod tests {
    use rmcp::model::{
        CancelledNotification, CancelledNotificationParam, JsonRpcMessage, PingRequest,
    };

    use super::*;

    fn ask(frames: &Frames, ids: impl IntoIterator<Item = i64>) {
        for id in ids {
            let request = ClientRequest::PingRequest(PingRequest::default());
            frames.sent(&JsonRpcMessage::request(request, RequestId::Number(id)));
        }
    }

    fn read(frames: &Frames, line: &str) -> Vec<Value> {
        let read = frames.read(&Line::new(line.as_bytes(), false), None);
        read.iter().map(|message| serde_json::to_value(message).unwrap()).collect()
    }

    #[test]
    fn an_answer_without_its_id_belongs_to_the_only_request() {
        let line = r#"{"jsonrpc":"2.0","result":{}}"#;
        let frames = Frames::default();
        assert!(read(&frames, line).is_empty());
        ask(&frames, [1, 2]);
        assert!(read(&frames, line).is_empty());
        let cancelled = CancelledNotificationParam::new(Some(RequestId::Number(1)), None);
        let cancelled = ClientNotification::from(CancelledNotification::new(cancelled));
        frames.sent(&JsonRpcMessage::notification(cancelled));
        assert_eq!(read(&frames, line)[0]["id"], 2);
        ask(&frames, 0..=MAX_OPEN as i64);
        assert!(read(&frames, r#"{"jsonrpc":"2.0","id":0,"result":NaN}"#).is_empty());
        assert_eq!(read(&frames, r#"{"jsonrpc":"2.0","id":1,"result":NaN}"#)[0]["id"], 1);
    }

    #[test]
    fn each_message_of_a_batch_is_read() {
        let frames = Frames::default();
        ask(&frames, [1, 2]);
        let batch = r#"[{"jsonrpc":"2.0","id":2,"result":{}},7,[],{"jsonrpc":"2.0","id":"1",
            "error":{"code":1,"message":"no"}},{"jsonrpc":"2.0","id":3,"method":"ping"}]"#;
        let ids: Vec<Value> =
            read(&frames, batch).iter().map(|message| message["id"].clone()).collect();
        assert_eq!(ids, [2, 1, 3]);
    }
}
