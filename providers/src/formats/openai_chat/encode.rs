//! Encoder of a request into the body of a Chat Completions request.
//!
//! Each message is encoded once and then copied, so a long conversation costs only the copy.

use loopwright_core::Message;
use loopwright_core::json_schema::parameters;
use loopwright_core::message::{AssistantMessage, Content, MessageKind, ToolResult, UserMessage};
use loopwright_core::model::{ChatRequest, ThinkingLevel, ToolChoice};
use loopwright_core::tool::ToolList;
use serde_json::{Value, json};

use super::profile::Settings;
use super::profile::{Answers, Asks, Profile, Replay, Temperature};
use super::thinking::{SentBack, extra_content, unsigned};
use crate::formats::encoding::attachment::{Attachment, PDF_NAME, instead_of};
use crate::formats::encoding::call_id::CallIds;
use crate::formats::encoding::call_name::fit_name;
use crate::formats::encoding::fields::Fields;
use crate::formats::encoding::json::{bytes, field, is_object, put};
use crate::formats::encoding::schema::in_words;
use crate::formats::encoding::strict::strict_parameters;
use crate::formats::encoding::tool_result_pairing::pair_tool_results;
use crate::formats::encoding::wrapped_answer::of_object;

/// The cache name of encoded tools, and of messages that no setting affects.
const CODEC: &str = "openai-chat";
/// The cache name of encoded tools if some of them are strict.
const STRICT: &str = "openai-chat, strict";

/// A message between results and a user message, for servers that refuse a user message there.
const AFTER_RESULTS: &[u8] = br#"{"role":"assistant","content":"(The results are there.)"}"#;

/// Returns the body of `request` as JSON.
pub fn encode(request: &ChatRequest, settings: &Settings) -> Vec<u8> {
    // Most messages are smaller. Otherwise the body grows by doubling.
    let mut body = Vec::with_capacity(4096 + 256 * request.messages.len());
    body.extend_from_slice(b"{\"model\":");
    put(&mut body, &settings.model);
    body.extend_from_slice(b",\"messages\":[");
    messages(&mut body, request, settings);
    body.push(b']');
    let mut fields = Fields::new(&mut body, &settings.options);
    tools_and_choice(&mut fields, request, settings);
    if let Some(output) = &request.output {
        match settings.profile.answers {
            _ if answers_in_words(request, settings) => {}
            Answers::Schema => {
                let mut schema = json!({"name": output.name, "schema": of_object(&output.schema)});
                let strict = settings.profile.strict.then(|| strict_parameters(&schema["schema"]));
                if let Some(strict) = strict.flatten() {
                    (schema["strict"], schema["schema"]) = (true.into(), strict);
                }
                fields
                    .add("response_format", &json!({"type": "json_schema", "json_schema": schema}));
            }
            Answers::Object => fields.add("response_format", &json!({"type": "json_object"})),
        }
    }
    if let Some(max) = request.max_tokens {
        fields.add(settings.profile.max_tokens, &max);
    }
    let level = level(request, settings);
    // It is unknown whether a user's own effort allows a temperature.
    let is_uncertain = settings.profile.temperature != Temperature::Always
        && settings.options.contains_key("reasoning_effort");
    let takes = settings.profile.takes_temperature(level) && !is_uncertain;
    if let Some(temperature) = request.temperature.filter(|_| takes) {
        fields.add("temperature", &temperature);
    }
    if !request.stop.is_empty() {
        fields.add("stop", &request.stop);
    }
    thinking(&mut fields, level, &settings.profile);
    if settings.profile.cache_control {
        fields.add("cache_control", &json!({"type": "ephemeral"}));
    }
    if let Some(name) =
        settings.profile.cache_key.filter(|_| (1..=64).contains(&request.session.len()))
    {
        fields.add(name, &request.session);
    }
    if settings.profile.ask_usage {
        fields.add("stream_options", &json!({"include_usage": true}));
    }
    ["model", "messages", "stream"].into_iter().for_each(|name| fields.omit(name));
    fields.add_options();
    body.extend_from_slice(b",\"stream\":true}");
    body
}

