//! Conversion of a session's events to the updates of `session/update`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::AgentEvent;
use loopwright_core::message::{
    AssistantMessage, CallId, Content, ContentPart, MessageId, MessageKind, ToolResult,
};
use loopwright_core::model::Update;
use loopwright_core::tool::{TodoItem, TodoList, ToolUpdate};
use serde_json::{Value, json};

use crate::diff::{Diff, diffs};

/// The maximum size of a running tool's shown output. An update replaces the earlier ones, so each
/// shows the end of the output.
const SHOWN_OUTPUT_BYTES: usize = 4 * 1024;

/// The notice after a reply whose shown part is void.
const STARTS_OVER: &str = "\n\n*The reply was cut off and starts over:*\n\n";

/// Returns an update with a text that is not part of the conversation, instead of a reply.
pub fn notice(text: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "content": text_block(text) })
}

/// Returns a text as content of a tool call.
pub fn text_content(text: &str) -> Value {
    json!({ "type": "content", "content": text_block(text) })
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn block(content: &Content) -> Option<Value> {
    match content {
        Content::Text { text } if !text.is_empty() => Some(text_block(text)),
        Content::Image { media_type, data } => {
            Some(json!({ "type": "image", "mimeType": media_type, "data": data }))
        }
        _ => None,
    }
}

fn chunk(kind: &str, message: MessageId, content: Value) -> Value {
    json!({ "sessionUpdate": kind, "messageId": message, "content": content })
}

/// Returns a text of a reply as a chunk of `kind`, or `None` if it is empty.
fn part(kind: &str, message: MessageId, text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| chunk(kind, message, text_block(text)))
}

/// Returns the model's todo list, which replaces the client's plan.
fn plan(list: TodoList) -> Value {
    let entry = |item: TodoItem| {
        let mut entry = json!(item);
        entry["priority"] = "medium".into(); // the protocol requires one
        entry
    };
    let entries: Vec<Value> = list.items.into_iter().map(entry).collect();
    json!({ "sessionUpdate": "plan", "entries": entries })
}

const REPLY: &str = "agent_message_chunk";
const THOUGHT: &str = "agent_thought_chunk";

/// A converter of the events of one session to its updates.
///
/// Its state does not grow with the session: it is the streaming reply, and the calls in progress.
#[derive(Debug)]
pub struct SessionUpdates {
    cwd: PathBuf,
    /// The streaming reply, and whether a part of its text was shown.
    streaming: Option<(MessageId, bool)>,
    /// The calls without a result.
    open: HashMap<CallId, OpenCall>,
}

#[derive(Debug, Default)]
struct OpenCall {
    arguments: Arc<Value>,
    /// The changes that were shown for approval.
    shown: Vec<Diff>,
    /// The end of the call's output.
    output: String,
}

