//! The commands of the command line, one file each.

pub(crate) mod acp;
pub(crate) mod actions;
pub(crate) mod audit;
pub(crate) mod chat;
pub(crate) mod cluster;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod run;
pub(crate) mod schedules;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod token;
pub(crate) mod tools;
pub(crate) mod wake;
