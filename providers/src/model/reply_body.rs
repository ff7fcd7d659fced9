//! The body of one reply: the event-stream parser combined with a format's decoder. No I/O.

use std::borrow::Cow;
use std::collections::VecDeque;

use loopwright_core::model::ModelEvent;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::formats::codec::{Decode, Progress};
use crate::http::sse::SseParser;

/// A reader of one reply, fed with its bytes as they come.
///
/// Like many servers, it is more lenient than the event-stream specification. A last event without
/// its blank line counts. So does JSON outside any event, as the whole body or as an error at its
/// end.
#[derive(Debug)]
pub struct ReplyBody<D> {
    parser: SseParser,
    decoder: D,
}

impl<D: Decode> ReplyBody<D> {
    /// Returns the body of a reply, before its first byte.
    pub fn new(decoder: D) -> Self {
        ReplyBody { parser: SseParser::new(), decoder }
    }

    /// Decodes the next bytes and appends their events to `out`. Returns the progress of the reply,
    /// or `None` if the bytes complete no event, as with keep-alives.
    pub fn push(&mut self, bytes: &[u8], out: &mut VecDeque<ModelEvent>) -> Option<Progress> {
        let ReplyBody { parser, decoder } = self;
        let mut progress = None;
        parser.push(bytes, |event| {
            match decoder.decode(&text(event.data), out) {
                Progress::Waiting => {}
                advance => progress = Some(advance),
            }
            join_deltas(out);
        });
        progress.or(parser.is_bare().then_some(Progress::Open))
    }

    /// Ends the body. Decodes the rest, unless it was cut off, and appends the last event, unless
    /// it was appended before.
    pub fn finish(&mut self, out: &mut VecDeque<ModelEvent>) {
        let ReplyBody { parser, decoder } = self;
        let mut decode = |data: &str| {
            decoder.decode(data, out);
        };
        parser.flush(|event| {
            let data = text(event.data);
            match serde_json::from_str::<Vec<&RawValue>>(&data) {
                Ok(list) => list.iter().for_each(|one| decode(one.get())),
                Err(_) if is_cut(&data) => {}
                Err(_) => decode(&data),
            }
        });
        decoder.finish(out);
    }

    /// Returns the body of the request that resumes the reply, if the provider has paused it. See
    /// [`Decode::resume`].
    pub fn resume(&mut self, sent: &[u8]) -> Option<Vec<u8>> {
        let more = self.decoder.resume(sent)?;
        self.parser = SseParser::new();
        Some(more)
    }

    /// Returns the number of buffered bytes of an unfinished event.
    pub fn buffered(&self) -> usize {
        self.parser.buffered()
    }
}

/// Converts bytes to text, replacing invalid UTF-8.
fn text(data: &[u8]) -> Cow<'_, str> {
    // Much faster than the lossy conversion for valid UTF-8.
    std::str::from_utf8(data).map_or_else(|_| String::from_utf8_lossy(data), Cow::Borrowed)
}

/// Joins deltas that arrived together. A delta is appended to the previous one if that belongs to
/// the same block and was not read yet.
fn join_deltas(ready: &mut VecDeque<ModelEvent>) {
    let mut last = ready.iter().rev();
    let (Some(ModelEvent::Delta { block: new, .. }), Some(ModelEvent::Delta { block: old, .. })) =
        (last.next(), last.next())
    else {
        return;
    };
    if new != old {
        return;
    }
    if let Some(ModelEvent::Delta { delta: more, .. }) = ready.pop_back()
        && let Some(ModelEvent::Delta { delta, .. }) = ready.back_mut()
    {
        delta.push_str(&more);
    }
}

/// Returns whether `data` is a truncated JSON value.
fn is_cut(data: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(data).is_err_and(|why| why.is_eof())
}

#[cfg(test)]
mod tests {
    use loopwright_core::model::ModelErrorKind;

    use super::*;
    use crate::formats::openai_chat::Decoder;
    use crate::http::endpoint::Endpoint;

    const CHUNK: &str = r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#;

    /// Returns the kind of error of a reply with this body, or `None` for a complete reply.
    fn error(body: &str) -> Option<ModelErrorKind> {
        let (mut reply, mut out) =
            (ReplyBody::new(Decoder::new(Endpoint::default())), VecDeque::new());
        reply.push(body.as_bytes(), &mut out);
        reply.finish(&mut out);
        match out.pop_back() {
            Some(ModelEvent::Done { .. }) => None,
            Some(ModelEvent::Error(error)) => Some(error.kind),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_last_event_without_its_blank_line_counts_and_a_cut_one_does_not() {
        assert_eq!(error(&format!("data: {CHUNK}\n\n")), None);
        assert_eq!(error(&format!("data: {CHUNK}")), None);
        assert_eq!(error(&format!("data: {}", &CHUNK[..40])), Some(ModelErrorKind::Network));
    }

    #[test]
    fn a_body_that_is_no_event_stream_is_read_all_the_same() {
        assert_eq!(error(CHUNK), None);
        assert_eq!(error(&format!("[{CHUNK}]")), None);
        let refused = r#"{ "error": {"code": 401, "message": "no"} }"#;
        assert_eq!(error(refused), Some(ModelErrorKind::Auth));
        assert_eq!(error(&format!("[{refused}\n]")), Some(ModelErrorKind::Auth));
        assert_eq!(error(&format!("data: {CHUNK}\n\n{refused}")), Some(ModelErrorKind::Auth));
    }

    #[test]
    fn a_keep_alive_is_no_progress() {
        let mut reply = ReplyBody::new(Decoder::new(Endpoint::default()));
        assert_eq!(reply.push(b": still here\n\ndata: : and here\n\n", &mut VecDeque::new()), None);
        assert_eq!(reply.push(b"{\n", &mut VecDeque::new()), Some(Progress::Open));
    }
}
