//! Memory that survives: where sessions are kept, and what keeps them inside a model's window.

mod codec;
#[cfg(feature = "compaction")]
mod compacting;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(any(feature = "jsonl", feature = "sqlite"))]
mod durability;
#[cfg(feature = "jsonl")]
mod jsonl;
#[cfg(any(feature = "jsonl", feature = "sqlite"))]
mod private;
#[cfg(feature = "sqlite")]
mod sqlite;
mod transfer;

#[cfg(feature = "compaction")]
pub use compacting::SummaryCompaction;
#[cfg(any(feature = "jsonl", feature = "sqlite"))]
pub use durability::Durability;
#[cfg(feature = "jsonl")]
pub use jsonl::Jsonl;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
pub use transfer::{from_jsonl, import, to_jsonl, to_markdown};
