//! Requests to a collector: spans, metrics, and nothing else.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod kit;
mod metrics;
mod outages;
mod spans;
