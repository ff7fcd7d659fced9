//! [`ExternalAction`], what the agent needs from outside.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ActionRequest;
use crate::log::input::{Decision, Provided};
use crate::message::CallId;
use crate::tool::ToolOutput;
use crate::tool::question::Question;

/// Describes what the agent needs from outside: the decision on a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ExternalAction {
    /// The call.
    pub call: CallId,
    /// The tool's name.
    pub name: Arc<str>,
    /// The arguments that would run, after coercion and hooks.
    pub arguments: Arc<Value>,
    /// The digest of the action. The decision must name it, so that nobody approves arguments that
    /// they have not seen.
    pub digest: Arc<str>,
    /// What a suspended tool needs; `None` asks for the approval of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<ActionRequest>>,
}

impl ExternalAction {
    /// Describes the approval of a call.
    pub fn new(
        call: impl Into<CallId>,
        name: impl Into<Arc<str>>,
        arguments: impl Into<Arc<Value>>,
        digest: impl Into<Arc<str>>,
    ) -> Self {
        ExternalAction {
            call: call.into(),
            name: name.into(),
            arguments: arguments.into(),
            digest: digest.into(),
            request: None,
        }
    }

    /// Sets what a suspended tool needs.
    pub fn request(mut self, request: impl Into<Option<Arc<ActionRequest>>>) -> Self {
        self.request = request.into();
        self
    }

    /// Returns the question that the action asks, or `None` if it is not a question.
    pub fn question(&self) -> Option<Question> {
        Question::of(self.request.as_ref()?)
    }

    /// Returns the result of the call if the decision answers its question: no tool runs then.
    pub(crate) fn answered_by(&self, decision: &Decision) -> Option<ToolOutput> {
        match decision {
            Decision::Provide(Provided::Input(answer)) => Some(self.question()?.output(answer)),
            _ => None,
        }
    }

    /// Returns the decision as events show it: without the answer to a secret question.
    pub(crate) fn shown(&self, decision: &Arc<Decision>) -> Arc<Decision> {
        let is_answer = matches!(&**decision, Decision::Provide(Provided::Input(_)));
        if is_answer && self.question().is_some_and(|question| question.is_secret()) {
            return Decision::Provide(Provided::Input(Value::Null)).into();
        }
        decision.clone()
    }
}
