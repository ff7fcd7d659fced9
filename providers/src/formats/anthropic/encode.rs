//! Encoder of a request into the body of a Messages request.
//!
//! Each message's blocks are encoded once and then copied. Roles must alternate, so consecutive
//! messages of one role are joined.

use loopwright_core::Message;
use loopwright_core::json_schema::parameters;
use loopwright_core::message::{
    AssistantMessage, Content, ContentPart, MessageKind, ToolCall, ToolResult,
};
use loopwright_core::model::{ChatRequest, ToolChoice};
use loopwright_core::tool::ToolList;
use serde_json::{Map, Value, json};

use super::profile::Settings;
use super::structured_output::Answer;
use super::thinking::{Thinking, forces_tool, keeps_thinking, thought};
use crate::formats::encoding::attachment::{Attachment, instead_of};
use crate::formats::encoding::call_id::CallIds;
use crate::formats::encoding::call_name::fit_name;
use crate::formats::encoding::fields::Fields;
use crate::formats::encoding::json::{bytes, field, is_object, put};
use crate::formats::encoding::schema::in_words;
use crate::formats::encoding::turns::{Names, write_turns};

/// The cache name of encoded tools, and of messages without thinking.
const CODEC: &str = "anthropic";
/// The cache name of messages with thinking, which only the model that wrote it receives.
const OWN: &str = "anthropic, with thinking";
const NAMES: Names = Names {
    model: "assistant",
    parts: "content",
    first: r#"{"type":"text","text":"(the conversation goes on)"}"#,
};

/// Returns the body of `request` as JSON.
pub fn encode(request: &ChatRequest, settings: &Settings) -> Vec<u8> {
    let thinking = Thinking::of(request, settings);
    let answer = Answer::of(request, settings, thinking != Thinking::Off);
    let mut body = Vec::with_capacity(4096);
    body.extend_from_slice(b"{\"model\":");
    put(&mut body, &settings.model);
    body.extend_from_slice(b",\"messages\":[");
    messages(&mut body, request, settings);
    body.push(b']');
    let mut fields = Fields::new(&mut body, &settings.options);
    fields.add("max_tokens", &thinking.max_tokens(request, settings));
    let mark = cache_mark(settings);
    let system = system(request, mark.as_ref(), &answer);
    if !system.is_empty() {
        fields.add("system", &system);
    }
    let ours = (!request.tools.is_empty())
        .then(|| request.tools.encode_once(CODEC, || tools(&request.tools)));
    fields.add_list("tools", answer.beside(ours));
    let mut choice = tool_choice(request, settings, &answer);
    if settings.has_part("tool_choice") {
        let has_tools = !request.tools.is_empty() || settings.options.contains_key("tools");
        match &choice {
            None if has_tools => choice = Some(json!({"type": "auto"})),
            Some(choice) if choice["type"] != "none" => {}
            _ => fields.omit("tool_choice"),
        }
    }
    if let Some(choice) = choice {
        fields.add("tool_choice", &choice);
    }
    if thinking == Thinking::Off && settings.has_part("thinking") {
        fields.omit("thinking");
    }
    if let Some(field) = thinking.field(settings) {
        fields.add("thinking", &field);
    }
    let mut config = Map::new();
    if let Thinking::Effort(effort) = thinking {
        config.insert("effort".into(), effort.into());
    }
    if let Answer::Schema(schema) = &answer {
        config.insert("format".into(), json!({"type": "json_schema", "schema": schema}));
    }
    if !config.is_empty() {
        fields.add("output_config", &config);
    }
    if let Some(temperature) = request.temperature.filter(|_| thinking.takes_temperature(settings))
    {
        fields.add("temperature", &temperature.clamp(0.0, 1.0));
    }
    if !request.stop.is_empty() {
        fields.add("stop_sequences", &request.stop);
    }
    ["model", "messages", "stream"].into_iter().for_each(|name| fields.omit(name));
    fields.add_options();
    body.extend_from_slice(b",\"stream\":true}");
    body
}

/// Returns the value of `tool_choice`. Returns `None` if the model decides or has no tools.
fn tool_choice(request: &ChatRequest, settings: &Settings, answer: &Answer) -> Option<Value> {
    let forces = settings.profile.forces;
    match &request.tool_choice {
        _ if matches!(answer, Answer::Tool(_)) => Some(json!({"type": "any"})),
        _ if request.tools.is_empty() => None,
        ToolChoice::None => Some(json!({"type": "none"})),
        ToolChoice::Required if forces => Some(json!({"type": "any"})),
        ToolChoice::Tool(name) if forces => Some(json!({"type": "tool", "name": name})),
        _ => None,
    }
}

/// Returns the value of our `cache_control` fields. The user's own is the same for all, since the
/// API refuses an order of different lives.
fn cache_mark(settings: &Settings) -> Option<Value> {
    let own = settings.options.get("cache_control").filter(|own| own.is_object());
    let mark = || own.cloned().unwrap_or_else(|| json!({"type": "ephemeral"}));
    settings.profile.cache.then(mark)
}

fn system(request: &ChatRequest, mark: Option<&Value>, answer: &Answer) -> Vec<Value> {
    let asked = match (answer, &request.output) {
        (Answer::Words, Some(output)) => Some(in_words(&output.schema)),
        _ => None,
    };
    let texts = [Some(&*request.system).filter(|text| !text.trim().is_empty()), asked.as_deref()];
    let mut blocks: Vec<Value> =
        texts.into_iter().flatten().map(|text| json!({"type": "text", "text": text})).collect();
    if let (Some(mark), Some(last)) = (mark, blocks.last_mut()) {
        last["cache_control"] = mark.clone();
    }
    blocks
}

