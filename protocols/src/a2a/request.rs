//! [`Request`]: a JSON-RPC request of a client.

use serde::Deserialize;
use serde_json::Value;

use super::code;
use super::message::SendMessage;
use super::task::{TaskId, TaskState};
use crate::from_json::from_json;
use crate::rpc::{RpcError, RpcMessage};

/// A JSON-RPC request, with its method decoded.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request {
    /// The client's id of the request, which the response repeats.
    pub id: Value,
    /// The method and its parameters.
    pub call: Call,
}

/// The method that a client calls, and its parameters.
#[derive(Debug)]
#[non_exhaustive]
pub enum Call {
    /// `SendMessage`, or `SendStreamingMessage` if `streams` is true.
    SendMessage {
        /// The message, and the options of the call.
        message: Box<SendMessage>,
        /// `true` for a response that is a stream.
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

/// The parameters of `ListTasks`, which selects tasks of a context.
#[derive(Debug)]
#[non_exhaustive]
pub struct ListTasks {
    /// The id of the context.
    pub context: String,
    /// The state of the tasks; `None` for any state.
    pub status: Option<TaskState>,
    /// The maximum number of tasks in the response.
    pub page_size: usize,
    /// The number of tasks to skip.
    pub skip: usize,
    /// `true` to include the artifacts of the tasks.
    pub include_artifacts: bool,
}

/// The default and the maximum number of tasks per page.
const PAGE_SIZE: (usize, usize) = (50, 100);

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
    /// Parses a body.
    ///
    /// # Errors
    /// Returns the error with the id of the request, or with `null` if the request has no valid id.
    pub fn decode(body: &[u8]) -> Result<Self, (Value, RpcError)> {
        let message = RpcMessage::decode(body)?;
        let (Some(id), Some(method)) = (message.id, message.method) else {
            let why = "The body is not a request: send an `id` and a `method`.";
            return Err((Value::Null, RpcError::invalid_request(why)));
        };
        match call(&method, message.params) {
            Ok(call) => Ok(Request { id, call }),
            Err(error) => Err((id, error)),
        }
    }
}

fn call(method: &str, params: Value) -> Result<Call, RpcError> {
    let task = || {
        let id =
            params["id"].as_str().ok_or_else(|| RpcError::invalid_params("/id: Name the task."))?;
        TaskId::parse(id).ok_or_else(TaskId::unknown)
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
        "GetExtendedAgentCard" => Err(RpcError::new(
            code::EXTENDED_CARD_NOT_CONFIGURED,
            "The agent has no extended card: read its agent card.",
        )),
        _ if method.ends_with("PushNotificationConfig")
            || method.ends_with("PushNotificationConfigs") =>
        {
            Err(RpcError::new(
                code::PUSH_NOTIFICATION_NOT_SUPPORTED,
                "There are no push notifications: use a stream.",
            ))
        }
        _ => Err(RpcError::unknown_method("There is no such method in A2A 1.0.")),
    }
}

fn list(params: &Value) -> Result<ListTasks, RpcError> {
    let params: ListParams = from_json(params.to_string().as_bytes(), "")?;
    let Some(context) = params.context_id.filter(|id| !id.is_empty()) else {
        return Err(RpcError::invalid_params(
            "/contextId: Name the context whose tasks are listed.",
        ));
    };
    let page_size = params.page_size.filter(|size| *size > 0).unwrap_or(PAGE_SIZE.0);
    let token = params.page_token.filter(|token| !token.is_empty());
    let skip = match token.map(|token| token.parse()) {
        None => 0,
        Some(Ok(skip)) => skip,
        Some(Err(_)) => return Err(RpcError::invalid_params("/pageToken: This is not of a page.")),
    };
    Ok(ListTasks {
        context,
        status: params.status.filter(|status| *status != TaskState::Unspecified),
        page_size: page_size.min(PAGE_SIZE.1),
        skip,
        include_artifacts: params.include_artifacts == Some(true),
    })
}
