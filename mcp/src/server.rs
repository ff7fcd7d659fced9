//! An agent, or its tools, as an MCP server.
//!
//! [`AgentServer`] answers MCP clients. A [`SessionHost`] provides the tools to list, and the
//! session of a call. A call of an agent sends the client's message to a session and returns the
//! reply. A call of a tool runs one call in a new session. Both report progress from the session's
//! events, abort if the client cancels them, and ask the client's user for decisions by
//! elicitation.
//!
//! Clients of protocol versions up to 2025-11-25 are sent `elicitation/create` requests. Since
//! version 2026-07-28 a call returns `input_required` instead, and the client repeats it with the
//! answers. A client that cannot ask its user gets a result that lists the pending actions.

mod call;
mod elicitation;
mod frames;
mod handler;
mod host;
mod in_progress;
mod progress;
mod reply;
mod run;

pub use call::{AgentCall, RequestState, Shown};
pub use elicitation::{decode_elicit_result, is_elicitable};
pub use handler::AgentServer;
pub use host::{HostSession, ServedTool, SessionHost};
