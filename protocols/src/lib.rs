//! Protocols of front ends and of other agents, as folds of a session's events.
//!
//! Each module is one protocol: types that read what a client sends and return the inputs of a
//! session, and an encoder that converts the session's numbered events to what the protocol sends.
//! Nothing here reads, writes or runs anything, so a module works with any server and any
//! transport. `loopwright-server` serves them over HTTP.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod a2a;
pub mod a2a_client;
pub mod acp;
pub mod ag_ui;
pub mod ai_sdk;
mod encode;
mod error;
mod failure;
mod from_json;
mod history;
mod json;
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
pub use from_json::{from_json, pointer_to, whole_number};
pub use history::{History, is_json_object, is_tool_name};
pub use media::{data_url, media, media_type_of};
pub use rpc::RpcError;
pub use shown_runs::{Awaited, ShownRuns};
