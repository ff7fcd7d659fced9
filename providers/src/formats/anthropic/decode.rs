//! Decoder of a Messages stream into model events.

use std::mem::take;
use std::sync::Arc;

use loopwright_core::json::replace_lone_surrogates;
use loopwright_core::message::{StopReason, Usage};
use loopwright_core::model::{BlockKind, ModelEvent};
use serde_json::value::RawValue;

use super::paused_turn::Transcript;
use super::wire::REDACTED;
use super::wire::{Block, Counts, Delta, Event, StopDetails};
use crate::formats::codec::{Decode, Progress};
use crate::formats::decoding::event_template::EventTemplate;
use crate::formats::decoding::event_writer::{EventWriter, Events, MAX_PARTS, Payload};
use crate::formats::encoding::answer_tool::is_answer;
use crate::http::endpoint::Endpoint;
use crate::http::failure::Failure;

/// A decoder of one Messages stream.
///
/// The provider's own tools, their results and compactions are not part of the reply. A second
/// `message_start` withdraws the first. Its blocks come before the stream's, unless the stream
/// repeats them. The calls decide whether the model wants tools, not the `stop_reason`. A turn that
/// the provider paused continues with [`Decode::resume`], or else ends.
#[derive(Debug)]
pub struct Decoder {
    writer: EventWriter,
    frame: EventTemplate,
    /// The index of the block whose deltas `frame` matches.
    framed: u64,
    open: Vec<OpenBlock>,
    /// The blocks of the `message_start`, as JSON, until it is known that no event repeats them.
    held: Vec<String>,
    calls: bool,
    /// The raw blocks, to continue a paused turn.
    transcript: Transcript,
    /// `true` once the provider has paused the turn.
    paused: bool,
    /// `true` after a pause: the next `message_start` withdraws nothing.
    continues: bool,
    stop: String,
    counts: Counts,
    /// The usage before the pause.
    used: Usage,
    /// The tokens of the largest request before the pause.
    max_total: u64,
}

/// An open block.
#[derive(Debug)]
struct OpenBlock {
    /// The index in the stream, which also counts blocks that are not part of the reply.
    index: u64,
    /// The index in the reply.
    block: u32,
    signature: String,
    /// The arguments in the call's start event; used if no deltas follow.
    input: Option<String>,
}

impl Decode for Decoder {
    fn decode(&mut self, data: &str, out: &mut Events) -> Progress {
        match Payload::of(data) {
            _ if self.writer.ended => {}
            Payload::KeepAlive => return Progress::Waiting,
            Payload::EndMark => {} // some gateways send it
            Payload::Data(data) if self.add_framed(data, out) => {}
            Payload::Data(data) => match read(data) {
                Ok((event, _)) if event.kind.0 == "ping" => return Progress::Waiting,
                Ok((event, delta)) => self.event(event, delta, data, out),
                Err(why) => match replace_lone_surrogates(data) {
                    Some(text) => return self.decode(&text, out),
                    None => self.writer.fail_unreadable("no event of a message", data, &why, out),
                },
            },
        }
        self.writer.progress(self.paused)
    }

    fn resume(&mut self, sent: &[u8]) -> Option<Vec<u8>> {
        if !self.paused {
            return None; // most streams end here: the rest is not parsed
        }
        let body = self.transcript.resume(sent)?;
        (self.paused, self.continues) = (false, true);
        self.count();
        Some(body)
    }

    fn finish(&mut self, out: &mut Events) {
        if self.paused {
            return self.end(out);
        }
        self.writer.fail_cut_short(out);
    }
}

/// Parses an event and its delta.
fn read(data: &str) -> Result<(Event<'_>, Option<Delta<'_>>), serde_json::Error> {
    let event: Event<'_> = serde_json::from_str(data)?;
    let delta = event.delta.map(|raw| serde_json::from_str(raw.get())).transpose()?;
    Ok((event, delta))
}

