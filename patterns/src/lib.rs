//! Behaviour patterns for loopwright: the loops that most agents need, one file each.
//!
//! | pattern | the loop |
//! |---|---|
//! | [`GenericPattern`] | ask, call tools, ask again until there is nothing to call |
//! | [`PiPattern`] | the same, heard while it works: steering inside, follow-ups outside |

mod generic;
mod pi;

pub use generic::GenericPattern;
pub use pi::PiPattern;
