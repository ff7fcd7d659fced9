//! Recorded traffic replayed through the codecs, and recorded sessions replayed through a whole
//! agent: `cargo test --test wire`, not part of plain `cargo test`.
//!
//! Reads `$LOOPWRIGHT_SHARED/wire` and `/vectors` (by default `shared` beside the repository) and
//! fails if they are empty. `-- --nocapture` shows a line per recording. `LOOPWRIGHT_SEED` repeats
//! the random splits of an earlier run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed check is a failed test")]

mod bodies;
mod errors;
mod formats;
mod random;
mod recordings;
mod reply;
#[path = "../rules/rules.rs"]
mod rules;
mod sessions;
mod sse;
mod streams;
