//! HTTP by hand: a test says byte by byte what goes over the wire.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::Value;

use crate::process::TEST_TIMEOUT;

/// A connection to a server, and what came of it that nobody has read yet.
pub(crate) struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Connection {
    pub(crate) fn open(address: &str) -> Connection {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        Connection { stream, unread: Vec::new() }
    }

    /// Sends these bytes. A server that has refused already may have hung up.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends a request of JSON.
    pub(crate) fn post(address: &str, path: &str, headers: &str, body: &str) -> Connection {
        let mut connection = Connection::open(address);
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
                 {headers}Content-Length: {length}\r\n\r\n"
        );
        connection.send(format!("{head}{body}").as_bytes());
        connection
    }

    /// More bytes; none at the end.
    fn more(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let count = self.stream.read(&mut buffer).unwrap_or(0); // a reset is an end
        self.unread.extend(&buffer[..count]);
        count > 0
    }

    fn until(&mut self, end: &str) -> Option<String> {
        loop {
            if let Some(at) =
                self.unread.windows(end.len()).position(|window| window == end.as_bytes())
            {
                let text: Vec<u8> = self.unread.drain(..at + end.len()).take(at).collect();
                return Some(String::from_utf8(text).unwrap());
            }
            if !self.more() {
                return None;
            }
        }
    }

    fn exactly(&mut self, count: usize) -> Option<String> {
        while self.unread.len() < count {
            if !self.more() {
                return None;
            }
        }
        Some(String::from_utf8(self.unread.drain(..count).collect()).unwrap())
    }

    /// The status and the head; `None` if the server hung up.
    pub(crate) fn head(&mut self) -> Option<(u16, String)> {
        let head = self.until("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().unwrap();
        Some((status, head.to_lowercase()))
    }

    /// The whole response; `None` if the server hung up.
    pub(crate) fn response(&mut self) -> Option<Response> {
        let (status, head) = self.head()?;
        let length = head
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.lines().next()?.parse().ok());
        let body = match length {
            Some(length) => self.exactly(length)?,
            None if head.contains("text/event-stream") => String::new(), // it may have no end
            None => std::iter::from_fn(|| self.chunk()).collect(),
        };
        Some(Response { status, body })
    }

    /// The next chunk of a body; `None` at its end.
    pub(crate) fn chunk(&mut self) -> Option<String> {
        let size = usize::from_str_radix(&self.until("\r\n")?, 16).unwrap();
        let chunk = self.exactly(size)?;
        self.exactly(2)?;
        Some(chunk).filter(|_| size > 0)
    }

    /// The next frame of an event stream, as it is; comments are left out.
    pub(crate) fn frame(&mut self) -> Option<String> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            assert!(Instant::now() < deadline, "no frame comes");
            let frame = self.chunk()?;
            assert!(frame.ends_with("\n\n"), "a chunk is a frame: {frame:?}");
            if !frame.starts_with(':') {
                return Some(frame);
            }
        }
    }

    /// The JSON of the next frame.
    pub(crate) fn event(&mut self) -> Option<Value> {
        let frame = self.frame()?;
        let data = frame.strip_prefix("data: ").unwrap();
        Some(serde_json::from_str(data).unwrap())
    }

    /// The JSON of all frames to the end.
    pub(crate) fn events(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.event()).collect()
    }

    /// The next frame of this type; those before it are passed over.
    pub(crate) fn event_of(&mut self, kind: &str) -> Value {
        loop {
            let event = self.event().unwrap();
            if event["type"] == kind {
                return event;
            }
        }
    }
}
