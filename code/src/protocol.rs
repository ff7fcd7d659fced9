//! The messages between an agent and the process that runs a script: one line of JSON each.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The maximum length of a message of the interpreter.
pub(crate) const MAX_MESSAGE_BYTES: u64 = 8 << 20;

/// The maximum length of what a script prints.
pub(crate) const MAX_PRINTED_BYTES: usize = 1 << 20;

/// The exit code of a process whose script took too long.
pub(crate) const TIME_EXIT_CODE: u8 = 66;

/// The exit code of a process whose script used too much memory.
pub(crate) const MEMORY_EXIT_CODE: i32 = monty_types::OOM_EXIT_CODE;

/// The exit code of a program that has not installed the allocator that counts memory.
pub(crate) const ALLOCATOR_EXIT_CODE: u8 = 64;

/// The first message to the process: a script and its limits.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) code: String,
    /// The names of the functions that the script can call.
    pub(crate) functions: Vec<String>,
    pub(crate) seconds: u64,
    pub(crate) memory_bytes: usize,
}

/// A message of the process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Progress {
    /// The script waits for the results of these calls, and of earlier ones without a result.
    Calls(Vec<FunctionCall>),
    /// The script has ended.
    Ended(Ended),
}

/// A call of a function by the script.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FunctionCall {
    /// The number of the call, counted from 0 in the order in which the script makes them.
    pub(crate) number: u32,
    pub(crate) function: String,
    pub(crate) arguments: Map<String, Value>,
}

/// The end of a script.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// The printed text.
    pub(crate) printed: String,
    /// The value of the last expression, unless it is `None`.
    pub(crate) value: Option<String>,
    /// The error that ended the script, with its traceback.
    pub(crate) error: Option<String>,
}

/// The result of a call, for the script.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CallResult {
    pub(crate) number: u32,
    /// The text of the result, or the message of the exception.
    pub(crate) text: String,
    pub(crate) exception: Option<Exception>,
}

/// The kind of exception that a call raises.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Exception {
    /// `PermissionError`: the call was denied.
    Denied,
    /// `RuntimeError`: the call failed.
    Failed,
}
