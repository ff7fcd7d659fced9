//! Decoder of a Gemini stream into model events.

use std::sync::Arc;

use loopwright_core::json::replace_lone_surrogates;
use loopwright_core::message::{StopReason, Usage};
use loopwright_core::model::{BlockKind, ModelError, ModelErrorKind, ModelEvent};
use serde_json::value::RawValue;

use super::arguments::Arguments;
use super::wire::SYNTHETIC_ID;
use super::wire::{Chunk, Feedback, FunctionCall, Media, Part, RawUsage};
use crate::formats::codec::{Decode, Progress};
use crate::formats::decoding::event_writer::{EventWriter, Events, Payload};
use crate::formats::encoding::answer_tool::is_answer;
use crate::http::endpoint::Endpoint;
use crate::http::failure::Failure;

/// A decoder of one Gemini stream.
///
/// A reply may continue after its first `finishReason`, so only the end of the stream ends it, and
/// the last reason counts. A stream that breaks or stalls after the first reason is complete. Calls
/// without an id get one. The provider's own tools are not part of the reply. The calls decide
/// whether the model wants tools.
#[derive(Debug)]
pub struct Decoder {
    writer: EventWriter,
    /// The call whose arguments arrive in fragments.
    call: Option<OpenCall>,
    calls: u32,
    /// `true` if the reply has content besides calls.
    answered: bool,
    finish: Option<String>,
    /// The provider's explanation of the end.
    message: String,
    usage: RawUsage,
}

/// An unfinished tool call.
#[derive(Debug)]
struct OpenCall {
    block: u32,
    /// The arguments, if they arrived all at once.
    whole: Option<String>,
    fragments: Arguments,
    signature: String,
}

impl Decode for Decoder {
    fn decode(&mut self, data: &str, out: &mut Events) -> Progress {
        match Payload::of(data) {
            _ if self.writer.ended => {}
            Payload::KeepAlive => return Progress::Waiting,
            Payload::EndMark => {} // some gateways send it
            Payload::Data(data) if data.starts_with('[') => {
                match serde_json::from_str::<Vec<&RawValue>>(data) {
                    Ok(list) => list.iter().for_each(|one| self.payload(one.get(), out)),
                    Err(_) => self.payload(data, out),
                }
            }
            Payload::Data(data) => self.payload(data, out),
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

impl Decoder {
    /// Returns a decoder for one reply from `endpoint`.
    pub fn new(endpoint: impl Into<Arc<Endpoint>>) -> Self {
        Decoder {
            writer: EventWriter::new(endpoint.into()),
            call: None,
            calls: 0,
            answered: false,
            finish: None,
            message: String::new(),
            usage: RawUsage::default(),
        }
    }

    fn payload(&mut self, data: &str, out: &mut Events) {
        match serde_json::from_str::<Chunk<'_>>(data) {
            _ if self.writer.ended => {}
            Ok(chunk) => self.chunk(chunk, data, out),
            Err(why) => match replace_lone_surrogates(data) {
                Some(text) => self.payload(&text, out),
                None => self.writer.fail_unreadable("no chunk of a reply", data, &why, out),
            },
        }
    }

    fn chunk(&mut self, chunk: Chunk<'_>, data: &str, out: &mut Events) {
        if let Some(usage) = chunk.usage_metadata {
            self.usage.update(usage);
            self.writer.usage(self.usage.into(), out);
        }
        if chunk.error.is_some() {
            return self.writer.fail_with_payload(data, out);
        }
        if let Some(feedback) =
            chunk.prompt_feedback.filter(|feedback| !feedback.block_reason.0.is_empty())
        {
            return self.blocked(&feedback, out);
        }
        let Some(candidate) = chunk.candidates.0 else {
            return;
        };
        for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
            self.part(part, &chunk.response_id.0, out);
        }
        match &*candidate.finish_reason.0 {
            "" => {}
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MALFORMED_RESPONSE" => {
                let explanation =
                    explained(&candidate.finish_reason.0, &candidate.finish_message.0);
                let why = format!(
                    "{} could not use what the model wrote ({explanation}). Try again.",
                    self.writer.endpoint()
                );
                self.writer.fail(ModelError::new(ModelErrorKind::Malformed, why), out);
            }
            reason => {
                self.finish = Some(reason.to_owned());
                self.message = candidate.finish_message.0.into_owned();
            }
        }
    }

    fn part(&mut self, part: Part<'_>, response: &str, out: &mut Events) {
        if let Some(raw) = part.inline_data {
            self.media(raw);
        }
        let kind = if part.is_thought() { BlockKind::Thinking } else { BlockKind::Text };
        if let Some(call) = part.function_call {
            self.call(*call, &part.thought_signature.0, response, out);
        } else if let Some(text) = part.text {
            self.prose(kind, text.0.into_owned(), &part.thought_signature.0, out);
        }
    }

    /// Records an image or another file, which is not part of the reply.
    fn media(&mut self, raw: &RawValue) {
        let media: Media<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        let name = if media.mime_type.0.is_empty() { "a file" } else { &media.mime_type.0 };
        self.writer.omit(name, true);
        self.answered = true;
    }

