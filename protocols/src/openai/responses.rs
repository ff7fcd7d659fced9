//! [`ResponsesRequest`]: the body of `POST /v1/responses`.

use loopwright_core::event::Prompt;
use loopwright_core::message::{Content, ResultStatus};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::agent_request::AgentRequest;
use super::content::{Conversation, Role, contents};
use super::options::{self, NamedSchema, ReasoningEffort, any_object};
use super::response::Echo;
use crate::error::DecodeError;
use crate::from_json::{from_json, whole_number};

/// A request for a response. Fields that an agent cannot honour are refused. Fields that do not
/// affect the answer are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ResponsesRequest {
    /// The agent, by its name.
    model: String,
    /// The conversation: text, or a list of items. The last item is a message of the user.
    #[schemars(with = "Value")]
    input: Box<RawValue>,
    /// Instructions that are added to the agent's own.
    instructions: Option<String>,
    /// `true` to stream the answer.
    stream: Option<bool>,
    /// The sampling temperature, between 0 and 2.
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f32>,
    /// The maximum number of output tokens of each of the agent's requests to its model.
    #[serde(default, deserialize_with = "whole_number")]
    #[schemars(range(min = 1, max = 0xFFFF_FFFF_u32))]
    max_output_tokens: Option<u32>,
    reasoning: Option<Reasoning>,
    text: Option<TextConfig>,
    /// Values of the client, which the response repeats.
    metadata: Option<Map<String, Value>>,
    #[serde(flatten)]
    #[schemars(skip)]
    others: Map<String, Value>,
}

/// The options of the model's reasoning.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiReasoning")]
struct Reasoning {
    effort: Option<ReasoningEffort>,
    /// If set, the output includes the reasoning of the model.
    summary: Option<Summary>,
}

/// The amount of reasoning in the output. The value has no effect: the agent's model decides.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Summary {
    Auto,
    Concise,
    Detailed,
}

/// The form of the answer.
#[derive(Debug, Deserialize, JsonSchema)]
struct TextConfig {
    format: Option<TextFormat>,
}

/// The form of the answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum TextFormat {
    Text,
    JsonObject,
    JsonSchema(NamedSchema),
}

/// An item of the input, with the fields of all supported types.
#[derive(Deserialize)]
struct Item {
    r#type: Option<String>,
    role: Option<Role>,
    content: Option<Box<RawValue>>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    output: Option<Box<RawValue>>,
    error: Option<Value>,
}

impl ResponsesRequest {
    /// Parses a body.
    ///
    /// # Errors
    /// Returns the position where the body is invalid.
    pub fn from_json(body: &[u8]) -> Result<Self, DecodeError> {
        from_json(body, "")
    }

    /// Returns whether the output includes the reasoning of the model.
    pub fn wants_reasoning(&self) -> bool {
        self.reasoning.as_ref().is_some_and(|reasoning| reasoning.summary.is_some())
    }

    /// Returns the fields that the response repeats.
    pub fn echo(&self) -> Echo {
        Echo {
            instructions: self.instructions.clone(),
            temperature: self.temperature,
            max_output_tokens: self.max_output_tokens,
            metadata: self.metadata.clone().unwrap_or_default(),
        }
    }

    /// Converts the request for an agent.
    ///
    /// # Errors
    /// Fails if an item is invalid, or if an agent cannot honour a field. Names the position.
    pub fn decode(self) -> Result<AgentRequest, DecodeError> {
        options::refuse(&self.others)?;
        let input = self.input.get();
        let items: Vec<Box<RawValue>> = match input.starts_with('[') {
            true => from_json(input.as_bytes(), "/input")?,
            false => Vec::new(),
        };
        let mut conversation = Conversation::new(self.instructions, items.len(), "/input")?;
        if !input.starts_with('[') {
            let text: String = from_json(input.as_bytes(), "/input")?;
            conversation.message(Role::User, vec![Content::Text { text }], "/input")?;
        }
        for (index, item) in items.into_iter().enumerate() {
            let path = format!("/input/{index}");
            from_json::<Item>(item.get().as_bytes(), &path)?.add_to(&mut conversation, &path)?;
        }
        let (instructions, history, message) = conversation.finish("/input")?;
        let mut prompt = Prompt::from(message);
        prompt.output = match self.text.and_then(|text| text.format) {
            None | Some(TextFormat::Text) => None,
            Some(TextFormat::JsonObject) => Some(any_object()),
            Some(TextFormat::JsonSchema(schema)) => Some(schema.output("/text/format")?),
        };
        Ok(AgentRequest {
            agent: self.model,
            instructions,
            history,
            prompt,
            temperature: options::temperature(self.temperature)?,
            max_tokens: options::max_tokens(self.max_output_tokens, "max_output_tokens")?,
            thinking: self.reasoning.and_then(|reasoning| reasoning.effort).map(Into::into),
            stream: self.stream == Some(true),
        })
    }
}

