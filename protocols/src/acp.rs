//! The [Agent Client Protocol](https://agentclientprotocol.com), version 1: editors that drive an
//! agent over JSON-RPC 2.0, one message per line.
//!
//! [`decode`] parses a line of the client. [`SessionUpdates`] converts the events of a session to
//! updates for the client. [`Permission`] and [`form`] show a pending action and read the decision.
//! Outgoing messages are JSON that follows the protocol's schema.
//!
//! The protocol's own crates are not used: they enable the feature `preserve_order` of
//! `serde_json`, which changes the maps of every crate in a build.
//!
//! ```
//! use loopwright_core::event::AgentEvent;
//! use loopwright_core::message::MessageId;
//! use loopwright_core::model::Update;
//! use loopwright_protocols::acp::{ClientMessage, ClientRequest, SessionUpdates, decode};
//!
//! let line = br#"{"jsonrpc":"2.0","id":1,"method":"session/close","params":{"sessionId":"s"}}"#;
//! let Ok(ClientMessage::Request(_, request)) = decode(line) else { panic!() };
//! assert_eq!(request, ClientRequest::CloseSession("s".into()));
//!
//! let mut updates = SessionUpdates::new("/srv");
//! let update = Update::Text { block: 0, delta: "Hello".into() };
//! let sent = updates.fold(&AgentEvent::MessageUpdate { message_id: MessageId(2), update });
//! assert_eq!(sent[0]["sessionUpdate"], "agent_message_chunk");
//! assert_eq!(sent[0]["content"]["text"], "Hello");
//! ```

mod decision;
mod message;
mod outcome;
mod prompt;
mod update;

pub use decision::{Answer, Permission, form, read_form};
pub use message::{ClientMessage, ClientRequest, McpServer, Surroundings, Variable, decode};
pub use outcome::stop_reason;
pub use update::{SessionUpdates, notice, text_content};

pub use crate::diff::{Diff, diffs};
pub use crate::rpc::request_id;
