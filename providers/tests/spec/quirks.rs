//! Deviations of servers from their documentation. Each row of the project's list of quirks has a
//! test named after its number.
//!
//! Rows 33 to 35, 38 and 42 have further tests next to their code.

mod calls;
mod errors;
mod framing;
mod history;
mod ids;
pub(crate) mod kit;
mod refused;
mod replay;
mod rescue;
