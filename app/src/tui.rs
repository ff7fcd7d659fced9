//! The terminal interface.

mod paint;