    /// Appends text or thinking to the open block if it is of this kind, else to a new one. A
    /// signature covers the whole block, and ends it.
    fn prose(&mut self, kind: BlockKind, delta: String, signature: &str, out: &mut Events) {
        if delta.is_empty() && signature.is_empty() {
            return;
        }
        let block = match self.writer.prose(&kind) {
            Some(block) => block,
            None => {
                self.end_prose("", out);
                self.writer.start_prose(kind.clone(), out)
            }
        };
        if !delta.is_empty() {
            self.answered |= kind == BlockKind::Text;
            out.push_back(ModelEvent::Delta { block, delta });
        }
        if !signature.is_empty() {
            self.end_prose(signature, out);
        }
    }

    fn end_prose(&mut self, signature: &str, out: &mut Events) {
        if let Some((block, _)) = self.writer.take_prose() {
            end(block, signature, out);
        }
    }

    /// Handles a whole call, or a fragment of a call. Only the first fragment has a name.
    fn call(
        &mut self,
        fragment: FunctionCall<'_>,
        signature: &str,
        response: &str,
        out: &mut Events,
    ) {
        self.end_prose("", out);
        let names = !fragment.name.0.is_empty();
        if names {
            self.end_call(out);
        }
        let continues = fragment.continues();
        let mut call = match self.call.take() {
            Some(call) => call,
            // A fragment that ends a call which has already ended.
            None if !names && fragment.args.is_none() && fragment.partial_args.is_none() => return,
            None => self.start_call(
                fragment.id.0.into_owned(),
                fragment.name.0.into_owned(),
                response,
                out,
            ),
        };
        if !signature.is_empty() {
            signature.clone_into(&mut call.signature);
        }
        if let Some(args) = fragment.args {
            call.whole = Some(args.get().to_owned());
        }
        for arg in fragment.partial_args.iter().flatten() {
            call.fragments.put(arg);
        }
        self.call = Some(call);
        if !continues {
            self.end_call(out);
        }
    }

    fn start_call(
        &mut self,
        id: String,
        name: String,
        response: &str,
        out: &mut Events,
    ) -> OpenCall {
        let id =
            if id.is_empty() { format!("{SYNTHETIC_ID}{response}-{}", self.calls) } else { id };
        let kind =
            if is_answer(&name) { BlockKind::Text } else { BlockKind::ToolCall { id, name } };
        self.answered |= kind == BlockKind::Text;
        self.calls += u32::from(kind != BlockKind::Text);
        let block = self.writer.start(kind, out);
        OpenCall { block, whole: None, fragments: Arguments::default(), signature: String::new() }
    }

    fn end_call(&mut self, out: &mut Events) {
        let Some(OpenCall { block, whole, fragments, signature }) = self.call.take() else {
            return;
        };
        let delta = match whole.as_deref() {
            Some("null") => "{}".into(),
            _ => whole.unwrap_or_else(|| fragments.into_text()),
        };
        out.push_back(ModelEvent::Delta { block, delta });
        end(block, &signature, out);
    }

    /// Ends a complete reply.
    fn end(&mut self, out: &mut Events) {
        if self.writer.ended {
            return;
        }
        let reason = self.finish.as_deref().unwrap_or("");
        let stop = match reason {
            "MAX_TOKENS" => StopReason::Length,
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "MODEL_ARMOR"
            | "LANGUAGE"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => {
                self.writer.explain(&self.message);
                StopReason::ContentFilter
            }
            _ if self.call.is_some() => {
                return self.writer.fail_unusable("ended the stream inside a call", out);
            }
            _ if self.calls > 0 => StopReason::ToolCalls,
            "OTHER" | "ESCALATION" | "IMAGE_OTHER" | "NO_IMAGE" | "MISSING_THOUGHT_SIGNATURE"
                if !self.answered =>
            {
                return self.refused(out);
            }
            "OTHER" | "ESCALATION" | "IMAGE_OTHER" | "MISSING_THOUGHT_SIGNATURE" => {
                self.writer.explain(&explained(reason, &self.message));
                StopReason::ContentFilter
            }
            _ if !self.answered => return self.writer.fail_empty(out),
            _ => StopReason::Stop,
        };
        self.end_prose("", out);
        self.end_call(out);
        self.writer.done(stop, Usage::from(self.usage), out);
    }

    /// Ends a reply without content, which the provider refused to write. Another attempt would end
    /// in the same way.
    fn refused(&mut self, out: &mut Events) {
        let reason = self.finish.as_deref().unwrap_or("");
        let why = format!(
            "{} ended the reply before it began ({}). Change the request, or use another model.",
            self.writer.endpoint(),
            explained(reason, &self.message)
        );
        self.writer.fail(ModelError::new(ModelErrorKind::InvalidRequest, why), out);
    }

    /// Ends the reply, because the prompt was blocked.
    fn blocked(&mut self, feedback: &Feedback<'_>, out: &mut Events) {
        let explanation =
            [&feedback.block_reason_message, &feedback.block_reason].map(|text| &*text.0);
        let message =
            explanation.into_iter().find(|text| !text.is_empty()).unwrap_or("").to_owned();
        let failure = Failure { message, codes: "content_filter".into(), ..Failure::default() };
        self.writer.fail_with(failure, out);
    }
}

/// Returns the reason for the end of a reply, with the provider's explanation if there is one.
fn explained(reason: &str, message: &str) -> String {
    let both = [reason, message].map(|text| text.trim_end_matches('.')).join(": ");
    both.trim_end_matches(": ").to_owned()
}

fn end(block: u32, signature: &str, out: &mut Events) {
    let signature = (!signature.is_empty()).then(|| signature.into());
    out.push_back(ModelEvent::BlockEnd { block, signature });
}

#[cfg(test)]
mod tests;
