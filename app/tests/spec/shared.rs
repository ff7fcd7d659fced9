//! The processes, the model server and the HTTP client of these tests, for the example apps.

#![allow(dead_code, reason = "no example uses all of it")]

pub(crate) mod http;
pub(crate) mod process;
pub(crate) mod server;
