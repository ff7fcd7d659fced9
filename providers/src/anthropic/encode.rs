//! Encoding: a request, made the body of a Messages request.
//!
//! Each message's blocks are made once and then copied. Roles must alternate, so messages of one role in a row
//! become one.

use loopwright::{
    AssistantMessage, Body, ChatRequest, Content, Message, Part, ThinkingLevel, ToolCall, ToolChoice, ToolList,
    ToolResult,
};
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::profile::Thinks;
use super::{REDACTED, Settings};
use crate::call_id::CallIds;
use crate::json::{Fields, bytes, field, is_object, put};
use crate::pairs::paired;
use crate::schema::{in_words, parameters};

/// Names the bytes that are kept with tools, and with messages without thinking.
const CODEC: &str = "anthropic";
/// Names those of messages with their thinking, which only the model that thought it gets.
const OWN: &str = "anthropic, with thinking";
/// The smallest budget that there is.
const LEAST: u32 = 1024;

/// The body of `request`: JSON.
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
    let system = system(request, settings.profile.cache, &answer);
    if !system.is_empty() {
        fields.add("system", &system);
    }
    let ours = (!request.tools.is_empty()).then(|| request.tools.encode_once(CODEC, || tools(&request.tools)));
    fields.add_list("tools", answer.beside(ours));
    match (&request.tool_choice, &answer) {
        (_, Answer::Tool(_)) => fields.add("tool_choice", &json!({"type": "any"})),
        _ if request.tools.is_empty() => {}
        (ToolChoice::None, _) => fields.add("tool_choice", &json!({"type": "none"})),
        (ToolChoice::Required, _) => fields.add("tool_choice", &json!({"type": "any"})),
        (ToolChoice::Tool(name), _) => fields.add("tool_choice", &json!({"type": "tool", "name": name})),
        _ => {}
    }
    let mut config = Map::new();
    match thinking {
        Thinking::Off => {}
        Thinking::Budget(tokens) => fields.add("thinking", &json!({"type": "enabled", "budget_tokens": tokens})),
        Thinking::Effort(effort) => {
            fields.add("thinking", &json!({"type": "adaptive", "display": "summarized"}));
            config.insert("effort".into(), effort.into());
        }
    }
    if let Answer::Schema(schema) = &answer {
        config.insert("format".into(), json!({"type": "json_schema", "schema": schema}));
    }
    if !config.is_empty() {
        fields.add("output_config", &config);
    }
    // A model that thinks takes no temperature, and one that is told an effort never does.
    if let (Some(temperature), Thinking::Off, Thinks::Budget) = (request.temperature, thinking, settings.profile.thinks)
    {
        fields.add("temperature", &temperature.clamp(0.0, 1.0));
    }
    fields.add_options(&["model", "messages", "tools", "stream"]);
    body.extend_from_slice(b",\"stream\":true}");
    body
}

/// How much the model is told to think.
#[derive(Clone, Copy, PartialEq)]
enum Thinking {
    Off,
    Budget(u32),
    Effort(&'static str),
}

impl Thinking {
    /// What the request asks for, as far as the provider allows it: a forced tool excludes thinking, and so does, with
    /// a budget, a turn that this model did not begin with a thought. The user's own option goes before it.
    fn of(request: &ChatRequest, settings: &Settings) -> Thinking {
        let forced = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
        if forced && !request.tools.is_empty() || settings.options.contains_key("thinking") {
            return Thinking::Off;
        }
        let (tokens, effort) = match request.thinking {
            ThinkingLevel::Off => return Thinking::Off,
            ThinkingLevel::Minimal => (LEAST, "low"),
            ThinkingLevel::Low => (4096, "low"),
            ThinkingLevel::Medium => (8192, "medium"),
            ThinkingLevel::High => (16_384, "high"),
            ThinkingLevel::XHigh => (32_768, "max"),
        };
        let most = request.max_tokens.or(settings.max_output).map_or(u32::MAX, |max| max.saturating_sub(1));
        match settings.profile.thinks {
            Thinks::Effort => Thinking::Effort(effort),
            Thinks::Budget if most < LEAST || unthought(request, settings) => Thinking::Off,
            Thinks::Budget => Thinking::Budget(tokens.min(most)),
        }
    }

