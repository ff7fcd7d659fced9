//! Shared parts of the fuzz targets: delivery and mutation of bytes, and the invariants of any
//! reply, any log, any file of a store and any message of a client.
//!
//! The whole input is the body, so recordings are seeds without conversion. A hash of the input
//! determines the positions of splits and cuts.

mod decoder;
mod depth;
mod entries;
mod frames;
mod log;
mod mutate;
mod parser;
mod protocols;
mod random;
mod reply;
mod schemas;
mod store;
mod worker;

pub use decoder::{Format, check_decoder};
pub use depth::check_depth;
pub use frames::check_frames;
pub use log::check_log_of;
pub use mutate::{mutate, mutate_lines};
pub use parser::check_parser;
pub use protocols::{check_decoders, check_folds};
pub use schemas::check_schemas;
pub use store::check_store;
pub use worker::on_worker;
