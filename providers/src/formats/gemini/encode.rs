//! Encoder of a request into the body of a Gemini request.
//!
//! Each message's parts are encoded once and then copied. Consecutive messages of one role are
//! joined.

use loopwright_core::Message;
use loopwright_core::json_schema::{normalize, parameters};
use loopwright_core::message::{
    AssistantMessage, Content, ContentPart, MessageKind, ToolCall, ToolResult,
};
use loopwright_core::model::{ChatRequest, ThinkingLevel, ToolChoice};
use loopwright_core::tool::ToolList;
use serde_json::{Map, Value, json};

use super::profile::Settings;
use super::profile::Thinks;
use super::wire::SYNTHETIC_ID;
use crate::formats::encoding::answer_tool::{tool, with};
use crate::formats::encoding::attachment::{instead_of, usual};
use crate::formats::encoding::call_id::CallIds;
use crate::formats::encoding::call_name::fit_name;
use crate::formats::encoding::fields::Fields;
use crate::formats::encoding::json::{bytes, decimal, field, is_object, put};
use crate::formats::encoding::schema::in_words;
use crate::formats::encoding::turns::{Names, write_turns};

/// The cache name of encoded tools, and of messages that are the same for every model.
const CODEC: &str = "gemini";
const NAMES: Names =
    Names { model: "model", parts: "parts", first: r#"{"text":"(the conversation goes on)"}"# };
/// The signature of calls that another model wrote, as documented for Gemini 3.
const PLACEHOLDER: &str = "skip_thought_signature_validator";

/// Returns the body of `request` as JSON.
pub fn encode(request: &ChatRequest, settings: &Settings) -> Vec<u8> {
    let mut body = Vec::with_capacity(4096);
    body.extend_from_slice(b"{\"contents\":[");
    write_turns(&mut body, request, &NAMES, |message| {
        let variant = Variant::of(message, settings);
        message.encode_once(variant.codec(), || variant.encode(message))
    });
    body.push(b']');
    let by_schema = request.tools.is_empty() || settings.profile.schema_beside_tools;
    let asked = request.output.as_ref().filter(|_| !by_schema);
    // If the server refuses a schema together with tools, an additional tool takes the answer,
    // unless the request forces a tool.
    let free = request.tool_choice == ToolChoice::Auto
        && settings.option("toolConfig", "functionCallingConfig").is_none();
    let by_tool = asked.filter(|_| free).map(|output| tool(output, "parametersJsonSchema"));
    let words = asked.filter(|_| by_tool.is_none()).map(|output| in_words(&output.schema));
    let texts = [Some(&*request.system).filter(|text| !text.trim().is_empty()), words.as_deref()];
    let system: Vec<Value> =
        texts.into_iter().flatten().map(|text| json!({"text": text})).collect();
    let mut fields = Fields::new(&mut body, &settings.options);
    if !system.is_empty() {
        fields.add("systemInstruction", &json!({"parts": system}));
    }
    let ours = (!request.tools.is_empty())
        .then(|| request.tools.encode_once(CODEC, || tools(&request.tools)));
    let ours = if let Some(tool) = &by_tool { Some(with(ours, tool)) } else { ours };
    fields.add_list(
        "tools",
        ours.map(|list| [br#"[{"functionDeclarations":"#, &*list, b"}]"].concat().into()),
    );
    let mode = match &request.tool_choice {
        _ if by_tool.is_some() => Some(json!({"mode": "ANY"})),
        _ if request.tools.is_empty() => None,
        ToolChoice::None => Some(json!({"mode": "NONE"})),
        ToolChoice::Required => Some(json!({"mode": "ANY"})),
        ToolChoice::Tool(name) => Some(json!({"mode": "ANY", "allowedFunctionNames": [name]})),
        _ => None,
    };
    if let Some(mode) = mode {
        fields.add("toolConfig", &json!({"functionCallingConfig": mode}));
    }
    let config = config(request, settings, by_schema);
    if !config.is_empty() {
        fields.add("generationConfig", &config);
    }
    fields.omit("contents");
    fields.add_options();
    body.push(b'}');
    body
}

/// Returns the fields of the `generationConfig`.
fn config(request: &ChatRequest, settings: &Settings, by_schema: bool) -> Map<String, Value> {
    let mut config = Map::new();
    if let Some(max_tokens) = request.max_tokens {
        config.insert("maxOutputTokens".into(), max_tokens.into());
    }
    if let Some(temperature) = request.temperature {
        config.insert("temperature".into(), decimal(temperature));
    }
    if !request.stop.is_empty() {
        config.insert("stopSequences".into(), json!(request.stop));
    }
    if let Some(thinking) = thinking(request, settings.profile.thinks) {
        config.insert("thinkingConfig".into(), thinking);
    }
    if let Some(output) = request.output.as_ref().filter(|_| by_schema) {
        config.insert("responseMimeType".into(), "application/json".into());
        config.insert("responseJsonSchema".into(), normalize(output.schema.clone()));
    }
    config
}

/// Returns the thinking configuration. The output limit includes the thinking.
fn thinking(request: &ChatRequest, thinks: Thinks) -> Option<Value> {
    let level = request.thinking;
    match thinks {
        Thinks::Budget { off: true, .. } if level == ThinkingLevel::Off => {
            Some(json!({"thinkingBudget": 0}))
        }
        Thinks::Never => None,
        _ if level == ThinkingLevel::Off => None,
        Thinks::Level { min, medium } => {
            let level = match level {
                ThinkingLevel::Off | ThinkingLevel::Minimal => min,
                ThinkingLevel::Low => "low",
                ThinkingLevel::Medium => medium,
                ThinkingLevel::High | ThinkingLevel::XHigh => "high",
            };
            Some(json!({"thinkingLevel": level, "includeThoughts": true}))
        }
        Thinks::Budget { min, max, off } => {
            let tokens = match level {
                ThinkingLevel::Off | ThinkingLevel::Minimal => min,
                ThinkingLevel::Low => 4096,
                ThinkingLevel::Medium => 8192,
                ThinkingLevel::High => 16_384,
                ThinkingLevel::XHigh => max,
            };
            // A quarter of the limit is reserved for the reply.
            let room = request.max_tokens.map_or(u32::MAX, |max| max - max.div_ceil(4));
            match tokens.min(room) {
                too_few if too_few < min && off => Some(json!({"thinkingBudget": 0})),
                tokens => Some(json!({"thinkingBudget": tokens.max(min), "includeThoughts": true})),
            }
        }
    }
}

/// The settings that affect a message's encoding.
#[derive(Clone, Copy)]
enum Variant {
    Plain,
    /// A result with its images inside.
    Inside,
    /// A reply: with its signatures if `own`, with the placeholder in its first call if
    /// `placeholder`.
    Reply {
        own: bool,
        placeholder: bool,
    },
}

impl Variant {
    fn of(message: &Message, settings: &Settings) -> Variant {
        match &message.body {
            MessageKind::ToolResult(_) if settings.profile.images_in_results => Variant::Inside,
            MessageKind::Assistant(reply) => {
                let own = reply.model == settings.id
                    && reply.parts.iter().any(|part| signature(part).is_some());
                let unsigned =
                    reply.calls().next().is_some_and(|call| !own || call.signature.is_none());
                let placeholder = settings.profile.signed_calls && unsigned;
                if own || placeholder {
                    Variant::Reply { own, placeholder }
                } else {
                    Variant::Plain
                }
            }
            _ => Variant::Plain,
        }
    }

    fn codec(self) -> &'static str {
        match self {
            Variant::Reply { own: true, placeholder: true } => "gemini, signed, with placeholder",
            Variant::Reply { own: true, .. } => "gemini, signed",
            Variant::Reply { placeholder: true, .. } => "gemini, with placeholder",
            Variant::Inside => "gemini, images inside",
            _ => CODEC,
        }
    }

    /// Encodes the parts of one message, separated by commas. The result is empty if the message
    /// has no content.
    fn encode(self, message: &Message) -> Vec<u8> {
        match &message.body {
            MessageKind::User(user) => {
                joined(user.content.iter().filter_map(content_part).map(|part| bytes(&part)))
            }
            MessageKind::Assistant(reply) => self.reply(reply),
            MessageKind::ToolResult(result) => {
                function_response(result, matches!(self, Variant::Inside))
            }
            _ => Vec::new(),
        }
    }

    /// Encodes a reply. The result is empty if it has only thinking, which is not a message.
    fn reply(self, reply: &AssistantMessage) -> Vec<u8> {
        let (own, mut placeholder) = match self {
            Variant::Reply { own, placeholder } => (own, placeholder),
            _ => (false, false),
        };
        let says = |part: &ContentPart| match part {
            ContentPart::Text { text, .. } => !text.trim().is_empty(),
            ContentPart::ToolCall(_) => true,
            _ => false,
        };
        if !reply.parts.iter().any(says) {
            return Vec::new();
        }
        joined(reply.parts.iter().filter_map(|part| {
            let signature = signature(part).filter(|_| own);
            match part {
                ContentPart::Text { text, .. }
                    if !text.trim().is_empty() || signature.is_some() =>
                {
                    Some(signed(bytes(&json!({"text": text})), signature))
                }
                ContentPart::Thinking { text, .. } if signature.is_some() => {
                    Some(signed(bytes(&json!({"text": text, "thought": true})), signature))
                }
                ContentPart::ToolCall(call) => {
                    let placeholder_signature =
                        std::mem::take(&mut placeholder).then_some(PLACEHOLDER);
                    Some(signed(function_call(call), placeholder_signature.or(signature)))
                }
                _ => None,
            }
        }))
    }
}

fn joined(parts: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    parts.collect::<Vec<_>>().join(&b',')
}

fn signature(part: &ContentPart) -> Option<&str> {
    match part {
        ContentPart::Text { signature, .. } | ContentPart::Thinking { signature, .. } => {
            signature.as_deref()
        }
        ContentPart::ToolCall(call) => call.signature.as_deref(),
        _ => None,
    }
}

/// Adds a signature to a part, byte for byte.
fn signed(mut part: Vec<u8>, signature: Option<&str>) -> Vec<u8> {
    if let Some(signature) = signature {
        part.pop();
        field(&mut part, "thoughtSignature", signature);
        part.push(b'}');
    }
    part
}

/// Returns the usual spelling of a media type if the API documents that it takes such files.
fn accepted(media_type: &str) -> Option<String> {
    let usual = usual(media_type);
    let (kind, name) = usual.split_once('/')?;
    let is_accepted = match kind {
        "image" => matches!(name, "png" | "jpeg" | "webp" | "heic" | "heif"),
        "application" => name == "pdf",
        "audio" | "video" | "text" => !name.is_empty(),
        _ => false,
    };
    is_accepted.then_some(usual)
}

/// Encodes a text or a file. Returns `None` for blank text.
fn content_part(part: &Content) -> Option<Value> {
    match part {
        Content::Text { text } => (!text.trim().is_empty()).then(|| json!({"text": text})),
        Content::Image { media_type, data } => Some(match accepted(media_type) {
            Some(usual) => json!({"inlineData": {"mimeType": usual, "data": data}}),
            None => json!({"text": instead_of(media_type)}),
        }),
        _ => None,
    }
}

/// Starts a call or a result with the name, which begins with a letter or `_`, and the id unless it
/// is synthetic.
fn named(kind: &str, name: &str, id: &str) -> Vec<u8> {
    let mut part = format!("{{\"{kind}\":{{\"name\":").into_bytes();
    match fit_name(name) {
        name if name.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            put(&mut part, &fit_name(&format!("_{name}")));
        }
        name => put(&mut part, &name),
    }
    if !id.starts_with(SYNTHETIC_ID) {
        field(&mut part, "id", &CallIds::UpTo64.fit(id));
    }
    part
}

/// Encodes a call with its arguments unchanged. If they are not an object, an error result follows.
fn function_call(call: &ToolCall) -> Vec<u8> {
    let arguments = call.arguments.trim();
    let mut part = named("functionCall", &call.name, &call.id);
    part.extend_from_slice(b",\"args\":");
    part.extend_from_slice(if is_object(arguments) { arguments.as_bytes() } else { b"{}" });
    part.extend_from_slice(b"}}");
    part
}

/// Encodes a result, with its images inside or after it.
fn function_response(result: &ToolResult, inside: bool) -> Vec<u8> {
    let mut text = result.text();
    let mut images = Vec::new();
    for part in &result.content {
        match part {
            Content::Image { media_type, .. } if accepted(media_type).is_none() => {
                text += &instead_of(media_type);
            }
            Content::Image { .. } => images.extend(content_part(part)),
            _ => {}
        }
    }
    let reply = match text.trim() {
        "" if images.is_empty() => "(no output)",
        "" if inside => "(an image)",
        "" => "(see the image after this)",
        _ => &text,
    };
    let mut part = named("functionResponse", &result.name, &result.call);
    field(
        &mut part,
        "response",
        &json!({(if result.is_error() { "error" } else { "output" }): reply}),
    );
    if inside && !images.is_empty() {
        field(&mut part, "parts", &images);
    }
    part.extend_from_slice(b"}}");
    let after = images.iter().filter(|_| !inside).map(bytes);
    joined(std::iter::once(part).chain(after))
}

/// Encodes the list of tools.
fn tools(tools: &ToolList) -> Vec<u8> {
    let list = tools.iter().map(|tool| {
        json!({"name": &*tool.name, "description": tool.description,
            "parametersJsonSchema": parameters(&tool.schema)})
    });
    bytes(&list.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
