//! The OpenAI API, in which an agent is the model: Chat Completions and Responses.
//!
//! A request contains the whole conversation: [`ChatCompletionRequest`] and [`ResponsesRequest`]
//! convert it to an [`AgentRequest`]. [`ChatStream`] and [`ResponseStream`] convert the events of
//! the run that answers it. The agent runs its own tools: a client never has to answer a call, and
//! cannot add its own tools.

mod agent_request;
mod chat;
mod chat_stream;
mod content;
mod error_body;
mod head;
mod options;
mod outcome;
mod response;
mod response_stream;
mod responses;

pub use agent_request::AgentRequest;
pub use chat::ChatCompletionRequest;
pub use chat_stream::{ChatCompletion, ChatCompletionChunk, ChatFrame, ChatStream};
pub use error_body::{ErrorBody, ErrorObject};
pub use head::ResponseHead;
pub use response::{Echo, Response, ResponseError, ResponseEvent};
pub use response_stream::ResponseStream;
pub use responses::ResponsesRequest;
