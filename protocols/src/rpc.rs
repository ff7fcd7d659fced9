//! JSON-RPC 2.0: the messages of A2A and ACP.

use loopwright_core::json::{has_more_values, member};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::DecodeError;
use crate::from_json::from_json;

/// The maximum number of values in a message. Parsing so many takes tens of milliseconds.
const MAX_VALUES: usize = 250_000;

/// An error object of JSON-RPC 2.0: the reason why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct RpcError {
    /// The code, defined by JSON-RPC or by the protocol.
    pub code: i32,
    /// A sentence about what is wrong and what to do.
    pub message: String,
}

impl RpcError {
    /// Builds an error with a code of the protocol.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        RpcError { code, message: message.into() }
    }

    /// Builds the error of a message that is not a request (-32600).
    pub fn invalid_request(message: impl Into<String>) -> Self {
        RpcError::new(-32600, message)
    }

    /// Builds the error of an unknown method (-32601).
    pub fn unknown_method(message: impl Into<String>) -> Self {
        RpcError::new(-32601, message)
    }

    /// Builds the error of invalid parameters (-32602).
    pub fn invalid_params(message: impl Into<String>) -> Self {
        RpcError::new(-32602, message)
    }

    /// Builds the error of work that failed (-32603).
    pub fn internal(message: impl Into<String>) -> Self {
        RpcError::new(-32603, message)
    }

    /// Returns the response to the request with this id.
    pub fn response(&self, id: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": id, "error": self })
    }
}

impl From<DecodeError> for RpcError {
    fn from(error: DecodeError) -> Self {
        RpcError::invalid_params(error.to_string())
    }
}

/// A message: a request, a notification or a response.
#[derive(Deserialize)]
pub(crate) struct RpcMessage {
    jsonrpc: String,
    /// A number or a string. `None` for a notification.
    pub(crate) id: Option<Value>,
    /// The method; `None` in a response.
    pub(crate) method: Option<String>,
    #[serde(default)]
    pub(crate) params: Value,
    #[serde(default)]
    pub(crate) result: Value,
    pub(crate) error: Option<RpcError>,
}

impl RpcMessage {
    /// Parses a message. An error comes with the id for the response, which is `null` if the
    /// message has no valid id.
    pub(crate) fn decode(json: &[u8]) -> Result<Self, (Value, RpcError)> {
        if has_more_values(json, MAX_VALUES) {
            let why = format!("The message has more than {MAX_VALUES} values.");
            return Err((request_id(json), RpcError::invalid_request(why)));
        }
        let value: Value = from_json(json, "")
            .map_err(|error| (request_id(json), RpcError::new(-32700, error.message)))?;
        let id = value.get("id").filter(is_id).cloned().unwrap_or_default();
        // The id of what may be a response is not one of the client's.
        let answered = if value.get("method").is_some() { id.clone() } else { Value::Null };
        let invalid = |why: &str| {
            let why = format!("This is no message of JSON-RPC 2.0: {why}.");
            Err((answered.clone(), RpcError::invalid_request(why)))
        };
        if !value.is_object() {
            return invalid("it is no object");
        }
        if id.is_null() && value.get("id").is_some_and(|id| !id.is_null()) {
            return invalid("`id` is neither a number nor a string");
        }
        match RpcMessage::deserialize(value) {
            Ok(message) if message.jsonrpc == "2.0" => Ok(message),
            Ok(_) => invalid("`jsonrpc` is not \"2.0\""),
            Err(why) => invalid(&why.to_string()),
        }
    }
}

/// Returns the id of a request that cannot be parsed, given its first bytes at least: `null` if it
/// has none, or if it may be a response.
pub fn request_id(start: &[u8]) -> Value {
    let text = String::from_utf8_lossy(start);
    match member(&text, "method") {
        Some(Value::String(_)) => member(&text, "id").filter(|id| is_id(&id)).unwrap_or_default(),
        _ => Value::Null,
    }
}

fn is_id(id: &&Value) -> bool {
    id.is_number() || id.is_string()
}
