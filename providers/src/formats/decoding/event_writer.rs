//! Shared parts of the decoders: payloads, block numbers, and the last event.

use std::collections::VecDeque;
use std::sync::Arc;

use loopwright_core::excerpt;
use loopwright_core::message::{StopReason, Usage};
use loopwright_core::model::{BlockKind, ModelError, ModelEvent};

use crate::formats::codec::Progress;
use crate::http::endpoint::Endpoint;
use crate::http::failure::Failure;

/// The maximum number of calls, items or blocks in one reply. More are a
/// [`Protocol`](loopwright_core::model::ModelErrorKind::Protocol) error. Each fragment is looked up
/// by a linear search, and no model writes nearly as many.
pub(crate) const MAX_PARTS: usize = 1024;

/// The maximum number of kinds of output that are reported as missing.
const MAX_OMITTED: usize = 8;
/// The maximum number of bytes of a reply that are not passed on at once: opaque data, names, and
/// arguments before the name.
const MAX_HELD_BYTES: usize = 8 << 20;
/// The maximum length of the provider's reason for refusing a reply.
const MAX_REASON_CHARS: usize = 600;
/// The maximum length of the name of such a kind.
const MAX_NAME_CHARS: usize = 60;

pub(crate) type Events = VecDeque<ModelEvent>;

/// The payload of one event of a stream.
pub(crate) enum Payload<'a> {
    /// An empty payload, or a comment that was sent as data.
    KeepAlive,
    /// `[DONE]`, which ends most formats, and which gateways add to others.
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

/// A writer of the events of one reply. It numbers the blocks and ends the reply once.
#[derive(Debug)]
pub(crate) struct EventWriter {
    endpoint: Arc<Endpoint>,
    /// The number of blocks that have started.
    pub(crate) blocks: u32,
    /// `true` once the last event, `Done` or `Error`, is written.
    pub(crate) ended: bool,
    /// The open block of text or thinking, in formats that do not mark the start of a block.
    prose: Option<(u32, BlockKind)>,
    /// `true` if the reply has text or a call.
    shown: bool,
    /// The output that a reply cannot hold.
    omitted: Vec<Omitted>,
    /// The number of bytes that were received and not passed on at once.
    held: usize,
    /// The provider's reason for the end of the reply, if it refused it or cut it off.
    explanation: Option<String>,
    /// The last usage that was written.
    reported: Usage,
}

/// Output that a reply cannot hold, such as an image or a call of one of the provider's own tools.
#[derive(Debug)]
struct Omitted {
    name: String,
    /// `true` for output that is missed even if the reply has text: media, and requests that wait
    /// for an answer.
    is_missed: bool,
}

impl EventWriter {
    pub(crate) fn new(endpoint: Arc<Endpoint>) -> Self {
        let (shown, omitted) = (false, Vec::new());
        let reported = Usage::default();
        EventWriter {
            endpoint,
            blocks: 0,
            ended: false,
            prose: None,
            shown,
            omitted,
            held: 0,
            explanation: None,
            reported,
        }
    }

    /// Writes the usage so far, if it has changed.
    pub(crate) fn usage(&mut self, usage: Usage, out: &mut Events) {
        if self.ended || std::mem::replace(&mut self.reported, usage) == usage {
            return;
        }
        if let Some(ModelEvent::Usage(_)) = out.back() {
            out.pop_back();
        }
        out.push_back(ModelEvent::Usage(usage));
    }

