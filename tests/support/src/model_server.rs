//! A model server that speaks Chat Completions and replies to each request as the test directs.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::TEST_TIMEOUT;

/// A listening socket on this machine.
pub struct Server {
    /// The base URL.
    pub url: String,
    requests: Receiver<Exchange>,
}

/// A request that waits for its reply. Dropping it breaks the connection.
pub struct Exchange {
    /// The request line and the headers, in lower case.
    pub head: String,
    /// The body, or null if it is not JSON.
    pub body: Value,
    stream: TcpStream,
}

impl Server {
    /// Starts the server on a free local port.
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (to_test, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Some(exchange) = Exchange::read(stream.unwrap()) else {
                    continue;
                };
                if to_test.send(exchange).is_err() {
                    return;
                }
            }
        });
        Server { url, requests }
    }

    /// Returns whether no request has arrived.
    pub fn is_unasked(&self) -> bool {
        self.requests.try_recv().is_err()
    }

    /// Waits for the next request.
    pub fn request(&self) -> Exchange {
        self.requests.recv_timeout(TEST_TIMEOUT).unwrap()
    }
}

impl Exchange {
    fn read(mut stream: TcpStream) -> Option<Exchange> {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
            bytes.extend(&buffer[..count]);
            let text = String::from_utf8_lossy(&bytes);
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let head = head.to_lowercase();
            let length = head
                .split("content-length: ")
                .nth(1)
                .map_or("0", |rest| rest.lines().next().unwrap());
            if body.len() >= length.parse().unwrap() {
                let body = serde_json::from_str(body).unwrap_or_default();
                return Some(Exchange { head, body, stream });
            }
        }
    }

    /// Returns the text of the last message.
    pub fn last(&self) -> String {
        self.body["messages"].as_array().unwrap().last().unwrap()["content"].to_string()
    }

    /// Starts a reply.
    pub fn begin(&mut self) {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        self.stream.write_all(head.as_bytes()).unwrap();
    }

    /// Sends a fragment of text.
    pub fn text(&mut self, text: &str) {
        self.delta(json!({ "content": text }), Value::Null);
    }

    /// Ends a reply that was started with a tool call.
    pub fn tool(mut self, name: &str, arguments: &Value) {
        let function = json!({ "name": name, "arguments": arguments.to_string() });
        let call = json!({ "index": 0, "id": "call_0", "type": "function", "function": function });
        self.delta(json!({ "tool_calls": [call] }), Value::Null);
        self.end("tool_calls");
    }

    /// Sends a part of thinking.
    pub fn thinking(&mut self, text: &str) {
        self.delta(json!({ "reasoning_content": text }), Value::Null);
    }

    /// Sends bytes that are not a valid event, and hangs up.
    pub fn garbage(mut self) {
        self.stream.write_all(b"data: {\"choices\": [{\x00\xff\n\n<html>\r\n\r\n").unwrap();
    }

    /// Sends these bytes. Returns whether the client may still read them.
    pub fn raw(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Waits until the client closes the connection.
    pub fn until_hung_up(mut self) {
        self.stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        match self.stream.read(&mut [0]) {
            Ok(0) => {}
            Err(why) if why.kind() == std::io::ErrorKind::ConnectionReset => {}
            other => panic!("the client has not hung up: {other:?}"),
        }
    }

    /// Ends a reply.
    pub fn end(mut self, reason: &str) {
        self.delta(json!({}), json!(reason));
        self.stream.write_all(b"data: [DONE]\n\n").unwrap();
    }

    /// Replies with this text.
    pub fn say(mut self, text: &str) {
        self.begin();
        self.text(text);
        self.end("stop");
    }

    /// Replies with this text and this token usage.
    pub fn reply_with_usage(mut self, text: &str, input: u64, output: u64) {
        self.begin();
        self.text(text);
        self.delta(json!({}), json!("stop"));
        let usage = json!({ "prompt_tokens": input, "completion_tokens": output });
        let usage = json!({ "choices": [], "usage": usage });
        self.stream.write_all(format!("data: {usage}\n\ndata: [DONE]\n\n").as_bytes()).unwrap();
    }

    /// Replies with tool calls.
    pub fn call(mut self, calls: &[(&str, Value)]) {
        self.begin();
        for (index, (name, arguments)) in calls.iter().enumerate() {
            let function = json!({ "name": name, "arguments": arguments.to_string() });
            let id = format!("call_{index}");
            let call =
                json!({ "index": index, "id": id, "type": "function", "function": function });
            self.delta(json!({ "tool_calls": [call] }), Value::Null);
        }
        self.end("tool_calls");
    }

    /// Replies with JSON of this status.
    pub fn answer(mut self, status: &str, body: &Value) {
        let body = body.to_string();
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        );
        self.stream.write_all(answer.as_bytes()).unwrap();
    }

    /// Sends a fragment, with the finish reason if it is not null.
    pub fn delta(&mut self, delta: Value, reason: Value) {
        let chunk = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
        self.stream.write_all(format!("data: {chunk}\n\n").as_bytes()).unwrap();
    }
}
