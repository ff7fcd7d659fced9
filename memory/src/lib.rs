//! Memory that survives: where sessions are kept, and what keeps them inside a model's window.

mod codec;
mod compacting;
pub mod conformance;
mod durability;
mod jsonl;
mod private;
mod sqlite;
mod transfer;

pub use compacting::SummaryCompaction;
pub use durability::Durability;
pub use jsonl::Jsonl;
pub use sqlite::Sqlite;
pub use transfer::{from_jsonl, import, to_jsonl, to_markdown};
