//! Behaviour patterns for loopwright: the loops that most agents need, one file each.
//!
//! | pattern | the loop |
//! |---|---|
//! | [`GenericPattern`] | ask, call tools, ask again until there is nothing to call |
//! | [`PiPattern`] | the same, heard while it works: steering inside, follow-ups outside |
//! | [`FirstCall`] | the first turn of a request must call a tool, the rest is another pattern's |

mod first_call;
mod generic;
mod pi;

pub use first_call::FirstCall;
pub use generic::GenericPattern;
pub use pi::PiPattern;
