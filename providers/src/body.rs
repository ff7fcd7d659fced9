//! The body of one reply, made model events: the event-stream parser and a format's decoder in one. No I/O.

use std::collections::VecDeque;

use loopwright::ModelEvent;
use serde_json::value::RawValue;

use crate::codec::{Decode, Progress};
use crate::sse::SseParser;

/// Reads the bytes of one reply as they come.
///
/// More lenient than the event-stream specification where servers are: a last event without its blank line counts,
/// and so does JSON outside of any event, be it the whole body or an error at its end.
#[derive(Debug)]
pub struct ReplyBody<D> {
    parser: SseParser,
    decoder: D,
}

impl<D: Decode> ReplyBody<D> {
    /// A body of which nothing has come yet.
    pub fn new(decoder: D) -> Self {
        ReplyBody { parser: SseParser::new(), decoder }
    }

    /// Takes the next bytes and appends what they tell to `out`. Gives how far the reply has come; nothing if there
    /// was no event in them, as with keep-alives.
    pub fn push(&mut self, bytes: &[u8], out: &mut VecDeque<ModelEvent>) -> Option<Progress> {
        let ReplyBody { parser, decoder } = self;
        let mut progress = None;
        parser.push(bytes, |event| match decoder.decode(event.data, out) {
            Progress::Waiting => {}
            told => progress = Some(told),
        });
        progress.or(parser.is_bare().then_some(Progress::Open))
    }

    /// The body is over, but that was no end of its own: hands out what is left in it.
    pub fn rest(&mut self, out: &mut VecDeque<ModelEvent>) -> Option<Progress> {
        let ReplyBody { parser, decoder } = self;
        let mut progress = None;
        parser.flush(|event| match serde_json::from_slice::<Vec<&RawValue>>(event.data) {
            Ok(list) => list.iter().for_each(|one| progress = Some(decoder.decode(one.get().as_bytes(), out))),
            Err(_) => progress = Some(decoder.decode(event.data, out)),
        });
        progress
    }

    /// The body is over: appends the event that ends the reply, unless it was there already.
    pub fn finish(&mut self, out: &mut VecDeque<ModelEvent>) {
        self.rest(out);
        self.decoder.finish(out);
    }

    /// How many bytes of an unfinished event are kept.
    pub fn buffered(&self) -> usize {
        self.parser.buffered()
    }
}