fn tools_and_choice(fields: &mut Fields<'_>, request: &ChatRequest, settings: &Settings) {
    let strict = settings.profile.strict;
    let codec = if strict { STRICT } else { CODEC };
    let ours = (!request.tools.is_empty())
        .then(|| request.tools.encode_once(codec, || tools(&request.tools, strict)));
    fields.add_list("tools", ours);
    if request.tools.is_empty() {
        return;
    }
    match &request.tool_choice {
        ToolChoice::None => fields.add("tool_choice", "none"),
        ToolChoice::Required => fields.add("tool_choice", "required"),
        ToolChoice::Tool(name) => {
            fields.add("tool_choice", &json!({"type": "function", "function": {"name": name}}));
        }
        _ => {}
    }
}

/// Returns the level of thinking that the tools allow.
fn level(request: &ChatRequest, settings: &Settings) -> ThinkingLevel {
    let tools = !request.tools.is_empty() || settings.options.contains_key("tools");
    let forced = tools && matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
    let forced = forced
        || settings
            .options
            .get("tool_choice")
            .is_some_and(|choice| choice != "auto" && choice != "none");
    let Profile { thinks_when_forced, thinks_beside_tools, .. } = settings.profile;
    let excluded = forced && !thinks_when_forced || tools && !thinks_beside_tools;
    if excluded { ThinkingLevel::Off } else { request.thinking }
}

/// Adds the fields for thinking. The server decides if the level has no word.
fn thinking(fields: &mut Fields<'_>, level: ThinkingLevel, profile: &Profile) {
    let Some(word) = profile.effort(level) else {
        return;
    };
    match profile.asks {
        Asks::Never => {}
        Asks::Effort => fields.add("reasoning_effort", word),
        Asks::Reasoning => fields.add("reasoning", &json!({"effort": word})),
        Asks::Enabled => fields.add("reasoning", &json!({"enabled": level != ThinkingLevel::Off})),
        Asks::Switch => fields.add("thinking", &json!({"type": word})),
    }
}

/// Returns whether the output schema is sent as text in the system prompt.
fn answers_in_words(request: &ChatRequest, settings: &Settings) -> bool {
    let profile = &settings.profile;
    request.output.is_some() && !request.tools.is_empty() && !profile.answers_beside_tools
}

/// Returns the system prompt, with the output schema if no field takes it.
fn system(request: &ChatRequest, settings: &Settings) -> String {
    let words = match &request.output {
        Some(output) if answers_in_words(request, settings) => in_words(&output.schema),
        Some(output) if settings.profile.answers == Answers::Object => {
            in_words(&of_object(&output.schema)) // the server allows only an object
        }
        _ => return request.system.to_string(),
    };
    if request.system.is_empty() { words } else { format!("{}\n\n{words}", request.system) }
}

fn messages(body: &mut Vec<u8>, request: &ChatRequest, settings: &Settings) {
    let begin = body.len();
    let mut add = |message: &[u8]| {
        if message.is_empty() {
            return;
        }
        if body.len() > begin {
            body.push(b',');
        }
        body.extend_from_slice(message);
    };
    let system = system(request, settings);
    if !system.is_empty() {
        add(&bytes(&json!({"role": "system", "content": system})));
    }
    // The protocol allows neither images in tool results nor a message between the results of a
    // batch. The images therefore follow as a user message.
    let mut images: Vec<Value> = Vec::new();
    let bridges = settings.profile.words_after_results;
    let mut after_results = false;
    let conversation = pair_tool_results(&request.messages);
    for message in conversation.iter().filter(|message| message.is_for_model()) {
        let (result, variant) = (message.as_tool_result(), Variant::of(message, settings));
        let encoded = message.encode_once(variant.codec(), || encode_message(message, variant));
        if result.is_none() {
            let says = matches!(message.body, MessageKind::User(_)) && !encoded.is_empty();
            if bridges && after_results && (says || !images.is_empty()) {
                add(AFTER_RESULTS);
            }
            add(&images_message(&mut images));
        }
        add(&encoded);
        images.extend(result.into_iter().flat_map(result_images));
        after_results = result.is_some() || after_results && encoded.is_empty();
    }
    if bridges && !images.is_empty() {
        add(AFTER_RESULTS);
    }
    add(&images_message(&mut images));
}

