//! Decoder of a Chat Completions stream into model events.

use std::borrow::Cow;
use std::mem::take;
use std::sync::Arc;

use loopwright_core::json::replace_lone_surrogates;
use loopwright_core::message::{StopReason, Usage};
use loopwright_core::model::{BlockKind, ModelEvent};

use super::details::Details;
use super::thinking;
use super::wire::{CallDelta, Chunk, Content, Delta, text};
use crate::formats::codec::{Decode, Progress};
use crate::formats::decoding::event_template::EventTemplate;
use crate::formats::decoding::event_writer::{EventWriter, Events, MAX_PARTS, Payload};
use crate::formats::decoding::inline_thinking::InlineThinking;
use crate::formats::decoding::lenient::Text;
use crate::formats::encoding::json::{escaped, is_object};
use crate::http::endpoint::Endpoint;
use crate::http::failure::Failure;

/// A decoder of one Chat Completions stream.
///
/// Calls are distinguished by index, id and name, as far as a server sends them. The calls decide
/// whether the model wants tools, not the `finish_reason`. The last usage counts.
#[derive(Debug)]
pub struct Decoder {
    writer: EventWriter,
    frame: EventTemplate,
    /// Signed or encrypted reasoning that is not yet part of a block.
    details: Details,
    /// Opaque data that is not yet part of a block.
    opaque: String,
    /// The field of the open block of thinking.
    field: &'static str,
    calls: Vec<OpenCall>,
    finish: Option<String>,
    usage: Usage,
    inline: InlineThinking,
}

/// An unfinished tool call.
#[derive(Debug, Default)]
struct OpenCall {
    index: Option<i64>,
    id: String,
    /// The name so far, which ends where the arguments begin.
    name: String,
    /// The block, once the name is known.
    block: Option<u32>,
    /// Arguments that arrived before the name.
    held: String,
    /// `true` if any arguments have arrived.
    written: bool,
    /// `true` if the first fragment had complete arguments. The next named fragment without an id
    /// is then another call.
    whole: bool,
    /// `true` if the input is free text, which is converted to a JSON string.
    is_text: bool,
    signature: Option<Arc<str>>,
}

impl Decode for Decoder {
    fn decode(&mut self, data: &str, out: &mut Events) -> Progress {
        match Payload::of(data) {
            _ if self.writer.ended => {}
            Payload::KeepAlive => return Progress::Waiting,
            Payload::EndMark => self.end(out),
            Payload::Data(data) => match self.frame.read_with(data, plain_content) {
                Some(text) => self.text(text.into(), out),
                None => match self.frame.read(data) {
                    Some(delta) => self.delta(delta, out),
                    None => self.payload(data, out),
                },
            },
        }
        self.writer.progress(self.finish.is_some())
    }

    fn finish(&mut self, out: &mut Events) {
        if self.finish.is_some() {
            return self.end(out);
        }
        self.writer.fail_cut_short(out);
    }
}