impl Item {
    fn add_to(self, conversation: &mut Conversation, path: &str) -> Result<(), DecodeError> {
        let missing = |field: &str| {
            DecodeError::at(format!("{path}/{field}"), format!("The field `{field}` is missing."))
        };
        let name = self.name.as_deref().unwrap_or_default();
        let arguments = self.arguments.as_deref().unwrap_or_default();
        let output_path = format!("{path}/output");
        match self.r#type.as_deref().unwrap_or("message") {
            "message" => {
                let role = self.role.ok_or_else(|| missing("role"))?;
                let content_path = format!("{path}/content");
                let content = contents(self.content.as_deref(), &content_path)?;
                conversation.message(role, content, &content_path)
            }
            // Reasoning is only useful to the model that wrote it.
            "reasoning" => Ok(()),
            "function_call" => {
                let id = self.call_id.ok_or_else(|| missing("call_id"))?;
                conversation.call(Some(&id), name, arguments, path)
            }
            "function_call_output" => {
                let id = self.call_id.ok_or_else(|| missing("call_id"))?;
                let content = contents(self.output.as_deref(), &output_path)?;
                conversation.result(&id, ResultStatus::Ok, content, &format!("{path}/call_id"))
            }
            "mcp_call" => {
                conversation.call(None, name, arguments, path)?;
                let output = contents(self.output.as_deref(), &output_path)?;
                match self.error.filter(|error| !error.is_null()) {
                    Some(error) if output.is_empty() => conversation
                        .last_result(ResultStatus::Error, vec![Content::text(error_text(&error))]),
                    Some(_) => conversation.last_result(ResultStatus::Error, output),
                    None => conversation.last_result(ResultStatus::Ok, output),
                }
                Ok(())
            }
            _ => {
                let why = "Items of this type are not supported: send messages, and the items of \
                           earlier responses.";
                Err(DecodeError::at(format!("{path}/type"), why))
            }
        }
    }
}

/// Returns the text of a call's error.
fn error_text(error: &Value) -> String {
    let text = error["content"].as_str().or(error["message"].as_str()).or(error.as_str());
    text.map_or_else(|| error.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use loopwright_core::log::{SessionLog, check_log};
    use loopwright_core::testing::check_transcript;
    use serde_json::json;

    use super::*;

    fn decode(body: Value) -> Result<AgentRequest, DecodeError> {
        ResponsesRequest::from_json(body.to_string().as_bytes())?.decode()
    }

    #[test]
    fn a_text_is_the_message() {
        let request = decode(json!({ "model": "coding", "input": "Go.", "stream": true })).unwrap();
        assert_eq!((request.prompt.message.text().as_str(), request.stream), ("Go.", true));
        assert_eq!((request.history.len(), request.instructions), (0, None));
    }

    /// The items of a response can be sent back unchanged.
    #[test]
    fn items_of_a_response_are_a_history() {
        let call = |output: Value, error: Value| {
            json!({ "type": "mcp_call", "id": "mcp_1", "server_label": "coding", "name": "count",
                "arguments": "{}", "output": output, "error": error, "status": "completed" })
        };
        let failed = json!({ "type": "mcp_tool_execution_error", "content": "no sheep" });
        let text = |text: &str| json!([{ "type": "output_text", "text": text, "annotations": [] }]);
        let reply = |words: &str| {
            json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": text(words), "phase": "commentary" })
        };
        let request = decode(json!({ "model": "coding", "instructions": "Be brief.", "input": [
            { "role": "developer", "content": "Count twice." },
            { "role": "user", "content": [{ "type": "input_text", "text": "How many?" }] },
            { "type": "reasoning", "id": "rs_1", "summary": [] },
            reply("I count."),
            call(json!("nine"), json!(null)),
            call(json!(null), failed),
            { "type": "function_call", "call_id": "c", "name": "look", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "c", "output": "hills" },
            reply("Nine."),
            { "role": "user", "content": "Sure?" },
        ] }))
        .unwrap();
        assert_eq!(request.instructions.as_deref(), Some("Be brief.\n\nCount twice."));
        check_log(&request.history).unwrap();
        let context = SessionLog::of(&request.history).context();
        check_transcript(&context).unwrap();
        let texts: Vec<String> = context.iter().map(|message| message.text()).collect();
        assert_eq!(texts, ["How many?", "I count.", "nine", "no sheep", "hills", "Nine."]);
    }

    #[test]
    fn a_bad_request_says_where_it_is_wrong() {
        let with = |fields: Value| {
            let mut body = json!({ "model": "coding", "input": "Go." });
            body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            decode(body)
        };
        let input = |item: Value| json!({ "input": [item] });
        for (fields, path) in [
            (json!({ "input": 7 }), "/input"),
            (json!({ "input": [] }), "/input"),
            (json!({ "input": "" }), "/input"),
            (input(json!("a")), "/input/0"),
            (input(json!({ "content": "a" })), "/input/0/role"),
            (input(json!({ "type": "item_reference", "id": "i" })), "/input/0/type"),
            (input(json!({ "type": "function_call", "name": "a" })), "/input/0/call_id"),
            (
                input(json!({ "type": "function_call_output", "call_id": "c", "output": "" })),
                "/input/0/call_id",
            ),
            (input(json!({ "type": "mcp_call", "name": "a b" })), "/input/0/name"),
            (json!({ "previous_response_id": "resp_1" }), "/previous_response_id"),
            (json!({ "store": true }), "/store"),
            (json!({ "background": true }), "/background"),
            (json!({ "conversation": "conv_1" }), "/conversation"),
            (json!({ "tools": [{ "type": "web_search" }] }), "/tools"),
            (json!({ "max_output_tokens": 0 }), "/max_output_tokens"),
            (
                json!({ "text": { "format": { "type": "json_schema", "name": "a b" } } }),
                "/text/format/name",
            ),
        ] {
            let error = with(fields.clone()).unwrap_err();
            assert_eq!(error.path, path, "{fields}: {error}");
        }
    }
}
