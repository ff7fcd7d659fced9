//! A2A 1.0 as a client: requests to a remote agent, and its responses.

mod action;

use loopwright_core::event::ExternalAction;
use serde::Deserialize;
use serde_json::{Value, json};

pub use self::action::RemoteAction;
use crate::from_json::from_json;
use crate::history::is_tool_name;

/// The maximum length of a tool's name.
const MAX_NAME_CHARS: usize = 64;

/// The card of a remote agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteCard {
    /// The name of the agent, made a legal name of a tool.
    pub name: String,
    /// The description of the agent, with its skills.
    pub description: String,
    /// The URL of its JSON-RPC endpoint.
    pub url: String,
}

impl RemoteCard {
    /// Parses a card.
    ///
    /// # Errors
    /// Returns the reason why the agent cannot be called.
    pub fn decode(card: &[u8]) -> Result<Self, String> {
        let card: Value =
            from_json(card, "").map_err(|why| format!("The card is invalid: {why}"))?;
        let interfaces = card["supportedInterfaces"].as_array();
        let is_known = |interface: &&Value| {
            let version = interface["protocolVersion"].as_str().unwrap_or_default();
            interface["protocolBinding"] == "JSONRPC" && version.split('.').next() == Some("1")
        };
        let url = interfaces.and_then(|all| all.iter().find(is_known)?["url"].as_str());
        let url = url.ok_or("The agent has no interface with JSON-RPC and A2A 1.0.")?.to_owned();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let legal = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        let name: String = text(&card["name"]).chars().map(legal).take(MAX_NAME_CHARS).collect();
        let name = if is_tool_name(&name) { name } else { "remote_agent".to_owned() };
        let mut description = text(&card["description"]);
        for skill in card["skills"].as_array().into_iter().flatten() {
            let (name, what) = (text(&skill["name"]), text(&skill["description"]));
            description.push_str(&format!("\n- {name}: {what}"));
        }
        Ok(RemoteCard { name, description, url })
    }
}

/// Returns the request that sends a message. It starts a task, or continues `task`.
pub fn send_message(message: &str, text: &str, task: Option<&str>) -> Value {
    send(message, task, json!([{ "text": text }]))
}

fn send(message: &str, task: Option<&str>, parts: Value) -> Value {
    let mut body = json!({ "messageId": message, "role": "ROLE_USER", "parts": parts });
    if let Some(task) = task {
        body["taskId"] = task.into();
    }
    call("SendMessage", json!({ "message": body, "configuration": { "returnImmediately": true } }))
}

/// Returns the request for the state of a task.
pub fn get_task(task: &str) -> Value {
    call("GetTask", json!({ "id": task }))
}

/// Returns the request to cancel a task.
pub fn cancel_task(task: &str) -> Value {
    call("CancelTask", json!({ "id": task }))
}

fn call(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// The answer of a remote agent.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RemoteAnswer {
    /// The text of a completed task, or of a reply without a task.
    Done(String),
    /// A task that is still in progress.
    Working {
        /// The id of the task.
        task: String,
    },
    /// A task that waits for input or for authentication.
    InputRequired {
        /// The id of the task.
        task: String,
        /// The text about what the task needs.
        text: String,
        /// The pending actions, if the agent sends them in the form of loopwright's server.
        actions: Vec<ExternalAction>,
    },
    /// The reason of a failure or a refusal.
    Failed(String),
}

