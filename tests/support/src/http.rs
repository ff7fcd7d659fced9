//! An HTTP client that sends exactly the bytes that a test specifies.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::Value;
#[cfg(target_os = "linux")]
use socket2::{Domain, Protocol, Socket, Type};

use crate::TEST_TIMEOUT;

/// A connection to a server, and the received bytes that were not read yet.
pub struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// A complete response.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The status line and the headers, in lower case.
    pub head: String,
    /// The body, without the framing of chunks.
    pub body: String,
}

impl Connection {
    /// Connects to a server.
    pub fn open(address: &str) -> Connection {
        Connection::try_open(address).unwrap()
    }

    /// Connects to a server with little room in the kernel, which by default holds megabytes of
    /// what a client does not read.
    #[cfg(target_os = "linux")]
    pub fn open_narrow(address: &str) -> Connection {
        let address: std::net::SocketAddr = address.parse().unwrap();
        let socket =
            Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).unwrap();
        // The buffers on both sides are a multiple of it.
        socket.set_tcp_mss(1_000).unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        socket.connect(&address.into()).unwrap();
        Connection::over(socket.into()).unwrap()
    }

    fn try_open(address: &str) -> io::Result<Connection> {
        Connection::over(TcpStream::connect(address)?)
    }

    fn over(stream: TcpStream) -> io::Result<Connection> {
        stream.set_read_timeout(Some(TEST_TIMEOUT))?;
        Ok(Connection { stream, unread: Vec::new() })
    }

    /// Sends a request with a JSON body to a server that may be killed meanwhile, and returns the
    /// response, if any.
    pub fn try_post(address: &str, path: &str, body: &str) -> Option<Response> {
        Connection::try_open(address).ok()?.request(address, path, "", body).response()
    }

    /// Asks a server that may be killed meanwhile, and returns the response, if any.
    pub fn try_get(address: &str, path: &str) -> Option<Response> {
        let mut connection = Connection::try_open(address).ok()?;
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes());
        connection.response()
    }

    /// Sends these bytes. Ignores errors, as a server that has already refused may have hung up.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends a request with a JSON body.
    pub fn post(address: &str, path: &str, headers: &str, body: &str) -> Connection {
        Connection::open(address).request(address, path, headers, body)
    }

    fn request(mut self, address: &str, path: &str, headers: &str, body: &str) -> Connection {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
                 {headers}Content-Length: {length}\r\n\r\n"
        );
        self.send(format!("{head}{body}").as_bytes());
        self
    }

    /// Reads more bytes. Returns `false` at the end of the connection.
    fn more(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let count = self.stream.read(&mut buffer).unwrap_or(0); // a reset counts as the end
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

    /// Returns the status and the head, or `None` if the server hung up.
    pub fn head(&mut self) -> Option<(u16, String)> {
        let head = self.until("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().unwrap();
        Some((status, head.to_lowercase()))
    }

    /// Returns the complete response, or `None` if the server hung up.
    pub fn response(&mut self) -> Option<Response> {
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
        Some(Response { status, head, body })
    }

    /// Returns the next chunk of a body, or `None` at its end.
    pub fn chunk(&mut self) -> Option<String> {
        let size = usize::from_str_radix(&self.until("\r\n")?, 16).unwrap();
        let chunk = self.exactly(size)?;
        self.exactly(2)?;
        Some(chunk).filter(|_| size > 0)
    }

    /// Returns the next frame of an event stream verbatim, skipping comments.
    pub fn frame(&mut self) -> Option<String> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            assert!(Instant::now() < deadline, "no frame comes");
            let mut frame = self.chunk()?;
            while !frame.ends_with("\n\n") {
                frame += &self.chunk()?; // a long frame has several
            }
            if !frame.starts_with(':') {
                return Some(frame);
            }
        }
    }

    /// Returns the JSON of the next frame.
    pub fn event(&mut self) -> Option<Value> {
        let frame = self.frame()?;
        let data = frame.strip_prefix("data: ").unwrap();
        Some(serde_json::from_str(data).unwrap())
    }

    /// Returns the JSON of all remaining frames.
    pub fn events(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.event()).collect()
    }

    /// Returns the next frame of this type, skipping the frames before it.
    pub fn event_of(&mut self, kind: &str) -> Value {
        loop {
            let event = self.event().unwrap();
            if event["type"] == kind {
                return event;
            }
        }
    }
}
