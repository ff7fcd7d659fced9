//! The history of a request, converted to a session's log: every call is directly followed by its
//! one result.
//!
//! An entry has the form `{role, content, toolName?, toolInput?, toolResult?, toolCallId?}`, or is
//! a message as events contain it. Both may be mixed. What is not for a model (details of results,
//! custom messages of the application) is left out.

use std::collections::HashSet;
use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::log::LogEntry;
use loopwright_core::message::{
    AssistantMessage, CallId, Content, ContentPart, MessageId, MessageKind, ResultStatus,
    StopReason, ToolCall, ToolResult, UserMessage,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::ApiError;
use crate::json::json_at;

/// One entry. Fields that may be large stay text until they are needed.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    role: String,
    #[schemars(with = "Option<Value>")]
    content: Option<Box<RawValue>>,
    tool_name: Option<String>,
    #[schemars(with = "Option<Value>")]
    tool_input: Option<Box<RawValue>>,
    tool_result: Option<String>,
    tool_call_id: Option<String>,
    is_error: Option<bool>,
    // Fields of messages as events contain them:
    #[schemars(with = "Option<Value>")]
    parts: Option<Box<RawValue>>,
    stop: Option<StopReason>,
    model: Option<String>,
    call: Option<String>,
    name: Option<String>,
    status: Option<ResultStatus>,
}

/// Returns the log of a session with this history.
pub(crate) fn log_entries(history: &[Entry]) -> Result<Vec<LogEntry>, ApiError> {
    let mut log = Log::default();
    for (at, entry) in history.iter().enumerate() {
        let path = format!("/history/{at}");
        match entry.role.as_str() {
            "user" => {
                log.flush();
                let content = entry.content(&path)?;
                let message = log.message(UserMessage::new(content));
                log.entries.push(LogEntry::Remembered { message });
            }
            "assistant" => log.assistant(entry, &path)?,
            "tool" | "tool_result" => log.result(entry, &path)?,
            "custom" => {}
            _ => {
                let why = "The role of the entry is unknown: write `user`, `assistant` or `tool`.";
                return Err(ApiError::at(format!("{path}/role"), why));
            }
        }
    }
    log.flush();
    Ok(log.entries)
}

impl Entry {
    /// Returns its content: text, or a list of parts.
    fn content(&self, path: &str) -> Result<Vec<Content>, ApiError> {
        let Some(content) = self.content.as_deref().filter(|content| content.get() != "null")
        else {
            return Ok(Vec::new());
        };
        let path = format!("{path}/content");
        match content.get().starts_with('"') {
            true => Ok(vec![Content::text(json_at::<String>(content.get(), &path)?)]),
            false => json_at(content.get(), &path),
        }
    }

    /// Returns the arguments of its call, as raw JSON of an object.
    fn arguments(&self, path: &str) -> Result<Arc<str>, ApiError> {
        let wrong = || {
            ApiError::at(format!("{path}/toolInput"), "The input of a tool is not a JSON object.")
        };
        let raw = match self.tool_input.as_deref().map(RawValue::get) {
            None | Some("null") => "{}".to_owned(),
            Some(text) if text.starts_with('"') => json_at(text, &format!("{path}/toolInput"))?,
            Some(raw) => raw.to_owned(),
        };
        match serde_json::from_str::<&RawValue>(&raw) {
            Ok(object) if object.get().starts_with('{') => Ok(raw.into()),
            _ => Err(wrong()),
        }
    }

    /// Returns the name of its tool.
    fn tool(&self, path: &str) -> Result<Option<Arc<str>>, ApiError> {
        let (name, field) = match (&self.tool_name, &self.name) {
            (Some(name), _) => (name, "toolName"),
            (None, Some(name)) => (name, "name"),
            (None, None) => return Ok(None),
        };
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > 64 || !name.chars().all(legal) {
            let why = "This is not a legal tool name: use up to 64 letters, digits, `_` and `-`.";
            return Err(ApiError::at(format!("{path}/{field}"), why));
        }
        Ok(Some(name.as_str().into()))
    }

    fn call_id(&self) -> Option<&str> {
        self.tool_call_id.as_deref().or(self.call.as_deref()).filter(|id| !id.is_empty())
    }

    fn status(&self) -> ResultStatus {
        let from_flag =
            self.is_error.map(|failed| if failed { ResultStatus::Error } else { ResultStatus::Ok });
        self.status.or(from_flag).unwrap_or(ResultStatus::Ok)
    }
}

/// The maximum number of parts of one message: each result is searched for among its calls.
const MAX_PARTS: usize = 1_000;

