//! Decoding: the events of a Responses stream, made model events.

use std::collections::VecDeque;
use std::sync::Arc;

use loopwright_core::message::{StopReason, Usage};
use loopwright_core::model::{BlockKind, ModelEvent};
use serde_json::value::RawValue;

use super::PHASE;
use super::wire::{Event, Item, Response, read_or_default};
use crate::codec::{Decode, MOST_PARTS, Progress};
use crate::error::{Failure, Place};
use crate::json::{json_text, mended};
use crate::told::Told;

type Out = VecDeque<ModelEvent>;

/// Reads one Responses stream.
///
/// Items are told apart by what they are and by their index; their ids may change on the way.
/// Deltas count more than what is repeated at the end. A second beginning withdraws the first. What
/// the provider runs itself is no part of the reply. Whether the model wants tools is decided by
/// the calls.
///
/// The signature of a thought is its whole item, byte for byte, if there is more in it than a
/// summary. There is none before what the provider runs itself: that will not be sent back, and the
/// thought cannot be without it.
#[derive(Debug)]
pub struct Decoder {
    place: Arc<Place>,
    told: Told,
    /// All items, in the order in which they began.
    items: Vec<OpenItem>,
    usage: Usage,
}

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    Text,
    Thought,
    Call,
    /// A call whose input is free text, which we make a JSON string.
    TextCall,
    /// Something that the provider does itself.
    Other,
}

/// An item of the reply.
#[derive(Debug)]
struct OpenItem {
    what: What,
    index: Option<u64>,
    id: String,
    /// The block that is being written.
    block: Option<u32>,
    /// The part of a thought that is being written; each is a block of its own.
    part: (bool, u64),
    written: bool,
    signature: Option<String>,
    stage: Stage,
}

/// How far an item has come.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Open,
    /// It is complete, but what follows it is not known yet.
    Held,
    Ended,
}

impl Decode for Decoder {
    fn decode(&mut self, data: &str, out: &mut Out) -> Progress {
        let data = data.trim_ascii();
        match data.as_bytes() {
            _ if self.told.ended => {}
            [] | [b':', ..] => return Progress::Waiting,
            b"[DONE]" => {} // a gateway's habit
            _ => match serde_json::from_str::<Event<'_>>(data) {
                Ok(event) if matches!(&*event.kind.0, "keepalive" | "ping") => {
                    return Progress::Waiting;
                }
                Ok(event) => self.event(&event, data, out),
                Err(why) => match mended(data) {
                    Some(text) => return self.decode(&text, out),
                    None => self
                        .told
                        .fail(self.place.not_understood("no event of a response", data, &why), out),
                },
            },
        }
        if self.told.ended { Progress::Ended } else { Progress::Open }
    }

    fn finish(&mut self, out: &mut Out) {
        self.told.fail(self.place.cut_short(), out);
    }
}

impl Decoder {
    /// A decoder of a reply from this place.
    pub fn new(place: impl Into<Arc<Place>>) -> Self {
        Decoder {
            place: place.into(),
            told: Told::default(),
            items: Vec::new(),
            usage: Usage::default(),
        }
    }

