//! Encoder of a request into the body of a Responses request.
//!
//! The server stores nothing: the whole conversation is sent each time, including the model's
//! reasoning. Each message's items are encoded once and then copied.

use loopwright_core::Message;
use loopwright_core::json_schema::parameters;
use loopwright_core::message::{
    AssistantMessage, Content, ContentPart, MessageKind, ToolCall, ToolResult,
};
use loopwright_core::model::{ChatRequest, ThinkingLevel, ToolChoice};
use loopwright_core::tool::ToolList;
use serde_json::{Value, json};

use super::profile::Reasons;
use super::profile::Settings;
use super::wire::Item;
use super::wire::PHASE;
use crate::formats::encoding::attachment::{Attachment, PDF_NAME, instead_of};
use crate::formats::encoding::call_id::CallIds;
use crate::formats::encoding::call_name::fit_name;
use crate::formats::encoding::fields::Fields;
use crate::formats::encoding::json::{bytes, is_object, put};
use crate::formats::encoding::strict::strict_parameters;
use crate::formats::encoding::tool_result_pairing::pair_tool_results;
use crate::formats::encoding::wrapped_answer::of_object;

/// The cache name of encoded tools, and of messages without signatures.
const CODEC: &str = "openai-responses";
/// The cache name of messages with signatures, which only the model that wrote them receives.
const OWN: &str = "openai-responses, with reasoning";

/// The smallest output limit that the API accepts.
const MIN_OUTPUT_TOKENS: u32 = 16;

/// Returns the body of `request` as JSON.
pub fn encode(request: &ChatRequest, settings: &Settings) -> Vec<u8> {
    let profile = &settings.profile;
    let mut body = Vec::with_capacity(4096);
    body.extend_from_slice(b"{\"model\":");
    put(&mut body, &settings.model);
    body.extend_from_slice(b",\"input\":[");
    input(&mut body, request, settings);
    body.push(b']');
    let mut fields = Fields::new(&mut body, &settings.options);
    if !request.system.is_empty() {
        fields.add("instructions", &request.system);
    }
    tools(&mut fields, request);
    match profile.effort(request.thinking) {
        Some(effort) if request.thinking == ThinkingLevel::Off => {
            fields.add("reasoning", &json!({"effort": effort}))
        }
        Some(effort) => fields.add("reasoning", &json!({"effort": effort, "summary": "auto"})),
        None => {}
    }
    if profile.reasons != Reasons::Never {
        fields.add("include", &["reasoning.encrypted_content"]);
    }
    if let Some(output) = &request.output {
        let schema = of_object(&output.schema);
        let strict = strict_parameters(&schema);
        let format = json!({"type": "json_schema", "name": output.name,
            "strict": strict.is_some(), "schema": strict.unwrap_or(schema)});
        fields.add("text", &json!({"format": format}));
    }
    if let Some(max) = request.max_tokens {
        fields.add("max_output_tokens", &max.max(MIN_OUTPUT_TOKENS));
    }
    // It is unknown whether a user's own effort allows a temperature.
    let takes = profile.takes_temperature(request.thinking)
        && settings.option("reasoning", "effort").is_none();
    if let Some(temperature) = request.temperature.filter(|_| takes) {
        fields.add("temperature", &temperature);
    }
    if (1..=64).contains(&request.session.len()) {
        fields.add("prompt_cache_key", &request.session);
    }
    fields.add("store", &false);
    ["model", "input", "stream"].into_iter().for_each(|name| fields.omit(name));
    fields.add_options();
    body.extend_from_slice(b",\"stream\":true}");
    body
}

fn input(body: &mut Vec<u8>, request: &ChatRequest, settings: &Settings) {
    let begin = body.len();
    let conversation = pair_tool_results(&request.messages);
    for message in conversation.iter().filter(|message| message.is_for_model()) {
        let own = message
            .as_assistant()
            .is_some_and(|reply| reply.model == settings.id && reply.parts.iter().any(signed));
        let items =
            message.encode_once(if own { OWN } else { CODEC }, || encode_message(message, own));
        if !items.is_empty() && body.len() > begin {
            body.push(b',');
        }
        body.extend_from_slice(&items);
    }
}

fn signed(part: &ContentPart) -> bool {
    matches!(
        part,
        ContentPart::Text { signature: Some(_), .. }
            | ContentPart::Thinking { signature: Some(_), .. }
    )
}

