//! Memory that survives: where sessions are kept, and what keeps them inside a model's window.

mod transfer;

pub use transfer::{from_jsonl, import, to_jsonl, to_markdown};
