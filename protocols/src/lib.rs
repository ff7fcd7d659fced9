//! Protocols of front ends and of other agents.
//!
//! Each module is one protocol. Its types parse a client's requests to inputs of a session, and its
//! encoder converts the session's numbered events to the protocol's events. No module does I/O or
//! runs an agent, so each works with any server and any transport. `loopwright-server` serves them
//! over HTTP.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod a2a;
pub mod a2a_client;
pub mod acp;
pub mod ag_ui;
pub mod ai_sdk;
mod diff;
mod encode;
mod error;
mod failure;
mod from_json;
mod history;
mod json;
mod location;
mod media;
pub mod openai;
mod prompt;
mod question;
#[cfg(test)]
mod recorded;
mod reply;
mod rpc;
mod shown_runs;
#[cfg(test)]
mod testing;
mod time;

pub use encode::{Encode, Progress};
pub use error::DecodeError;
pub use failure::RunFailure;
pub use from_json::{
    MAX_WHOLE, NOT_BLANK, from_json, large_whole_number, or_default, pointer_to, whole_number,
};
pub use history::{History, is_json_object, is_tool_name};
pub use media::{data_url, file};
pub use rpc::RpcError;
pub use shown_runs::{Awaited, ShownRuns};
