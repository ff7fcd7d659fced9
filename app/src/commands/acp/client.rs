//! The connection to the editor: lines of JSON-RPC 2.0 on standard input and output.

use std::collections::HashMap;
use std::io::{self, BufRead, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use loopwright_protocols::RpcError;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::error::StartError;

/// Maximum number of lines that are read ahead, or that wait to be written.
const MAX_LINES_AHEAD: usize = 64;

/// Maximum size of a line from the editor. A prompt may contain images.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// The length of the start that is kept of a longer line: its `id` may be there.
const KEPT_BYTES: usize = 4 << 10;

/// A line from the editor.
pub(super) enum Line {
    /// The bytes of a message.
    Message(Vec<u8>),
    /// The start of a line of more than [`MAX_LINE_BYTES`], whose rest was skipped.
    TooLong(Vec<u8>),
}

/// The callers that wait for a response, by the id of the request.
type Requests = HashMap<i64, oneshot::Sender<Result<Value, RpcError>>>;

/// The result of [`connect`].
type Connection = (Arc<Client>, mpsc::Receiver<Line>, oneshot::Receiver<()>);

/// The sender of messages to the editor.
pub(super) struct Client {
    lines: mpsc::Sender<Vec<u8>>,
    requests: Mutex<Requests>,
    next_id: AtomicI64,
    /// `true` if the editor shows forms.
    has_forms: AtomicBool,
}

#[derive(Serialize)]
struct Message<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<P>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<P>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RpcError>,
}

impl<P> Message<'_, P> {
    const EMPTY: Self =
        Message { jsonrpc: "2.0", id: None, method: None, params: None, result: None, error: None };
}

/// Connects to the editor. Returns the client, the editor's lines, and a receiver that resolves
/// after the client was dropped and all messages are written.
pub(super) fn connect() -> Result<Connection, StartError> {
    let (to_stdout, mut unwritten) = mpsc::channel::<Vec<u8>>(MAX_LINES_AHEAD);
    let (to_end, written) = oneshot::channel::<()>();
    let write = move || {
        let _to_end = to_end; // dropped when everything is written
        let mut stdout = io::stdout().lock();
        while let Some(line) = unwritten.blocking_recv() {
            if stdout.write_all(&line).and_then(|()| stdout.flush()).is_err() {
                return; // the editor is gone, and standard input ends too
            }
        }
    };
    let (to_agent, lines) = mpsc::channel(MAX_LINES_AHEAD);
    let read = move || {
        let mut stdin = io::stdin().lock();
        while let Ok(Some(line)) = read_line(&mut stdin, MAX_LINE_BYTES) {
            if to_agent.blocking_send(line).is_err() {
                return;
            }
        }
    };
    let failed = |why: io::Error| StartError(format!("A thread cannot be started: {why}."));
    thread::Builder::new().name("stdout".into()).spawn(write).map_err(failed)?;
    thread::Builder::new().name("stdin".into()).spawn(read).map_err(failed)?;
    let client = Client {
        lines: to_stdout,
        requests: Mutex::default(),
        next_id: AtomicI64::new(1),
        has_forms: AtomicBool::new(false),
    };
    Ok((Arc::new(client), lines, written))
}

/// Reads a line, or returns `None` at the end of the input.
fn read_line(input: &mut impl BufRead, max_bytes: u64) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    input.take(max_bytes).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.ends_with(b"\n") || (line.len() as u64) < max_bytes {
        return Ok(Some(Line::Message(line)));
    }
    let start = line[..line.len().min(KEPT_BYTES)].to_vec();
    while !line.is_empty() && !line.ends_with(b"\n") {
        line.clear();
        input.take(max_bytes).read_until(b'\n', &mut line)?;
    }
    Ok(Some(Line::TooLong(start)))
}

impl Client {
    /// Returns whether the editor shows forms.
    pub(super) fn has_forms(&self) -> bool {
        self.has_forms.load(Ordering::Relaxed)
    }

    /// Sets whether the editor shows forms.
    pub(super) fn set_forms(&self, has_forms: bool) {
        self.has_forms.store(has_forms, Ordering::Relaxed);
    }

    /// Answers a request.
    pub(super) async fn respond(&self, id: &Value, result: Result<Value, RpcError>) {
        let error = result.as_ref().err();
        let message = Message { id: Some(id), error, ..Message::EMPTY };
        self.send(&Message { result: result.as_ref().ok(), ..message }).await;
    }

    /// Sends an update of a session.
    pub(super) async fn update(&self, session: &str, update: Value) {
        let params = Some(json!({ "sessionId": session, "update": update }));
        let method = Some("session/update");
        self.send(&Message { method, params, ..Message::EMPTY }).await;
    }

    /// Sends a request and waits for its response.
    pub(super) async fn request(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        let number = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (to_caller, response) = oneshot::channel();
        self.requests().insert(number, to_caller);
        let id = Value::from(number);
        let (id, method, params) = (Some(&id), Some(method), Some(params));
        self.send(&Message { id, method, params, ..Message::EMPTY }).await;
        response.await.unwrap_or_else(|_| Err(RpcError::internal("the editor is gone")))
    }

    /// Passes a response on to the request's caller, if it still waits.
    pub(super) fn resolve(&self, id: &Value, result: Result<Value, RpcError>) {
        let caller = id.as_i64().and_then(|number| self.requests().remove(&number));
        if let Some(caller) = caller {
            let _ = caller.send(result); // the turn may have been cancelled
        }
    }

    async fn send(&self, message: &impl Serialize) {
        if let Ok(mut line) = serde_json::to_vec(message) {
            line.push(b'\n');
            let _ = self.lines.send(line).await; // the editor may be gone
        }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_the_input_and_long_ones_are_skipped() {
        let mut input = &b"{}\nabcdefghij\nabcdefgh\n{\"a\""[..];
        let mut read = Vec::new();
        while let Some(line) = read_line(&mut input, 8).unwrap() {
            read.push(match line {
                Line::Message(line) => String::from_utf8(line).unwrap(),
                Line::TooLong(start) => format!("too long: {}", String::from_utf8(start).unwrap()),
            });
        }
        assert_eq!(read, ["{}\n", "too long: abcdefgh", "too long: abcdefgh", "{\"a\""]);
    }
}
