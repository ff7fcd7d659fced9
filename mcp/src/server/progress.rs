//! The events of a session as lines of progress.

use std::collections::VecDeque;

use loopwright_core::AgentEvent;
use loopwright_core::event::Role;
use loopwright_core::model::Update;
use loopwright_core::tool::ToolUpdate;
use serde_json::Value;

/// The maximum length of a line of progress.
const MAX_LINE_CHARS: usize = 200;

/// A converter of a session's events to lines of text: the model's text and the output of tools
/// line by line, and the start of each call.
#[derive(Default)]
pub(super) struct Progress {
    /// The last line of the stream, which has no line break yet.
    partial: String,
    /// `true` if deltas of the current message were received.
    streamed: bool,
    lines: VecDeque<String>,
}

impl Progress {
    /// Takes the next event of the session.
    pub(super) fn apply(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::MessageStart { .. } => self.streamed = false,
            AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } => {
                self.streamed = true;
                self.text(delta);
            }
            AgentEvent::MessageUpdate { update: Update::Withdrawn, .. } => self.partial.clear(),
            AgentEvent::MessageEnd { message } if message.role() == Role::Assistant => {
                // A session that is open in another process emits no deltas.
                if !self.streamed {
                    self.text(&message.text());
                }
                self.end_line();
            }
            AgentEvent::ToolExecutionStart { name, arguments, .. } => self.call(name, arguments),
            AgentEvent::ToolExecutionUpdate { update: ToolUpdate::Output(text), .. } => {
                self.text(text);
            }
            AgentEvent::ToolExecutionUpdate { update: ToolUpdate::Progress(progress), .. } => {
                let of = progress.total.map(|total| format!("/{total}")).unwrap_or_default();
                self.line(&format!("{} ({}{of})", progress.message, progress.done));
            }
            AgentEvent::ToolExecutionEnd { name, is_error, .. } => {
                self.end_line();
                if *is_error {
                    self.line(&format!("{name} failed or did not run"));
                }
            }
            AgentEvent::Retry(retry) => {
                let seconds = retry.delay_ms.div_ceil(1000);
                self.line(&format!("{}; trying again in {seconds}s", retry.reason));
            }
            _ => {}
        }
    }

    /// Returns the next line, in order.
    pub(super) fn next_line(&mut self) -> Option<String> {
        self.lines.pop_front()
    }

    fn call(&mut self, name: &str, arguments: &Value) {
        self.end_line();
        self.line(&format!("{name} {arguments}"));
    }

    fn text(&mut self, text: &str) {
        for part in text.split_inclusive('\n') {
            self.partial += part;
            if part.ends_with('\n') || self.partial.len() >= MAX_LINE_CHARS {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.partial);
        self.line(&line);
    }

    fn line(&mut self, line: &str) {
        let line = line.trim();
        if !line.is_empty() {
            self.lines.push_back(line.chars().take(MAX_LINE_CHARS).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loopwright_core::Message;
    use loopwright_core::message::{AssistantMessage, MessageId, UserMessage};
    use serde_json::json;

    use super::*;

    fn lines(events: &[AgentEvent]) -> Vec<String> {
        let mut progress = Progress::default();
        events.iter().for_each(|event| progress.apply(event));
        std::iter::from_fn(|| progress.next_line()).collect()
    }

    fn delta(text: &str) -> AgentEvent {
        let update = Update::Text { block: 0, delta: text.into() };
        AgentEvent::MessageUpdate { message_id: MessageId(2), update }
    }

    fn end(message: Message) -> AgentEvent {
        AgentEvent::MessageEnd { message: Arc::new(message) }
    }

    #[test]
    fn text_is_reported_line_by_line_and_calls_when_they_start() {
        let arguments = Arc::new(json!({ "path": "a" }));
        let call = AgentEvent::ToolExecutionStart {
            call: "c".into(),
            name: "read_file".into(),
            arguments,
        };
        let output = AgentEvent::ToolExecutionUpdate {
            call: "c".into(),
            update: ToolUpdate::Output("x\ny".into()),
        };
        let reply = end(Message::new(MessageId(2), AssistantMessage::from("One.\nTwo.")));
        let events = [delta("One.\nT"), delta("wo."), reply.clone(), call, output];
        let expected = ["One.", "Two.", "read_file {\"path\":\"a\"}", "x"];
        assert_eq!(lines(&events), expected);
        // Without deltas, the message is reported when it ends; messages of the user are not.
        let request = end(Message::new(MessageId(1), UserMessage::from("Count.")));
        assert_eq!(lines(&[request, reply]), ["One.", "Two."]);
    }

    #[test]
    fn lines_are_bounded_and_withdrawn_text_is_forgotten() {
        let long = lines(&[delta(&"é".repeat(1_000))]);
        assert!(long.iter().all(|line| line.chars().count() <= MAX_LINE_CHARS), "{long:?}");
        let withdrawn =
            AgentEvent::MessageUpdate { message_id: MessageId(2), update: Update::Withdrawn };
        let reply = end(Message::new(MessageId(3), AssistantMessage::from("Two.")));
        assert_eq!(lines(&[delta("On"), withdrawn, delta("Two."), reply]), ["Two."]);
    }
}
