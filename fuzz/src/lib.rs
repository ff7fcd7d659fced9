//! What the fuzz targets have in common: how bytes are delivered and mutated, and what must hold of
//! any reply.
//!
//! The whole input is the body, so that recordings are seeds as they are; where it is split and cut
//! is taken from a hash of it.

mod decoder;
mod mutate;
mod parser;
mod random;
mod reply;

pub use decoder::{Format, check_decoder};
pub use mutate::mutate;
pub use parser::check_parser;
