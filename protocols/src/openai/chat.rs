//! [`ChatCompletionRequest`]: the body of `POST /v1/chat/completions`.

use loopwright_core::event::Prompt;
use loopwright_core::message::ResultStatus;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::agent_request::AgentRequest;
use super::content::{Conversation, Role, contents};
use super::options::{self, NamedSchema, ReasoningEffort, any_object};
use crate::error::DecodeError;
use crate::from_json::{from_json, whole_number};

/// A request for a chat completion. Fields that an agent cannot honour are refused. Fields that do
/// not affect the answer are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ChatCompletionRequest {
    /// The agent, by its name.
    model: String,
    /// The conversation. The last message is the user's.
    messages: Vec<ChatMessage>,
    /// `true` to stream the answer.
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    /// The sampling temperature, between 0 and 2.
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f32>,
    /// The maximum number of output tokens of each of the agent's requests to its model.
    #[serde(default, deserialize_with = "whole_number")]
    #[schemars(range(min = 1, max = 0xFFFF_FFFF_u32))]
    max_completion_tokens: Option<u32>,
    /// The older name of `max_completion_tokens`.
    #[serde(default, deserialize_with = "whole_number")]
    #[schemars(range(min = 1, max = 0xFFFF_FFFF_u32))]
    max_tokens: Option<u32>,
    reasoning_effort: Option<ReasoningEffort>,
    response_format: Option<ResponseFormat>,
    #[serde(flatten)]
    #[schemars(skip)]
    others: Map<String, Value>,
}

/// A message of a conversation.
#[derive(Debug, Deserialize, JsonSchema)]
struct ChatMessage {
    role: Role,
    /// Text, or a list of parts: text, and `data:` URLs of images and PDFs.
    #[schemars(with = "Option<Value>")]
    content: Option<Box<RawValue>>,
    tool_calls: Option<Vec<ChatToolCall>>,
    tool_call_id: Option<String>,
}

/// A call of an earlier reply.
#[derive(Debug, Deserialize, JsonSchema)]
struct ChatToolCall {
    id: Option<String>,
    function: ChatFunction,
}

/// The tool and the arguments of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct ChatFunction {
    name: String,
    arguments: String,
}

/// Options of a stream.
#[derive(Debug, Default, Clone, Copy, Deserialize, JsonSchema)]
#[schemars(rename = "ChatStreamOptions")]
struct StreamOptions {
    /// `true` to send the token usage in the last chunk.
    include_usage: Option<bool>,
}

/// The form of the answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat {
    Text,
    JsonObject,
    JsonSchema { json_schema: NamedSchema },
}

impl ChatCompletionRequest {
    /// Parses a body.
    ///
    /// # Errors
    /// Returns the position where the body is invalid.
    pub fn from_json(body: &[u8]) -> Result<Self, DecodeError> {
        from_json(body, "")
    }

    /// Returns whether the last chunk contains the token usage.
    pub fn includes_usage(&self) -> bool {
        self.stream_options.unwrap_or_default().include_usage == Some(true)
    }

    /// Converts the request for an agent.
    ///
    /// # Errors
    /// Fails if a message is invalid, or if an agent cannot honour a field. Names the position.
    pub fn decode(self) -> Result<AgentRequest, DecodeError> {
        options::refuse(&self.others)?;
        let mut conversation = Conversation::new(None, self.messages.len(), "/messages")?;
        for (index, message) in self.messages.into_iter().enumerate() {
            message.add_to(&mut conversation, &format!("/messages/{index}"))?;
        }
        let (instructions, history, message) = conversation.finish("/messages")?;
        let mut prompt = Prompt::from(message);
        prompt.output = match self.response_format {
            None | Some(ResponseFormat::Text) => None,
            Some(ResponseFormat::JsonObject) => Some(any_object()),
            Some(ResponseFormat::JsonSchema { json_schema }) => {
                Some(json_schema.output("/response_format/json_schema")?)
            }
        };
        let (max_tokens, field) = match self.max_completion_tokens {
            None => (self.max_tokens, "max_tokens"),
            tokens => (tokens, "max_completion_tokens"),
        };
        Ok(AgentRequest {
            agent: self.model,
            instructions,
            history,
            prompt,
            temperature: options::temperature(self.temperature)?,
            max_tokens: options::max_tokens(max_tokens, field)?,
            thinking: self.reasoning_effort.map(Into::into),
            stream: self.stream == Some(true),
        })
    }
}