/// Encodes the items of one message, separated by commas. The result is empty if the message has no
/// content.
fn encode_message(message: &Message, own: bool) -> Vec<u8> {
    match &message.body {
        MessageKind::User(user) => match content(&user.content) {
            content if content.is_empty() => Vec::new(),
            content => bytes(&json!({"type": "message", "role": "user", "content": content})),
        },
        MessageKind::Assistant(reply) => assistant_items(reply, own).join(&b','),
        MessageKind::ToolResult(result) => bytes(&call_output(result)),
        _ => Vec::new(),
    }
}

fn content(content: &[Content]) -> Vec<Value> {
    let parts = content.iter().filter_map(|part| match part {
        Content::Text { text } => {
            (!text.is_empty()).then(|| json!({"type": "input_text", "text": text}))
        }
        Content::Image { media_type, data } => Some(match Attachment::of(media_type) {
            Attachment::Image(media_type) => {
                let url = format!("data:{media_type};base64,{data}");
                json!({"type": "input_image", "image_url": url, "detail": "auto"})
            }
            Attachment::Pdf => {
                let url = format!("data:application/pdf;base64,{data}");
                json!({"type": "input_file", "filename": PDF_NAME, "file_data": url})
            }
            Attachment::Other => json!({"type": "input_text", "text": instead_of(media_type)}),
        }),
        _ => None,
    });
    parts.collect()
}

/// Encodes a reply. Thinking is sent only together with the item that follows it.
fn assistant_items(reply: &AssistantMessage, own: bool) -> Vec<Vec<u8>> {
    let (mut items, mut thoughts) = (Vec::new(), Vec::new());
    for part in &reply.parts {
        match part {
            ContentPart::Thinking { signature: Some(item), .. } if own && is_reasoning(item) => {
                thoughts.push(item.as_bytes().to_vec());
            }
            ContentPart::Text { text, .. } if text.trim().is_empty() => thoughts.clear(),
            ContentPart::Text { text, signature } => {
                items.append(&mut thoughts);
                // As a part of a list, a text needs an id and a status.
                let mut message = json!({"type": "message", "role": "assistant", "content": text});
                let signature = signature.as_deref().filter(|_| own);
                if let Some(phase) = signature.and_then(|signature| signature.strip_prefix(PHASE)) {
                    message["phase"] = phase.into();
                }
                items.push(bytes(&message));
            }
            ContentPart::ToolCall(call) => {
                items.append(&mut thoughts);
                items.push(bytes(&function_call(call)));
            }
            _ => {}
        }
    }
    items
}

fn is_reasoning(item: &str) -> bool {
    is_object(item)
        && serde_json::from_str::<Item<'_>>(item).is_ok_and(|item| item.kind.0 == "reasoning")
}

/// Encodes a call with its arguments unchanged. If they are not an object, an error result follows.
fn function_call(call: &ToolCall) -> Value {
    let arguments = if is_object(&call.arguments) { &*call.arguments } else { "{}" };
    json!({
        "type": "function_call", "call_id": CallIds::UpTo64.fit(&call.id),
        "name": fit_name(&call.name), "arguments": arguments,
    })
}

/// Encodes a result. Text alone becomes a string, which every server accepts.
fn call_output(result: &ToolResult) -> Value {
    let parts = content(&result.content);
    let output = match parts.iter().map(text_of).collect::<Option<String>>() {
        None => Value::Array(parts),
        Some(text) if text.is_empty() => "(no output)".into(),
        Some(text) => text.into(),
    };
    json!({"type": "function_call_output", "call_id": CallIds::UpTo64.fit(&result.call),
        "output": output})
}

/// Returns the text of a part, or `None` if it is a file.
fn text_of(part: &Value) -> Option<&str> {
    part["text"].as_str()
}

/// Adds the tools, followed by the tools in the user's options, which the provider runs.
fn tools(fields: &mut Fields<'_>, request: &ChatRequest) {
    let ours = (!request.tools.is_empty())
        .then(|| request.tools.encode_once(CODEC, || functions(&request.tools)));
    fields.add_list("tools", ours);
    if request.tools.is_empty() {
        return;
    }
    match &request.tool_choice {
        ToolChoice::None => fields.add("tool_choice", "none"),
        ToolChoice::Required => fields.add("tool_choice", "required"),
        ToolChoice::Tool(name) => {
            fields.add("tool_choice", &json!({"type": "function", "name": name}))
        }
        _ => {}
    }
}

/// Encodes the list of tools. The API makes every parameter required unless `strict` is `false`.
fn functions(tools: &ToolList) -> Vec<u8> {
    let functions = tools.iter().map(|tool| {
        let strict = strict_parameters(&tool.schema);
        json!({
            "type": "function", "name": &*tool.name, "description": tool.description,
            "strict": strict.is_some(),
            "parameters": strict.unwrap_or_else(|| parameters(&tool.schema)),
        })
    });
    bytes(&functions.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