/// Adds the messages and then the further instructions. Joins consecutive messages of one role, and
/// marks the last two user messages for the cache.
fn messages(body: &mut Vec<u8>, request: &ChatRequest, settings: &Settings) {
    let ends = write_turns(body, request, &NAMES, |message| {
        let (codec, own) =
            if keeps_thinking(message, request, settings) { (OWN, true) } else { (CODEC, false) };
        message.encode_once(codec, || encode_message(message, own))
    });
    let instruction = forced_tool_instruction(request, settings);
    if let (Some(instruction), [_, Some(end)]) = (instruction, ends) {
        let instruction = bytes(&json!({"type": "text", "text": instruction}));
        body.splice(end + 1..end + 1, [b",", &*instruction].concat());
    }
    if let Some(mark) = cache_mark(settings) {
        let mark = [b",\"cache_control\":", &*bytes(&mark)].concat();
        // From the back, so that the first offset stays valid.
        for end in [ends[1], ends[0]].into_iter().flatten() {
            body.splice(end..end, mark.iter().copied());
        }
    }
}

/// Returns the instruction to call the forced tool, for models that cannot be forced.
fn forced_tool_instruction(request: &ChatRequest, settings: &Settings) -> Option<String> {
    let asked = !settings.profile.forces
        && forces_tool(request)
        && settings.option("tool_choice", "type").is_none();
    match &request.tool_choice {
        ToolChoice::Tool(name) if asked => {
            Some(format!("(Answer with a call of the tool `{name}`.)"))
        }
        _ if asked => Some("(Answer with a call of a tool.)".into()),
        _ => None,
    }
}

/// Returns whether the thinking in the reply to `request` may be sent back. It may not if it is
/// bound to an instruction that only this request has.
pub(super) fn signs(request: &ChatRequest, settings: &Settings) -> bool {
    !settings.profile.binds || forced_tool_instruction(request, settings).is_none()
}

/// Encodes the blocks of one message, separated by commas. The result is empty if the message has
/// no content.
fn encode_message(message: &Message, own: bool) -> Vec<u8> {
    match &message.body {
        MessageKind::User(user) => {
            joined(user.content.iter().filter_map(content_block).map(|block| bytes(&block)))
        }
        MessageKind::Assistant(reply) => assistant_blocks(reply, own),
        MessageKind::ToolResult(result) => bytes(&tool_result(result)),
        _ => Vec::new(),
    }
}

fn joined(blocks: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    blocks.collect::<Vec<_>>().join(&b',')
}

/// Encodes a text, an image or a document. Returns `None` for blank text, which the API refuses.
fn content_block(part: &Content) -> Option<Value> {
    match part {
        Content::Text { text } => text_block(text),
        Content::Image { media_type, data } => {
            let (kind, media_type) = match Attachment::of(media_type) {
                Attachment::Image(media_type) => ("image", media_type),
                Attachment::Pdf => ("document", "application/pdf"),
                Attachment::Other => return text_block(&instead_of(media_type)),
            };
            let source = json!({"type": "base64", "media_type": media_type, "data": data});
            Some(json!({"type": kind, "source": source}))
        }
        _ => None,
    }
}

fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

/// Encodes a reply up to its last text or call, because the API refuses thinking at the end. The
/// result is empty if it has only thinking.
fn assistant_blocks(reply: &AssistantMessage, own: bool) -> Vec<u8> {
    let says = |part: &ContentPart| match part {
        ContentPart::Text { text, .. } => !text.trim().is_empty(),
        ContentPart::ToolCall(_) => true,
        _ => false,
    };
    let Some(last) = reply.parts.iter().rposition(says) else {
        return Vec::new();
    };
    // Thinking is bound to what came before it, so it ends at the first omitted block.
    let mut whole = own;
    joined(reply.parts[..=last].iter().filter_map(|part| {
        let block = match part {
            ContentPart::Text { text, .. } => text_block(text).map(|block| bytes(&block)),
            ContentPart::Thinking { .. } => {
                thought(part).filter(|_| whole).map(|block| bytes(&block))
            }
            ContentPart::ToolCall(call) => Some(tool_use(call)),
            _ => None,
        };
        whole &= block.is_some();
        block
    }))
}

/// Encodes a call with its arguments unchanged. If they are not an object, an error result follows.
fn tool_use(call: &ToolCall) -> Vec<u8> {
    let arguments = call.arguments.trim();
    let mut block = br#"{"type":"tool_use""#.to_vec();
    field(&mut block, "id", &CallIds::UpTo64.fit(&call.id));
    field(&mut block, "name", &fit_name(&call.name));
    block.extend_from_slice(b",\"input\":");
    block.extend_from_slice(if is_object(arguments) { arguments.as_bytes() } else { b"{}" });
    block.push(b'}');
    block
}

fn tool_result(result: &ToolResult) -> Value {
    let mut content: Vec<Value> = result.content.iter().filter_map(content_block).collect();
    if content.is_empty() {
        content.extend(text_block("(no output)"));
    }
    let id = CallIds::UpTo64.fit(&result.call);
    let mut block = json!({"type": "tool_result", "tool_use_id": id, "content": content});
    if result.is_error() {
        block["is_error"] = true.into();
    }
    block
}

fn tools(tools: &ToolList) -> Vec<u8> {
    let list = tools.iter().map(|tool| {
        json!({"name": &*tool.name, "description": tool.description,
            "input_schema": parameters(&tool.schema)})
    });
    bytes(&list.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
