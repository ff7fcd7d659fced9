//! Shared parts of the decoders: payloads, block numbers, and the last event.

use std::collections::VecDeque;
use std::sync::Arc;

use loopwright_core::message::{StopReason, Usage};
use loopwright_core::model::{BlockKind, ModelError, ModelEvent};

use crate::codec::Progress;
use crate::endpoint::Endpoint;
use crate::failure::Failure;

/// The maximum number of calls, items or blocks in one reply; more are a
/// [`Protocol`](loopwright_core::model::ModelErrorKind::Protocol) error. Each fragment is searched
/// for among those there are, and no model writes nearly as many.
pub(crate) const MAX_PARTS: usize = 1024;

/// The maximum number of kinds of output that are reported as missing.
const MAX_OMITTED: usize = 8;
/// The maximum length of the name of one of them.
const MAX_NAME_CHARS: usize = 60;

pub(crate) type Events = VecDeque<ModelEvent>;

/// The payload of one event of a stream.
pub(crate) enum Payload<'a> {
    /// Empty, or a comment that was sent as data.
    KeepAlive,
    /// `[DONE]`, which most formats end with, and gateways add to others.
    EndMark,
    Data(&'a str),
}

impl<'a> Payload<'a> {
    pub(crate) fn of(data: &'a str) -> Self {
        let data = data.trim_ascii();
        match data.as_bytes() {
            [] | [b':', ..] => Payload::KeepAlive,
            b"[DONE]" => Payload::EndMark,
            _ => Payload::Data(data),
        }
    }
}

/// Writes the events of one reply: numbers its blocks and ends it once.
#[derive(Debug)]
pub(crate) struct EventWriter {
    endpoint: Arc<Endpoint>,
    /// The number of blocks that have started.
    pub(crate) blocks: u32,
    /// The last event, `Done` or `Error`, is written.
    pub(crate) ended: bool,
    /// The open block of text or thinking, in formats that do not say where one starts.
    prose: Option<(u32, BlockKind)>,
    /// The reply has text or a call.
    shown: bool,
    /// The output that a reply cannot hold.
    omitted: Vec<Omitted>,
    /// The usage that was last written.
    reported: Usage,
}

/// Output that a reply cannot hold, such as an image or a call of one of the provider's own tools.
#[derive(Debug)]
struct Omitted {
    name: String,
    /// It is for the user, and is missed even if the reply has text.
    is_media: bool,
}

impl EventWriter {
    pub(crate) fn new(endpoint: Arc<Endpoint>) -> Self {
        let (shown, omitted) = (false, Vec::new());
        let reported = Usage::default();
        EventWriter { endpoint, blocks: 0, ended: false, prose: None, shown, omitted, reported }
    }

    /// Writes what the reply has used so far, if that has changed.
    pub(crate) fn usage(&mut self, usage: Usage, out: &mut Events) {
        if self.ended || std::mem::replace(&mut self.reported, usage) == usage {
            return;
        }
        if let Some(ModelEvent::Usage(_)) = out.back() {
            out.pop_back();
        }
        out.push_back(ModelEvent::Usage(usage));
    }