/// The settings that affect a message's encoding.
#[derive(Clone, Copy)]
struct Variant {
    call_ids: CallIds,
    replay: Replay,
    /// `true` if an unsigned call gets a placeholder.
    signed_calls: bool,
}

impl Variant {
    /// Returns the settings that affect `message`.
    fn of(message: &Message, settings: &Settings) -> Variant {
        let Profile { call_ids, replay, signed_calls, .. } = settings.profile;
        let signed_calls = signed_calls && call_ids == CallIds::Any;
        let plain = Variant { call_ids: CallIds::Any, replay: Replay::Never, signed_calls: false };
        if let (CallIds::Any, Replay::Never, false) = (call_ids, replay, signed_calls) {
            return plain; // no message needs to be inspected
        }
        match &message.body {
            MessageKind::Assistant(assistant) if assistant.calls().next().is_some() => {
                let own = assistant.model == settings.id;
                let replay = if own { replay } else { Replay::Never };
                Variant { call_ids, replay, signed_calls }
            }
            MessageKind::ToolResult(_) => Variant { call_ids, ..plain },
            _ => plain,
        }
    }

    /// Returns a separate cache name for each combination.
    fn codec(self) -> &'static str {
        use {CallIds::*, Replay::*};
        if self.signed_calls {
            return match self.replay {
                Never => "openai-chat signed",
                AsReceived => "openai-chat signed as received",
                ReasoningContent => "openai-chat signed reasoning_content",
                Reasoning => "openai-chat signed reasoning",
            };
        }
        match (self.call_ids, self.replay) {
            (Any, Never) => CODEC,
            (Any, AsReceived) => "openai-chat as received",
            (Any, ReasoningContent) => "openai-chat reasoning_content",
            (Any, Reasoning) => "openai-chat reasoning",
            (UpTo40, AsReceived) => "openai-chat 40 as received",
            (UpTo40, Never) => "openai-chat 40",
            (UpTo40, ReasoningContent) => "openai-chat 40 reasoning_content",
            (UpTo40, Reasoning) => "openai-chat 40 reasoning",
            (UpTo64, AsReceived) => "openai-chat 64 as received",
            (UpTo64, Never) => "openai-chat 64",
            (UpTo64, ReasoningContent) => "openai-chat 64 reasoning_content",
            (UpTo64, Reasoning) => "openai-chat 64 reasoning",
            (Nine, AsReceived) => "openai-chat 9 as received",
            (Nine, Never) => "openai-chat 9",
            (Nine, ReasoningContent) => "openai-chat 9 reasoning_content",
            (Nine, Reasoning) => "openai-chat 9 reasoning",
        }
    }
}

/// Encodes one message. The result is empty if the message has no content.
fn encode_message(message: &Message, variant: Variant) -> Vec<u8> {
    match &message.body {
        MessageKind::User(user) => user_message(user),
        MessageKind::Assistant(assistant) => assistant_message(assistant, variant),
        MessageKind::ToolResult(result) => tool_message(result, variant.call_ids),
        _ => Vec::new(),
    }
}

fn user_message(user: &UserMessage) -> Vec<u8> {
    let parts: Vec<&Content> = user
        .content
        .iter()
        .filter(|c| !matches!(c, Content::Text { text } if text.is_empty()))
        .collect();
    let mut message = b"{\"role\":\"user\",\"content\":".to_vec();
    match parts.as_slice() {
        [] => return Vec::new(),
        [Content::Text { text }] => put(&mut message, text),
        parts => put(
            &mut message,
            &parts.iter().filter_map(|part| content_part(part)).collect::<Value>(),
        ),
    }
    message.push(b'}');
    message
}