    /// The output limit, which counts the thinking too.
    fn max_tokens(self, request: &ChatRequest, settings: &Settings) -> u32 {
        let room = match self {
            Thinking::Off => 0,
            Thinking::Budget(tokens) => tokens,
            Thinking::Effort(_) => 8192,
        };
        let usual = || settings.profile.max_tokens.saturating_add(room);
        request.max_tokens.or(settings.max_output).unwrap_or_else(usual)
    }
}

/// Whether the request goes on with a turn, of calls and results, that this model did not begin with a thought.
fn unthought(request: &ChatRequest, settings: &Settings) -> bool {
    let back = request.messages.iter().rev().filter(|message| message.is_for_model());
    let turn = back.take_while(|message| !matches!(message.body, Body::User(_)));
    let first = turn.filter(|message| message.as_assistant().is_some()).last();
    first.is_some_and(|message| {
        let begins = message.as_assistant().and_then(|said| thinking(said.parts.first()?));
        begins.is_none() || !keeps_thinking(message, settings)
    })
}

fn system(request: &ChatRequest, cache: bool, answer: &Answer) -> Vec<Value> {
    let asked = match (answer, &request.output) {
        (Answer::Words, Some(output)) => Some(in_words(&output.schema)),
        _ => None,
    };
    let texts = [Some(&*request.system).filter(|text| !text.trim().is_empty()), asked.as_deref()];
    let mut blocks: Vec<Value> =
        texts.into_iter().flatten().map(|text| json!({"type": "text", "text": text})).collect();
    if let (true, Some(last)) = (cache, blocks.last_mut()) {
        last["cache_control"] = json!({"type": "ephemeral"});
    }
    blocks
}

/// The messages, those of one role in a row as one, the last two of the user marked for the cache.
fn messages(body: &mut Vec<u8>, request: &ChatRequest, settings: &Settings) {
    let mut open: Option<bool> = None;
    let mut ends = [None, None];
    let conversation = paired(&request.messages);
    for message in conversation.iter().filter(|message| message.is_for_model()) {
        let (codec, own) = if keeps_thinking(message, settings) { (OWN, true) } else { (CODEC, false) };
        let blocks = message.encode_once(codec, || encode_message(message, own));
        if blocks.is_empty() {
            continue;
        }
        let assistant = message.as_assistant().is_some();
        if open == Some(assistant) {
            body.push(b',');
        } else {
            match open {
                Some(_) => close(body, open, &mut ends),
                // A conversation begins with the user.
                None if assistant => body.extend_from_slice(
                    br#"{"role":"user","content":[{"type":"text","text":"(the conversation goes on)"}]},"#,
                ),
                None => {}
            }
            if open.is_some() {
                body.push(b',');
            }
            let role = if assistant { "assistant" } else { "user" };
            body.extend_from_slice(format!("{{\"role\":\"{role}\",\"content\":[").as_bytes());
            open = Some(assistant);
        }
        body.extend_from_slice(&blocks);
    }
    close(body, open, &mut ends);
    if settings.profile.cache {
        // From the back, so that the first one stays where it is.
        for end in [ends[1], ends[0]].into_iter().flatten() {
            body.splice(end..end, *br#","cache_control":{"type":"ephemeral"}"#);
        }
    }
}

/// Ends a message, and notes where the last block of a user's one ends.
fn close(body: &mut Vec<u8>, open: Option<bool>, ends: &mut [Option<usize>; 2]) {
    if open == Some(false) {
        *ends = [ends[1], Some(body.len() - 1)];
    }
    if open.is_some() {
        body.extend_from_slice(b"]}");
    }
}

/// Whether it goes out with its thinking: what this model thought itself.
fn keeps_thinking(message: &Message, settings: &Settings) -> bool {
    message
        .as_assistant()
        .is_some_and(|said| said.model == settings.id && said.parts.iter().any(|p| thinking(p).is_some()))
}

/// The blocks of one message, separated by commas. Empty for one that says nothing.
fn encode_message(message: &Message, own: bool) -> Vec<u8> {
    match &message.body {
        Body::User(user) => joined(user.content.iter().filter_map(content_block).map(|block| bytes(&block))),
        Body::Assistant(said) => assistant_blocks(said, own),
        Body::ToolResult(result) => bytes(&tool_result(result)),
        _ => Vec::new(),
    }
}

fn joined(blocks: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    blocks.collect::<Vec<_>>().join(&b',')
}

/// A block of text or an image; none for a text that is blank, which is refused.
fn content_block(part: &Content) -> Option<Value> {
    match part {
        Content::Text { text } => text_block(text),
        Content::Image { media_type, data } => {
            Some(json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}))
        }
        _ => None,
    }
}

fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

/// A block of thinking as it came; none for what was not signed, which is refused.
fn thinking(part: &Part) -> Option<Value> {
    let Part::Thinking { text, signature: Some(signature) } = part else { return None };
    Some(match signature.strip_prefix(REDACTED) {
        Some(data) => json!({"type": "redacted_thinking", "data": data}),
        None => json!({"type": "thinking", "thinking": text, "signature": &**signature}),
    })
}

/// Thinking alone is no message.
fn assistant_blocks(said: &AssistantMessage, own: bool) -> Vec<u8> {
    let says = |part: &Part| match part {
        Part::Text { text, .. } => !text.trim().is_empty(),
        Part::ToolCall(_) => true,
        _ => false,
    };
    if !said.parts.iter().any(says) {
        return Vec::new();
    }
    joined(said.parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } => text_block(text).map(|block| bytes(&block)),
        Part::Thinking { .. } => thinking(part).filter(|_| own).map(|block| bytes(&block)),
        Part::ToolCall(call) => Some(tool_use(call)),
        _ => None,
    }))
}

/// A call, its arguments as they came. What is no object has an error result to explain it.
fn tool_use(call: &ToolCall) -> Vec<u8> {
    let arguments = call.arguments.trim();
    let mut block = br#"{"type":"tool_use""#.to_vec();
    field(&mut block, "id", &CallIds::UpTo64.fit(&call.id));
    field(&mut block, "name", &*call.name);
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
    let list = tools.iter().map(
        |tool| json!({"name": &*tool.name, "description": tool.description, "input_schema": parameters(&tool.schema)}),
    );
    bytes(&list.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
