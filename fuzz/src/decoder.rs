//! A decoder behind the parser: its events are in order, it ends once, every split gives the same
//! reply, and a cut stream never becomes a finished turn.

use std::collections::VecDeque;
use std::sync::Arc;

use loopwright_providers::{Endpoint, Progress, ReplyBody, SseParser, WireFormat};
use serde_json::Value;

use crate::random::Random;
use crate::reply::Reply;

/// A wire format, described by the payloads that end its streams.
pub struct Format {
    /// Predicate for payloads that mark the end.
    pub ends: fn(&Value) -> bool,
}

/// Panics if the decoder of `F` violates an invariant with this body.
pub fn check_decoder<F: WireFormat>(format: &Format, body: &[u8]) {
    let mut random = Random::of(body);
    let whole = read::<F>(&[body]);
    assert_eq!(read::<F>(&random.split(body)), whole, "split it is something else");
    for cut in [body.len(), random.below(body.len() + 1)] {
        let cut = &body[..cut];
        let done = read::<F>(&[cut]).is_done();
        assert!(!done || says_end(format, cut), "a finished turn of a stream that was cut");
    }
}

/// Returns the reply to these chunks.
fn read<F: WireFormat>(chunks: &[&[u8]]) -> Reply {
    let mut body = ReplyBody::new(F::decoder(Arc::new(Endpoint::default())));
    let (mut reply, mut out, mut pushed) = (Reply::default(), VecDeque::new(), 0);
    let mut chunks = chunks.iter();
    for chunk in chunks.by_ref() {
        pushed += chunk.len();
        let progress = body.push(chunk, &mut out);
        assert!(body.buffered() <= pushed + 1, "{} bytes kept of {pushed}", body.buffered());
        out.drain(..).for_each(|event| reply.add(event));
        assert_eq!(reply.has_ended(), progress == Some(Progress::Ended), "{progress:?}");
        if reply.has_ended() {
            break;
        }
    }
    // A reply ends only once. More bytes and the end of the body add no events.
    for chunk in chunks.take(8) {
        body.push(chunk, &mut out);
    }
    assert!(reply.has_ended() || out.is_empty());
    body.finish(&mut out);
    out.drain(..).for_each(|event| reply.add(event));
    assert!(reply.has_ended(), "there is no end");
    assert!(
        reply.bytes <= 16 * pushed + 1024,
        "{} bytes of events from {pushed} bytes",
        reply.bytes
    );
    reply
}

/// Returns whether a payload ends the reply, or the format has no such payload.
fn says_end(format: &Format, body: &[u8]) -> bool {
    let mut says = false;
    let mut inspect = |payload: &[u8]| {
        let text = String::from_utf8_lossy(payload);
        let text = text.trim_ascii();
        says |= text == "[DONE]"
            || match serde_json::from_str::<Value>(text) {
                Ok(Value::Array(list)) => list.iter().any(format.ends),
                Ok(value) => (format.ends)(&value),
                Err(why) => !why.is_eof(),
            };
    };
    let mut parser = SseParser::new();
    parser.push(body, |event| inspect(event.data));
    parser.flush(|event| inspect(event.data));
    says
}