fn content_part(part: &Content) -> Option<Value> {
    match part {
        Content::Text { text } => Some(json!({"type": "text", "text": text})),
        Content::Image { media_type, data } => Some(match Attachment::of(media_type) {
            Attachment::Image(media_type) => {
                let url = format!("data:{media_type};base64,{data}");
                json!({"type": "image_url", "image_url": {"url": url}})
            }
            Attachment::Pdf => {
                let url = format!("data:application/pdf;base64,{data}");
                json!({"type": "file", "file": {"filename": PDF_NAME, "file_data": url}})
            }
            Attachment::Other => json!({"type": "text", "text": instead_of(media_type)}),
        }),
        _ => None,
    }
}

fn assistant_message(assistant: &AssistantMessage, variant: Variant) -> Vec<u8> {
    let text = assistant.text();
    let thinking = SentBack::of(assistant, variant.replay, &text);
    let mut message = b"{\"role\":\"assistant\",\"content\":".to_vec();
    match &thinking.content {
        Some(content) => put(&mut message, content),
        None => put(&mut message, &Some(&text).filter(|text| !text.is_empty())),
    }
    let mut calls = 0;
    for call in assistant.calls() {
        message.extend_from_slice(if calls == 0 {
            b",\"tool_calls\":[{\"id\":"
        } else {
            b",{\"id\":"
        });
        put(&mut message, &variant.call_ids.fit(&call.id));
        message.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
        put(&mut message, &fit_name(&call.name));
        // Strict servers parse the arguments. If they are not an object, an error result follows.
        field(
            &mut message,
            "arguments",
            if is_object(&call.arguments) { &*call.arguments } else { "{}" },
        );
        message.push(b'}');
        let signature = call.signature.as_deref().filter(|_| variant.replay != Replay::Never);
        let placeholder = || (variant.signed_calls && calls == 0).then(unsigned);
        if let Some(extra) = signature.and_then(extra_content).or_else(placeholder) {
            field(&mut message, "extra_content", &extra);
        }
        message.push(b'}');
        calls += 1;
    }
    if calls > 0 {
        message.push(b']');
    } else if text.is_empty() {
        return Vec::new();
    }
    for (name, value) in &thinking.fields {
        field(&mut message, name, value);
    }
    message.push(b'}');
    message
}

fn tool_message(result: &ToolResult, call_ids: CallIds) -> Vec<u8> {
    let text = result.text();
    let text = match text.as_str() {
        "" if result_images(result).next().is_some() => "(an image, see below)",
        "" => "(no output)",
        text => text,
    };
    let mut message = b"{\"role\":\"tool\",\"tool_call_id\":".to_vec();
    put(&mut message, &call_ids.fit(&result.call));
    field(&mut message, "content", text);
    message.push(b'}');
    message
}

fn result_images(result: &ToolResult) -> impl Iterator<Item = Value> {
    result
        .content
        .iter()
        .filter(|part| !matches!(part, Content::Text { .. }))
        .filter_map(content_part)
}

fn images_message(images: &mut Vec<Value>) -> Vec<u8> {
    if images.is_empty() {
        return Vec::new();
    }
    let mut content = vec![json!({"type": "text", "text": "(images that the tools returned)"})];
    content.append(images);
    bytes(&json!({"role": "user", "content": content}))
}

fn tools(tools: &ToolList, strict_tools: bool) -> Vec<u8> {
    let list = tools.iter().map(|tool| {
        let strict = strict_tools.then(|| strict_parameters(&tool.schema)).flatten();
        let mut function = json!({"name": &*tool.name, "description": tool.description});
        if strict.is_some() {
            function["strict"] = true.into();
        }
        function["parameters"] = strict.unwrap_or_else(|| parameters(&tool.schema));
        json!({"type": "function", "function": function})
    });
    bytes(&list.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
