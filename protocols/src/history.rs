//! [`History`]: earlier messages of a conversation, as the log of a session.

use std::collections::HashSet;
use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::log::LogEntry;
use loopwright_core::message::{
    AssistantMessage, CallId, Content, ContentPart, MessageId, MessageKind, ResultStatus,
    StopReason, ToolCall, ToolResult, UserMessage,
};
use serde_json::value::RawValue;

/// A builder of a session's log from the earlier messages that a client sends. In the log, every
/// call is directly followed by exactly one result, whatever the client has left out.
///
/// ```
/// use loopwright_core::message::{AssistantMessage, Content, ResultStatus};
/// use loopwright_protocols::History;
///
/// let mut history = History::new();
/// history.user(vec![Content::text("How many sheep are there?")]);
/// history.reply(AssistantMessage::default());
/// history.call(Some("c"), "count".into(), "{}".into(), None);
/// history.user(vec![Content::text("Well?")]);
/// assert_eq!(history.finish().len(), 4); // the call's missing result is an error
/// ```
#[derive(Debug, Default)]
pub struct History {
    entries: Vec<LogEntry>,
    messages: u64,
    ids: HashSet<CallId>,
    /// The number of the last generated id.
    last_id: u64,
    /// The last reply, while some of its calls may lack results.
    reply: Option<AssistantMessage>,
    calls: Vec<Call>,
}

/// A call of the last reply.
#[derive(Debug)]
struct Call {
    /// The client's id of the call.
    client_id: Option<String>,
    call: ToolCall,
    result: Option<ToolResult>,
}

impl History {
    /// Returns a history without messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message of the user.
    pub fn user(&mut self, content: Vec<Content>) {
        self.flush();
        let message = self.message(UserMessage::new(content));
        self.entries.push(LogEntry::Remembered { message });
    }

    /// Starts a reply. The methods below add its parts and calls.
    pub fn reply(&mut self, reply: AssistantMessage) {
        self.flush();
        self.reply = Some(reply);
    }

    /// Adds a part that is not a call to the last reply.
    pub fn part(&mut self, part: ContentPart) {
        self.reply.get_or_insert_default().parts.push(part);
    }

    /// Adds a call to the last reply. A missing or duplicate id is replaced.
    pub fn call(
        &mut self,
        client_id: Option<&str>,
        name: Arc<str>,
        arguments: Arc<str>,
        signature: Option<Arc<str>>,
    ) {
        let mut id: CallId = client_id.unwrap_or_default().into();
        while id.is_empty() || !self.ids.insert(id.clone()) {
            self.last_id += 1; // never back: used ids are skipped once for all calls
            id = format!("h{}", self.last_id).into();
        }
        let call = ToolCall::new(id, name, arguments).signature(signature);
        self.reply.get_or_insert_default().parts.push(ContentPart::ToolCall(call.clone()));
        let client_id = client_id.map(str::to_owned);
        self.calls.push(Call { client_id, call, result: None });
    }

    /// Adds the result of the last call.
    pub fn last_result(&mut self, status: ResultStatus, content: Vec<Content>) {
        if let Some(call) = self.calls.last_mut() {
            call.finish(status, content);
        }
    }

    /// Adds a result to the call with this id. Without an id, adds it to the first call of `tool`
    /// that has no result, or to the first such call of any tool if `tool` is `None`. Returns the
    /// content if there is no such call.
    pub fn result(
        &mut self,
        client_id: Option<&str>,
        tool: Option<&str>,
        status: ResultStatus,
        content: Vec<Content>,
    ) -> Option<Vec<Content>> {
        let is_this = |call: &&mut Call| match (client_id, tool) {
            (Some(id), _) => call.client_id.as_deref() == Some(id),
            (None, Some(tool)) => *call.call.name == *tool,
            (None, None) => true,
        };
        match self.calls.iter_mut().filter(|call| call.result.is_none()).find(is_this) {
            Some(call) => {
                call.finish(status, content);
                None
            }
            None => Some(content),
        }
    }

    /// Completes the last reply and returns the log.
    pub fn finish(mut self) -> Vec<LogEntry> {
        self.flush();
        self.entries
    }

    fn message(&mut self, body: impl Into<MessageKind>) -> Arc<Message> {
        self.messages += 1;
        Arc::new(Message::new(MessageId(self.messages), body))
    }

    /// Ends the reply: appends it and its results to the log.
    fn flush(&mut self) {
        let (reply, calls) = (self.reply.take(), std::mem::take(&mut self.calls));
        let Some(mut reply) = reply.filter(|reply| !reply.parts.is_empty()) else {
            return;
        };
        reply.stop = match reply.stop {
            _ if !calls.is_empty() => StopReason::ToolCalls,
            StopReason::ToolCalls => StopReason::Stop,
            other => other,
        };
        let message = self.message(reply);
        self.entries.push(LogEntry::Replied { message, cost: None });
        for mut call in calls {
            if call.result.is_none() {
                let why = "The result of this call is not known.";
                call.finish(ResultStatus::OutcomeUnknown, vec![Content::text(why)]);
            }
            if let Some(result) = call.result {
                let result = self.message(result);
                self.entries.push(LogEntry::CallFinished { result });
            }
        }
    }
}

impl Call {
    fn finish(&mut self, status: ResultStatus, content: Vec<Content>) {
        let (call, name) = (self.call.id.clone(), self.call.name.clone());
        self.result = Some(ToolResult::new(call, name, status, content));
    }
}

/// Returns whether this is a legal name of a tool: 1 to 64 letters, digits, `_` and `-`.
pub fn is_tool_name(name: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(is_legal)
}

/// Returns whether this text is a JSON object, as the arguments of a call must be.
pub fn is_json_object(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok_and(|object| object.get().starts_with('{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Taken ids are skipped once, so the work does not grow quadratically with the calls.
    #[test]
    fn the_work_for_ids_is_bounded() {
        let mut history = History::new();
        let call = |history: &mut History, id: &str| {
            history.call(Some(id), "r".into(), "{}".into(), None);
        };
        (0..50_000).for_each(|number| call(&mut history, &format!("h{}", 50_000 + number)));
        (0..50_000).for_each(|_| call(&mut history, "h60000"));
        assert_eq!((history.ids.len(), history.last_id), (100_000, 49_999 + 50_001));
    }
}
