//! Sampling (MCP, *Sampling*): a server's requests to the agent's model, which the user must allow.

// SEP-2577 has deprecated sampling; servers of earlier versions use it.
#![allow(deprecated)]

use std::sync::Arc;

use loopwright_core::message::{AssistantMessage, Content, MessageId, StopReason, UserMessage};
use loopwright_core::model::ChatRequest;
use loopwright_core::tool::Question;
use loopwright_core::{ChatModel, Message, ToolContext};
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ErrorData, Role, SamplingMessage,
    SamplingMessageContentBlock,
};
use serde::Deserialize;
use serde_json::Value;

/// The answer that sends the request to the model.
pub(super) const ALLOW: &str = "Allow";
const REFUSE: &str = "Refuse";

/// The maximum size of a request, in bytes of text. The user reads all of it.
const MAX_REQUEST_BYTES: usize = 16 << 10;
/// The maximum length of a reply, in tokens.
const MAX_TOKENS: u32 = 8192;

/// Returns the request to the model for the parameters of `sampling/createMessage`.
///
/// # Errors
///
/// Returns a sentence if the parameters do not follow the protocol, or if the request would be
/// refused.
pub fn sampling_request(params: &Value) -> Result<ChatRequest, String> {
    let params = CreateMessageRequestParams::deserialize(params)
        .map_err(|why| format!("These are no parameters of `sampling/createMessage`: {why}."))?;
    request(&params).map_err(|why| why.message.into_owned())
}

/// Returns the question whether the server may send this request. The question shows the whole
/// request. The error is for the server.
pub(super) fn question(
    server: &str,
    params: &CreateMessageRequestParams,
) -> Result<Question, ErrorData> {
    request(params)?;
    // Indented, so that no line of a text looks like the name of another part.
    let part = |(name, text): (&str, String)| format!("{name}:\n  {}", text.replace('\n', "\n  "));
    let system = params.system_prompt.iter().map(|text| ("system", text.clone()));
    let messages = params.messages.iter().map(|message| {
        let role = if message.role == Role::User { "user" } else { "assistant" };
        (role, text_of(message))
    });
    let shown: Vec<String> = system.chain(messages).map(part).collect();
    let tokens = params.max_tokens.min(MAX_TOKENS);
    let text = shown.join("\n");
    let text = format!("{server} wants to ask your model (up to {tokens} tokens):\n{text}");
    Ok(Question::choice(text, [ALLOW, REFUSE]))
}

/// Returns the request to the model. The error is for the server.
pub(super) fn request(params: &CreateMessageRequestParams) -> Result<ChatRequest, ErrorData> {
    let invalid = |why: &str| ErrorData::invalid_params(why.to_owned(), None);
    if params.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
        return Err(invalid("sampling with tools is not supported"));
    }
    let mut bytes = params.system_prompt.as_ref().map_or(0, String::len);
    let mut messages: Vec<Arc<Message>> = Vec::new();
    for (number, message) in (1..).zip(&params.messages) {
        let text = text_of(message);
        bytes += text.len();
        let id = MessageId(number);
        messages.push(Arc::new(match message.role {
            Role::User => Message::new(id, UserMessage::new(vec![Content::text(text)])),
            Role::Assistant => Message::new(id, AssistantMessage::from(text)),
        }));
    }
    if bytes > MAX_REQUEST_BYTES {
        return Err(invalid(&format!(
            "the request has {bytes} bytes of text, and the user is shown all of a request: send \
             at most {MAX_REQUEST_BYTES}"
        )));
    }
    if !params.messages.last().is_some_and(|message| message.role == Role::User) {
        return Err(invalid("the last message must be one of the user"));
    }
    let mut request = ChatRequest::default();
    request.system = params.system_prompt.clone().unwrap_or_default().into();
    request.messages = messages.into();
    request.max_tokens = Some(params.max_tokens.clamp(1, MAX_TOKENS));
    request.temperature = params.temperature;
    Ok(request)
}

/// Sends a request to a model, on behalf of the session of a call. The error is for the server.
pub(super) async fn sample(
    cx: &ToolContext,
    model: &dyn ChatModel,
    params: &CreateMessageRequestParams,
) -> Result<CreateMessageResult, ErrorData> {
    let reply = cx.generate(model, request(params)?).await;
    let reply = reply.map_err(|why| ErrorData::internal_error(why.to_string(), None))?;
    let message = SamplingMessage::assistant_text(reply.text());
    let mut result = CreateMessageResult::new(message, reply.model.to_string());
    result.stop_reason = Some(match reply.stop {
        StopReason::Length => CreateMessageResult::STOP_REASON_END_MAX_TOKEN.into(),
        _ => CreateMessageResult::STOP_REASON_END_TURN.into(),
    });
    Ok(result)
}

/// Returns the texts of a message, with a note for everything else.
fn text_of(message: &SamplingMessage) -> String {
    let blocks = message.content.iter().map(|block| match block {
        SamplingMessageContentBlock::Text(text) => text.text.as_str(),
        _ => "[content that is left out]",
    });
    blocks.collect::<Vec<_>>().join("\n")
}
