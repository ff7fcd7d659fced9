//! AG-UI 1.0: the protocol between an agent and the app of its user.
//!
//! [`RunRequest::decode`] parses a `RunAgentInput`, and [`Encoder`] writes the events of its run.
//! Messages, fields and events are named as in the [specification](https://docs.ag-ui.com).
//!
//! ```
//! use loopwright_core::event::InputEvent;
//! use loopwright_protocols::ag_ui::RunRequest;
//!
//! let body = br#"{
//!     "threadId": "t", "runId": "r", "tools": [], "context": [],
//!     "messages": [{ "id": "u1", "role": "user", "content": "How many sheep are there?" }]
//! }"#;
//! let request = RunRequest::decode(body)?;
//! assert!(matches!(&request.inputs[0].event, InputEvent::UserRequest(_)));
//! # Ok::<(), loopwright_protocols::DecodeError>(())
//! ```

mod encoder;
mod event;
mod history;
mod interrupt;
mod request;
mod speaker;
#[cfg(test)]
mod tests;

pub use encoder::Encoder;
pub use event::Event;
pub use request::RunRequest;
