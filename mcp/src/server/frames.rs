//! [`Frames`]: what a client sends. Each request that cannot be read is answered (JSON-RPC 2.0,
//! *Error object*).

use loopwright_core::excerpt;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, ClientJsonRpcMessage, ErrorCode, ErrorData, RequestId,
    ServerJsonRpcMessage,
};
use serde::Deserialize as _;
use serde_json::Value;

use crate::lines::{Heard, Line, Reader};

/// The methods of the server.
const METHODS: [&str; 5] = ["initialize", "ping", "server/discover", "tools/call", "tools/list"];
/// The maximum length of the name of a method in an error.
const MAX_NAME_BYTES: usize = 200;

/// The reader of a client's messages.
pub(super) struct Frames;

impl Reader<RoleServer> for Frames {
    fn sent(&mut self, _: &ServerJsonRpcMessage) {}

    fn read(&mut self, line: Line) -> Vec<Heard<RoleServer>> {
        match line.parse() {
            _ if line.text.is_empty() => Vec::new(),
            Ok(Value::Array(batch)) if !batch.is_empty() => {
                batch.into_iter().filter_map(heard).collect()
            }
            Ok(value) => Vec::from_iter(heard(value)),
            Err(why) => {
                let error = ErrorData::parse_error(format!("The message {why}."), None);
                vec![reply(line.member("id").as_ref(), error)]
            }
        }
    }
}

/// Returns the message, or the reply to an invalid message. An invalid response has no reply.
fn heard(mut message: Value) -> Option<Heard<RoleServer>> {
    let (id, method) = (message.get("id").cloned(), message.get("method").cloned());
    if let Some(members) = message.as_object_mut() {
        for (name, other) in [("error", "result"), ("result", "error")] {
            let is_null = members.get(name).is_some_and(Value::is_null);
            if is_null && (method.is_some() || members.contains_key(other)) {
                members.remove(name);
            }
        }
    }
    let invalid =
        |why: &str| Some(reply(id.as_ref(), ErrorData::invalid_request(why.to_owned(), None)));
    let is_response = message.get("result").is_some() || message.get("error").is_some();
    match (&message["jsonrpc"], method) {
        (_, None) if is_response => {
            serde_json::from_value::<ClientJsonRpcMessage>(message).ok().map(Heard::Message)
        }
        (Value::String(version), _) if version != "2.0" => {
            invalid("The member `jsonrpc` of the message must be \"2.0\".")
        }
        (Value::String(_), Some(Value::String(method))) => {
            match ClientJsonRpcMessage::deserialize(&message) {
                Ok(message) => Some(Heard::Message(message)),
                Err(_) if id.as_ref().is_some_and(|id| RequestId::deserialize(id).is_ok()) => {
                    Some(reply(id.as_ref(), refusal(&method, &message["params"])))
                }
                Err(_) => invalid("The `id` of a request must be a string or a whole number."),
            }
        }
        (Value::String(_), _) => invalid("The message has no `method` that is a string."),
        _ => invalid("The message has no member `jsonrpc` that is \"2.0\"."),
    }
}

fn reply(id: Option<&Value>, error: ErrorData) -> Heard<RoleServer> {
    let id = id.and_then(|id| RequestId::deserialize(id).ok());
    Heard::Reply(ServerJsonRpcMessage::error(error, id))
}

/// Returns the error for a request that the SDK does not know, or whose parameters it cannot read.
pub(super) fn refusal(method: &str, params: &Value) -> ErrorData {
    if !METHODS.contains(&method) {
        let method = excerpt::bytes(method, MAX_NAME_BYTES);
        let why = format!("There is no method `{method}`.");
        return ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None);
    }
    let why = match method == "tools/call" {
        true => CallToolRequestParams::deserialize(params).err(),
        false => None,
    };
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    ErrorData::invalid_params(format!("The parameters cannot be read{why}."), None)
}