/// The log so far, and the last reply, whose calls do not all have their results yet.
#[derive(Default)]
struct Log {
    entries: Vec<LogEntry>,
    messages: u64,
    ids: HashSet<CallId>,
    /// The number of the last id that was made here.
    last_id: u64,
    reply: Option<AssistantMessage>,
    calls: Vec<Call>,
}

/// A call of the last reply.
struct Call {
    /// The client's id of it.
    client_id: Option<String>,
    call: ToolCall,
    result: Option<ToolResult>,
}

impl Log {
    fn message(&mut self, body: impl Into<MessageKind>) -> Arc<Message> {
        self.messages += 1;
        Arc::new(Message::new(MessageId(self.messages), body))
    }

    fn assistant(&mut self, entry: &Entry, path: &str) -> Result<(), ApiError> {
        self.flush();
        let parts: Vec<ContentPart> = match entry.parts.as_deref() {
            Some(parts) => parts_of(parts.get(), &format!("{path}/parts"))?,
            None => {
                let text: String = entry.content(path)?.iter().map(text_of).collect();
                if text.is_empty() {
                    Vec::new()
                } else {
                    vec![ContentPart::Text { text, signature: None }]
                }
            }
        };
        let reply = AssistantMessage::default().stop(entry.stop.unwrap_or_default());
        self.reply = Some(reply.model(entry.model.clone().unwrap_or_default()));
        for part in parts {
            match part {
                ContentPart::ToolCall(call) => {
                    self.call(Some(call.id.to_string()), call.name, call.arguments, call.signature)
                }
                part => self.reply.get_or_insert_default().parts.push(part),
            }
        }
        if let Some(tool) = entry.tool(path)? {
            self.call(entry.call_id().map(str::to_owned), tool, entry.arguments(path)?, None);
            if let (Some(result), Some(call)) = (&entry.tool_result, self.calls.last_mut()) {
                call.finish(entry.status(), vec![Content::text(result)]);
            }
        }
        Ok(())
    }

    fn result(&mut self, entry: &Entry, path: &str) -> Result<(), ApiError> {
        let content = match &entry.tool_result {
            Some(result) => vec![Content::text(result)],
            None => entry.content(path)?,
        };
        let (tool, id) = (entry.tool(path)?, entry.call_id());
        let open = self.calls.iter_mut().filter(|call| call.result.is_none());
        let call = match (id, &tool) {
            (Some(id), _) => open.into_iter().find(|call| call.client_id.as_deref() == Some(id)),
            (None, Some(tool)) => open.into_iter().find(|call| call.call.name == *tool),
            (None, None) => open.into_iter().next(),
        };
        match (call, tool) {
            (Some(call), _) => call.finish(entry.status(), content),
            (None, Some(tool)) => {
                self.call(id.map(str::to_owned), tool, entry.arguments(path)?, None);
                if let Some(call) = self.calls.last_mut() {
                    call.finish(entry.status(), content);
                }
            }
            (None, None) => {
                let why =
                    "The entry does not name the tool that this is the result of: give `toolName`.";
                return Err(ApiError::at(format!("{path}/toolName"), why));
            }
        }
        Ok(())
    }

    /// Adds a call to the reply, with a unique id.
    fn call(
        &mut self,
        client_id: Option<String>,
        name: Arc<str>,
        arguments: Arc<str>,
        signature: Option<Arc<str>>,
    ) {
        let mut id: CallId = client_id.as_deref().unwrap_or_default().into();
        while id.is_empty() || !self.ids.insert(id.clone()) {
            self.last_id += 1; // never back: used ids are skipped once for all calls
            id = format!("h{}", self.last_id).into();
        }
        let call = ToolCall::new(id, name, arguments).signature(signature);
        self.reply.get_or_insert_default().parts.push(ContentPart::ToolCall(call.clone()));
        self.calls.push(Call { client_id, call, result: None });
    }

