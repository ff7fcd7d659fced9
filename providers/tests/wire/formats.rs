//! The wire formats with a codec, as a table that maps the expectations of a recording to our
//! types.

use std::collections::VecDeque;
use std::sync::Arc;

use loopwright_core::message::{StopReason, Usage};
use loopwright_core::model::{ModelErrorKind, ModelEvent};
use loopwright_providers::anthropic::Messages;
use loopwright_providers::gemini::GenerateContent;
use loopwright_providers::openai_chat::ChatCompletions;
use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{Decode, Endpoint, Progress, WireFormat};
use serde_json::Value;

/// One wire format.
pub(crate) struct Format {
    /// The name of the format's folder.
    pub(crate) name: &'static str,
    pub(crate) decoder: fn() -> AnyDecoder,
    /// Mapping from a `stop_reason` to the end of a reply, with or without calls.
    pub(crate) end: fn(&str, bool) -> End,
    /// Conversion of `expected.usage`.
    pub(crate) usage: fn(&Reported) -> Usage,
    /// Predicate for payloads after which a cut stream counts as complete.
    pub(crate) is_terminal: fn(&str) -> bool,
}

/// The end of a reply.
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    Done(StopReason),
    Fails(ModelErrorKind),
}

/// Token counts of a recording. Missing counts are zero.
#[derive(Default)]
pub(crate) struct Reported {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    pub(crate) reasoning: u64,
    pub(crate) total: u64,
}

pub(crate) const FORMATS: &[Format] = &[
    Format {
        name: "openai-chat",
        decoder: decoder::<ChatCompletions>,
        end: chat::end,
        usage: chat::usage,
        is_terminal: chat::is_terminal,
    },
    Format {
        name: "openai-responses",
        decoder: decoder::<Responses>,
        end: responses::end,
        usage: responses::usage,
        is_terminal: responses::is_terminal,
    },
    Format {
        name: "anthropic",
        decoder: decoder::<Messages>,
        end: anthropic::end,
        usage: anthropic::usage,
        is_terminal: anthropic::is_terminal,
    },
    Format {
        name: "gemini",
        decoder: decoder::<GenerateContent>,
        end: gemini::end,
        usage: gemini::usage,
        is_terminal: gemini::is_terminal,
    },
];

/// A decoder for any format.
pub(crate) struct AnyDecoder(Box<dyn Decode>);

impl Decode for AnyDecoder {
    fn decode(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Progress {
        self.0.decode(data, out)
    }

    fn finish(&mut self, out: &mut VecDeque<ModelEvent>) {
        self.0.finish(out);
    }
}

fn decoder<F: WireFormat>() -> AnyDecoder {
    let endpoint = Endpoint { provider: "test".into(), host: "here".into(), key_var: None };
    AnyDecoder(Box::new(F::decoder(Arc::new(endpoint))))
}

fn json(payload: &str) -> Value {
    serde_json::from_str(payload).unwrap_or(Value::Null)
}

/// Returns the end that the calls imply, for labels that only mark the end.
fn finished(calls: bool) -> End {
    End::Done(if calls { StopReason::ToolCalls } else { StopReason::Stop })
}

mod chat {
    use super::*;

    pub(super) fn end(raw: &str, calls: bool) -> End {
        match raw {
            "length" => End::Done(StopReason::Length),
            "content_filter" => End::Done(StopReason::ContentFilter),
            "model_context_window_exceeded" => End::Fails(ModelErrorKind::ContextOverflow),
            _ => finished(calls),
        }
    }

    /// Converts counts: the prompt tokens include cached ones, ours do not. The completion tokens
    /// include reasoning, except at xAI, as its total shows.
    pub(super) fn usage(reported: &Reported) -> Usage {
        let Reported { input, output, cache_read, cache_write, reasoning, total } = *reported;
        let output = if input + output + reasoning == total { output + reasoning } else { output };
        Usage::new(input - cache_read - cache_write, output)
            .cache(cache_read, cache_write)
            .reasoning(reasoning)
    }

    /// Accepts a finish reason, because many servers omit `[DONE]`, at least sometimes.
    pub(super) fn is_terminal(payload: &str) -> bool {
        let finished = |choice: &Value| choice["index"] != 1 && choice["finish_reason"].is_string();
        payload == "[DONE]"
            || json(payload)["choices"]
                .as_array()
                .is_some_and(|choices| choices.iter().any(finished))
    }
}

mod responses {
    use super::*;

    /// Maps the only reason for an incomplete response in the recordings, the length.
    pub(super) fn end(raw: &str, calls: bool) -> End {
        if raw == "incomplete" { End::Done(StopReason::Length) } else { finished(calls) }
    }

    /// Converts counts: the input includes cached tokens, ours does not. The output includes
    /// reasoning.
    pub(super) fn usage(reported: &Reported) -> Usage {
        let Reported { input, output, cache_read, cache_write, reasoning, .. } = *reported;
        Usage::new(input - cache_read - cache_write, output)
            .cache(cache_read, cache_write)
            .reasoning(reasoning)
    }

    pub(super) fn is_terminal(payload: &str) -> bool {
        let kind = &json(payload)["type"];
        ["response.completed", "response.incomplete", "response.failed", "error"]
            .iter()
            .any(|terminal| kind == terminal)
    }
}

mod anthropic {
    use super::*;

    /// Maps the end of a turn. A paused turn counts as complete, because only a client can continue
    /// it.
    pub(super) fn end(raw: &str, calls: bool) -> End {
        match raw {
            "max_tokens" => End::Done(StopReason::Length),
            "refusal" => End::Done(StopReason::ContentFilter),
            _ => finished(calls),
        }
    }

    /// Converts counts: like ours, the input excludes cache reads and writes, and the output
    /// includes thinking.
    pub(super) fn usage(reported: &Reported) -> Usage {
        let Reported { input, output, cache_read, cache_write, reasoning, .. } = *reported;
        Usage::new(input, output).cache(cache_read, cache_write).reasoning(reasoning)
    }

    pub(super) fn is_terminal(payload: &str) -> bool {
        json(payload)["type"] == "message_stop"
    }
}

mod gemini {
    use super::*;

    /// Maps the end. A blocked prompt is the only regular stream without a finish reason.
    pub(super) fn end(raw: &str, calls: bool) -> End {
        match raw {
            "MAX_TOKENS" => End::Done(StopReason::Length),
            "SAFETY" | "RECITATION" | "MODEL_ARMOR" => End::Done(StopReason::ContentFilter),
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => {
                End::Fails(ModelErrorKind::Malformed)
            }
            "" => End::Fails(ModelErrorKind::ContentFiltered),
            _ => finished(calls),
        }
    }

    /// Converts counts: the output excludes thinking, ours includes it. The rest of the total is
    /// the input, including input of the provider's own tools, which only the raw usage of a
    /// recording states.
    pub(super) fn usage(reported: &Reported) -> Usage {
        let Reported { output, cache_read, cache_write, reasoning, total, .. } = *reported;
        let output = output + reasoning;
        Usage::new(total - output - cache_read, output)
            .cache(cache_read, cache_write)
            .reasoning(reasoning)
    }

    pub(super) fn is_terminal(payload: &str) -> bool {
        let payload = json(payload);
        payload["candidates"][0]["finishReason"].is_string()
            || payload["promptFeedback"]["blockReason"].is_string()
    }
}
