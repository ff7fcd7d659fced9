//! Decoder of a Responses stream into model events.

use std::sync::Arc;

use loopwright_core::json::replace_lone_surrogates;
use loopwright_core::message::{StopReason, Usage};
use loopwright_core::model::{BlockKind, ModelEvent};
use serde_json::value::RawValue;

use super::wire::PHASE;
use super::wire::{Event, Item, Response, read_or_default};
use crate::formats::codec::{Decode, Progress};
use crate::formats::decoding::event_writer::{EventWriter, Events, MAX_PARTS, Payload};
use crate::formats::encoding::json::{escaped, json_text};
use crate::http::endpoint::Endpoint;
use crate::http::failure::Failure;

/// A decoder of one Responses stream.
///
/// Items are distinguished by kind and index, because their ids may change within a stream. Deltas
/// take precedence over the text that is repeated at the end. A second start event withdraws the
/// first. The provider's own tools are not part of the reply. The calls decide whether the model
/// wants tools.
///
/// The signature of a thinking block is its whole item, byte for byte, if the item has more than a
/// summary. Thinking before one of the provider's own tools has no signature: the tool is not sent
/// back, and the thinking is invalid without it.
#[derive(Debug)]
pub struct Decoder {
    writer: EventWriter,
    /// All items, in order of their start.
    items: Vec<OpenItem>,
    usage: Usage,
}

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ItemKind {
    Text,
    Thought,
    Call,
    /// A call whose input is free text, which is converted to a JSON string.
    TextCall,
    /// One of the provider's own tools.
    Other,
}

/// Items that are reported even beside a text: an image, and items that wait for an answer.
const MISSED: &[&str] = &[
    "apply_patch_call",
    "computer_call",
    "image_generation_call",
    "local_shell_call",
    "mcp_approval_request",
    "shell_call",
];

/// An item of the reply.
#[derive(Debug)]
struct OpenItem {
    kind: ItemKind,
    index: Option<u64>,
    id: String,
    /// The open block of the item.
    block: Option<u32>,
    /// The open part of a thinking item. Each part is a separate block.
    part: (bool, u64),
    written: bool,
    signature: Option<String>,
    stage: Stage,
}

/// The progress of an item.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Open,
    /// The item is complete, but the next item is not known yet.
    Held,
    Ended,
}

impl Decode for Decoder {
    fn decode(&mut self, data: &str, out: &mut Events) -> Progress {
        match Payload::of(data) {
            _ if self.writer.ended => {}
            Payload::KeepAlive => return Progress::Waiting,
            Payload::EndMark => {} // some gateways send it
            Payload::Data(data) => match serde_json::from_str::<Event<'_>>(data) {
                Ok(event) if matches!(&*event.kind.0, "keepalive" | "ping") => {
                    return Progress::Waiting;
                }
                Ok(event) => self.event(&event, data, out),
                Err(why) => match replace_lone_surrogates(data) {
                    Some(text) => return self.decode(&text, out),
                    None => self.writer.fail_unreadable("no event of a response", data, &why, out),
                },
            },
        }
        self.writer.progress(false)
    }

    fn finish(&mut self, out: &mut Events) {
        self.writer.fail_cut_short(out);
    }
}

impl Decoder {
    /// Returns a decoder for one reply from `endpoint`.
    pub fn new(endpoint: impl Into<Arc<Endpoint>>) -> Self {
        Decoder {
            writer: EventWriter::new(endpoint.into()),
            items: Vec::new(),
            usage: Usage::default(),
        }
    }

