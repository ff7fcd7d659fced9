//! Requests of a session as requests of genai.

use std::sync::Arc;

use genai::chat::{
    ChatMessage, ChatOptions, ChatRequest as GenaiRequest, ChatResponseFormat, ContentPart,
    JsonSpec, MessageContent, ReasoningEffort, Tool, ToolCall, ToolChoice as GenaiChoice,
    ToolResponse,
};
use loopwright::message::{self, AssistantMessage, Content, MessageKind, UserMessage};
use loopwright::model::{ChatRequest, ThinkingLevel, ToolChoice};

/// Returns the request and its options. Signatures are sent back to the model with this id only.
pub(crate) fn translate(request: &ChatRequest, model: &str) -> (GenaiRequest, ChatOptions) {
    let mut chat = GenaiRequest::new(messages(request, model));
    if !request.system.is_empty() {
        chat = chat.with_system(&*request.system);
    }
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_tool_calls(true)
        .with_stop_sequences(request.stop.clone());
    options.max_tokens = request.max_tokens;
    options.temperature = request.temperature.map(f64::from);
    options.reasoning_effort = effort(request.thinking);
    if let Some(output) = &request.output {
        let spec = JsonSpec::new(&output.name, output.schema.clone());
        options = options.with_response_format(ChatResponseFormat::JsonSpec(spec));
    }
    if request.tools.is_empty() {
        return (chat, options);
    }
    let tools = request.tools.iter().map(|tool| {
        let described = Tool::new(&*tool.name).with_description(&tool.description);
        described.with_schema(tool.schema.clone())
    });
    let choice = match &request.tool_choice {
        ToolChoice::None => Some(GenaiChoice::None),
        ToolChoice::Required => Some(GenaiChoice::Required),
        ToolChoice::Tool(name) => Some(GenaiChoice::tool(name)),
        _ => None, // what every provider does by default
    };
    options.tool_choice = choice;
    (chat.with_tools(tools.collect::<Vec<_>>()), options)
}

fn effort(level: ThinkingLevel) -> Option<ReasoningEffort> {
    match level {
        ThinkingLevel::Off => None, // models that cannot think refuse any value
        ThinkingLevel::Minimal => Some(ReasoningEffort::Minimal),
        ThinkingLevel::Low => Some(ReasoningEffort::Low),
        ThinkingLevel::Medium => Some(ReasoningEffort::Medium),
        ThinkingLevel::High => Some(ReasoningEffort::High),
        ThinkingLevel::XHigh => Some(ReasoningEffort::XHigh),
    }
}

/// Translates the conversation. The results of one reply become one message, as Anthropic demands.
fn messages(request: &ChatRequest, model: &str) -> Vec<ChatMessage> {
    let mut translated = Vec::new();
    let mut results: Vec<ToolResponse> = Vec::new();
    for message in request.messages.iter() {
        if let Some(result) = message.as_tool_result() {
            let response = ToolResponse::new(&*result.call, result.text());
            results.push(response.with_fn_name(&*result.name));
            continue;
        }
        if !results.is_empty() {
            translated.push(ChatMessage::from(std::mem::take(&mut results)));
        }
        match &message.body {
            MessageKind::User(user) => translated.push(ChatMessage::user(content(user))),
            MessageKind::Assistant(reply) => {
                let is_compacted = request.compacted.is_some_and(|last| message.id < last);
                let is_own = *reply.model == *model && !is_compacted;
                translated.push(ChatMessage::assistant(parts(reply, is_own)));
            }
            _ => {} // sessions do not send messages of the application
        }
    }
    if !results.is_empty() {
        translated.push(ChatMessage::from(results));
    }
    translated
}

fn content(message: &UserMessage) -> MessageContent {
    let part = |content: &Content| match content {
        Content::Text { text } => Some(ContentPart::from_text(text)),
        Content::Image { media_type, data } => {
            Some(ContentPart::from_binary_base64(media_type, data.as_str(), None))
        }
        _ => None,
    };
    message.content.iter().filter_map(part).collect()
}

/// Translates the parts of a reply. Thoughts and signatures of another model are left out.
fn parts(reply: &AssistantMessage, is_own: bool) -> MessageContent {
    let mut parts = Vec::new();
    for part in &reply.parts {
        match part {
            message::ContentPart::Text { text, .. } => parts.push(ContentPart::from_text(text)),
            message::ContentPart::Thinking { text, signature } if is_own => {
                let signature = signature.as_ref().map(|signature| signature.to_string());
                parts.extend(signature.map(ContentPart::ThoughtSignature));
                parts.push(ContentPart::ReasoningContent(text.clone()));
            }
            message::ContentPart::ToolCall(call) => {
                let signature = call.signature.as_deref().filter(|_| is_own);
                parts.push(ContentPart::ToolCall(ToolCall {
                    call_id: call.id.to_string(),
                    fn_name: call.name.to_string(),
                    fn_arguments: serde_json::from_str(&call.arguments).unwrap_or_default(),
                    thought_signatures: signature.and_then(|all| serde_json::from_str(all).ok()),
                }));
            }
            _ => {}
        }
    }
    MessageContent::from_parts(parts)
}

/// Joins the signatures of a call into one, from which [`parts`] gets them back.
pub(crate) fn join_signatures(signatures: &[String]) -> Option<Arc<str>> {
    (!signatures.is_empty()).then(|| serde_json::json!(signatures).to_string().into())
}
