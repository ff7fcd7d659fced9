//! The events of sessions as streams for clients: derived from the log and the live session,
//! encoded once for all readers, and sent as server-sent events.

pub(crate) mod backlog;
pub(crate) mod conversation;
pub(crate) mod encoded_events;
pub(crate) mod event_streams;
pub(crate) mod feed;
pub(crate) mod frames;
pub(crate) mod histories;
mod open_work;
pub(crate) mod protocol_stream;
pub(crate) mod public;
pub(crate) mod request_run;
pub(crate) mod sse;
pub(crate) mod sse_frames;
