//! [`RemoteAction`]: what a remote task waits for, as a question to the user of this agent.

use loopwright_core::event::{DecisionKind, ExternalAction};
use loopwright_core::pattern::Question;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::send;

/// The options of the question whether a call may run.
const OPTIONS: [&str; 2] = ["approve", "deny"];

/// Names an action of a remote task whose decision is asked for with a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RemoteAction {
    task: String,
    call: String,
    digest: String,
    is_question: bool,
}

impl RemoteAction {
    /// Returns an action of a task and the question that asks for its decision; `None` if no
    /// question can, as for a secret, or a call that is suspended for something else. `agent` is
    /// the name of the remote agent.
    pub fn ask(agent: &str, task: &str, action: &ExternalAction) -> Option<(Self, Question)> {
        let by: String = action.path.iter().map(|name| format!("/{name}")).collect();
        let question = match (action.question(), &action.request) {
            // What the user types for a secret is not to be sent to other machines.
            (Some(question), _) if question.is_secret() => return None,
            (Some(mut question), _) => {
                question.question = format!("{agent}{by}: {}", question.question);
                question
            }
            (None, Some(_)) => return None,
            (None, None) if !action.terms.allows(DecisionKind::Approve) => return None,
            (None, None) => {
                let mut text = format!("{agent}{by}: {} {}", action.name, action.arguments);
                if let Some(description) = &action.terms.description {
                    text.push_str(&format!("\n\n{description}"));
                }
                Question::choice(text, OPTIONS)
            }
        };
        let remote = RemoteAction {
            task: task.to_owned(),
            call: action.call.to_string(),
            digest: action.digest.to_string(),
            is_question: action.request.is_some(),
        };
        Some((remote, question))
    }

    /// Returns the request that decides the action by the user's answer. `message` is the id of the
    /// message. An action that has changed meanwhile is not decided.
    pub fn decide(&self, message: &str, answer: &Value) -> Value {
        let mut data = json!({ "call": self.call, "digest": self.digest });
        match self.is_question {
            true => (data["decision"], data["data"]) = ("provide".into(), answer.clone()),
            false if answer == OPTIONS[0] => data["decision"] = OPTIONS[0].into(),
            false => data["decision"] = OPTIONS[1].into(),
        }
        let id = format!("{message}:{}", self.digest);
        send(&id, Some(&self.task), json!([{ "data": data }]))
    }
}
