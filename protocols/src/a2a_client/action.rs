//! [`RemoteAction`]: a pending action of a remote task, as a question to the user of this agent.

use loopwright_core::event::ExternalAction;
use loopwright_core::tool::{DecisionKind, Question};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{RemoteAnswer, send};

/// The options of an approval's question, and the decisions.
const APPROVE: &str = "approve";
const DENY: &str = "deny";
/// The maximum size of an action as JSON. A larger one is not cut, because nobody should approve
/// what they have not seen.
const MAX_ACTION_BYTES: usize = 64 * 1024;

/// The identity of a remote task's pending action, for sending the user's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RemoteAction {
    /// The id of the task.
    pub task: String,
    call: String,
    digest: String,
    is_question: bool,
}

impl RemoteAction {
    /// Returns an action of a task, and the question that asks for its decision. `agent` is the
    /// name of the remote agent.
    ///
    /// Returns `None` for actions that cannot be decided this way:
    ///
    /// - secrets, which must not be sent to other machines;
    /// - calls that several people must approve, or that are suspended without a question;
    /// - questions that no answer fits;
    /// - actions larger than 64 KiB.
    pub fn ask(agent: &str, task: &str, action: &ExternalAction) -> Option<(Self, Question)> {
        let by: String = action.path.iter().map(|name| format!("/{name}")).collect();
        let question = match (action.question(), &action.request) {
            (Some(mut question), _) => {
                question.question = format!("{agent}{by}: {}", question.question);
                question
            }
            (None, Some(_)) => return None,
            (None, None) if action.terms.quorum > 1 => return None,
            (None, None) if !action.terms.allows(DecisionKind::Approve) => return None,
            (None, None) => {
                let mut text = format!("{agent}{by}: {} {}", action.name, action.arguments);
                if let Some(description) = &action.terms.description {
                    text = format!("{text}\n\n{description}");
                }
                Question::choice(text, [APPROVE, DENY])
            }
        };
        let is_too_large = json!(action).to_string().len() > MAX_ACTION_BYTES;
        if question.is_secret() || question.check_form().is_err() || is_too_large {
            return None;
        }
        let is_question = action.request.is_some();
        let (call, digest) = (action.call.to_string(), action.digest.to_string());
        Some((RemoteAction { task: task.to_owned(), call, digest, is_question }, question))
    }

    /// Returns whether the task waits for this action.
    pub fn is_needed_by(&self, answer: &RemoteAnswer) -> bool {
        let RemoteAnswer::InputRequired { actions, .. } = answer else { return false };
        let mut actions = actions.iter();
        actions.any(|action| *action.call == *self.call && *action.digest == *self.digest)
    }

    /// Returns the request that sends the user's answer as the decision. `message` is the id of the
    /// message: a new one for each answer, and the same one to repeat an answer. An action that has
    /// changed meanwhile is not decided.
    pub fn decide(&self, message: &str, answer: &Value) -> Value {
        let mut data = json!({ "call": self.call, "digest": self.digest });
        if self.is_question {
            data["decision"] = "provide".into();
            data["data"] = answer.clone();
        } else {
            data["decision"] = if answer == APPROVE { APPROVE } else { DENY }.into();
        }
        send(message, Some(&self.task), json!([{ "data": data }]))
    }
}