impl ChatMessage {
    fn add_to(self, conversation: &mut Conversation, path: &str) -> Result<(), DecodeError> {
        let content_path = format!("{path}/content");
        let content = contents(self.content.as_deref(), &content_path)?;
        if self.role == Role::Tool {
            let id_path = format!("{path}/tool_call_id");
            let Some(id) = self.tool_call_id else {
                return Err(DecodeError::at(id_path, "Name the call that this is the result of."));
            };
            return conversation.result(&id, ResultStatus::Ok, content, &id_path);
        }
        conversation.message(self.role, content, &content_path)?;
        let calls = self.tool_calls.unwrap_or_default();
        if self.role != Role::Assistant && !calls.is_empty() {
            let why = "Only messages of the assistant have calls.";
            return Err(DecodeError::at(format!("{path}/tool_calls"), why));
        }
        for (index, ChatToolCall { id, function }) in calls.into_iter().enumerate() {
            let path = format!("{path}/tool_calls/{index}/function");
            conversation.call(id.as_deref(), &function.name, &function.arguments, &path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::log::{SessionLog, check_log};
    use loopwright_core::model::ThinkingLevel;
    use loopwright_core::testing::check_transcript;
    use serde_json::json;

    use super::*;

    fn decode(body: Value) -> Result<AgentRequest, DecodeError> {
        ChatCompletionRequest::from_json(body.to_string().as_bytes())?.decode()
    }

    /// Decodes a request with one message and these fields.
    fn with(fields: Value) -> Result<AgentRequest, DecodeError> {
        let mut body = json!({
            "model": "coding", "messages": [{ "role": "user", "content": "Go." }],
        });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        decode(body)
    }

    #[test]
    fn a_conversation_is_converted() {
        let call = json!({ "id": "c", "type": "function",
            "function": { "name": "count", "arguments": "{\"of\": \"sheep\"}" } });
        let request = decode(json!({ "model": "coding", "stream": true, "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": [{ "type": "text", "text": "How many?" }] },
            { "role": "assistant", "content": null, "tool_calls": [call] },
            { "role": "tool", "tool_call_id": "c", "content": "nine" },
            { "role": "assistant", "content": "Nine." },
            { "role": "developer", "content": "Count twice." },
            { "role": "user", "content": "Sure?" },
        ] }))
        .unwrap();
        assert_eq!(request.instructions.as_deref(), Some("Be brief.\n\nCount twice."));
        assert_eq!((request.prompt.message.text().as_str(), request.stream), ("Sure?", true));
        check_log(&request.history).unwrap();
        let context = SessionLog::of(&request.history).context();
        check_transcript(&context).unwrap();
        let texts: Vec<String> = context.iter().map(|message| message.text()).collect();
        assert_eq!(texts, ["How many?", "", "nine", "Nine."]);
    }

    #[test]
    fn options_are_converted() {
        let schema = json!({ "type": "object" });
        let format = json!({ "type": "json_schema", "json_schema": {
            "name": "flock", "strict": true, "schema": schema } });
        let request =
            with(json!({ "temperature": 0.5, "max_tokens": 7, "reasoning_effort": "high",
            "response_format": format, "user": "ann", "n": 1, "top_p": 1, "tools": [],
            "stop": null, "presence_penalty": 0.0, "tool_choice": "auto", "store": false }))
            .unwrap();
        assert_eq!((request.temperature, request.max_tokens), (Some(0.5), Some(7)));
        assert_eq!(request.thinking, Some(ThinkingLevel::High));
        assert_eq!(request.prompt.output.unwrap().name, "flock");
    }

    #[test]
    fn a_bad_request_says_where_it_is_wrong() {
        let user = |content: Value| json!({ "messages": [{ "role": "user", "content": content }] });
        let image = |url: &str| json!([{ "type": "image_url", "image_url": { "url": url } }]);
        let reply = json!({ "role": "assistant", "content": "Hi." });
        let result = json!({ "role": "tool", "tool_call_id": "c", "content": "x" });
        let call = |name: &str, arguments: &str| {
            let function = json!({ "name": name, "arguments": arguments });
            let calls = json!([{ "function": function }]);
            json!({ "messages": [{ "role": "assistant", "tool_calls": calls }] })
        };
        for (fields, path) in [
            (json!({ "model": 1 }), "/model"),
            (json!({ "messages": [] }), "/messages"),
            (json!({ "messages": [reply] }), "/messages"),
            (json!({ "messages": [result] }), "/messages/0/tool_call_id"),
            (json!({ "messages": [{ "role": "pope" }] }), "/messages/0/role"),
            (user(json!("  ")), "/messages"),
            (user(json!([])), "/messages/0/content"),
            (user(json!(7)), "/messages/0/content"),
            (user(json!([{ "type": "input_audio" }])), "/messages/0/content/0/type"),
            (user(image("https://example.com/a.png")), "/messages/0/content/0/image_url/url"),
            (call("a b", "{}"), "/messages/0/tool_calls/0/function/name"),
            (call("a", "[]"), "/messages/0/tool_calls/0/function/arguments"),
            (json!({ "temperature": 2.5 }), "/temperature"),
            (json!({ "max_tokens": 0 }), "/max_tokens"),
            (json!({ "n": 2 }), "/n"),
            (json!({ "tools": [{ "type": "function" }] }), "/tools"),
            (json!({ "stop": "." }), "/stop"),
            (json!({ "seed": 0 }), "/seed"),
            (json!({ "response_format": { "type": "xml" } }), "/response_format/type"),
            (
                json!({ "response_format": { "type": "json_schema", "json_schema": {
                    "name": "n" } } }),
                "/response_format/json_schema/schema",
            ),
        ] {
            let error = with(fields.clone()).unwrap_err();
            assert_eq!(error.path, path, "{fields}: {error}");
        }
        for body in ["", "[]", "{", "{}", "null", "{\"model\": \"m\", \"messages\": 1}", "\u{0}"] {
            assert!(ChatCompletionRequest::from_json(body.as_bytes()).is_err(), "{body}");
        }
    }
}
