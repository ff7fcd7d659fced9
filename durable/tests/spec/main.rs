//! The cluster in one process.

mod cluster;
mod schedules;
