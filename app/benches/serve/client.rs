//! The client: many event streams at a time on one thread, and the latency of each delta.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::clock;

/// The time limit for connecting, and for the next byte of a stream.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// A response, read line by line.
///
/// Chunks are not parsed, because the lines with their sizes do not look like events. An event that
/// is split between chunks would be missed and counted as lost.
pub(crate) struct Lines {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// The number of bytes that were returned.
    consumed: usize,
    /// The arrival time of the last bytes.
    pub(crate) arrived_at: u64,
}

impl Lines {
    /// Sends a request. Returns `None` if the connection fails.
    pub(crate) async fn ask(to: SocketAddr, method: &str, path: &str, body: &str) -> Option<Lines> {
        let mut stream = timeout(CLIENT_TIMEOUT, TcpStream::connect(to)).await.ok()?.ok()?;
        stream.set_nodelay(true).ok()?;
        let kind = if method == "POST" { "content-type: application/json\r\n" } else { "" };
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n\
             {kind}content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        Some(Lines { stream, bytes: Vec::new(), consumed: 0, arrived_at: clock() })
    }

    /// Returns the next line without its end, or `None` if the connection ends or times out.
    pub(crate) async fn next(&mut self) -> Option<&str> {
        let mut from = self.consumed;
        loop {
            if let Some(end) = self.bytes[from..].iter().position(|byte| *byte == b'\n') {
                let begin = std::mem::replace(&mut self.consumed, from + end + 1);
                return Some(std::str::from_utf8(&self.bytes[begin..from + end]).ok()?.trim_end());
            }
            self.bytes.drain(..std::mem::take(&mut self.consumed));
            from = self.bytes.len();
            self.bytes.reserve(512);
            if timeout(CLIENT_TIMEOUT, self.stream.read_buf(&mut self.bytes)).await.ok()?.ok()? == 0
            {
                return None;
            }
            self.arrived_at = clock();
        }
    }

    /// Returns the rest of the response.
    pub(crate) async fn rest(mut self) -> String {
        let _ = timeout(CLIENT_TIMEOUT, self.stream.read_to_end(&mut self.bytes)).await;
        String::from_utf8_lossy(&self.bytes[self.consumed..]).into_owned()
    }

    /// Returns whether the status is a success.
    pub(crate) async fn accepted(&mut self) -> bool {
        self.next().await.is_some_and(|line| line.starts_with("HTTP/1.1 2"))
    }
}

/// The marks of the parts of a reply in a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks {
    /// The start of the line that ends the reply.
    pub(crate) end: &'static str,
    /// The line before each line with a delta, if the stream names its events.
    pub(crate) delta: Option<&'static str>,
}

/// The marks of a session's events.
pub(crate) const EVENTS: Marks =
    Marks { end: "event: agent_end", delta: Some("event: message_update") };

/// A received reply.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// The arrival time and the latency of each delta, in nanoseconds.
    pub(crate) deltas: Vec<(u64, u64)>,
    /// `true` if the reply was complete.
    pub(crate) is_complete: bool,
    /// The error that the server sent, if any.
    pub(crate) error: Option<String>,
}

impl Reply {
    /// Returns a reply that failed without a delta.
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Reply { error: Some(why.into()), ..Reply::default() }
    }
}

/// Sends a request and reads the reply.
pub(crate) async fn request(to: SocketAddr, path: &str, body: &str, marks: Marks) -> Reply {
    let Some(mut lines) = Lines::ask(to, "POST", path, body).await else {
        return Reply::failed("no connection");
    };
    match lines.accepted().await {
        true => read(lines, marks).await,
        false => Reply::failed(lines.rest().await),
    }
}

/// Sends a request, and returns the body of the response.
pub(crate) async fn fetch(
    to: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> Result<String, String> {
    let mut lines = Lines::ask(to, method, path, body).await.ok_or("no connection")?;
    let is_accepted = lines.accepted().await;
    let rest = lines.rest().await;
    match rest.split_once("\r\n\r\n") {
        Some((_, body)) if is_accepted => Ok(body.to_owned()),
        _ => Err(rest),
    }
}

/// Reads a reply to its end.
pub(crate) async fn read(mut lines: Lines, marks: Marks) -> Reply {
    let mut reply = Reply::default();
    let mut is_delta = true;
    loop {
        let Some(line) = lines.next().await else {
            reply.error.get_or_insert("cut off".into());
            return reply;
        };
        if line.starts_with(marks.end) {
            reply.is_complete = true;
            return reply;
        }
        if line.starts_with("event: ") {
            is_delta = marks.delta.is_none_or(|delta| line == delta);
        }
        let Some(data) = line.strip_prefix("data: ").filter(|_| is_delta) else {
            continue;
        };
        if data.starts_with(r#"{"type":"error""#) || data.starts_with(r#"{"type":"withdrawn""#) {
            reply.error = Some(data.to_owned());
        }
        // If the server has joined deltas, each still has the time when it was sent.
        let sent: Vec<u64> =
            data.split('@').skip(1).step_by(2).filter_map(|sent| sent.parse().ok()).collect();
        let arrived_at = lines.arrived_at;
        reply
            .deltas
            .extend(sent.into_iter().map(|sent| (arrived_at, arrived_at.saturating_sub(sent))));
    }
}
