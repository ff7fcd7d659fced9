//! The parts of a client's call: the arguments of an agent, and the state of a repeated call.

use std::collections::BTreeMap;
use std::sync::Arc;

use loopwright_core::event::{ExternalAction, change_digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The maximum length of a session's id in a call.
const MAX_SESSION_BYTES: usize = 256;

/// The arguments of a call of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentCall {
    /// The message; `None` to continue the session without one.
    pub message: Option<String>,
    /// The id of the session to continue; `None` for a new session.
    pub session: Option<String>,
}

impl AgentCall {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    ///
    /// Returns a sentence that tells the client's model what to correct.
    pub fn decode(arguments: &Map<String, Value>) -> Result<Self, String> {
        let text = |name: &str| match arguments.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => {
                Ok(Some(text.clone()).filter(|text| !text.trim().is_empty()))
            }
            Some(other) => Err(format!("`{name}` is {other}, and must be a string.")),
        };
        let is_unknown = |name: &&String| !["message", "session"].contains(&name.as_str());
        if let Some(name) = arguments.keys().find(is_unknown) {
            return Err(format!("There is no argument `{name}`: give `message` and `session`."));
        }
        let call = AgentCall { message: text("message")?, session: text("session")? };
        let is_long = |id: &String| id.len() > MAX_SESSION_BYTES;
        match (&call.message, &call.session) {
            (_, Some(id)) if is_long(id) => {
                Err(format!("`session` has {} bytes; at most {MAX_SESSION_BYTES} fit.", id.len()))
            }
            (None, None) => Err("There is no message: give `message`, or the `session` to \
                                 continue."
                .into()),
            _ => Ok(call),
        }
    }

    /// Returns the JSON Schema of the arguments.
    pub(super) fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "message": {
                    "type": "string",
                    "description": "What to do or to answer. Leave it empty to continue a session \
                                    without a message: after an interruption, or after a decision \
                                    on a pending action.",
                },
                "session": {
                    "type": "string",
                    "description": "The session of an earlier result, to continue its \
                                    conversation. Leave it out to start a new one.",
                },
            },
            "required": ["message"],
            "additionalProperties": false,
        })
    }
}

/// The `requestState` of an `input_required` result: the session with pending actions, and the
/// digests of what the user was shown. The client returns it with the answers.
///
/// It is neither secret nor signed. It only names a session, like the argument `session`, and the
/// session checks each digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RequestState {
    /// The id of the session whose actions are pending.
    pub session: String,
    /// The digests of what was shown, by the id of the action's call.
    pub shown: BTreeMap<String, Shown>,
}

/// The digests of what a client was shown of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Shown {
    /// The digest of the action.
    pub digest: String,
    /// The digest of the change in its preview, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Arc<str>>,
}

impl Shown {
    /// Returns what is shown of an action with this preview.
    pub(super) fn of(action: &ExternalAction, preview: Option<&str>) -> Self {
        Shown { digest: action.digest.to_string(), change: preview.map(change_digest) }
    }
}

impl RequestState {
    /// Returns the state of a session whose client has been shown nothing yet.
    pub(super) fn new(session: &str) -> Self {
        RequestState { session: session.to_owned(), shown: BTreeMap::new() }
    }

    /// Parses the state that a client has returned.
    ///
    /// # Errors
    ///
    /// Returns a sentence for the client if the state was not sent by this server.
    pub fn decode(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|why| {
            format!("`requestState` is not that of an earlier result of this server: {why}.")
        })
    }

    /// Returns the state as JSON text.
    pub(super) fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() // strings only
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(arguments: Value) -> Result<AgentCall, String> {
        AgentCall::decode(arguments.as_object().unwrap())
    }

    #[test]
    fn arguments_are_a_message_or_a_session_or_both() {
        let call = |message: Option<&str>, session: Option<&str>| {
            let (message, session) = (message.map(Into::into), session.map(Into::into));
            Ok(AgentCall { message, session })
        };
        assert_eq!(decode(json!({ "message": "Hi" })), call(Some("Hi"), None));
        assert_eq!(decode(json!({ "message": " ", "session": "s" })), call(None, Some("s")));
        assert_eq!(decode(json!({ "session": "s", "message": null })), call(None, Some("s")));
        for (wrong, why) in [
            (json!({}), "There is no message"),
            (json!({ "message": " " }), "There is no message"),
            (json!({ "message": 7 }), "`message` is 7, and must be a string."),
            (json!({ "message": "Hi", "model": "x" }), "There is no argument `model`"),
            (json!({ "session": "s".repeat(300) }), "has 300 bytes; at most 256 fit."),
        ] {
            let refused = decode(wrong).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_state_is_read_as_it_was_written_and_no_other_text_is() {
        let action = ExternalAction::new("c", "pay", Value::Null, "d");
        let mut state = RequestState::new("s");
        state.shown.insert("c".into(), Shown::of(&action, Some("-a\n+b\n")));
        assert_eq!(RequestState::decode(&state.encode()), Ok(state));
        for wrong in ["", "{}", "[]", "{\"session\":\"s\",\"shown\":{},\"more\":1}", "\u{0}"] {
            assert!(RequestState::decode(wrong).unwrap_err().contains("requestState"), "{wrong}");
        }
    }
}
