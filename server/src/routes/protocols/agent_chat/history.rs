//! The history of a request, converted to a session's log in which each call is directly followed
//! by its one result.
//!
//! An entry has the form `{role, content, toolName?, toolInput?, toolResult?, toolCallId?}`, or is
//! a message as in events. Both may be mixed. Data that is not for a model is left out: details of
//! results, and custom messages of the application.

use std::sync::Arc;

use loopwright_core::log::LogEntry;
use loopwright_core::message::{AssistantMessage, Content, ContentPart, ResultStatus, StopReason};
use loopwright_protocols::{History, is_json_object, is_tool_name};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::ApiError;
use crate::json::json_at;

/// An entry. Fields that may be large stay text until they are needed.
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
    // Fields of messages as in events:
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
    let mut log = History::new();
    for (at, entry) in history.iter().enumerate() {
        let path = format!("/history/{at}");
        match entry.role.as_str() {
            "user" => log.user(entry.content(&path)?),
            "assistant" => entry.add_reply(&mut log, &path)?,
            "tool" | "tool_result" => entry.add_result(&mut log, &path)?,
            "custom" => {}
            _ => {
                let why = "The role of the entry is unknown: write `user`, `assistant` or `tool`.";
                return Err(ApiError::at(format!("{path}/role"), why));
            }
        }
    }
    Ok(log.finish())
}

impl Entry {
    fn add_reply(&self, log: &mut History, path: &str) -> Result<(), ApiError> {
        let parts: Vec<ContentPart> = match self.parts.as_deref() {
            Some(parts) => parts_of(parts.get(), &format!("{path}/parts"))?,
            None => {
                let text: String = self.content(path)?.iter().map(text_of).collect();
                if text.is_empty() {
                    Vec::new()
                } else {
                    vec![ContentPart::Text { text, signature: None }]
                }
            }
        };
        let reply = AssistantMessage::default().stop(self.stop.unwrap_or_default());
        log.reply(reply.model(self.model.clone().unwrap_or_default()));
        for part in parts {
            match part {
                ContentPart::ToolCall(call) => {
                    log.call(Some(&call.id), call.name, call.arguments, call.signature);
                }
                part => log.part(part),
            }
        }
        if let Some(tool) = self.tool(path)? {
            log.call(self.call_id(), tool, self.arguments(path)?, None);
            if let Some(result) = &self.tool_result {
                log.last_result(self.status(), vec![Content::text(result)]);
            }
        }
        Ok(())
    }

    fn add_result(&self, log: &mut History, path: &str) -> Result<(), ApiError> {
        let content = match &self.tool_result {
            Some(result) => vec![Content::text(result)],
            None => self.content(path)?,
        };
        let (tool, id) = (self.tool(path)?, self.call_id());
        let Some(content) = log.result(id, tool.as_deref(), self.status(), content) else {
            return Ok(());
        };
        let Some(tool) = tool else {
            let why = "The entry does not name the tool that this is the result of: give \
                       `toolName`.";
            return Err(ApiError::at(format!("{path}/toolName"), why));
        };
        log.call(id, tool, self.arguments(path)?, None);
        log.last_result(self.status(), content);
        Ok(())
    }

    /// Returns the entry's content: text, or a list of parts.
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

    /// Returns the arguments of the entry's call, as raw JSON of an object.
    fn arguments(&self, path: &str) -> Result<Arc<str>, ApiError> {
        let wrong = || {
            ApiError::at(format!("{path}/toolInput"), "The input of a tool is not a JSON object.")
        };
        let raw = match self.tool_input.as_deref().map(RawValue::get) {
            None | Some("null") => "{}".to_owned(),
            Some(text) if text.starts_with('"') => json_at(text, &format!("{path}/toolInput"))?,
            Some(raw) => raw.to_owned(),
        };
        if is_json_object(&raw) { Ok(raw.into()) } else { Err(wrong()) }
    }

    /// Returns the name of the entry's tool.
    fn tool(&self, path: &str) -> Result<Option<Arc<str>>, ApiError> {
        let (name, field) = match (&self.tool_name, &self.name) {
            (Some(name), _) => (name, "toolName"),
            (None, Some(name)) => (name, "name"),
            (None, None) => return Ok(None),
        };
        if !is_tool_name(name) {
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

/// Maximum number of parts of a message. Each result is searched for among its calls.
const MAX_PARTS: usize = 1_000;

/// Returns the parts of a message. Fails if there are too many.
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
    use loopwright_core::Message;
    use loopwright_core::log::{SessionLog, check_log};
    use loopwright_core::message::MessageKind;
    use loopwright_core::testing::check_transcript;
    use serde_json::{Value, json};

    use super::*;

    /// Returns the conversation that a model would receive, as one word per message.
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