    /// Ends the reply: appends it to the log, and its results after it.
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
                call.finish(
                    ResultStatus::OutcomeUnknown,
                    vec![Content::text("The result of this call is not known.")],
                );
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

/// Returns the parts of one message, failing if there are too many.
fn parts_of(json: &str, path: &str) -> Result<Vec<ContentPart>, ApiError> {
    let parts: Vec<ContentPart> = json_at(json, path)?;
    if parts.len() > MAX_PARTS {
        return Err(ApiError::at(path, format!("One message has more than {MAX_PARTS} parts.")));
    }
    Ok(parts)
}

fn text_of(content: &Content) -> &str {
    match content {
        Content::Text { text } => text,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::log::SessionLog;
    use loopwright_core::testing::{check_log, check_transcript};
    use serde_json::{Value, json};

    use super::*;

    /// Returns the conversation that a model would receive, a word for each message.
    fn conversation(history: Value) -> String {
        let entries: Vec<Entry> = json_at(&history.to_string(), "").unwrap();
        let log = log_entries(&entries).unwrap();
        check_log(&log).unwrap();
        let context = SessionLog::of(&log).context();
        check_transcript(&context).unwrap();
        let word = |message: &Arc<Message>| match &message.body {
            MessageKind::User(_) => message.text(),
            MessageKind::Assistant(reply) => {
                let calls: Vec<String> =
                    reply.calls().map(|call| format!("{}{}", call.name, call.arguments)).collect();
                format!("<{}>{}", reply.text(), calls.join("+"))
            }
            MessageKind::ToolResult(result) if result.is_error() => "=!".into(),
            MessageKind::ToolResult(result) => format!("={}", result.text()),
            _ => "custom".into(),
        };
        context.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    /// Ids that are taken are passed over once, so the work does not grow with the square of the
    /// calls.
    #[test]
    fn the_work_for_ids_is_bounded() {
        let mut log = Log::default();
        for number in 0..50_000 {
            log.call(Some(format!("h{}", 50_000 + number)), "r".into(), "{}".into(), None);
        }
        (0..50_000).for_each(|_| log.call(Some("h60000".into()), "r".into(), "{}".into(), None));
        assert_eq!((log.ids.len(), log.last_id), (100_000, 49_999 + 50_001));
    }

    #[test]
    fn the_parts_of_a_message_are_bounded() {
        let part = json!({ "type": "tool_call", "id": "c", "name": "r", "arguments": "{}" });
        let history = |parts: usize| {
            json!([{ "role": "assistant", "parts": vec![part.clone(); parts] }]).to_string()
        };
        let entries: Vec<Entry> = json_at(&history(MAX_PARTS), "").unwrap();
        assert_eq!(log_entries(&entries).unwrap().len(), 1 + MAX_PARTS);
        let entries: Vec<Entry> = json_at(&history(MAX_PARTS + 1), "").unwrap();
        assert!(log_entries(&entries).is_err());
    }

    #[test]
    fn calls_and_results_are_paired_in_order() {
        let call = |tool: &str| json!({ "role": "assistant", "content": "", "toolName": tool });
        let result =
            |tool: &str, text: &str| json!({ "role": "tool", "toolName": tool, "content": text });
        let user = json!({ "role": "user", "content": "u" });
        let reply = json!({ "role": "assistant", "content": "a" });
        let with_id = |tool: &str, id: &str| -> Value {
            json!({ "role": "tool", "toolName": tool, "toolCallId": id, "content": id })
        };
        let whole = json!({
            "role": "assistant",
            "content": "a",
            "toolName": "r",
            "toolInput": { "p": 1 },
            "toolResult": "t",
        });
        let raw_input = json!({
            "role": "tool",
            "toolName": "r",
            "toolInput": "{\"p\": 1}",
            "content": null,
        });
        for (history, expected) in [
            (json!([user, result("r", "1")]), "u <>r{} =1"),
            (
                json!([user, reply, result("r", "1"), result("r", "2"), reply]),
                "u <a>r{}+r{} =1 =2 <a>",
            ),
            (json!([user, call("r"), result("r", "1"), result("s", "2")]), "u <>r{}+s{} =1 =2"),
            (json!([user, call("r"), user]), "u <>r{} =! u"),
            (json!([user, call("r"), call("r"), result("r", "1")]), "u <>r{} =! <>r{} =1"),
            (json!([user, with_id("r", "x"), user, with_id("r", "x")]), "u <>r{} =x u <>r{} =x"),
            (json!([user, whole, reply]), "u <a>r{\"p\":1} =t <a>"),
            (json!([reply, reply, json!({ "role": "assistant", "content": "" })]), "<a> <a>"),
            (
                json!([{ "role": "tool", "toolName": "r", "content": "no", "isError": true }]),
                "<>r{} =!",
            ),
            (json!([raw_input]), "<>r{\"p\": 1} ="),
        ] {
            assert_eq!(conversation(history.clone()), expected, "{history}");
        }
    }

    #[test]
    fn what_was_cut_off_keeps_its_pairs() {
        let reply = |stop: &str| {
            let text = json!({ "type": "text", "text": "a" });
            let call = json!({ "type": "tool_call", "id": "x", "name": "r", "arguments": "{" });
            json!({ "role": "assistant", "stop": stop, "model": "m", "parts": [text, call] })
        };
        let result = json!({
            "role": "tool_result",
            "call": "x",
            "name": "r",
            "status": "aborted",
            "content": [],
        });
        for stop in ["tool_calls", "aborted", "error", "length"] {
            assert_eq!(
                conversation(json!([reply(stop), result, reply(stop)])),
                "<a>r{ =! <a>r{ =!"
            );
        }
    }
}
