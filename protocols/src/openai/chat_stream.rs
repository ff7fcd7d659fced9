//! [`ChatStream`]: converts the events of a run to chunks of a chat completion.

use std::collections::VecDeque;
use std::sync::Arc;

use loopwright_core::AgentEvent;
use loopwright_core::event::{Envelope, Role, RunOutcome};
use loopwright_core::message::Usage;
use loopwright_core::model::Update;
use schemars::JsonSchema;
use serde::Serialize;

use super::error_body::ErrorBody;
use super::head::ResponseHead;
use super::outcome::{InputTokens, OutputTokens, incomplete, input_tokens, typed_answer};
use crate::failure::RunFailure;

/// A part of a chat completion.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ChatCompletionChunk {
    id: String,
    object: &'static str,
    created: u64,
    model: Arc<str>,
    /// One choice, or none in the chunk with the usage.
    choices: Vec<ChunkChoice>,
    /// The tokens that were used, in the last chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<CompletionUsage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
struct ChunkChoice {
    index: u32,
    delta: Delta,
    finish_reason: Option<&'static str>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

/// A whole chat completion.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ChatCompletion {
    id: String,
    object: &'static str,
    created: u64,
    model: Arc<str>,
    choices: [Choice; 1],
    usage: CompletionUsage,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
struct Choice {
    index: u32,
    message: CompletionMessage,
    finish_reason: &'static str,
    /// Always `null`.
    logprobs: (),
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
struct CompletionMessage {
    role: &'static str,
    content: String,
    /// Always `null`.
    refusal: (),
}

/// The tokens of all requests of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
struct CompletionUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: InputTokens,
    completion_tokens_details: OutputTokens,
}

impl From<&Usage> for CompletionUsage {
    fn from(usage: &Usage) -> Self {
        CompletionUsage {
            prompt_tokens: input_tokens(usage),
            completion_tokens: usage.output,
            total_tokens: usage.total(),
            prompt_tokens_details: usage.into(),
            completion_tokens_details: usage.into(),
        }
    }
}

/// The data of a frame of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ChatFrame {
    /// A part of the chat completion.
    Chunk(ChatCompletionChunk),
    /// The run failed. This is the last frame before `[DONE]`.
    Error(ErrorBody),
}

/// An encoder of the events of a run as chunks. The content is the text of all replies, separated
/// by empty lines. If the answer has a schema, the content is only the answer, in one chunk.
///
/// A chunk cannot be withdrawn. If the model's server fails in the middle of a reply, the repeated
/// reply follows the sent part of the first.
#[derive(Debug)]
pub struct ChatStream {
    head: ResponseHead,
    has_schema: bool,
    includes_usage: bool,
    /// `true` if any text was sent.
    has_content: bool,
    /// `true` if text of the current reply was sent.
    has_text: bool,
}

impl ChatStream {
    /// Creates the encoder of a stream. `has_schema` is true if the answer has a schema. If
    /// `includes_usage` is true, the last chunk has the token usage.
    pub fn new(head: ResponseHead, has_schema: bool, includes_usage: bool) -> Self {
        ChatStream { head, has_schema, includes_usage, has_content: false, has_text: false }
    }

    /// Returns the first frame, which contains the role.
    pub fn start(&self) -> ChatFrame {
        let delta = Delta { role: Some("assistant"), content: Some(String::new()) };
        ChatFrame::Chunk(self.chunk(delta, None))
    }