    fn event(&mut self, event: &Event<'_>, data: &str, out: &mut Out) {
        match &*event.kind.0 {
            "error" => {
                self.told.fail(Failure::read(None, data.as_bytes()).into_error(&self.place), out)
            }
            _ if event.error.is_some() && event.object.0.is_empty() => {
                self.told.fail(Failure::read(None, data.as_bytes()).into_error(&self.place), out);
            }
            "response.created" if !self.items.is_empty() => {
                out.push_back(ModelEvent::Withdrawn);
                (self.told.blocks, self.usage) = (0, Usage::default());
                self.items.clear();
            }
            "response.output_item.added" => {
                self.begin(event, &read_or_default(event.item), out);
            }
            "response.output_item.done" => {
                if let Some(raw) = event.item {
                    self.complete(event, raw, out);
                }
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                self.delta(event, What::Text, out)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.delta(event, What::Thought, out);
            }
            "response.function_call_arguments.delta" => self.delta(event, What::Call, out),
            "response.custom_tool_call_input.delta" => self.delta(event, What::TextCall, out),
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.done" => {
                let response: Response<'_> = read_or_default(event.response);
                let said = event.kind.0.trim_start_matches("response.");
                let status = if response.status.0.is_empty() { said } else { &*response.status.0 };
                self.end(&response, status, event, out);
            }
            "" if event.object.0 == "response" => {
                let response: Response<'_> = serde_json::from_str(data).unwrap_or_default();
                self.end(&response, &response.status.0, event, out);
            }
            "" if event.message.is_some() || event.detail.is_some() => {
                self.told.fail(Failure::read(None, data.as_bytes()).into_error(&self.place), out);
            }
            _ => {}
        }
        if self.items.len() > MOST_PARTS {
            self.told.fail(self.place.too_many("items"), out);
        }
    }

    /// An item begins. What it has already is not told, as its deltas tell it again.
    fn begin(&mut self, event: &Event<'_>, item: &Item<'_>, out: &mut Out) -> usize {
        let what = What::of(item);
        let at = self.push(event.output_index.map(|index| index.0), &item.id.0, what, out);
        let begun = match what {
            What::Thought => BlockKind::Thinking,
            What::Call | What::TextCall => {
                let id = if item.call_id.0.is_empty() { &item.id.0 } else { &item.call_id.0 };
                BlockKind::ToolCall { id: id.to_string(), name: item.name.0.to_string() }
            }
            // A text begins with its first words: there are messages without any.
            What::Text | What::Other => return at,
        };
        self.start(at, begun, out);
        at
    }

    fn push(&mut self, index: Option<u64>, id: &str, what: What, out: &mut Out) -> usize {
        let at = self.items.len();
        self.items.push(OpenItem {
            what,
            index,
            id: id.to_owned(),
            block: None,
            part: (true, 0),
            written: false,
            signature: None,
            stage: Stage::Open,
        });
        if let Some(before) =
            at.checked_sub(1).filter(|before| self.items[*before].stage == Stage::Held)
        {
            self.end_item(before, out);
        }
        at
    }

    /// The latest item that this may be about.
    fn find(&self, event: &Event<'_>, id: &str, what: What) -> Option<usize> {
        self.items.iter().rposition(|item| {
            let same = match (&event.output_index, item.index) {
                (Some(a), Some(b)) => a.0 == b,
                _ => id.is_empty() || item.id.is_empty() || item.id == id,
            };
            same && item.what == what
        })
    }

    fn delta(&mut self, event: &Event<'_>, what: What, out: &mut Out) {
        let text = &*event.delta.0;
        let at = match self.find(event, &event.item_id.0, what) {
            Some(at) if self.items[at].stage == Stage::Open => at,
            // Some servers do not announce what they say. A call without a name has to wait for its
            // end.
            None if what == What::Text || what == What::Thought => {
                self.push(event.output_index.map(|index| index.0), &event.item_id.0, what, out)
            }
            _ => return,
        };
        let summary = event.summary_index.map(|index| (true, index.0));
        let part = summary.unwrap_or((false, event.content_index.map_or(0, |index| index.0)));
        self.write(at, part, text, out);
    }

    /// More of an item. `part` tells which part of a thought it is.
    fn write(&mut self, at: usize, part: (bool, u64), text: &str, out: &mut Out) {
        if text.is_empty() {
            return;
        }
        let OpenItem { what, written, part: before, block, .. } = self.items[at];
        let kind = if what == What::Thought { BlockKind::Thinking } else { BlockKind::Text };
        let block = match block {
            Some(old) if what == What::Thought && written && part != before => {
                out.push_back(ModelEvent::BlockEnd { block: old, signature: None });
                self.start(at, kind, out)
            }
            Some(block) => block,
            None => self.start(at, kind, out),
        };
        let delta = match what {
            What::TextCall => format!("{}{}", if written { "" } else { "\"" }, escaped(text)),
            _ => text.to_owned(),
        };
        (self.items[at].written, self.items[at].part) = (true, part);
        out.push_back(ModelEvent::Delta { block, delta });
    }

    fn start(&mut self, at: usize, kind: BlockKind, out: &mut Out) -> u32 {
        let block = self.told.start(kind, out);
        self.items[at].block = Some(block);
        block
    }

    /// An item as it is at its end: what came in no delta is taken from here.
    fn complete(&mut self, event: &Event<'_>, raw: &RawValue, out: &mut Out) {
        let item: Item<'_> = read_or_default(Some(raw));
        let what = What::of(&item);
        let at = match self.find(event, &item.id.0, what) {
            Some(at) if self.items[at].stage == Stage::Open => at,
            Some(at) if self.items[at].id == item.id.0 => return,
            _ => self.begin(event, &item, out),
        };
        if !self.items[at].written {
            self.tell(at, &item, out);
        }
        match what {
            What::Text if !item.phase.0.is_empty() => {
                self.items[at].signature = Some(format!("{PHASE}{}", item.phase.0));
            }
            What::Thought if !item.encrypted_content.0.is_empty() || !item.content().is_empty() => {
                self.items[at].signature = Some(raw.get().to_owned());
            }
            _ => {}
        }
        if what == What::Thought && at + 1 == self.items.len() {
            self.items[at].stage = Stage::Held;
        } else {
            self.end_item(at, out);
        }
    }

    /// Writes all that an item says.
    fn tell(&mut self, at: usize, item: &Item<'_>, out: &mut Out) {
        match self.items[at].what {
            What::Text => {
                for piece in item.content() {
                    self.write(at, (false, 0), &piece.text.0, out);
                    self.write(at, (false, 0), &piece.refusal.0, out);
                }
            }
            What::Thought => {
                for (part, piece) in (0..).zip(item.summary()) {
                    self.write(at, (true, part), &piece.text.0, out);
                }
                for (part, piece) in (0..).zip(item.content()) {
                    self.write(at, (false, part), &piece.text.0, out);
                }
            }
            What::Call => self.write(at, (false, 0), &json_text(item.arguments), out),
            What::TextCall => self.write(at, (false, 0), &item.input.0, out),
            What::Other => {}
        }
    }

    fn end_item(&mut self, at: usize, out: &mut Out) {
        let unsent = self.items.get(at + 1).is_some_and(|next| next.what == What::Other);
        let item = &mut self.items[at];
        if item.stage == Stage::Ended {
            return;
        }
        item.stage = Stage::Ended;
        let Some(block) = item.block else { return };
        let rest = match (item.what, item.written) {
            (What::Call, false) => "{}",
            (What::TextCall, false) => "\"\"",
            (What::TextCall, true) => "\"",
            _ => "",
        };
        if !rest.is_empty() {
            out.push_back(ModelEvent::Delta { block, delta: rest.to_owned() });
        }
        let signature = item.signature.take().filter(|_| item.what != What::Thought || !unsent);
        out.push_back(ModelEvent::BlockEnd { block, signature: signature.map(Arc::from) });
    }

    /// The response has this status and is over.
    fn end(&mut self, response: &Response<'_>, status: &str, event: &Event<'_>, out: &mut Out) {
        if let Some(usage) = response.usage {
            self.usage = usage.into();
        }
        let reason = response.incomplete_details.as_ref().map_or("", |details| &*details.reason.0);
        let failed = response.error.is_some() || matches!(status, "failed" | "cancelled");
        if failed {
            let failure = response
                .error
                .map(|error| Failure::read(None, error.get().as_bytes()))
                .unwrap_or_default();
            return self.told.fail(failure.into_error(&self.place), out);
        }
        if self.items.is_empty() {
            response
                .items()
                .into_iter()
                .take(MOST_PARTS + 1)
                .for_each(|item| self.complete(event, item, out));
        }
        if self.items.len() > MOST_PARTS {
            return; // which `event` tells
        }
        let calls = self.items.iter().any(|item| matches!(item.what, What::Call | What::TextCall));
        let stop = match status {
            "incomplete" if reason == "content_filter" => StopReason::ContentFilter,
            "incomplete" => StopReason::Length,
            "completed" | "done" if calls => StopReason::ToolCalls,
            "completed" | "done" => StopReason::Stop,
            _ => {
                return self.told.fail(self.place.no_reply(), out);
            }
        };
        (0..self.items.len()).for_each(|at| self.end_item(at, out));
        self.told.done(stop, self.usage, out);
    }
}

impl What {
    fn of(item: &Item<'_>) -> What {
        match &*item.kind.0 {
            "message" => What::Text,
            "reasoning" => What::Thought,
            "function_call" => What::Call,
            "custom_tool_call" => What::TextCall,
            _ => What::Other,
        }
    }
}

/// Text as it stands in a JSON string.
fn escaped(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or("").to_owned()
}

#[cfg(test)]
mod tests;