impl SessionUpdates {
    /// Creates the converter of a session whose tools work in this directory.
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        SessionUpdates { cwd: cwd.into(), streaming: None, open: HashMap::new() }
    }

    /// Returns the updates for an event that was just emitted. Messages of the user are left out,
    /// because the client shows its prompts itself. A detached reply that is shown is a thought
    /// after the name of its speaker, once it is complete.
    pub fn fold(&mut self, event: &AgentEvent) -> Vec<Value> {
        let update = match event {
            AgentEvent::MessageStart { message_id, .. } => self.restart(*message_id),
            AgentEvent::MessageUpdate { message_id, update } => self.delta(*message_id, update),
            AgentEvent::MessageEnd { message } => match &message.body {
                MessageKind::Assistant(reply) => return self.reply(message.id, reply),
                MessageKind::Detached(shown) => {
                    let text = format!("{}: {}\n\n", shown.speaker, shown.reply.text());
                    part(THOUGHT, message.id, &text)
                }
                _ => None,
            },
            AgentEvent::ToolExecutionStart { call, name, arguments } => {
                Some(self.started(call, name, arguments))
            }
            AgentEvent::ToolExecutionUpdate { call, update } => self.progress(call, update),
            AgentEvent::ToolExecutionEnd { call, result, .. } => {
                let ended = result.as_tool_result().map(|result| self.result(call, result));
                return ended.into_iter().chain(TodoList::written(result).map(plan)).collect();
            }
            AgentEvent::Reset => Some(plan(TodoList::default())),
            _ => None,
        };
        update.into_iter().collect()
    }

    /// Returns the updates for an event of a loaded session, including messages of the user.
    pub fn replay(&mut self, event: &AgentEvent) -> Vec<Value> {
        if let AgentEvent::MessageEnd { message } = event
            && let MessageKind::User(user) = &message.body
        {
            let blocks = user.content.iter().filter_map(block);
            return blocks.map(|block| chunk("user_message_chunk", message.id, block)).collect();
        }
        self.fold(event)
    }

    /// Stores the changes that the client was shown when it decided on a call. They count as the
    /// call's changes, unless its result reports others.
    pub fn shown(&mut self, call: &CallId, diffs: &[Diff]) {
        if let Some(open) = self.open.get_mut(call) {
            open.shown = diffs.to_vec();
        }
    }

    /// Returns a notice if a part of the reply was shown, which is now void.
    fn restart(&mut self, message: MessageId) -> Option<Value> {
        let (_, is_shown) = self.streaming.take_if(|(id, _)| *id == message)?;
        is_shown.then(|| notice(STARTS_OVER))
    }

    fn delta(&mut self, message: MessageId, update: &Update) -> Option<Value> {
        let (kind, delta) = match update {
            Update::Text { delta, .. } => (REPLY, delta),
            Update::Thinking { delta, .. } => (THOUGHT, delta),
            Update::Withdrawn => return self.restart(message),
            _ => return None,
        };
        let streaming = self.streaming.filter(|(id, _)| *id == message);
        let is_shown = streaming.is_some_and(|(_, is_shown)| is_shown);
        self.streaming = Some((message, is_shown || kind == REPLY));
        part(kind, message, delta)
    }

    /// Returns the text of a reply that was not streamed, and the calls of any reply.
    fn reply(&mut self, message: MessageId, reply: &AssistantMessage) -> Vec<Value> {
        let has_streamed = self.streaming.take().is_some_and(|(id, _)| id == message);
        let update = |content: &ContentPart| match content {
            ContentPart::Text { text, .. } if !has_streamed => part(REPLY, message, text),
            ContentPart::Thinking { text, .. } if !has_streamed => part(THOUGHT, message, text),
            ContentPart::ToolCall(call) => {
                let arguments = call.parse_arguments().unwrap_or_default();
                Some(self.announce(&call.id, &call.name, &Arc::new(arguments), "pending"))
            }
            _ => None,
        };
        reply.parts.iter().filter_map(update).collect()
    }

    fn announce(
        &mut self,
        call: &CallId,
        name: &str,
        arguments: &Arc<Value>,
        status: &str,
    ) -> Value {
        let open = OpenCall { arguments: arguments.clone(), ..OpenCall::default() };
        self.open.insert(call.clone(), open);
        let mut update = tool_call(call, name, arguments, &self.cwd);
        update["sessionUpdate"] = "tool_call".into();
        update["status"] = status.into();
        update
    }

    fn started(&mut self, call: &CallId, name: &str, arguments: &Arc<Value>) -> Value {
        let status = "in_progress";
        let Some(open) = self.open.get_mut(call) else {
            // A pattern makes this call, so no reply has announced it.
            return self.announce(call, name, arguments, status);
        };
        open.arguments = arguments.clone();
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "status": status,
            "rawInput": arguments })
    }

    fn progress(&mut self, call: &CallId, update: &ToolUpdate) -> Option<Value> {
        let open = self.open.get_mut(call)?;
        let text = match update {
            ToolUpdate::Output(output) => {
                open.output.push_str(output);
                let cut = open.output.len().saturating_sub(SHOWN_OUTPUT_BYTES);
                open.output.drain(..open.output.ceil_char_boundary(cut));
                text_content(&open.output)
            }
            ToolUpdate::Progress(progress) => text_content(&progress.message),
            _ => return None,
        };
        Some(json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "content": [text] }))
    }

    fn result(&mut self, call: &CallId, result: &ToolResult) -> Value {
        let open = self.open.remove(call).unwrap_or_default();
        let changes = match result.is_error() {
            true => Vec::new(),
            false => self.changes(open, result),
        };
        let text = result.content.iter().filter_map(block);
        let text = text.map(|content| json!({ "type": "content", "content": content }));
        let content = match changes.is_empty() {
            true => text.collect(),
            false => json!(changes),
        };
        let status = if result.is_error() { "failed" } else { "completed" };
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "status": status,
            "content": content })
    }

    /// Returns the changes that a call has made: from its result, else the new file, else the
    /// changes that the client was shown.
    fn changes(&self, open: OpenCall, result: &ToolResult) -> Vec<Diff> {
        let details = result.details.as_deref().unwrap_or(&Value::Null);
        if let Some(unified) = details["diff"].as_str().filter(|_| details["cut"] != true) {
            return diffs(&self.cwd, unified);
        }
        match (&details["created"], &details["path"], &open.arguments["content"]) {
            (Value::Bool(true), Value::String(path), Value::String(text)) => {
                let (path, new_text) = (self.cwd.join(path), text.clone());
                vec![Diff { path, old_text: None, new_text }]
            }
            _ => open.shown,
        }
    }
}