    /// Appends the frames for an event. Events of sub-agents have no frames.
    pub fn encode(&mut self, envelope: &Envelope, to: &mut VecDeque<ChatFrame>) {
        if envelope.parent.is_some() {
            return;
        }
        match &envelope.event {
            AgentEvent::MessageStart { role: Role::Assistant, .. } => self.has_text = false,
            AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } => {
                self.text(delta, to);
            }
            AgentEvent::MessageUpdate { update: Update::Withdrawn, .. } => self.has_text = false,
            // Some replies are not streamed.
            AgentEvent::MessageEnd { message }
                if message.role() == Role::Assistant && !self.has_text =>
            {
                self.text(&message.text(), to);
            }
            AgentEvent::AgentEnd(outcome) => self.end(outcome, to),
            _ => {}
        }
    }

    /// Appends the frame of a failure.
    pub fn fail(&self, failure: &RunFailure, to: &mut VecDeque<ChatFrame>) {
        let error = ErrorBody::new(500, &failure.message, &failure.kind, "");
        to.push_back(ChatFrame::Error(error));
    }

    fn text(&mut self, text: &str, to: &mut VecDeque<ChatFrame>) {
        if self.has_schema || text.is_empty() {
            return;
        }
        let separator = if self.has_content && !self.has_text { "\n\n" } else { "" };
        (self.has_content, self.has_text) = (true, true);
        self.content(format!("{separator}{text}"), to);
    }

    fn content(&self, content: String, to: &mut VecDeque<ChatFrame>) {
        let delta = Delta { role: None, content: Some(content) };
        to.push_back(ChatFrame::Chunk(self.chunk(delta, None)));
    }

    fn end(&self, outcome: &RunOutcome, to: &mut VecDeque<ChatFrame>) {
        let finish_reason = match (RunFailure::of(outcome), incomplete(outcome)) {
            (None, _) if outcome.limit.is_some() && outcome.value.is_none() => "length",
            (None, _) => "stop",
            (Some(_), Some("max_output_tokens")) => "length",
            (Some(_), Some(reason)) => reason,
            (Some(failure), None) => return self.fail(&failure, to),
        };
        if self.has_schema {
            self.content(typed_answer(outcome), to);
        }
        let chunk = self.chunk(Delta::default(), Some(finish_reason));
        to.push_back(ChatFrame::Chunk(chunk));
        if self.includes_usage {
            let mut chunk = self.chunk(Delta::default(), None);
            chunk.choices.clear();
            chunk.usage = Some(CompletionUsage::from(&outcome.usage));
            to.push_back(ChatFrame::Chunk(chunk));
        }
    }

    fn chunk(&self, delta: Delta, finish_reason: Option<&'static str>) -> ChatCompletionChunk {
        ChatCompletionChunk {
            id: format!("chatcmpl-{}", self.head.id),
            object: "chat.completion.chunk",
            created: self.head.created,
            model: self.head.model.clone(),
            choices: vec![ChunkChoice { index: 0, delta, finish_reason }],
            usage: None,
        }
    }
}

