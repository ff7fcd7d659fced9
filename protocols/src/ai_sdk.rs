//! The UI message stream of the AI SDK 7, for its `useChat` and `Chat`.
//!
//! [`ChatRequest::decode`] parses the body of `DefaultChatTransport`, [`Encoder`] writes the chunks
//! of the reply, and [`ui_messages`] returns the messages of a chat when a page loads it. The names
//! are taken from the [AI SDK](https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol).
//!
//! A reply is one message of the assistant: the run of a request, and the runs that continue it
//! after decisions on its calls. Its id is the id of its first run.
//!
//! ```
//! use loopwright_core::event::InputEvent;
//! use loopwright_protocols::ai_sdk::ChatRequest;
//!
//! let body = br#"{
//!     "id": "c", "trigger": "submit-message",
//!     "messages": [{ "id": "u1", "role": "user", "parts": [{ "type": "text", "text": "Hello" }] }]
//! }"#;
//! let request = ChatRequest::decode(body)?;
//! assert!(matches!(&request.inputs[0].event, InputEvent::UserRequest(_)));
//! # Ok::<(), loopwright_protocols::DecodeError>(())
//! ```

mod encoder;
mod history;
mod part;
mod request;
#[cfg(test)]
mod tests;

pub use encoder::{Chunk, Encoder};
pub use history::ui_messages;
pub use request::ChatRequest;