    fn event(&mut self, event: &Event<'_>, data: &str, out: &mut Events) {
        match &*event.kind.0 {
            "error" => self.writer.fail_with_payload(data, out),
            _ if event.error.is_some() && event.object.0.is_empty() => {
                self.writer.fail_with_payload(data, out);
            }
            "response.created" if !self.items.is_empty() => {
                self.writer.withdraw(out);
                self.usage = Usage::default();
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
                self.delta(event, ItemKind::Text, out)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.delta(event, ItemKind::Thought, out);
            }
            "response.function_call_arguments.delta" => self.delta(event, ItemKind::Call, out),
            "response.custom_tool_call_input.delta" => self.delta(event, ItemKind::TextCall, out),
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.done" => {
                let response: Response<'_> = read_or_default(event.response);
                let event_status = event.kind.0.trim_start_matches("response.");
                let status =
                    if response.status.0.is_empty() { event_status } else { &*response.status.0 };
                self.end(&response, status, event, out);
            }
            "" if event.object.0 == "response" => {
                let response: Response<'_> = serde_json::from_str(data).unwrap_or_default();
                self.end(&response, &response.status.0, event, out);
            }
            "" if event.message.is_some() || event.detail.is_some() => {
                self.writer.fail_with_payload(data, out);
            }
            _ => {}
        }
        if self.items.len() > MAX_PARTS {
            self.writer.fail_too_many("items", out);
        }
    }

    /// Starts an item. Ignores its contents, because its deltas repeat them.
    fn begin(&mut self, event: &Event<'_>, item: &Item<'_>, out: &mut Events) -> usize {
        let kind = ItemKind::of(item);
        let at = self.push(event.output_index.map(|index| index.0), &item.id.0, kind, out);
        let block_kind = match kind {
            ItemKind::Thought => BlockKind::Thinking,
            ItemKind::Call | ItemKind::TextCall => {
                let id = if item.call_id.0.is_empty() { &item.id.0 } else { &item.call_id.0 };
                BlockKind::ToolCall { id: id.to_string(), name: item.name.0.to_string() }
            }
            // A text starts with its first delta, because some messages have no text.
            ItemKind::Text => return at,
            ItemKind::Other => {
                self.writer.omit(&item.kind.0, MISSED.contains(&&*item.kind.0));
                return at;
            }
        };
        self.start(at, block_kind, out);
        at
    }

    fn push(&mut self, index: Option<u64>, id: &str, kind: ItemKind, out: &mut Events) -> usize {
        let at = self.items.len();
        self.items.push(OpenItem {
            kind,
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

    /// Returns the latest item that the event may refer to.
    fn find(&self, event: &Event<'_>, id: &str, kind: ItemKind) -> Option<usize> {
        self.items.iter().rposition(|item| {
            let same = match (&event.output_index, item.index) {
                (Some(a), Some(b)) => a.0 == b,
                _ => id.is_empty() || item.id.is_empty() || item.id == id,
            };
            same && item.kind == kind
        })
    }

    fn delta(&mut self, event: &Event<'_>, kind: ItemKind, out: &mut Events) {
        let text = &*event.delta.0;
        let at = match self.find(event, &event.item_id.0, kind) {
            Some(at) if self.items[at].stage == Stage::Open => at,
            // Some servers do not announce items. A call without a name must wait for its end.
            None if kind == ItemKind::Text || kind == ItemKind::Thought => {
                self.push(event.output_index.map(|index| index.0), &event.item_id.0, kind, out)
            }
            _ => return,
        };
        let summary = event.summary_index.map(|index| (true, index.0));
        let part = summary.unwrap_or((false, event.content_index.map_or(0, |index| index.0)));
        self.write(at, part, text, out);
    }

    /// Appends to an item. `part` identifies the part of a thinking item.
    fn write(&mut self, at: usize, part: (bool, u64), text: &str, out: &mut Events) {
        if text.is_empty() {
            return;
        }
        let OpenItem { kind, written, part: before, block, .. } = self.items[at];
        let block_kind =
            if kind == ItemKind::Thought { BlockKind::Thinking } else { BlockKind::Text };
        let block = match block {
            Some(old) if kind == ItemKind::Thought && written && part != before => {
                out.push_back(ModelEvent::BlockEnd { block: old, signature: None });
                self.start(at, block_kind, out)
            }
            Some(block) => block,
            None => self.start(at, block_kind, out),
        };
        let delta = match kind {
            ItemKind::TextCall => format!("{}{}", if written { "" } else { "\"" }, escaped(text)),
            _ => text.to_owned(),
        };
        (self.items[at].written, self.items[at].part) = (true, part);
        out.push_back(ModelEvent::Delta { block, delta });
    }

    fn start(&mut self, at: usize, kind: BlockKind, out: &mut Events) -> u32 {
        let block = self.writer.start(kind, out);
        self.items[at].block = Some(block);
        block
    }

    /// Completes an item. Takes contents from `raw` that no delta had.
    fn complete(&mut self, event: &Event<'_>, raw: &RawValue, out: &mut Events) {
        let item: Item<'_> = read_or_default(Some(raw));
        let kind = ItemKind::of(&item);
        let at = match self.find(event, &item.id.0, kind) {
            Some(at) if self.items[at].stage == Stage::Open => at,
            Some(at) if self.items[at].id == item.id.0 => return,
            _ => self.begin(event, &item, out),
        };
        if !self.items[at].written {
            self.write_item(at, &item, out);
        }
        match kind {
            ItemKind::Text if !item.phase.0.is_empty() => {
                self.items[at].signature = Some(format!("{PHASE}{}", item.phase.0));
            }
            ItemKind::Thought
                if !item.encrypted_content.0.is_empty() || !item.content().is_empty() =>
            {
                self.items[at].signature = Some(raw.get().to_owned());
            }
            _ => {}
        }
        if kind == ItemKind::Thought && at + 1 == self.items.len() {
            self.items[at].stage = Stage::Held;
        } else {
            self.end_item(at, out);
        }
    }

    /// Writes all contents of an item.
    fn write_item(&mut self, at: usize, item: &Item<'_>, out: &mut Events) {
        match self.items[at].kind {
            ItemKind::Text => {
                for content in item.content() {
                    self.write(at, (false, 0), &content.text.0, out);
                    self.write(at, (false, 0), &content.refusal.0, out);
                }
            }
            ItemKind::Thought => {
                for (part, content) in (0..).zip(item.summary()) {
                    self.write(at, (true, part), &content.text.0, out);
                }
                for (part, content) in (0..).zip(item.content()) {
                    self.write(at, (false, part), &content.text.0, out);
                }
            }
            ItemKind::Call => self.write(at, (false, 0), &json_text(item.arguments), out),
            ItemKind::TextCall => self.write(at, (false, 0), &item.input.0, out),
            ItemKind::Other => {}
        }
    }

    fn end_item(&mut self, at: usize, out: &mut Events) {
        let unsent = self.items.get(at + 1).is_some_and(|next| next.kind == ItemKind::Other);
        let item = &mut self.items[at];
        if item.stage == Stage::Ended {
            return;
        }
        item.stage = Stage::Ended;
        let Some(block) = item.block else { return };
        let rest = match (item.kind, item.written) {
            (ItemKind::Call, false) => "{}",
            (ItemKind::TextCall, false) => "\"\"",
            (ItemKind::TextCall, true) => "\"",
            _ => "",
        };
        if !rest.is_empty() {
            out.push_back(ModelEvent::Delta { block, delta: rest.to_owned() });
        }
        let signature = item.signature.take().filter(|_| item.kind != ItemKind::Thought || !unsent);
        out.push_back(ModelEvent::BlockEnd { block, signature: signature.map(Arc::from) });
    }

    /// Ends the response with this status.
    fn end(&mut self, response: &Response<'_>, status: &str, event: &Event<'_>, out: &mut Events) {
        if let Some(usage) = &response.usage {
            self.usage = usage.into();
        }
        let reason = response.incomplete_details.as_ref().map_or("", |details| &*details.reason.0);
        let failed = response.error.is_some() || matches!(status, "failed" | "cancelled");
        if failed {
            self.writer.usage(self.usage, out);
            let failure = response
                .error
                .map(|error| Failure::read(None, error.get().as_bytes()))
                .unwrap_or_default();
            return self.writer.fail_with(failure, out);
        }
        if self.items.is_empty() {
            response
                .items()
                .into_iter()
                .take(MAX_PARTS + 1)
                .for_each(|item| self.complete(event, item, out));
        }
        if self.items.len() > MAX_PARTS {
            return; // `event` reports it
        }
        let calls =
            self.items.iter().any(|item| matches!(item.kind, ItemKind::Call | ItemKind::TextCall));
        let stop = match status {
            "incomplete" if reason == "content_filter" => StopReason::ContentFilter,
            "incomplete" => StopReason::Length,
            "completed" | "done" if calls => StopReason::ToolCalls,
            "completed" | "done" => StopReason::Stop,
            _ => {
                return self.writer.fail_empty(out);
            }
        };
        (0..self.items.len()).for_each(|at| self.end_item(at, out));
        self.writer.done(stop, self.usage, out);
    }
}

impl ItemKind {
    fn of(item: &Item<'_>) -> ItemKind {
        match &*item.kind.0 {
            "message" => ItemKind::Text,
            "reasoning" => ItemKind::Thought,
            "function_call" => ItemKind::Call,
            "custom_tool_call" => ItemKind::TextCall,
            _ => ItemKind::Other,
        }
    }
}

#[cfg(test)]
mod tests;
