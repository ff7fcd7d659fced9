//! The routes of protocols: each file reads the requests of one protocol and responds with a stream
//! in its format.

pub(super) mod a2a;
pub(super) mod ag_ui;
pub(super) mod agent_chat;
pub(super) mod ai_sdk;
pub(super) mod openai;
