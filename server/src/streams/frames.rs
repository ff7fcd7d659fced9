//! The frames of `/api/agent-chat`, converted from a run's events.

use std::collections::VecDeque;
use std::sync::Arc;

use loopwright_core::AgentEvent;
use loopwright_core::event::{Envelope, Role};
use loopwright_core::message::{CallId, ResultStatus};
use loopwright_core::model::Update;
use loopwright_core::tool::{Progress, ToolUpdate};
use loopwright_protocols::RunFailure;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::request_run::{CutOff, Encoder};
use super::sse_frames::SseFrame;

/// An event of a run, as a line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum Frame {
    /// The run has started.
    AgentStart,
    /// A reply begins.
    ThinkingStart,
    /// The next part of the model's thinking.
    Thinking { content: String },
    /// The next part of the reply's text.
    Content { content: String },
    /// The reply so far is void: the model's server failed, and the request is repeated.
    Withdrawn,
    /// The request to the model failed, and will be sent again after a delay.
    Retry { attempt: u32, max_attempts: u32, delay_ms: u64, reason: String },
    /// The reply is complete.
    ThinkingEnd,
    /// A tool call begins.
    ToolUse { tool_name: Arc<str>, tool_input: Arc<Value>, tool_id: CallId },
    /// The next part of a tool's output.
    ToolUpdate {
        tool_id: CallId,
        content: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        progress: Option<Progress>,
    },
    /// A tool was not run, as `approve` does not list it.
    Confirm { tool_name: Arc<str>, tool_id: CallId },
    /// A tool call has ended.
    ToolResult { tool_id: CallId, content: String, is_error: bool },
    /// The run failed, or its last reply is incomplete.
    Error { kind: String, message: String },
    /// The run has ended. This is the last frame.
    Complete,
}

impl From<RunFailure> for Frame {
    fn from(failure: RunFailure) -> Self {
        Frame::Error { kind: failure.kind, message: failure.message }
    }
}

/// A converter from a run's events to frames.
#[derive(Default)]
pub(crate) struct Frames {
    /// `true` if a part of the current reply was sent.
    reply_started: bool,
    /// `true` if text of the current reply was sent.
    has_text: bool,
}

impl Encoder for Frames {
    fn event(&mut self, event: &Envelope, to: &mut VecDeque<SseFrame>) {
        let mut frames = VecDeque::new();
        self.convert(&event.event, &mut frames);
        to.extend(frames.iter().map(|frame| SseFrame::new(None, frame)));
    }

    fn cut_off(&mut self, why: CutOff, to: &mut VecDeque<SseFrame>) {
        let frames = [Frame::from(why.failure()), Frame::Complete];
        to.extend(frames.iter().map(|frame| SseFrame::new(None, frame)));
    }
}

impl Frames {
    /// Appends the frames of this event.
    fn convert(&mut self, event: &AgentEvent, to: &mut VecDeque<Frame>) {
        match event {
            AgentEvent::AgentStart { .. } => to.push_back(Frame::AgentStart),
            AgentEvent::MessageStart { role: Role::Assistant, .. } => {
                (self.reply_started, self.has_text) = (false, false);
                to.push_back(Frame::ThinkingStart);
            }
            AgentEvent::MessageUpdate { update, .. } => self.update(update, to),
            AgentEvent::Retry(notice) => to.push_back(Frame::Retry {
                attempt: notice.attempt,
                max_attempts: notice.max_attempts,
                delay_ms: notice.delay_ms,
                reason: notice.reason.clone(),
            }),
            AgentEvent::MessageEnd { message } if message.role() == Role::Assistant => {
                let content = message.text();
                // A text from the pattern itself does not stream.
                if !self.has_text && !content.is_empty() {
                    to.push_back(Frame::Content { content });
                }
                to.push_back(Frame::ThinkingEnd)
            }
            AgentEvent::ToolExecutionStart { call, name, arguments } => {
                let (tool_name, tool_input, tool_id) =
                    (name.clone(), arguments.clone(), call.clone());
                to.push_back(Frame::ToolUse { tool_name, tool_input, tool_id });
            }
            AgentEvent::ToolExecutionUpdate { call, update, .. } => {
                let tool_id = call.clone();
                to.push_back(match update {
                    ToolUpdate::Output(content) => {
                        Frame::ToolUpdate { tool_id, content: content.clone(), progress: None }
                    }
                    ToolUpdate::Progress(progress) => {
                        let progress = Some(Progress::clone(progress));
                        Frame::ToolUpdate { tool_id, content: String::new(), progress }
                    }
                    _ => return,
                });
            }
            AgentEvent::ToolExecutionEnd { call, name, status, is_error, result } => {
                if *status == ResultStatus::Denied {
                    to.push_back(Frame::Confirm { tool_name: name.clone(), tool_id: call.clone() });
                }
                to.push_back(Frame::ToolResult {
                    tool_id: call.clone(),
                    content: result.text(),
                    is_error: *is_error,
                });
            }
            AgentEvent::AgentEnd(outcome) => {
                to.extend(RunFailure::of(outcome).map(Frame::from));
                to.push_back(Frame::Complete);
            }
            _ => {}
        }
    }

    fn update(&mut self, update: &Update, to: &mut VecDeque<Frame>) {
        let frame = match update {
            Update::Text { delta, .. } => Frame::Content { content: delta.clone() },
            Update::Thinking { delta, .. } => Frame::Thinking { content: delta.clone() },
            Update::Withdrawn if self.reply_started => Frame::Withdrawn,
            _ => return,
        };
        self.reply_started = !matches!(frame, Frame::Withdrawn);
        self.has_text =
            self.reply_started && (self.has_text || matches!(frame, Frame::Content { .. }));
        to.push_back(frame);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loopwright_core::Message;
    use loopwright_core::message::{AssistantMessage, MessageId};

    use super::*;

    fn contents(events: &[AgentEvent]) -> Vec<String> {
        let (mut frames, mut to) = (Frames::default(), VecDeque::new());
        events.iter().for_each(|event| frames.convert(event, &mut to));
        let content = to.into_iter().filter_map(|frame| match frame {
            Frame::Content { content } => Some(content),
            _ => None,
        });
        content.collect()
    }

    /// C196: A text from the pattern itself does not stream.
    #[test]
    fn what_a_pattern_says_is_sent_once_and_what_streamed_is_not_repeated() {
        let id = MessageId(2);
        let start = AgentEvent::MessageStart { message_id: id, role: Role::Assistant };
        let message = Arc::new(Message::new(id, AssistantMessage::from("Four.")));
        let end = AgentEvent::MessageEnd { message };
        let text = |delta: &str| AgentEvent::MessageUpdate {
            message_id: id,
            update: Update::Text { block: 0, delta: delta.into() },
        };
        assert_eq!(contents(&[start.clone(), end.clone()]), ["Four."]);
        let streamed = [start.clone(), text("Fo"), text("ur."), end.clone()];
        assert_eq!(contents(&streamed), ["Fo", "ur."]);
    }
}