/// Returns a call of a tool in the directory `cwd`, as the protocol describes it.
pub(super) fn tool_call(call: &CallId, name: &str, arguments: &Value, cwd: &Path) -> Value {
    let (kind, subject) = match name {
        "read_file" | "list_directory" => ("read", "path"),
        "edit_file" | "write_file" => ("edit", "path"),
        "glob_files" | "search_files" => ("search", "pattern"),
        "execute_command" => ("execute", "command"),
        "write_todos" => ("think", "path"),
        _ => ("other", "path"),
    };
    let title = match arguments[subject].as_str() {
        Some(command) if kind == "execute" => command.to_owned(),
        Some(subject) => format!("{name} {subject}"),
        None => name.to_owned(),
    };
    let path = arguments["path"].as_str().map(|path| json!({ "path": cwd.join(path) }));
    json!({ "toolCallId": call, "title": title, "name": name, "kind": kind,
        "locations": path.into_iter().collect::<Vec<_>>(), "rawInput": arguments })
}

#[cfg(test)]
mod tests {
    use loopwright_core::message::{Message, ResultStatus, UserMessage};
    use serde_json::json;

    use super::*;

    fn delta(text: &str) -> AgentEvent {
        let update = Update::Text { block: 0, delta: text.into() };
        AgentEvent::MessageUpdate { message_id: MessageId(2), update }
    }

    fn reply(text: &str, calls: &[(&str, &str, Value)]) -> AgentEvent {
        let mut parts = vec![ContentPart::Text { text: text.into(), signature: None }];
        parts.extend(calls.iter().map(|(id, name, arguments)| {
            let arguments = arguments.to_string();
            ContentPart::ToolCall(loopwright_core::message::ToolCall::new(*id, *name, arguments))
        }));
        let message = Message::new(MessageId(2), AssistantMessage::new(parts));
        AgentEvent::MessageEnd { message: Arc::new(message) }
    }

    fn result(call: &str, text: &str, details: Value, status: ResultStatus) -> AgentEvent {
        let result = ToolResult::new(call, "edit_file", status, vec![Content::text(text)]);
        let result = result.details(Arc::new(details));
        AgentEvent::ToolExecutionEnd {
            call: call.into(),
            name: "edit_file".into(),
            status,
            is_error: status != ResultStatus::Ok,
            result: Arc::new(Message::new(MessageId(3), result)),
        }
    }

    fn sent(updates: &mut SessionUpdates, event: &AgentEvent) -> Value {
        updates.fold(event).into()
    }

