//! The same work without a framework: the minimum for any client of this protocol.
//!
//! Each agent has one hyper connection for all its conversations. Lines are found with memchr and
//! parsed into structs that borrow. The request body only grows and is never rewritten.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

use crate::client::{self, Done, Tally, Work};

const BEGINNING: &str = concat!(
    r#"{"model":"mock","stream":true,"stream_options":{"include_usage":true},"#,
    r#""tools":[{"type":"function","function":{"name":"add","description":"Add two integers.","#,
    r#""parameters":{"type":"object","#,
    r#""properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}}}],"#,
    r#""messages":[{"role":"system","content":"You add numbers with the tool."},"#,
    r#"{"role":"user","content":"Add numbers until done."}"#,
);

type Connection = SendRequest<Full<Bytes>>;

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
    finish_reason: Option<&'a str>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Vec<ToolCallDelta<'a>>,
}

#[derive(Deserialize)]
struct ToolCallDelta<'a> {
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    name: Option<Cow<'a, str>>,
    arguments: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

/// The received part of a reply.
#[derive(Default)]
struct Reply {
    text: String,
    call: String,
    tool: String,
    arguments: String,
    complete: bool,
    deltas: u64,
}

impl Reply {
    fn line(&mut self, line: &[u8]) {
        let Some(data) = line.strip_prefix(b"data: ").filter(|data| *data != b"[DONE]") else {
            return;
        };
        let mut event: Event<'_> = serde_json::from_slice(data).expect("an event");
        let Some(Choice { delta, finish_reason }) = event.choices.pop() else {
            return;
        };
        if let Some(text) = delta.content.filter(|text| !text.is_empty()) {
            self.deltas += 1;
            self.text.push_str(&text);
        }
        for call in delta.tool_calls {
            self.call.push_str(&call.id.unwrap_or_default());
            self.tool.push_str(&call.function.name.unwrap_or_default());
            self.arguments.push_str(&call.function.arguments.unwrap_or_default());
        }
        self.complete |= finish_reason.is_some();
    }
}

pub(crate) fn run(base: &str, work: Work) -> Done {
    let host = base.strip_prefix("http://").and_then(|rest| rest.split('/').next());
    let host: Arc<str> = host.expect("an address that begins with http://").into();
    client::run(work, move |tally, kept| {
        let host = host.clone();
        async move {
            let mut connection = match kept {
                Some(connection) => connection,
                None => connect(&host).await,
            };
            converse(&host, &mut connection, &tally).await;
            connection
        }
    })
}

async fn connect(host: &str) -> Connection {
    let stream = TcpStream::connect(host).await.expect("a server");
    stream.set_nodelay(true).expect("a socket");
    let (send, connection) = handshake(TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(connection);
    send
}

async fn converse(host: &str, connection: &mut Connection, tally: &Tally) {
    let mut conversation = BEGINNING.as_bytes().to_vec();
    loop {
        let reply = ask(host, connection, &conversation).await;
        tally.turn(reply.deltas, reply.text.len() as u64);
        if reply.call.is_empty() {
            return;
        }
        let Add { a, b } = serde_json::from_str(&reply.arguments).expect("arguments");
        let result = (a + b).to_string();
        let parts = [
            (r#",{"role":"assistant","content":"#, &reply.text),
            (r#","tool_calls":[{"id":"#, &reply.call),
            (r#","type":"function","function":{"name":"#, &reply.tool),
            (r#","arguments":"#, &reply.arguments),
            (r#"}}]},{"role":"tool","tool_call_id":"#, &reply.call),
            (r#","content":"#, &result),
        ];
        for (before, text) in parts {
            conversation.extend_from_slice(before.as_bytes());
            serde_json::to_writer(&mut conversation, text).expect("a text");
        }
        conversation.push(b'}');
    }
}

async fn ask(host: &str, connection: &mut Connection, conversation: &[u8]) -> Reply {
    let body = [conversation, b"]}"].concat();
    let request = Request::post("/v1/chat/completions")
        .header("host", host)
        .header("content-type", "application/json")
        .header("authorization", "Bearer none")
        .body(Full::new(Bytes::from(body)));
    connection.ready().await.expect("a connection");
    let mut response =
        connection.send_request(request.expect("a request")).await.expect("a response");
    assert!(response.status().is_success(), "{response:?}");
    let (mut reply, mut partial) = (Reply::default(), Vec::new());
    while let Some(frame) = response.frame().await {
        let Ok(data) = frame.expect("a chunk of the body").into_data() else {
            continue;
        };
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', &data) {
            if partial.is_empty() {
                reply.line(&data[from..end]);
            } else {
                partial.extend_from_slice(&data[from..end]);
                reply.line(&partial);
                partial.clear();
            }
            from = end + 1;
        }
        partial.extend_from_slice(&data[from..]);
    }
    assert!(reply.complete, "the reply was cut");
    reply
}
