//! [`Lines`]: messages as lines of JSON. What a peer sends is not trusted to be valid.

use std::collections::VecDeque;
use std::io;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use loopwright_core::json::{has_more_values, member, replace_lone_surrogates};
use rmcp::service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, Empty};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, FramedRead};

/// The maximum size of a message.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// The maximum number of values in a message. Parsing so many takes tens of milliseconds.
const MAX_VALUES: usize = 250_000;
/// The length of the start that is kept of a longer line: its `id` may be there.
const KEPT_BYTES: usize = 4 << 10;

/// The result of reading a line.
pub(crate) enum Heard<R: ServiceRole> {
    Message(RxJsonRpcMessage<R>),
    /// A reply to a line that is not a message.
    Reply(TxJsonRpcMessage<R>),
}

/// A reader of the lines that one role receives.
pub(crate) trait Reader<R: ServiceRole>: Send {
    /// Notes a message that is sent.
    fn sent(&mut self, message: &TxJsonRpcMessage<R>);

    /// Returns what the line holds: more than one message if it is a batch.
    fn read(&mut self, line: Line) -> Vec<Heard<R>>;
}

/// A line, without its end.
pub(crate) struct Line {
    pub(crate) text: String,
    /// `true` if the line is too long, and only its start was kept.
    pub(crate) is_cut: bool,
}

impl Line {
    /// Returns a line whose invalid UTF-8 and lone surrogates are replaced.
    pub(crate) fn new(bytes: &[u8], is_cut: bool) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_start_matches('\u{feff}').trim();
        let text = replace_lone_surrogates(text).unwrap_or_else(|| text.to_owned());
        Line { text, is_cut }
    }

    /// Parses the line. The error is a sentence without its subject.
    pub(crate) fn parse(&self) -> Result<Value, String> {
        if self.is_cut {
            return Err(format!("has more than {MAX_MESSAGE_BYTES} bytes"));
        }
        if has_more_values(self.text.as_bytes(), MAX_VALUES) {
            return Err(format!("has more than {MAX_VALUES} values"));
        }
        serde_json::from_str(&self.text).map_err(|error| format!("is not valid JSON ({error})"))
    }

    /// Returns a member of the object that starts the line, even if the rest cannot be parsed.
    pub(crate) fn member(&self, name: &str) -> Option<Value> {
        member(&self.text, name)
    }
}

/// A codec of lines, which are bounded.
#[derive(Default)]
struct LineCodec {
    /// The number of bytes known to have no end of a line.
    seen: usize,
    /// `true` until the end of a line that is too long.
    discards: bool,
}

impl Decoder for LineCodec {
    type Item = Line;
    type Error = io::Error;

    fn decode(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Line>> {
        loop {
            let end = buffer[self.seen..].iter().position(|byte| *byte == b'\n');
            let length = end.map_or(buffer.len(), |end| self.seen + end);
            self.seen = if end.is_some() { 0 } else { length };
            let is_too_long = length > MAX_MESSAGE_BYTES;
            match end {
                None if !self.discards && !is_too_long => return Ok(None),
                None => {
                    let start = (!self.discards).then(|| cut(buffer));
                    buffer.clear();
                    (self.seen, self.discards) = (0, true);
                    return Ok(start);
                }
                Some(_) => {
                    let line = buffer.split_to(length + 1);
                    match (std::mem::take(&mut self.discards), is_too_long) {
                        (true, _) => {} // its start was returned
                        (false, true) => return Ok(Some(cut(&line))),
                        (false, false) => return Ok(Some(Line::new(&line, false))),
                    }
                }
            }
        }
    }

    fn decode_eof(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Line>> {
        let line = self.decode(buffer)?;
        Ok(line.or_else(|| {
            let rest = std::mem::take(buffer);
            self.seen = 0;
            (!rest.is_empty()).then(|| Line::new(&rest, false))
        }))
    }
}

fn cut(line: &[u8]) -> Line {
    Line::new(&line[..line.len().min(KEPT_BYTES)], true)
}

/// A transport over a pair of pipes.
pub(crate) struct Lines<R: ServiceRole, I, O: AsyncWrite, F> {
    lines: FramedRead<I, LineCodec>,
    output: AsyncRwTransport<R, Empty, O>,
    reader: F,
    heard: VecDeque<Heard<R>>,
    /// The reply that is being written, even if [`receive`](Transport::receive) is cancelled.
    replying: Option<BoxFuture<'static, io::Result<()>>>,
}

impl<R, I, O, F> Lines<R, I, O, F>
where
    R: ServiceRole,
    I: AsyncRead + Send + Unpin,
    O: AsyncWrite + Send + Unpin + 'static,
{
    pub(crate) fn new(input: I, output: O, reader: F) -> Self {
        Lines {
            lines: FramedRead::new(input, LineCodec::default()),
            output: AsyncRwTransport::new(tokio::io::empty(), output),
            reader,
            heard: VecDeque::new(),
            replying: None,
        }
    }
}

impl<R, I, O, F> Transport<R> for Lines<R, I, O, F>
where
    R: ServiceRole,
    I: AsyncRead + Send + Unpin,
    O: AsyncWrite + Send + Unpin + 'static,
    F: Reader<R>,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<R>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.reader.sent(&message);
        self.output.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<R>> {
        loop {
            if let Some(reply) = &mut self.replying {
                reply.await.ok()?;
                self.replying = None;
            }
            match self.heard.pop_front() {
                Some(Heard::Message(message)) => return Some(message),
                Some(Heard::Reply(reply)) => {
                    self.replying = Some(Box::pin(self.output.send(reply)));
                }
                None => {
                    let line = self.lines.next().await?.ok()?;
                    self.heard.extend(self.reader.read(line));
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8], chunk: usize) -> Vec<(usize, bool)> {
        let (mut codec, mut buffer, mut lines) =
            (LineCodec::default(), BytesMut::new(), Vec::new());
        for chunk in bytes.chunks(chunk) {
            buffer.extend_from_slice(chunk);
            while let Some(line) = codec.decode(&mut buffer).unwrap() {
                lines.push(line);
            }
            assert!(buffer.len() <= MAX_MESSAGE_BYTES);
        }
        while let Some(line) = codec.decode_eof(&mut buffer).unwrap() {
            lines.push(line);
        }
        lines.into_iter().map(|line| (line.text.len(), line.is_cut)).collect()
    }

    #[test]
    fn lines_are_bounded_however_they_arrive() {
        let max = "y".repeat(MAX_MESSAGE_BYTES);
        let text = format!("a\r\n\n{max}z\nbb\n{max}\n{max}zz\nccc");
        let cut = (KEPT_BYTES, true);
        let expected =
            [(1, false), (0, false), cut, (2, false), (MAX_MESSAGE_BYTES, false), cut, (3, false)];
        for chunk in [8 << 10, (1 << 20) + 7, text.len()] {
            assert_eq!(decode(text.as_bytes(), chunk), expected, "{chunk}");
        }
        assert_eq!(decode(format!("{max}zz").as_bytes(), 1 << 20), [cut]);
    }
}