    #[test]
    fn a_reply_that_has_streamed_is_not_sent_twice() {
        let mut updates = SessionUpdates::new("/w");
        let chunk = json!([{ "sessionUpdate": "agent_message_chunk", "messageId": "m2",
            "content": { "type": "text", "text": "Hi" } }]);
        assert_eq!(sent(&mut updates, &delta("Hi")), chunk);
        assert_eq!(sent(&mut updates, &reply("Hi", &[])), json!([]));
        assert_eq!(sent(&mut updates, &reply("Hi", &[])), chunk);
    }

    #[test]
    fn a_withdrawn_reply_starts_over_if_any_of_it_was_shown() {
        let mut updates = SessionUpdates::new("/w");
        let withdrawn =
            AgentEvent::MessageUpdate { message_id: MessageId(2), update: Update::Withdrawn };
        assert_eq!(sent(&mut updates, &withdrawn), json!([]));
        sent(&mut updates, &delta("Hi"));
        let text = &sent(&mut updates, &withdrawn)[0]["content"]["text"];
        assert!(text.as_str().unwrap().contains("starts over"), "{text}");
    }

    #[test]
    fn a_call_has_its_kind_its_file_and_the_change_that_it_made() {
        let mut updates = SessionUpdates::new("/w");
        let arguments = json!({ "path": "src/a", "old": "x", "new": "y" });
        let calls = [("c1", "edit_file", arguments.clone())];
        let call = sent(&mut updates, &reply("", &calls))[0].clone();
        assert_eq!(
            call,
            json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "edit_file src/a",
                "name": "edit_file", "kind": "edit", "status": "pending",
                "locations": [{ "path": "/w/src/a" }], "rawInput": arguments })
        );
        let started = AgentEvent::ToolExecutionStart {
            call: "c1".into(),
            name: "edit_file".into(),
            arguments: Arc::new(arguments),
        };
        assert_eq!(sent(&mut updates, &started)[0]["status"], "in_progress");
        let details = json!({ "path": "src/a", "cut": false,
            "diff": "--- src/a\n+++ src/a\n@@ -1 +1 @@\n-x\n+y\n" });
        let end = result("c1", "Edited.", details, ResultStatus::Ok);
        assert_eq!(
            sent(&mut updates, &end),
            json!([{ "sessionUpdate": "tool_call_update", "toolCallId": "c1",
                "status": "completed", "content": [{ "type": "diff", "path": "/w/src/a",
                "oldText": "x\n", "newText": "y\n" }] }])
        );
        assert!(updates.open.is_empty());
    }

    #[test]
    fn a_written_file_has_the_change_that_was_shown_or_is_new() {
        let mut updates = SessionUpdates::new("/w");
        let arguments = json!({ "path": "a", "content": "new" });
        let event =
            reply("", &[("c1", "write_file", arguments.clone()), ("c2", "write_file", arguments)]);
        sent(&mut updates, &event);
        let shown = Diff { path: "/w/a".into(), old_text: Some("b".into()), new_text: "n".into() };
        updates.shown(&"c1".into(), &[shown]);
        let written = |created| json!({ "path": "a", "created": created });
        let end = result("c1", "", written(false), ResultStatus::Ok);
        assert_eq!(sent(&mut updates, &end)[0]["content"][0]["oldText"], "b");
        let end = result("c2", "", written(true), ResultStatus::Ok);
        let change = json!({ "type": "diff", "path": "/w/a", "newText": "new" });
        assert_eq!(sent(&mut updates, &end)[0]["content"][0], change);
    }

    #[test]
    fn a_call_that_failed_has_its_text() {
        let mut updates = SessionUpdates::new("/w");
        sent(&mut updates, &reply("", &[("c1", "write_file", json!({}))]));
        let end = sent(&mut updates, &result("c1", "No.", json!({}), ResultStatus::Denied));
        assert_eq!(
            (&end[0]["status"], &end[0]["content"][0]["content"]["text"]),
            (&json!("failed"), &json!("No."))
        );
    }

    /// C521: A todo list is the client's plan; the next one, and a reset, replace it.
    #[test]
    fn a_todo_list_is_a_plan() {
        let mut updates = SessionUpdates::new("/w");
        let todos = json!([{ "content": "Read", "status": "completed" },
            { "content": "Fix", "status": "in_progress" }]);
        let arguments = json!({ "todos": todos });
        let call = sent(&mut updates, &reply("", &[("c1", "write_todos", arguments.clone())]));
        assert_eq!((&call[0]["kind"], &call[0]["title"]), (&json!("think"), &json!("write_todos")));
        let ended = |status| {
            let content = vec![Content::text("Written.")];
            let result = ToolResult::new("c1", "write_todos", status, content);
            let message = Message::new(MessageId(3), result.details(Arc::new(arguments.clone())));
            AgentEvent::ToolExecutionEnd {
                call: "c1".into(),
                name: "write_todos".into(),
                status,
                is_error: status != ResultStatus::Ok,
                result: Arc::new(message),
            }
        };
        let end = sent(&mut updates, &ended(ResultStatus::Ok));
        assert_eq!(end[0]["status"], "completed");
        assert_eq!(
            end[1],
            json!({ "sessionUpdate": "plan", "entries": [
                { "content": "Read", "priority": "medium", "status": "completed" },
                { "content": "Fix", "priority": "medium", "status": "in_progress" },
            ] })
        );
        assert_eq!(sent(&mut updates, &ended(ResultStatus::Error)).as_array().unwrap().len(), 1);
        let reset = sent(&mut updates, &AgentEvent::Reset);
        assert_eq!(reset, json!([{ "sessionUpdate": "plan", "entries": [] }]));
    }

    #[test]
    fn output_of_a_running_tool_is_shown_by_its_end() {
        let mut updates = SessionUpdates::new("/w");
        sent(&mut updates, &reply("", &[("c1", "execute_command", json!({ "command": "ls" }))]));
        let mut last = Value::Null;
        for _ in 0..3 {
            let update = ToolUpdate::Output("é".repeat(SHOWN_OUTPUT_BYTES / 3));
            let event = AgentEvent::ToolExecutionUpdate { call: "c1".into(), update };
            last = sent(&mut updates, &event)[0]["content"][0]["content"]["text"].take();
        }
        assert_eq!(last.as_str().unwrap().len(), SHOWN_OUTPUT_BYTES);
    }

    /// C527: A detached reply that is shown is a thought after the name of its speaker.
    #[test]
    fn a_shown_reply_is_a_thought_of_its_speaker() {
        let run = crate::testing::Run::new().shown("critic", "No.");
        let mut updates = SessionUpdates::new("/w");
        let sent: Vec<_> = run.0.iter().flat_map(|event| updates.fold(&event.event)).collect();
        assert_eq!(sent.len(), 1, "{sent:?}");
        assert_eq!(sent[0]["sessionUpdate"], "agent_thought_chunk");
        assert_eq!(sent[0]["content"]["text"], "critic: No.\n\n");
    }

    #[test]
    fn a_call_of_a_pattern_is_announced_when_it_starts() {
        let mut updates = SessionUpdates::new("/w");
        let arguments = Arc::new(json!({ "pattern": "x" }));
        let event = AgentEvent::ToolExecutionStart {
            call: "c1".into(),
            name: "search_files".into(),
            arguments,
        };
        let call = sent(&mut updates, &event)[0].take();
        assert_eq!(
            (&call["sessionUpdate"], &call["status"], &call["kind"], &call["title"]),
            (
                &json!("tool_call"),
                &json!("in_progress"),
                &json!("search"),
                &json!("search_files x")
            )
        );
    }

    #[test]
    fn messages_of_the_user_are_sent_when_a_session_is_loaded() {
        let mut updates = SessionUpdates::new("/w");
        let message = Arc::new(Message::new(MessageId(1), UserMessage::from("Hello")));
        let event = AgentEvent::MessageEnd { message };
        assert_eq!(sent(&mut updates, &event), json!([]));
        let replayed = updates.replay(&event);
        assert_eq!(replayed[0]["sessionUpdate"], "user_message_chunk");
    }
}
