//! Code mode: the model writes a Python script that calls the agent's tools.
//!
//! [`CodeMode`] is the loop. [`Interpreter`] starts the process in which a script runs:
//! `loopwright-script`, the binary of this crate, or any program that calls [`serve`].

#![cfg_attr(docsrs, feature(doc_cfg))]

/// The README, whose examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

mod code_mode;
mod interpreter;
mod protocol;
mod run;
mod script;
mod stubs;
mod worker;

pub use code_mode::CodeMode;
pub use interpreter::{Interpreter, InterpreterError};
pub use worker::{LimitedAllocator, serve};
