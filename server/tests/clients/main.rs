//! The official client of each protocol against a real server with scripted models.
//!
//! A test starts a server in this process and runs a script of this directory, `NAME.mjs` or
//! `NAME.py`, with the server's address as its argument. `.ci/clients/install` installs the
//! clients; without them the tests fail.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod a2a;
mod ag_ui;
mod ai_sdk;
mod openai;
mod recorded;
mod run;
mod shepherd;