impl ChatCompletion {
    /// Combines the frames of a stream that includes the usage. The frames contain no withdrawn
    /// text if the events had no deltas.
    ///
    /// # Errors
    /// Returns the error of a run that failed.
    pub fn of(frames: impl IntoIterator<Item = ChatFrame>) -> Result<Self, ErrorBody> {
        let mut whole = ChatCompletion {
            id: String::new(),
            object: "chat.completion",
            created: 0,
            model: Arc::default(),
            choices: [Choice {
                index: 0,
                message: CompletionMessage {
                    role: "assistant",
                    content: String::new(),
                    refusal: (),
                },
                finish_reason: "stop",
                logprobs: (),
            }],
            usage: CompletionUsage::default(),
        };
        for frame in frames {
            let chunk = match frame {
                ChatFrame::Chunk(chunk) => chunk,
                ChatFrame::Error(error) => return Err(error),
            };
            (whole.id, whole.created, whole.model) = (chunk.id, chunk.created, chunk.model);
            whole.usage = chunk.usage.unwrap_or(whole.usage);
            for ChunkChoice { delta, finish_reason, .. } in chunk.choices {
                let [choice] = &mut whole.choices;
                choice.message.content.push_str(delta.content.as_deref().unwrap_or_default());
                choice.finish_reason = finish_reason.unwrap_or(choice.finish_reason);
            }
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Run, head};

    fn frames(stream: &mut ChatStream, run: &Run) -> Vec<ChatFrame> {
        let mut to = VecDeque::from([stream.start()]);
        run.0.iter().for_each(|envelope| stream.encode(envelope, &mut to));
        to.into()
    }

    fn contents(frames: &[ChatFrame]) -> Vec<String> {
        let content = |frame: &ChatFrame| {
            let frame = serde_json::to_value(frame).unwrap();
            let content = frame["choices"][0]["delta"]["content"].as_str();
            content.filter(|content| !content.is_empty()).map(str::to_owned)
        };
        frames.iter().filter_map(content).collect()
    }

    #[test]
    fn replies_are_joined_and_calls_are_not_shown() {
        let run = Run::new()
            .reply(&["I ", "count."])
            .call("c", "count", "nine", true)
            .reply(&["Nine."])
            .end();
        let frames = frames(&mut ChatStream::new(head(), false, true), &run);
        assert_eq!(contents(&frames), ["I ", "count.", "\n\nNine."]);
        let frames = serde_json::to_value(&frames).unwrap();
        assert!(!frames.to_string().contains("tool_calls"));
        let last = &frames.as_array().unwrap()[frames.as_array().unwrap().len() - 2..];
        assert_eq!(last[0]["choices"][0]["finish_reason"], "stop");
        assert_eq!(
            (&last[1]["choices"], &last[1]["usage"]["total_tokens"]),
            (&json!([]), &json!(5))
        );
    }

    #[test]
    fn a_completion_has_no_text_that_was_withdrawn() {
        let run = Run::new().withdrawn("Wrong").reply(&["Right."]).end();
        let streamed = frames(&mut ChatStream::new(head(), false, false), &run);
        assert_eq!(contents(&streamed), ["Wrong", "\n\nRight."]);
        let run = run.without_deltas();
        let frames = frames(&mut ChatStream::new(head(), false, true), &run);
        let completion = serde_json::to_value(ChatCompletion::of(frames).unwrap()).unwrap();
        assert_eq!(completion["choices"][0]["message"]["content"], "Right.");
        assert_eq!(completion["usage"]["completion_tokens"], 2);
        assert_eq!(completion["choices"][0]["logprobs"], Value::Null);
    }

    #[test]
    fn an_answer_with_a_schema_is_sent_alone() {
        let run = Run::new()
            .reply(&["I look."])
            .call("c", "count", "nine", true)
            .reply(&["{\"n\"", ": 9}"])
            .end_with(|outcome| outcome.value = Some(Arc::new(json!({ "n": 9 }))));
        let frames = frames(&mut ChatStream::new(head(), true, false), &run);
        assert_eq!(contents(&frames), ["{\"n\":9}"]);
    }

    #[test]
    fn a_run_without_an_answer_has_a_reason() {
        use loopwright_core::event::{IncompleteReply, RunStatus};
        let cut = |why| {
            Run::new().reply(&["It"]).end_with(|outcome| {
                (outcome.end, outcome.incomplete) = (RunStatus::Incomplete, Some(why));
            })
        };
        for (why, reason) in [
            (IncompleteReply::Length, "length"),
            (IncompleteReply::ContentFilter, "content_filter"),
        ] {
            let frames = frames(&mut ChatStream::new(head(), false, false), &cut(why));
            let completion = serde_json::to_value(ChatCompletion::of(frames).unwrap()).unwrap();
            assert_eq!(completion["choices"][0]["finish_reason"], reason);
        }
        let run = Run::new().end_with(|outcome| outcome.end = RunStatus::AwaitingAction);
        let frames = frames(&mut ChatStream::new(head(), false, false), &run);
        let error = ChatCompletion::of(frames).unwrap_err().error;
        assert_eq!(error.code.as_deref(), Some("awaiting_action"));
        assert!(error.message.contains("approval"), "{}", error.message);
    }
}