impl RemoteAnswer {
    /// Parses a response.
    ///
    /// # Errors
    /// Returns a sentence if the response does not follow A2A 1.0.
    pub fn decode(response: &[u8]) -> Result<Self, String> {
        let response: Value =
            from_json(response, "").map_err(|why| format!("The response is invalid: {why}"))?;
        if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
            let message = error["message"].as_str().unwrap_or("The agent returned an error.");
            return Ok(RemoteAnswer::Failed(message.to_owned()));
        }
        let result = &response["result"];
        if result.get("message").is_some() {
            return Ok(RemoteAnswer::Done(text_of(&result["message"])));
        }
        let task = if result.get("task").is_some() { &result["task"] } else { result };
        let (Some(id), Some(state)) = (task["id"].as_str(), task["status"]["state"].as_str())
        else {
            return Err("The response has neither a task nor a message.".to_owned());
        };
        let (id, message) = (id.to_owned(), text_of(&task["status"]["message"]));
        Ok(match state {
            "TASK_STATE_COMPLETED" => {
                let artifacts = task["artifacts"].as_array().into_iter().flatten();
                let texts: Vec<String> = artifacts
                    .map(text_of)
                    .chain([message])
                    .filter(|text| !text.is_empty())
                    .collect();
                RemoteAnswer::Done(texts.join("\n\n"))
            }
            "TASK_STATE_INPUT_REQUIRED" | "TASK_STATE_AUTH_REQUIRED" => {
                let actions = actions_of(&task["status"]["message"]);
                RemoteAnswer::InputRequired { task: id, text: message, actions }
            }
            "TASK_STATE_FAILED" | "TASK_STATE_CANCELED" | "TASK_STATE_REJECTED" => {
                let text = if message.is_empty() {
                    format!("The task ended as {state}.")
                } else {
                    message
                };
                RemoteAnswer::Failed(text)
            }
            _ => RemoteAnswer::Working { task: id },
        })
    }
}

/// Returns the actions among the parts of a message.
fn actions_of(message: &Value) -> Vec<ExternalAction> {
    let parts = message["parts"].as_array().into_iter().flatten();
    parts.filter_map(|part| ExternalAction::deserialize(part.get("data")?).ok()).collect()
}

