//! Memory that survives: where sessions are kept, and what keeps them inside a model's window.

mod codec;
pub mod conformance;
mod durability;
mod jsonl;
mod sqlite;

pub use durability::Durability;
pub use jsonl::Jsonl;
pub use sqlite::Sqlite;
