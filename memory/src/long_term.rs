//! Facts that outlive a session, found by words and by meaning: [`LongTerm`].

mod distil;
mod distil_command;
mod distil_request;
mod error;
mod fact;
mod facts;
mod file;
mod hook;
mod others;
mod recall;
mod retriever;
mod store;
mod tools;
mod transfer;
mod vectors;
mod words;

pub use distil::Distil;
pub use distil_command::{DISTIL_COMMAND, distil_session, is_distil_due};
pub use error::{LongTermError, MAX_FACT_BYTES};
pub use fact::{Fact, NewFact, Scope};
pub use hook::Recall;
pub use retriever::ScopedFacts;
pub use store::LongTerm;
pub use tools::FactTools;