    /// Withdraws the output so far, if there is any.
    pub(crate) fn withdraw(&mut self, out: &mut Events) {
        if self.blocks > 0 || self.reported != Usage::default() {
            out.push_back(ModelEvent::Withdrawn);
        }
        self.reported = Usage::default();
        (self.blocks, self.prose, self.shown) = (0, None, false);
        self.omitted.clear();
        self.explanation = None;
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the progress of the reply. If `complete`, only extras may follow.
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

    /// Starts a block of text or thinking. The caller has [taken](EventWriter::take_prose) the one
    /// before.
    pub(crate) fn start_prose(&mut self, kind: BlockKind, out: &mut Events) -> u32 {
        let block = self.start(kind.clone(), out);
        self.prose = Some((block, kind));
        block
    }

    /// Takes the open block of text or thinking, which the caller ends.
    pub(crate) fn take_prose(&mut self) -> Option<(u32, BlockKind)> {
        self.prose.take()
    }

    /// Records output that a reply cannot hold. If `is_missed`, it is always reported, else only if
    /// the reply has nothing else.
    pub(crate) fn omit(&mut self, name: &str, is_missed: bool) {
        let is_known = self.omitted.iter().any(|omitted| omitted.name == name);
        if !is_known && self.omitted.len() < MAX_OMITTED {
            let name = name.chars().take(MAX_NAME_CHARS).collect();
            self.omitted.push(Omitted { name, is_missed });
        }
    }

    /// Records the provider's reason for refusing the reply or cutting it off, unless it is empty.
    pub(crate) fn explain(&mut self, reason: &str) {
        let reason = reason.trim();
        if !reason.is_empty() {
            self.explanation = Some(excerpt::chars(reason, MAX_REASON_CHARS).into_owned());
        }
    }

    /// Ends the reply as complete. A text in it names omitted output and the reason of a refusal,
    /// for people and for the model.
    pub(crate) fn done(&mut self, stop: StopReason, usage: Usage, out: &mut Events) {
        let omitted = std::mem::take(&mut self.omitted);
        let shown = self.shown;
        let names = omitted.iter().filter(|omitted| omitted.is_missed || !shown);
        let names: Vec<&str> = names.map(|omitted| &*omitted.name).collect();
        let mut notes = Vec::new();
        if !names.is_empty() {
            let names = names.join(", ");
            notes.push(format!("[The reply has content that cannot be shown: {names}.]"));
        }
        if let Some(reason) = self.explanation.take() {
            notes.push(format!("[The provider refused the reply or cut it off: {reason}]"));
        }
        if !self.ended && !notes.is_empty() {
            let before = if shown { "\n\n" } else { "" };
            let delta = format!("{before}{}", notes.join("\n\n"));
            let block = self.start(BlockKind::Text, out);
            out.push_back(ModelEvent::Delta { block, delta });
            out.push_back(ModelEvent::BlockEnd { block, signature: None });
        }
        if !self.ended && self.reported != Usage::default() {
            // The last event replaces usage that was not read yet.
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

    /// Ends the reply at an unreadable payload; `problem` is a phrase like `no chunk of a reply`.
    pub(crate) fn fail_unreadable(
        &mut self,
        problem: &str,
        data: &str,
        error: &serde_json::Error,
        out: &mut Events,
    ) {
        self.fail(self.endpoint.unreadable(problem, data, error), out);
    }

    /// Ends the reply because the stream ended too early.
    pub(crate) fn fail_cut_short(&mut self, out: &mut Events) {
        self.fail(self.endpoint.cut_short(), out);
    }

    /// Ends a reply without content.
    pub(crate) fn fail_empty(&mut self, out: &mut Events) {
        self.fail_unusable("ended the stream without a reply", out);
    }

    /// Ends a reply of more than [`MAX_PARTS`] calls, items or blocks.
    pub(crate) fn fail_too_many(&mut self, parts: &str, out: &mut Events) {
        self.fail_unusable(&format!("sent a reply of more than {MAX_PARTS} {parts}"), out);
    }

    /// Counts bytes that a decoder keeps for later. The engine bounds only what it gets.
    pub(crate) fn hold(&mut self, bytes: usize, out: &mut Events) {
        self.held += bytes;
        if self.held > MAX_HELD_BYTES {
            let problem = format!("sent more than {MAX_HELD_BYTES} bytes of opaque data and names");
            self.fail_unusable(&problem, out);
        }
    }

    /// Ends a reply that cannot be used.
    pub(crate) fn fail_unusable(&mut self, problem: &str, out: &mut Events) {
        self.fail(self.endpoint.unusable(problem), out);
    }

    /// Writes the last event. A second one is dropped.
    fn end(&mut self, last: ModelEvent, out: &mut Events) {
        if !self.ended {
            self.ended = true;
            out.push_back(last);
        }
    }
}
