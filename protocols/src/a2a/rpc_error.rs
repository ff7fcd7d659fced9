//! [`RpcError`]: why a request was refused.

use std::fmt;

use serde_json::{Value, json};

use crate::error::DecodeError;

/// Describes why a request was refused, as JSON-RPC does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RpcError {
    /// The code of JSON-RPC or of A2A.
    pub code: i64,
    /// What was wrong, and what to do.
    pub message: String,
}

impl RpcError {
    /// Builds an error.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        RpcError { code, message: message.into() }
    }

    /// Returns that there is no such task.
    pub fn no_task() -> Self {
        RpcError::new(-32001, "There is no such task of this agent.")
    }

    /// Returns that a task has ended, or does not wait for input.
    pub fn unsupported(why: &str) -> Self {
        RpcError::new(-32004, why)
    }

    /// Returns that a task cannot be cancelled any more.
    pub fn not_cancelable() -> Self {
        RpcError::new(-32002, "The task has ended.")
    }

    /// Returns that the parameters are invalid.
    pub fn invalid(why: impl Into<String>) -> Self {
        RpcError::new(-32602, why)
    }

    /// Returns the response to the request with this id.
    pub fn response(&self, id: &Value) -> Value {
        let error = json!({ "code": self.code, "message": self.message });
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<DecodeError> for RpcError {
    fn from(error: DecodeError) -> Self {
        RpcError::invalid(error.to_string())
    }
}
