//! Memory that survives: where sessions are kept, and what keeps them inside a model's window.

pub mod conformance;
mod durability;
mod sqlite;

pub use durability::Durability;
pub use sqlite::Sqlite;
