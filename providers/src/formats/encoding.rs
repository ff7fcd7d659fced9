//! Shared parts of the encoders: JSON, schemas, call ids, and the order of messages.

pub(super) mod answer_tool;
pub(super) mod attachment;
pub(crate) mod call_id;
pub(super) mod call_name;
pub(super) mod fields;
pub(super) mod json;
pub(crate) mod reasoning_effort;
pub(super) mod schema;
pub(super) mod strict;
pub(super) mod tool_result_pairing;
pub(super) mod turns;
pub(crate) mod wrapped_answer;
