//! Decoding of a Messages stream into model events.

use std::mem::take;
use std::sync::Arc;

use loopwright_core::message::{StopReason, Usage};
use loopwright_core::model::{BlockKind, ModelEvent};

use super::paused_turn::Transcript;
use super::wire::REDACTED;
use super::wire::{Block, Delta, Event};
use crate::answer_tool::is_answer;
use crate::codec::{Decode, Progress};
use crate::endpoint::Endpoint;
use crate::event_template::EventTemplate;
use crate::event_writer::{EventWriter, Events, MAX_PARTS, Payload};
use crate::failure::Failure;
use crate::json::replace_lone_surrogates;

/// Reads one Messages stream.
///
/// The provider's own tools, their results and compactions are not part of the reply. A second
/// `message_start` withdraws the first. Whether the model wants tools follows from the calls, not
/// from the `stop_reason`. A turn that the provider paused continues with [`Decode::resume`], or
/// else ends.
#[derive(Debug)]
pub struct Decoder {
    writer: EventWriter,
    frame: EventTemplate,
    /// The index of the block in the frame.
    framed: u64,
    open: Vec<OpenBlock>,
    calls: bool,
    /// The raw blocks, for a turn that is paused.
    transcript: Transcript,
    /// The turn is paused.
    paused: bool,
    /// The turn continues after a pause: the next `message_start` withdraws nothing.
    continues: bool,
    stop: String,
    usage: Usage,
    /// The usage before a pause.
    used: Usage,
}

/// An open block.
#[derive(Debug)]
struct OpenBlock {
    /// Its index in the stream, which also counts blocks that are not part of the reply.
    index: u64,
    /// Its index in the reply.
    block: u32,
    signature: String,
    /// The arguments of a call in its start event; used if no deltas follow.
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
        self.used += take(&mut self.usage);
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
    /// Returns a decoder for one reply from this endpoint.
    pub fn new(endpoint: impl Into<Arc<Endpoint>>) -> Self {
        Decoder {
            writer: EventWriter::new(endpoint.into()),
            frame: EventTemplate::default(),
            framed: 0,
            open: Vec::new(),
            calls: false,
            transcript: Transcript::default(),
            paused: false,
            continues: false,
            stop: String::new(),
            usage: Usage::default(),
            used: Usage::default(),
        }
    }

