//! Shared parts of the decoders: events, and lenient parsing of payloads.

pub(super) mod event_template;
pub(super) mod event_writer;
pub(super) mod inline_thinking;
pub(super) mod lenient;
pub(super) mod reported_cost;