/// Returns the text of a delta that contains only text without escapes, as most do. Such a delta
/// need not be parsed.
fn plain_content(delta: &str) -> Option<&str> {
    let text = delta.strip_prefix(r#"{"content":""#)?.strip_suffix(r#""}"#)?;
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    text.bytes().all(is_plain).then_some(text)
}

impl Decoder {
    /// Returns a decoder for one reply from `endpoint`.
    pub fn new(endpoint: impl Into<Arc<Endpoint>>) -> Self {
        let endpoint = endpoint.into();
        // OpenAI does not send thinking.
        let is_openai = endpoint.host == "api.openai.com";
        Decoder {
            inline: if is_openai { InlineThinking::none() } else { InlineThinking::default() },
            writer: EventWriter::new(endpoint),
            frame: EventTemplate::default(),
            details: Details::default(),
            opaque: String::new(),
            field: "",
            calls: Vec::new(),
            finish: None,
            usage: Usage::default(),
        }
    }

    fn payload(&mut self, data: &str, out: &mut Events) {
        if let Err(why) = self.chunk(data, out) {
            match replace_lone_surrogates(data) {
                Some(text) => self.payload(&text, out),
                None => self.writer.fail_unreadable("no chat completion chunk", data, &why, out),
            }
        }
    }

    fn chunk(&mut self, data: &str, out: &mut Events) -> Result<(), serde_json::Error> {
        let chunk: Chunk<'_> = serde_json::from_str(data)?;
        let raw = chunk.choices.first.as_ref().and_then(|choice| choice.delta);
        let delta = raw.map(|raw| serde_json::from_str(raw.get())).transpose()?;
        if let Some(raw) = raw.filter(|_| chunk.is_delta()) {
            self.frame.learn(data, raw);
        }
        self.apply(chunk, delta, data, out);
        Ok(())
    }

    fn apply(&mut self, chunk: Chunk<'_>, delta: Option<Delta<'_>>, data: &str, out: &mut Events) {
        if let Some(raw) = chunk.usage.or(chunk.x_groq.and_then(|x| x.usage)) {
            self.usage = (*raw).into();
            self.writer.usage(self.usage, out);
        }
        let bare_error =
            chunk.choices.first.is_none() && (chunk.message.is_some() || chunk.detail.is_some());
        if chunk.error.is_some() || bare_error {
            return self.writer.fail_with_payload(data, out);
        }
        let Some(choice) = chunk.choices.first else {
            return;
        };
        if let Some(delta) = delta.or(choice.message.map(|whole| *whole)) {
            self.delta(delta, out);
        }
        let reason = text(choice.finish_reason);
        if !reason.is_empty() {
            self.finish = Some(reason.into_owned());
        }
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut Events) {
        if delta.images.is_some() || delta.audio.is_some() {
            delta.media().for_each(|name| self.writer.omit(name, true));
        }
        let content = text(delta.reasoning_content);
        let reasoning = text(delta.reasoning);
        let (field, thinking) = if !content.is_empty() {
            ("reasoning_content", content)
        } else if !reasoning.is_empty() {
            ("reasoning", reasoning)
        } else {
            ("reasoning_text", text(delta.reasoning_text))
        };
        let opaque = text(delta.reasoning_opaque);
        let details = delta.reasoning_details.as_ref().map_or("", |raw| raw.0.get());
        self.writer.hold(opaque.len() + details.len(), out);
        self.opaque.push_str(&opaque);
        if !details.is_empty() {
            self.details.add(details);
        }
        self.thinking(field, thinking, out);
        match delta.content {
            Content::Text(text) => self.text(text, out),
            Content::Parts(parts) => {
                for part in parts {
                    if part.is_media() {
                        self.writer.omit(&part.kind.0, true);
                    }
                    self.thinking("content", part.thinking.into_text().into(), out);
                    self.text(part.text.0, out);
                }
            }
        }
        self.prose(BlockKind::Text, text(delta.refusal), out);
        if delta.tool_calls.is_none() && delta.function_call.is_none() {
            return; // as in nearly all chunks
        }
        let only = delta.function_call.map(|function| CallDelta {
            index: None,
            id: Text::default(),
            function: Some(*function),
            custom: None,
            extra_content: None,
        });
        for call in delta.tool_calls.into_iter().flat_map(Vec::from).chain(only) {
            if !self.writer.ended {
                self.call(call, out);
            }
        }
    }

    #[inline]
    fn text(&mut self, delta: Cow<'_, str>, out: &mut Events) {
        if self.inline.is_over() {
            self.prose(BlockKind::Text, delta, out);
        } else if !delta.is_empty() {
            self.first_text(&delta, out);
        }
    }

    /// Appends text that may be thinking.
    #[cold]
    fn first_text(&mut self, delta: &str, out: &mut Events) {
        let mut pieces = Vec::new();
        self.inline.read(delta, |kind, text| pieces.push((kind, text)));
        for (kind, text) in pieces {
            self.add_prose(kind, text, out);
            self.name_field(self.inline.tag());
        }
    }

    /// Appends the text that was held, because it may have been thinking.
    fn end_text(&mut self, out: &mut Events) {
        if let Some((kind, text)) = self.inline.end() {
            self.add_prose(kind, text, out);
            self.name_field(self.inline.tag());
        }
    }

    /// Appends thinking that came in this field.
    #[inline]
    fn thinking(&mut self, field: &'static str, delta: Cow<'_, str>, out: &mut Events) {
        if !delta.is_empty() {
            self.add_prose(BlockKind::Thinking, delta.into_owned(), out);
            self.name_field(field);
        }
    }

    /// Records the field of the open block of thinking.
    fn name_field(&mut self, field: &'static str) {
        if self.field.is_empty() && self.writer.prose(&BlockKind::Thinking).is_some() {
            self.field = field;
        }
    }

    /// Appends text or thinking, if any, to the open block if it is of this kind, else to a new
    /// one.
    #[inline]
    fn prose(&mut self, kind: BlockKind, delta: Cow<'_, str>, out: &mut Events) {
        if !delta.is_empty() {
            self.add_prose(kind, delta.into_owned(), out);
        }
    }

    fn add_prose(&mut self, kind: BlockKind, delta: String, out: &mut Events) {
        let block = match self.writer.prose(&kind) {
            Some(block) => block,
            None => {
                self.end_prose(out);
                self.start_named(out);
                if kind == BlockKind::Text && delta.trim_start().starts_with("<tool_call>") {
                    let endpoint = &self.writer.endpoint();
                    tracing::warn!(
                        "{endpoint}: the model writes a call as text. With the hook \
                         `parse_text_tool_calls` such calls run."
                    );
                }
                self.writer.start_prose(kind, out)
            }
        };
        out.push_back(ModelEvent::Delta { block, delta });
    }

    fn end_prose(&mut self, out: &mut Events) {
        if let Some((block, kind)) = self.writer.take_prose() {
            let signature = (kind == BlockKind::Thinking).then(|| self.signature()).flatten();
            out.push_back(ModelEvent::BlockEnd { block, signature });
        }
    }

    /// Takes the signature of the thinking so far.
    fn signature(&mut self) -> Option<Arc<str>> {
        let (opaque, field) = (take(&mut self.opaque), take(&mut self.field));
        self.details
            .take()
            .or_else(|| (!opaque.is_empty()).then(|| thinking::mark_opaque(&opaque)))
            .or_else(|| (!field.is_empty()).then(|| thinking::mark(field)))
    }

    /// Appends a fragment to a call, or starts a new one.
    fn call(&mut self, delta: CallDelta<'_>, out: &mut Events) {
        self.end_text(out);
        self.end_prose(out);
        let signature = delta.extra_content.and_then(|raw| thinking::mark_extra(raw.get()));
        let is_text = delta.custom.is_some();
        let (name, arguments) = match delta.custom {
            Some(custom) => (custom.name.0, escaped(&custom.input.0)),
            None => {
                let function = delta.function.unwrap_or_default();
                let arguments = function.arguments();
                (function.name.0, arguments)
            }
        };
        let (id, name) = (&*delta.id.0, &*name);
        let known = self.known_call(delta.index, id, !name.is_empty());
        if known.is_none() || !arguments.is_empty() && known.is_some_and(|at| self.has_begun(at)) {
            self.start_named(out);
        }
        if known.is_none() && self.calls.len() == MAX_PARTS {
            return self.writer.fail_too_many("calls", out);
        }
        let at = known.unwrap_or_else(|| {
            self.calls.push(OpenCall {
                index: delta.index,
                id: id.to_owned(),
                whole: is_object(&arguments),
                is_text,
                ..OpenCall::default()
            });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        call.signature = signature.or(call.signature.take());
        if call.block.is_some() {
            return call.write(arguments, out);
        }
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        call.add_name(name);
        call.held.push_str(&arguments);
        let bytes = name.len() + arguments.len();
        if !call.held.is_empty() && !call.name.is_empty() {
            self.start_named(out);
        }
        self.writer.hold(bytes, out);
    }

    /// Returns the call that a fragment belongs to, or `None` if it starts a new one.
    fn known_call(&self, index: Option<i64>, id: &str, named: bool) -> Option<usize> {
        let same_id = self.calls.iter().rposition(|call| call.index == index && call.id == id);
        if !id.is_empty() && same_id.is_some() {
            return same_id;
        }
        let at = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index)?,
            None if !id.is_empty() => return None,
            None => self.calls.len().checked_sub(1)?,
        };
        let call = &self.calls[at];
        let another = if id.is_empty() || call.id.is_empty() { call.whole } else { true };
        (!(named && another)).then_some(at)
    }

    fn has_begun(&self, at: usize) -> bool {
        self.calls.get(at).is_some_and(|call| call.block.is_some())
    }

    /// Starts the calls whose names are known, in their order.
    fn start_named(&mut self, out: &mut Events) {
        for at in 0..self.calls.len() {
            if self.calls[at].block.is_none() && !self.calls[at].name.is_empty() {
                self.start_call(at, out);
            }
        }
    }

    fn start_call(&mut self, at: usize, out: &mut Events) {
        let call = &mut self.calls[at];
        let kind = BlockKind::ToolCall { id: call.id.clone(), name: call.name.clone() };
        call.block = Some(self.writer.start(kind, out));
        let held = take(&mut call.held);
        call.write(held, out);
    }

    /// Ends a complete reply.
    fn end(&mut self, out: &mut Events) {
        if self.writer.ended {
            return;
        }
        self.end_text(out);
        let stop = match self.finish.as_deref().unwrap_or("") {
            "" if self.writer.blocks == 0 && self.calls.is_empty() => {
                return self.writer.fail_empty(out);
            }
            "model_context_window_exceeded" => {
                let failure =
                    Failure { codes: "context_window_exceeded".into(), ..Failure::default() };
                return self.writer.fail_with(failure, out);
            }
            "error" | "network_error" => {
                return self.writer.fail_with(Failure::default(), out);
            }
            "length" | "max_tokens" | "model_length" => StopReason::Length,
            "content_filter" | "sensitive" | "safety" => StopReason::ContentFilter,
            _ if self.calls.is_empty() => StopReason::Stop,
            _ => StopReason::ToolCalls,
        };
        self.end_prose(out);
        for at in 0..self.calls.len() {
            if self.calls[at].block.is_none() {
                self.start_call(at, out);
            }
            self.calls[at].end(out);
        }
        if let Some(signature) = self.signature() {
            // Encrypted reasoning without text, or after the text: a thinking block with only a
            // signature.
            let block = self.writer.start(BlockKind::Thinking, out);
            out.push_back(ModelEvent::BlockEnd { block, signature: Some(signature) });
        }
        self.writer.done(stop, self.usage, out);
    }
}

impl OpenCall {
    /// Adds a fragment of the name. Some servers repeat the name instead, or all of it so far.
    fn add_name(&mut self, name: &str) {
        if name.starts_with(&self.name) {
            name.clone_into(&mut self.name);
        } else {
            self.name.push_str(name);
        }
    }

    fn write(&mut self, delta: String, out: &mut Events) {
        if let Some(block) = self.block.filter(|_| !delta.is_empty()) {
            let quote = if self.is_text && !self.written { "\"" } else { "" };
            self.written = true;
            out.push_back(ModelEvent::Delta { block, delta: format!("{quote}{delta}") });
        }
    }

    fn end(&mut self, out: &mut Events) {
        let rest = match (self.is_text, self.written) {
            (true, false) => "\"\"",
            (true, true) => "\"",
            (false, false) => "{}",
            (false, true) => "",
        };
        if let Some(block) = self.block {
            if !rest.is_empty() {
                out.push_back(ModelEvent::Delta { block, delta: rest.to_owned() });
            }
            out.push_back(ModelEvent::BlockEnd { block, signature: self.signature.take() });
        }
    }
}

#[cfg(test)]
mod tests;