    /// Handles an event that differs from an earlier one only in its delta. Returns false for
    /// others.
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
        let usage = event.usage.map(|usage| *usage).or(event.message.and_then(|start| start.usage));
        match &*event.kind.0 {
            "message_start" => self.begin(out),
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    if self.transcript.len() == MAX_PARTS {
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
                if let Some(delta) = delta.filter(|delta| !delta.stop_reason.0.is_empty()) {
                    self.stop = delta.stop_reason.0.into_owned();
                }
            }
            "message" => {
                for (index, block) in (0..).zip(event.content.into_iter().flatten()) {
                    self.start(index, block, out);
                    self.close(index, out);
                }
                self.stop = event.stop_reason.0.into_owned();
            }
            "message_stop" => {}
            "error" => {
                return self.writer.fail_with_payload(data, out);
            }
            _ if event.error.is_some() => {
                return self.writer.fail_with_payload(data, out);
            }
            _ => {}
        }
        if let Some(usage) = usage {
            usage.merge_into(&mut self.usage);
        }
        match &*event.kind.0 {
            "message_stop" if self.stop == "pause_turn" => self.pause(out),
            "message" | "message_stop" => self.end(out),
            _ => {}
        }
    }

    /// Starts the message; withdraws an earlier one, unless the turn continues.
    fn begin(&mut self, out: &mut Events) {
        self.open.clear();
        self.transcript.clear();
        self.stop.clear();
        if take(&mut self.continues) {
            return;
        }
        if self.writer.blocks > 0 {
            out.push_back(ModelEvent::Withdrawn);
        }
        (self.writer.blocks, self.calls, self.usage, self.paused) =
            (0, false, Usage::default(), false);
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
            _ => return,
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
        self.used += self.usage;
        self.writer.done(stop, self.used, out);
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
mod tests {
    use super::*;

    fn decode(payloads: &[&str]) -> Vec<String> {
        let (mut decoder, mut out) = (Decoder::new(Endpoint::default()), Events::new());
        for payload in payloads {
            decoder.decode(payload, &mut out);
        }
        decoder.finish(&mut out);
        let short = |event| match event {
            ModelEvent::BlockStart { block, kind: BlockKind::ToolCall { id, name } } => {
                format!("{block}: {id} {name}")
            }
            ModelEvent::BlockStart { block, kind } => format!("{block}: {kind:?}"),
            ModelEvent::Delta { block, delta } => format!("{block}+{delta}"),
            ModelEvent::BlockEnd { block, signature } => {
                format!("{block}.{}", signature.unwrap_or_default())
            }
            ModelEvent::Done { stop, .. } => format!("{stop:?}"),
            ModelEvent::Error(error) => format!("{:?}", error.kind),
            other => format!("{other:?}"),
        };
        out.into_iter().map(short).collect()
    }

    const BEGIN: &str =
        r#"{"type":"message_start","message":{"content":[],"usage":{"input_tokens":3}}}"#;
    const END: &str = r#"{"type":"message_stop"}"#;

    fn start(index: u32, block: &str) -> String {
        format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
    }

    fn delta(index: u32, delta: &str) -> String {
        format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
    }

    fn stop(index: u32) -> String {
        format!(r#"{{"type":"content_block_stop","index":{index}}}"#)
    }

    fn finish(reason: &str) -> String {
        format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}},
                "usage":{{"output_tokens":2}}}}"#
        )
    }

    #[test]
    fn thinking_keeps_its_signature_and_what_the_provider_runs_is_left_out() {
        let payloads = [
            start(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
            delta(0, r#"{"type":"thinking_delta","thinking":"hm"}"#),
            delta(0, r#"{"type":"signature_delta","signature":"s1"}"#),
            delta(0, r#"{"type":"signature_delta","signature":"s2"}"#),
            stop(0),
            start(1, r#"{"type":"redacted_thinking","data":"d"}"#),
            stop(1),
            start(2, r#"{"type":"server_tool_use","id":"x","name":"web_search","input":{}}"#),
            delta(2, r#"{"type":"input_json_delta","partial_json":"{}"}"#),
            stop(2),
            start(3, r#"{"type":"tool_use","id":"a","name":"f","input":{}}"#),
            delta(3, r#"{"type":"input_json_delta","partial_json":""}"#),
            stop(3),
            finish("end_turn"),
        ];
        let all: Vec<&str> =
            [BEGIN].into_iter().chain(payloads.iter().map(String::as_str)).chain([END]).collect();
        let events = [
            "0: Thinking",
            "0+hm",
            "0.s1s2",
            "1: Thinking",
            "1.redacted:d",
            "2: a f",
            "2+{}",
            "2.",
            "ToolCalls",
        ];
        assert_eq!(decode(&all), events);
    }

    #[test]
    fn only_the_last_event_ends_a_reply() {
        let text = start(0, r#"{"type":"text","text":"a"}"#);
        assert_eq!(
            decode(&[BEGIN, &text, &stop(0), &finish("end_turn")]).last().unwrap(),
            "Network"
        );
        assert_eq!(
            decode(&[BEGIN, &text, &finish("max_tokens"), END]),
            ["0: Text", "0+a", "0.", "Length"]
        );
        assert_eq!(decode(&[BEGIN, &finish("refusal"), END]), ["ContentFilter"]);
        assert_eq!(decode(&[BEGIN, END]), ["Protocol"]);
        assert_eq!(
            decode(&[BEGIN, &text, BEGIN, &text, &finish("end_turn"), END])[2..5],
            ["Withdrawn", "0: Text", "0+a"]
        );
        let error =
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        assert_eq!(decode(&[BEGIN, error, END]), ["Overloaded"]);
        let whole =
            r#"{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"}"#;
        assert_eq!(decode(&[whole]), ["0: Text", "0+a", "0.", "Stop"]);
    }

    #[test]
    fn more_blocks_than_any_model_writes_are_refused() {
        let many: Vec<String> =
            (0..=MAX_PARTS as u32).map(|at| start(at, r#"{"type":"text"}"#)).collect();
        let all: Vec<&str> =
            [BEGIN].into_iter().chain(many.iter().map(String::as_str)).chain([END]).collect();
        let events = decode(&all);
        assert_eq!((events.len(), events.last().unwrap().as_str()), (MAX_PARTS + 1, "Protocol"));
    }

    #[test]
    fn only_a_paused_turn_goes_on() {
        let (mut decoder, sent) = (Decoder::new(Endpoint::default()), br#"{"messages": [{}]}"#);
        assert_eq!(decoder.resume(sent), None);
        assert_eq!(decoder.transcript.pauses, 0, "nothing was made of it");
        for payload in [BEGIN, &finish("pause_turn"), END] {
            decoder.decode(payload, &mut Events::new());
        }
        assert!(decoder.resume(sent).is_some());
    }

    #[test]
    fn a_ping_is_no_progress() {
        let mut decoder = Decoder::new(Endpoint::default());
        assert_eq!(decoder.decode(r#"{"type": "ping"}"#, &mut Events::new()), Progress::Waiting);
        assert_eq!(decoder.decode(BEGIN, &mut Events::new()), Progress::Open);
    }
}