    /// Withdraws what was written, if there is anything.
    pub(crate) fn withdraw(&mut self, out: &mut Events) {
        if self.blocks > 0 || self.reported != Usage::default() {
            out.push_back(ModelEvent::Withdrawn);
        }
        self.reported = Usage::default();
        (self.blocks, self.prose, self.shown) = (0, None, false);
        self.omitted.clear();
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns how far the reply has come; `complete` says that only extras may follow.
    pub(crate) fn progress(&self, complete: bool) -> Progress {
        match (self.ended, complete) {
            (true, _) => Progress::Ended,
            (false, true) => Progress::Complete,
            (false, false) => Progress::Open,
        }
    }

    /// Starts a block and returns its number.
    pub(crate) fn start(&mut self, kind: BlockKind, out: &mut Events) -> u32 {
        let block = self.blocks;
        self.blocks += 1;
        self.shown |= kind != BlockKind::Thinking;
        out.push_back(ModelEvent::BlockStart { block, kind });
        block
    }

    /// Returns the open block of text or thinking, if it is of this kind.
    pub(crate) fn prose(&self, kind: &BlockKind) -> Option<u32> {
        self.prose.as_ref().filter(|(_, open)| open == kind).map(|(block, _)| *block)
    }

    /// Starts a block of text or thinking, after the one before it has been
    /// [taken](EventWriter::take_prose).
    pub(crate) fn start_prose(&mut self, kind: BlockKind, out: &mut Events) -> u32 {
        let block = self.start(kind.clone(), out);
        self.prose = Some((block, kind));
        block
    }

    /// Takes the open block of text or thinking, which the caller ends.
    pub(crate) fn take_prose(&mut self) -> Option<(u32, BlockKind)> {
        self.prose.take()
    }

    /// Records output that a reply cannot hold. Media are always reported, other output only if
    /// the reply has nothing else.
    pub(crate) fn omit(&mut self, name: &str, is_media: bool) {
        let is_known = self.omitted.iter().any(|omitted| omitted.name == name);
        if !is_known && self.omitted.len() < MAX_OMITTED {
            let name = name.chars().take(MAX_NAME_CHARS).collect();
            self.omitted.push(Omitted { name, is_media });
        }
    }

    /// Ends the reply as complete. Text in it reports the output that it lacks, so that people and
    /// the model know of it.
    pub(crate) fn done(&mut self, stop: StopReason, usage: Usage, out: &mut Events) {
        let omitted = std::mem::take(&mut self.omitted);
        let shown = self.shown;
        let names = omitted.iter().filter(|omitted| omitted.is_media || !shown);
        let names: Vec<&str> = names.map(|omitted| &*omitted.name).collect();
        if !self.ended && !names.is_empty() {
            let before = if shown { "\n\n" } else { "" };
            let names = names.join(", ");
            let delta = format!("{before}[The reply has content that cannot be shown: {names}.]");
            let block = self.start(BlockKind::Text, out);
            out.push_back(ModelEvent::Delta { block, delta });
            out.push_back(ModelEvent::BlockEnd { block, signature: None });
        }
        if !self.ended && self.reported != Usage::default() {
            // The last event replaces those that were not read yet.
            out.retain(|event| !matches!(event, ModelEvent::Usage(_)));
        }
        self.end(ModelEvent::Done { stop, usage }, out);
    }

    /// Ends the reply with an error.
    pub(crate) fn fail(&mut self, error: ModelError, out: &mut Events) {
        self.end(ModelEvent::Error(error), out);
    }

    /// Ends the reply with a failure of the provider.
    pub(crate) fn fail_with(&mut self, failure: Failure, out: &mut Events) {
        self.fail(self.endpoint.error(failure), out);
    }

    /// Ends the reply with the error that a payload describes.
    pub(crate) fn fail_with_payload(&mut self, data: &str, out: &mut Events) {
        self.fail_with(Failure::read(None, data.as_bytes()), out);
    }

    /// Ends the reply at a payload that cannot be read; `problem` says what it is not.
    pub(crate) fn fail_unreadable(
        &mut self,
        problem: &str,
        data: &str,
        error: &serde_json::Error,
        out: &mut Events,
    ) {
        self.fail(self.endpoint.unreadable(problem, data, error), out);
    }

    /// Ends the reply at the end of a stream that came too early.
    pub(crate) fn fail_cut_short(&mut self, out: &mut Events) {
        self.fail(self.endpoint.cut_short(), out);
    }

    /// Ends a reply in which there is nothing.
    pub(crate) fn fail_empty(&mut self, out: &mut Events) {
        self.fail_unusable("ended the stream without a reply", out);
    }

    /// Ends a reply of more than [`MAX_PARTS`] calls, items or blocks.
    pub(crate) fn fail_too_many(&mut self, parts: &str, out: &mut Events) {
        self.fail_unusable(&format!("sent a reply of more than {MAX_PARTS} {parts}"), out);
    }

    /// Ends a reply that cannot be used.
    pub(crate) fn fail_unusable(&mut self, problem: &str, out: &mut Events) {
        self.fail(self.endpoint.unusable(problem), out);
    }

    /// Writes the last event; a second one is dropped.
    fn end(&mut self, last: ModelEvent, out: &mut Events) {
        if !self.ended {
            self.ended = true;
            out.push_back(last);
        }
    }
}