/// Returns the text of the parts of a message or an artifact, with data as JSON.
fn text_of(parts: &Value) -> String {
    let part = |part: &Value| match (part["text"].as_str(), part.get("data")) {
        (Some(text), _) => text.to_owned(),
        (None, Some(data)) => data.to_string(),
        (None, None) => String::new(),
    };
    let parts = parts["parts"].as_array().into_iter().flatten().map(part);
    parts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loopwright_core::ToolError;
    use loopwright_core::tool::{ActionRequest, Question};

    use super::*;

    #[test]
    fn a_card_names_its_interface() {
        let interface = |binding: &str, version: &str| {
            let names = json!({ "url": binding, "protocolBinding": binding });
            let mut interface = names.as_object().unwrap().clone();
            interface.insert("protocolVersion".into(), version.into());
            Value::from(interface)
        };
        let card = |interfaces: Value| {
            let card = json!({ "name": "My Agent!", "description": "Counts.",
                "skills": [{ "name": "count", "description": "of sheep" }],
                "supportedInterfaces": interfaces });
            RemoteCard::decode(card.to_string().as_bytes())
        };
        let known = card(json!([interface("GRPC", "1.0"), interface("JSONRPC", "1.0")])).unwrap();
        assert_eq!((&*known.name, &*known.url), ("my_agent_", "JSONRPC"));
        assert_eq!(known.description, "Counts.\n- count: of sheep");
        assert!(card(json!([interface("JSONRPC", "0.3")])).is_err());
        assert!(card(json!(null)).is_err() && RemoteCard::decode(b"{").is_err());
    }

    #[test]
    fn an_answer_has_a_state() {
        let decode = |result: Value| {
            RemoteAnswer::decode(json!({ "result": result }).to_string().as_bytes())
        };
        let task = |state: &str| {
            let status = json!({ "state": state, "message": { "parts": [{ "text": "Well." }] } });
            let artifact = json!({ "parts": [{ "text": "Nine." }] });
            json!({ "id": "t", "status": status, "artifacts": [artifact] })
        };
        let done = RemoteAnswer::Done("Nine.\n\nWell.".into());
        assert_eq!(decode(json!({ "task": task("TASK_STATE_COMPLETED") })), Ok(done.clone()));
        assert_eq!(decode(task("TASK_STATE_COMPLETED")), Ok(done));
        let working = RemoteAnswer::Working { task: "t".into() };
        assert_eq!(decode(task("TASK_STATE_SUBMITTED")), Ok(working));
        let (id, text, actions) = ("t".into(), "Well.".into(), Vec::new());
        let needs = RemoteAnswer::InputRequired { task: id, text, actions };
        assert_eq!(decode(task("TASK_STATE_INPUT_REQUIRED")), Ok(needs));
        assert_eq!(decode(task("TASK_STATE_FAILED")), Ok(RemoteAnswer::Failed("Well.".into())));
        let message = json!({ "message": { "parts": [{ "data": { "n": 9 } }] } });
        assert_eq!(decode(message), Ok(RemoteAnswer::Done("{\"n\":9}".into())));
        assert!(decode(json!({})).is_err() && RemoteAnswer::decode(b"").is_err());
        let error = RemoteAnswer::decode(br#"{"error": {"code": 1, "message": "No."}}"#);
        assert_eq!(error, Ok(RemoteAnswer::Failed("No.".into())));
    }

    #[test]
    fn an_action_is_a_question_to_the_user() {
        let action = ExternalAction::new("c", "sell", Arc::new(json!({ "n": 1 })), "d");
        let (remote, question) = RemoteAction::ask("shop", "t", &action).unwrap();
        assert_eq!(question.question, "shop: sell {\"n\":1}");
        assert_eq!(question.read("deny"), Ok(json!("deny")));
        let data = |remote: &RemoteAction, answer: Value| {
            let request = remote.decide("m", &answer);
            let message = &request["params"]["message"];
            assert_eq!((&message["taskId"], &message["messageId"]), (&json!("t"), &json!("m")));
            message["parts"][0]["data"].clone()
        };
        for (answer, decision) in
            [(json!("approve"), "approve"), (json!("deny"), "deny"), (json!(null), "deny")]
        {
            let decided = json!({ "call": "c", "digest": "d", "decision": decision });
            assert_eq!(data(&remote, answer), decided);
        }
        let ToolError::Suspend(request) = Question::text("Which?").suspend() else { panic!() };
        let mut action = action;
        action.request = Some(Arc::new(request));
        action.path = vec!["clerk".into()];
        let (remote, question) = RemoteAction::ask("shop", "t", &action).unwrap();
        assert_eq!(question.question, "shop/clerk: Which?");
        let provided =
            json!({ "call": "c", "digest": "d", "decision": "provide", "data": "That." });
        assert_eq!(data(&remote, json!("That.")), provided);
        action.request = Some(Arc::new(ActionRequest::new("login", json!({}))));
        assert!(RemoteAction::ask("shop", "t", &action).is_none());
    }

    #[test]
    fn an_action_that_a_question_cannot_decide_is_not_asked_for() {
        let asked = |question: Question, arguments: Value| {
            let ToolError::Suspend(request) = question.suspend() else { panic!() };
            let mut action = ExternalAction::new("c", "ask", Arc::new(arguments), "d");
            action.request = Some(Arc::new(request));
            RemoteAction::ask("shop", "t", &action).is_some()
        };
        assert!(asked(Question::text("Which?"), json!({})));
        assert!(!asked(Question::secret("Password?"), json!({})));
        assert!(!asked(Question::choice("Which?", ["a", "a"]), json!({})));
        assert!(!asked(Question::text("Which?"), json!("a".repeat(70_000))));
        let mut action = ExternalAction::new("c", "sell", Arc::new(json!({})), "d");
        let terms = json!({ "quorum": 2 });
        action.terms = Arc::new(serde_json::from_value(terms).unwrap());
        assert!(RemoteAction::ask("shop", "t", &action).is_none());
    }
}
