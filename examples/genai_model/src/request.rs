//! Conversion of a session's requests to requests of genai.

use std::sync::Arc;

use genai::chat::{
    ChatMessage, ChatOptions, ChatRequest as GenaiRequest, ContentPart, JsonSpec, MessageContent,
    ReasoningEffort, Tool, ToolCall, ToolChoice as GenaiChoice, ToolResponse,
};
use loopwright::Message;
use loopwright::message::{self, AssistantMessage, Content, MessageKind, ToolResult, UserMessage};
use loopwright::model::{ChatRequest, ThinkingLevel, ToolChoice};
use loopwright::tool::ToolSpec;

/// Returns the request and its options. Signatures are sent back only to the model with this id.
pub(crate) fn translate(request: &ChatRequest, model: &str) -> (GenaiRequest, ChatOptions) {
    let tool = |tool: &Arc<ToolSpec>| {
        let named = Tool::new(&*tool.name).with_description(&tool.description);
        named.with_schema(tool.schema.clone())
    };
    let choice = match &request.tool_choice {
        ToolChoice::None => Some(GenaiChoice::None),
        ToolChoice::Required => Some(GenaiChoice::Required),
        ToolChoice::Tool(name) => Some(GenaiChoice::tool(name)),
        _ => None, // what every provider does by default
    };
    let has_tools = !request.tools.is_empty();
    let output = request.output.as_ref();
    let mut chat = GenaiRequest::new(messages(request, model));
    chat.system = Some(request.system.to_string()).filter(|system| !system.is_empty());
    chat.tools = has_tools.then(|| request.tools.iter().map(tool).collect());
    let options = ChatOptions {
        max_tokens: request.max_tokens,
        temperature: request.temperature.map(f64::from),
        stop_sequences: request.stop.clone(),
        reasoning_effort: effort(request.thinking),
        response_format: output.map(|o| JsonSpec::new(&o.name, o.schema.clone()).into()),
        tool_choice: choice.filter(|_| has_tools),
        capture_usage: Some(true),
        capture_tool_calls: Some(true),
        ..ChatOptions::default()
    };
    (chat, options)
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

/// Converts the conversation. The results of one reply become one message, because Anthropic
/// requires it.
fn messages(request: &ChatRequest, model: &str) -> Vec<ChatMessage> {
    let is_result = |message: &Arc<Message>| message.as_tool_result().is_some();
    let groups = request.messages.chunk_by(|a, b| is_result(a) && is_result(b));
    let translate = |group: &[Arc<Message>]| match &group[0].body {
        MessageKind::User(user) => Some(ChatMessage::user(content(user))),
        MessageKind::Assistant(reply) => {
            let is_compacted = request.compacted.is_some_and(|last| group[0].id < last);
            let is_own = *reply.model == *model && !is_compacted;
            Some(ChatMessage::assistant(parts(reply, is_own)))
        }
        MessageKind::ToolResult(_) => {
            let results = group.iter().filter_map(|message| message.as_tool_result());
            let response = |result: &ToolResult| {
                ToolResponse::new(&*result.call, result.text()).with_fn_name(&*result.name)
            };
            Some(ChatMessage::from(results.map(response).collect::<Vec<_>>()))
        }
        _ => None, // sessions do not send messages of the application
    };
    groups.filter_map(translate).collect()
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

/// Converts the parts of a reply. Thoughts and signatures of other models are left out.
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
