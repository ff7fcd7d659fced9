//! [`Request`]: a JSON-RPC request of a client.

use serde::Deserialize;
use serde_json::Value;

use super::message::SendMessage;
use super::rpc_error::RpcError;
use super::task::{TaskId, TaskState};
use crate::from_json::from_json;

/// Holds a request.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request {
    /// The client's id of the request, which the response repeats.
    pub id: Value,
    /// What is called.
    pub call: Call,
}

/// Names what a client calls.
#[derive(Debug)]
#[non_exhaustive]
pub enum Call {
    /// `SendMessage`, or `SendStreamingMessage` if `streams` is true.
    SendMessage {
        /// The message.
        message: Box<SendMessage>,
        /// Whether the response is a stream.
        streams: bool,
    },
    /// `GetTask`.
    GetTask(TaskId),
    /// `ListTasks`.
    ListTasks(ListTasks),
    /// `CancelTask`.
    CancelTask(TaskId),
    /// `SubscribeToTask`.
    SubscribeToTask(TaskId),
}

/// Selects tasks of a context.
#[derive(Debug)]
#[non_exhaustive]
pub struct ListTasks {
    /// The context.
    pub context: String,
    /// The state of the tasks; `None` for all.
    pub status: Option<TaskState>,
    /// The maximum number of tasks.
    pub page_size: usize,
    /// The number of tasks to skip.
    pub skip: usize,
    /// Whether the tasks have their artifacts.
    pub include_artifacts: bool,
}

/// The default number of tasks of a page, and the maximum.
const PAGE_SIZE: (usize, usize) = (50, 100);

#[derive(Deserialize)]
struct Envelope {
    jsonrpc: Option<String>,
    id: Option<Value>,
    method: Option<String>,
    params: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListParams {
    context_id: Option<String>,
    status: Option<TaskState>,
    page_size: Option<usize>,
    page_token: Option<String>,
    include_artifacts: Option<bool>,
}

impl Request {
    /// Reads a body.
    ///
    /// # Errors
    /// Returns the error with the id of the request, or with `null` if it has none.
    pub fn decode(body: &[u8]) -> Result<Self, (Value, RpcError)> {
        let json: Value = match from_json(body, "") {
            Ok(json) => json,
            Err(error) => return Err((Value::Null, RpcError::new(-32700, error.message))),
        };
        let invalid = |why: &str| RpcError::new(-32600, why);
        let Ok(envelope) = Envelope::deserialize(&json) else {
            return Err((Value::Null, invalid("The body is not a JSON-RPC request.")));
        };
        let id = envelope.id.unwrap_or_default();
        if envelope.jsonrpc.as_deref() != Some("2.0") || !(id.is_string() || id.is_number()) {
            let why = "Send `jsonrpc` with the value 2.0, and an `id`: a string or a number.";
            return Err((Value::Null, invalid(why)));
        }
        let method = envelope.method.unwrap_or_default();
        match call(&method, envelope.params.unwrap_or_default()) {
            Ok(call) => Ok(Request { id, call }),
            Err(error) => Err((id, error)),
        }
    }
}

fn call(method: &str, params: Value) -> Result<Call, RpcError> {
    let task = || {
        let id = params["id"].as_str().ok_or_else(|| RpcError::invalid("/id: Name the task."))?;
        TaskId::parse(id).ok_or_else(RpcError::no_task)
    };
    match method {
        "SendMessage" | "SendStreamingMessage" => {
            let message = Box::new(SendMessage::decode(&params)?);
            Ok(Call::SendMessage { message, streams: method == "SendStreamingMessage" })
        }
        "GetTask" => Ok(Call::GetTask(task()?)),
        "CancelTask" => Ok(Call::CancelTask(task()?)),
        "SubscribeToTask" => Ok(Call::SubscribeToTask(task()?)),
        "ListTasks" => Ok(Call::ListTasks(list(&params)?)),
        "GetExtendedAgentCard" => {
            Err(RpcError::new(-32007, "The agent has no extended card: read its agent card."))
        }
        _ if method.ends_with("PushNotificationConfig")
            || method.ends_with("PushNotificationConfigs") =>
        {
            Err(RpcError::new(-32003, "There are no push notifications: use a stream."))
        }
        _ => Err(RpcError::new(-32601, "There is no such method in A2A 1.0.")),
    }
}

fn list(params: &Value) -> Result<ListTasks, RpcError> {
    let params: ListParams = from_json(params.to_string().as_bytes(), "")?;
    let Some(context) = params.context_id.filter(|id| !id.is_empty()) else {
        return Err(RpcError::invalid("/contextId: Name the context whose tasks are listed."));
    };
    let page_size = params.page_size.filter(|size| *size > 0).unwrap_or(PAGE_SIZE.0);
    let token = params.page_token.filter(|token| !token.is_empty());
    let skip = match token.map(|token| token.parse()) {
        None => 0,
        Some(Ok(skip)) => skip,
        Some(Err(_)) => return Err(RpcError::invalid("/pageToken: This is not of a page.")),
    };
    Ok(ListTasks {
        context,
        status: params.status.filter(|status| *status != TaskState::Unspecified),
        page_size: page_size.min(PAGE_SIZE.1),
        skip,
        include_artifacts: params.include_artifacts == Some(true),
    })
}
