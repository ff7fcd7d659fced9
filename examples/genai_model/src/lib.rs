//! [`GenaiModel`], a [`ChatModel`] over the crate genai: all its providers, for every pattern.
//!
//! Text and reasoning stream as they arrive. Tool calls arrive as a whole at the end of the reply,
//! since the providers of genai stream their arguments in different ways. Images in tool results
//! are dropped, because genai cannot send them.

pub mod mock;
mod request;

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use genai::chat::{ChatStreamEvent, StopReason as GenaiStop, StreamEnd, Usage as GenaiUsage};
use loopwright::ChatModel;
use loopwright::message::{StopReason, Usage};
use loopwright::model::{
    BlockKind, BoxStream, ChatRequest, ModelError, ModelErrorKind, ModelEvent, ModelInfo,
};

/// A [`ChatModel`] on a client of genai.
pub struct GenaiModel {
    client: genai::Client,
    /// The name by which genai finds the provider, such as `claude-sonnet-4-5`.
    name: String,
    info: ModelInfo,
}

impl GenaiModel {
    /// Builds a model from a client and a name that genai knows. The key comes from the environment
    /// variable of the provider, unless the client has a resolver for it.
    pub fn new(client: genai::Client, name: impl Into<String>) -> Self {
        let name = name.into();
        GenaiModel { client, info: ModelInfo::new(format!("genai/{name}")), name }
    }

    /// Sets the known facts about the model, such as its prices, which genai does not know.
    pub fn info(mut self, info: ModelInfo) -> Self {
        self.info = info;
        self
    }
}

impl ChatModel for GenaiModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        let connect = async move {
            let (chat, options) = request::translate(&request, &self.info.id);
            match self.client.exec_chat_stream(self.name.as_str(), chat, Some(&options)).await {
                Ok(response) => {
                    let mut reply = Reply::default();
                    response.stream.flat_map(move |e| stream::iter(reply.events(e))).boxed()
                }
                Err(error) => stream::iter([ModelEvent::Error(model_error(&error))]).boxed(),
            }
        };
        stream::once(connect).flatten().boxed()
    }
}

/// The reply so far.
#[derive(Default)]
struct Reply {
    /// The events that are not returned yet.
    queue: Vec<ModelEvent>,
    /// The number of blocks.
    blocks: u32,
    /// The kind of the open block, which is the last one.
    open: Option<BlockKind>,
    has_ended: bool,
}

impl Reply {
    fn events(&mut self, event: genai::Result<ChatStreamEvent>) -> Vec<ModelEvent> {
        match event {
            _ if self.has_ended => {}
            Ok(ChatStreamEvent::Chunk(chunk)) => self.delta(BlockKind::Text, chunk.content),
            Ok(ChatStreamEvent::ReasoningChunk(chunk)) => {
                self.delta(BlockKind::Thinking, chunk.content)
            }
            // Otherwise the signature belongs to a call, which has it at the end.
            Ok(ChatStreamEvent::ThoughtSignatureChunk(chunk)) => {
                if self.open == Some(BlockKind::Thinking) {
                    self.close(Some(chunk.content.into()));
                }
            }
            Ok(ChatStreamEvent::End(end)) => self.end(end),
            Ok(_) => {} // the start, heartbeats, and calls, which are whole at the end
            Err(error) => self.finish(ModelEvent::Error(model_error(&error))),
        }
        std::mem::take(&mut self.queue)
    }

    fn delta(&mut self, kind: BlockKind, delta: String) {
        if self.open.as_ref() != Some(&kind) {
            self.close(None);
            self.queue.push(ModelEvent::BlockStart { block: self.blocks, kind: kind.clone() });
            self.open = Some(kind);
            self.blocks += 1;
        }
        self.queue.push(ModelEvent::Delta { block: self.blocks - 1, delta });
    }

    fn close(&mut self, signature: Option<Arc<str>>) {
        if self.open.take().is_some() {
            self.queue.push(ModelEvent::BlockEnd { block: self.blocks - 1, signature });
        }
    }

    fn finish(&mut self, last: ModelEvent) {
        self.has_ended = true;
        self.queue.push(last);
    }

    fn end(&mut self, mut end: StreamEnd) {
        let usage = end.captured_usage.take().map(|usage| tokens(&usage)).unwrap_or_default();
        let stop = end.captured_stop_reason.take();
        let calls = end.captured_into_tool_calls().unwrap_or_default();
        let has_calls = !calls.is_empty();
        for call in calls {
            let kind = BlockKind::ToolCall { id: call.call_id, name: call.fn_name };
            // A string is an argument that genai could not parse as JSON. The session answers it
            // with an error.
            let arguments = match call.fn_arguments {
                serde_json::Value::String(raw) => raw,
                value => value.to_string(),
            };
            self.delta(kind, arguments);
            let signatures = call.thought_signatures.map(|all| serde_json::json!(all).to_string());
            self.close(signatures.map(Into::into));
        }
        self.close(None);
        let stop = match stop {
            Some(GenaiStop::MaxTokens(_)) => StopReason::Length,
            Some(GenaiStop::ContentFilter(_)) => StopReason::ContentFilter,
            _ if has_calls => StopReason::ToolCalls,
            _ => StopReason::Stop,
        };
        self.finish(ModelEvent::Done { stop, usage });
    }
}

/// Converts the counts of genai, whose input includes tokens read from a cache.
fn tokens(usage: &GenaiUsage) -> Usage {
    let count = |tokens: Option<i32>| tokens.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    let details = usage.prompt_tokens_details.as_ref();
    let read = count(details.and_then(|details| details.cached_tokens));
    let written = count(details.and_then(|details| details.cache_creation_tokens));
    let input = count(usage.prompt_tokens).saturating_sub(read + written);
    let reasoning = usage.completion_tokens_details.as_ref().and_then(|d| d.reasoning_tokens);
    Usage::new(input, count(usage.completion_tokens))
        .cache(read, written)
        .reasoning(count(reasoning))
}

/// Converts an error, so that `Retry` and `Fallback` know what to do.
fn model_error(error: &genai::Error) -> ModelError {
    use ModelErrorKind as Kind;
    use genai::Error as E;
    if let E::WebStream { error: cause, .. } = error
        && let Some(cause) = cause.downcast_ref::<genai::Error>()
    {
        return model_error(cause); // the status is in the inner error
    }
    let status = error.status().map(|status| status.as_u16());
    let text = error.to_string();
    let kind = match status {
        Some(401 | 403) => Kind::Auth,
        Some(402) => Kind::PaymentRequired,
        Some(408 | 504) => Kind::Timeout,
        Some(429) if text.contains("insufficient_quota") => Kind::QuotaExhausted,
        Some(429) => Kind::RateLimited,
        Some(400 | 413) if text.contains("context_length") => Kind::ContextOverflow,
        Some(500..) => Kind::Overloaded,
        Some(_) => Kind::InvalidRequest,
        None => match error {
            E::RequiresApiKey { .. } | E::NoAuthResolver { .. } | E::NoAuthData { .. } => {
                Kind::Auth
            }
            E::WebStream { .. } | E::WebModelCall { .. } => Kind::Network,
            E::StreamParse { .. } | E::NoChatResponse { .. } => Kind::Protocol,
            E::ChatResponse { .. } => Kind::Overloaded, // an error inside the stream
            _ => Kind::InvalidRequest,
        },
    };
    let mut translated = ModelError::new(kind, text);
    translated.status = status;
    let wait = error.headers().and_then(|headers| headers.get("retry-after")?.to_str().ok());
    translated.retry_after = wait.and_then(|text| text.parse().ok()).map(Duration::from_secs);
    translated
}