impl Decoder {
    /// Returns a decoder for one reply from `endpoint`.
    pub fn new(endpoint: impl Into<Arc<Endpoint>>) -> Self {
        Decoder {
            writer: EventWriter::new(endpoint.into()),
            frame: EventTemplate::default(),
            framed: 0,
            open: Vec::new(),
            held: Vec::new(),
            calls: false,
            transcript: Transcript::default(),
            paused: false,
            continues: false,
            stop: String::new(),
            counts: Counts::default(),
            used: Usage::default(),
            max_total: 0,
        }
    }

    /// Handles an event that differs from an earlier one only in its delta. Returns `false` for
    /// other events.
    fn add_framed(&mut self, data: &str, out: &mut Events) -> bool {
        let delta: Option<Delta<'_>> = self.frame.read(data);
        if let Some(delta) = &delta {
            self.add(self.framed, delta, out);
        }
        delta.is_some()
    }

    fn add(&mut self, index: u64, delta: &Delta<'_>, out: &mut Events) {
        self.transcript.add(index, delta);
        self.delta(index, delta, out);
    }

    fn event(&mut self, event: Event<'_>, delta: Option<Delta<'_>>, data: &str, out: &mut Events) {
        let raw = event.delta.filter(|_| event.is_delta());
        let (content, first_usage) =
            event.message.map_or((None, None), |start| (start.content, start.usage));
        let usage = event.usage.map(|usage| *usage).or(first_usage);
        match &*event.kind.0 {
            "message_start" => self.begin(content, out),
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    if event.index.0 < self.held.len() as u64 {
                        self.held.clear();
                    }
                    self.release(out);
                    if self.transcript.len() >= MAX_PARTS {
                        return self.writer.fail_too_many("blocks", out);
                    }
                    self.transcript.begin(event.index.0, data);
                    self.start(event.index.0, *block, out);
                }
            }
            "content_block_delta" => {
                if let Some(delta) = &delta {
                    self.add(event.index.0, delta, out);
                }
                if let Some(raw) = raw {
                    self.framed = event.index.0;
                    self.frame.learn(data, raw);
                }
            }
            "content_block_stop" => self.close(event.index.0, out),
            "message_delta" => {
                self.release(out);
                if let Some(delta) = delta.filter(|delta| !delta.stop_reason.0.is_empty()) {
                    self.stop = delta.stop_reason.0.into_owned();
                    self.explain(delta.stop_details);
                }
            }
            "message" => {
                for (index, block) in (0..).zip(event.content.into_iter().flatten()) {
                    self.start(index, block, out);
                    self.close(index, out);
                }
                self.stop = event.stop_reason.0.into_owned();
                self.explain(event.stop_details);
            }
            "message_stop" => self.release(out),
            "error" => {
                return self.writer.fail_with_payload(data, out);
            }
            _ if event.error.is_some() => {
                return self.writer.fail_with_payload(data, out);
            }
            _ => {}
        }
        if let Some(usage) = usage {
            self.counts.update(&usage);
            if !matches!(&*event.kind.0, "message" | "message_stop") {
                self.writer.usage(self.usage(), out);
            }
        }
        match &*event.kind.0 {
            "message_stop" if matches!(&*self.stop, "pause_turn" | "compaction") => self.pause(out),
            "message" | "message_stop" => self.end(out),
            _ => {}
        }
    }

    /// Starts the message. Withdraws an earlier one, unless the turn continues.
    fn begin(&mut self, content: Option<&RawValue>, out: &mut Events) {
        self.open.clear();
        self.transcript.clear();
        self.stop.clear();
        let blocks = content.and_then(|raw| serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok());
        self.held = blocks.into_iter().flatten().map(|block| block.get().to_owned()).collect();
        if take(&mut self.continues) {
            return;
        }
        self.writer.withdraw(out);
        (self.calls, self.counts, self.paused) = (false, Counts::default(), false);
    }

    /// Adds the blocks of the `message_start`.
    fn release(&mut self, out: &mut Events) {
        for (index, raw) in (0..).zip(take(&mut self.held)) {
            if self.transcript.len() >= MAX_PARTS {
                return self.writer.fail_too_many("blocks", out);
            }
            self.transcript.begin(index, &format!("{{\"content_block\":{raw}}}"));
            if let Ok(block) = serde_json::from_str::<Block<'_>>(&raw) {
                self.start(index, block, out);
                self.close(index, out);
            }
        }
    }

    fn start(&mut self, index: u64, opening: Block<'_>, out: &mut Events) {
        let kind = match &*opening.kind.0 {
            "text" => BlockKind::Text,
            "tool_use" if is_answer(&opening.name.0) => BlockKind::Text,
            "thinking" | "redacted_thinking" => BlockKind::Thinking,
            "tool_use" => BlockKind::ToolCall {
                id: opening.id.0.into_owned(),
                name: opening.name.0.into_owned(),
            },
            other => return self.writer.omit(other, false),
        };
        self.calls |= matches!(kind, BlockKind::ToolCall { .. });
        let redacted = if opening.data.0.is_empty() {
            String::new()
        } else {
            format!("{REDACTED}{}", opening.data.0)
        };
        let block = self.writer.start(kind, out);
        let open = OpenBlock {
            index,
            block,
            signature: redacted + &opening.signature.0,
            input: (opening.kind.0 == "tool_use")
                .then(|| opening.input.map_or("{}", |input| input.get()).to_owned()),
        };
        push_delta(open.block, &opening.text.0, out);
        push_delta(open.block, &opening.thinking.0, out);
        self.open.push(open);
    }

    fn delta(&mut self, index: u64, delta: &Delta<'_>, out: &mut Events) {
        let Some(open) = self.open.iter_mut().rfind(|open| open.index == index) else {
            return;
        };
        self.writer.hold(delta.signature.0.len(), out);
        open.signature.push_str(&delta.signature.0);
        if !delta.partial_json.0.is_empty() {
            open.input = None;
        }
        for text in [&delta.text, &delta.thinking, &delta.partial_json] {
            push_delta(open.block, &text.0, out);
        }
    }

    fn close(&mut self, index: u64, out: &mut Events) {
        if let Some(at) = self.open.iter().rposition(|open| open.index == index) {
            self.open.remove(at).end(out);
        }
    }

    /// Records the reason of a refusal.
    fn explain(&mut self, details: Option<&RawValue>) {
        if let Some(raw) = details.filter(|_| self.stop == "refusal") {
            self.writer.explain(StopDetails::read(raw).reason());
        }
    }

    /// Records that the provider paused the turn; open blocks are complete.
    fn pause(&mut self, out: &mut Events) {
        take(&mut self.open).into_iter().for_each(|open| open.end(out));
        self.paused = true;
    }

    /// Ends a complete reply.
    fn end(&mut self, out: &mut Events) {
        let stop = match &*self.stop {
            "" if self.writer.blocks == 0 => {
                return self.writer.fail_empty(out);
            }
            "model_context_window_exceeded" => {
                let failure =
                    Failure { codes: "context_window_exceeded".into(), ..Failure::default() };
                return self.writer.fail_with(failure, out);
            }
            "max_tokens" => StopReason::Length,
            "refusal" => StopReason::ContentFilter,
            _ if self.calls => StopReason::ToolCalls,
            _ => StopReason::Stop,
        };
        take(&mut self.open).into_iter().for_each(|open| open.end(out));
        self.count();
        let outside = self.used.total().saturating_sub(self.max_total);
        self.writer.done(stop, self.used.outside_context(outside), out);
    }

    /// Returns the usage so far.
    fn usage(&self) -> Usage {
        let current = self.counts.usage();
        let mut all = self.used;
        all += current;
        let max_total = self.max_total.max(current.context());
        all.outside_context(all.total().saturating_sub(max_total))
    }

    /// Adds the usage of a message that has ended.
    fn count(&mut self) {
        let usage = take(&mut self.counts).usage();
        self.used += usage;
        self.max_total = self.max_total.max(usage.context());
    }
}

impl OpenBlock {
    fn end(self, out: &mut Events) {
        push_delta(self.block, self.input.as_deref().unwrap_or(""), out);
        let signature = (!self.signature.is_empty()).then(|| self.signature.into());
        out.push_back(ModelEvent::BlockEnd { block: self.block, signature });
    }
}

fn push_delta(block: u32, text: &str, out: &mut Events) {
    if !text.is_empty() {
        out.push_back(ModelEvent::Delta { block, delta: text.to_owned() });
    }
}

#[cfg(test)]
mod tests;
