//! Session stores on disk and in PostgreSQL, compaction of conversations, and long-term memory.
//!
//! | item | feature | contents |
//! |---|---|---|
//! | [`Sqlite`] | `sqlite` | sessions in one SQLite file, for any number of processes |
//! | [`Jsonl`] | `jsonl` | sessions in a directory of JSON Lines files |
//! | [`Postgres`] | `postgres` | sessions in a PostgreSQL database, for any number of machines |
//! | [`SummaryCompaction`] | `compaction` | a policy that summarises older turns |
//! | [`long_term`] | `long-term` | facts that outlive a session |
//! | [`conformance`] | `conformance` | a test suite for session stores |
//! | [`to_jsonl`], [`to_markdown`], [`from_jsonl`], [`import`] | | sessions as files |
//!
//! All features except `postgres` are on by default. `long-term` needs `sqlite`, the only feature
//! that compiles SQLite. The others are independent.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod codec;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(any(feature = "jsonl", feature = "postgres", feature = "sqlite"))]
mod durability;
#[cfg(feature = "jsonl")]
mod jsonl;
#[cfg(any(feature = "jsonl", feature = "sqlite"))]
mod lock_holder;
#[cfg(feature = "long-term")]
pub mod long_term;
mod markdown;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "jsonl", feature = "sqlite"))]
mod private;
#[cfg(any(feature = "jsonl", feature = "sqlite"))]
mod rewrite;
#[cfg(any(feature = "jsonl", feature = "sqlite"))]
mod room;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "compaction")]
mod summary_compaction;
mod transfer;

#[cfg(any(feature = "jsonl", feature = "postgres", feature = "sqlite"))]
pub use durability::Durability;
#[cfg(feature = "jsonl")]
pub use jsonl::Jsonl;
pub use markdown::to_markdown;
#[cfg(feature = "postgres")]
pub use postgres::{Postgres, PostgresBuilder};
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
#[cfg(feature = "compaction")]
pub use summary_compaction::SummaryCompaction;
pub use transfer::{from_jsonl, import, to_jsonl};
