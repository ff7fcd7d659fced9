//! Sampling (MCP, *Sampling*): what a server asks the model of the agent, once the user allows it.

// SEP-2577 has deprecated sampling; servers of earlier versions use it.
#![allow(deprecated)]

use std::sync::Arc;

use futures_util::StreamExt as _;
use loopwright_core::message::{AssistantMessage, Content, MessageId, StopReason, UserMessage};
use loopwright_core::model::{BlockKind, ChatRequest, ModelEvent};
use loopwright_core::pattern::Question;
use loopwright_core::{ChatModel, Message};
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ErrorData, Role, SamplingMessage,
    SamplingMessageContentBlock,
};
use serde::Deserialize;
use serde_json::Value;

use super::decode::cut;

/// The answer that sends the request to the model.
pub(super) const ALLOW: &str = "Allow";
const REFUSE: &str = "Refuse";

/// The longest part of a request that the user is shown.
const MAX_SHOWN_BYTES: usize = 4 << 10;
/// The largest request, in bytes of text.
const MAX_REQUEST_BYTES: usize = 256 << 10;
/// The longest reply, in tokens.
const MAX_TOKENS: u32 = 8192;

/// Reads the parameters of `sampling/createMessage`, and returns the request to the model.
///
/// # Errors
///
/// Returns a sentence if they are not those of the protocol, or if the model is not asked this.
pub fn sampling_request(params: &Value) -> Result<ChatRequest, String> {
    let params = CreateMessageRequestParams::deserialize(params)
        .map_err(|why| format!("These are no parameters of `sampling/createMessage`: {why}."))?;
    request(&params).map_err(|why| why.message.into_owned())
}

/// Returns the question whether a server may send this request.
pub(super) fn question(server: &str, params: &CreateMessageRequestParams) -> Question {
    let system = params.system_prompt.iter().map(|text| format!("system: {text}"));
    let messages = params.messages.iter().map(|message| {
        let role = if message.role == Role::User { "user" } else { "assistant" };
        format!("{role}: {}", text_of(message))
    });
    let shown: Vec<String> = system.chain(messages).collect();
    let shown = cut(&shown.join("\n"), MAX_SHOWN_BYTES);
    let tokens = params.max_tokens.min(MAX_TOKENS);
    let text = format!("{server} wants to ask your model (up to {tokens} tokens):\n{shown}");
    Question::choice(text, [ALLOW, REFUSE])
}

/// Returns the request to the model. The error is one for the server.
pub(super) fn request(params: &CreateMessageRequestParams) -> Result<ChatRequest, ErrorData> {
    let invalid = |why: &'static str| ErrorData::invalid_params(why, None);
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
        return Err(invalid("the request is too large"));
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

/// Sends a request to a model. The error is one for the server.
pub(super) async fn sample(
    model: &dyn ChatModel,
    params: &CreateMessageRequestParams,
) -> Result<CreateMessageResult, ErrorData> {
    let mut events = model.stream(request(params)?);
    let failed = |why: String| ErrorData::internal_error(why, None);
    let (mut text, mut block_of_text) = (String::new(), None);
    while let Some(event) = events.next().await {
        match event {
            ModelEvent::BlockStart { block, kind: BlockKind::Text } => block_of_text = Some(block),
            ModelEvent::Delta { block, delta } if block_of_text == Some(block) => text += &delta,
            ModelEvent::Withdrawn => text.clear(),
            ModelEvent::Done { stop, .. } => {
                let message = SamplingMessage::assistant_text(text);
                let mut result = CreateMessageResult::new(message, model.info().id.to_string());
                result.stop_reason = Some(match stop {
                    StopReason::Length => CreateMessageResult::STOP_REASON_END_MAX_TOKEN.into(),
                    _ => CreateMessageResult::STOP_REASON_END_TURN.into(),
                });
                return Ok(result);
            }
            ModelEvent::Error(why) => return Err(failed(format!("the model failed: {why}"))),
            _ => {}
        }
    }
    Err(failed("the model's reply has no end".into()))
}

/// Returns the texts of a message, and a note for everything else.
fn text_of(message: &SamplingMessage) -> String {
    let blocks = message.content.iter().map(|block| match block {
        SamplingMessageContentBlock::Text(text) => text.text.as_str(),
        _ => "[content that is left out]",
    });
    blocks.collect::<Vec<_>>().join("\n")
}
