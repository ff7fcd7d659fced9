//! [`ExternalAction`], an action that the agent needs from outside.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ActionRequest;
use crate::event::input::{Decision, Provided};
use crate::message::CallId;
use crate::tool::question::Question;
use crate::tool::toolbox::{digest, digest_of_call, hex_digest};
use crate::tool::{ActionTerms, ApprovalRecord, ToolOutput};

/// The separator of the calls in the name of a sub-agent's call. It needs no escape in a URL, and
/// no provider uses it.
const SEPARATOR: char = '~';

/// Returns the rest of a call's name within the sub-agent that works for the call `outer`.
pub(crate) fn call_of_child<'a>(call: &'a str, outer: &str) -> Option<&'a str> {
    call.strip_prefix(outer)?.strip_prefix(SEPARATOR)
}

/// Returns the digest of the change in a preview, with which an approval says what its user has
/// seen: see [`ActionResult::change`](crate::event::ActionResult::change).
///
/// It covers the names of the files and the lines that go and come, but not their numbers and the
/// lines around them: the same lines are the same change wherever they are by then.
///
/// ```
/// use loopwright_core::event::change_digest;
///
/// let shown = change_digest("--- a\n+++ a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
/// assert_eq!(shown, change_digest("--- a\n+++ a\n@@ -4,2 +4,2 @@\n zero\n-two\n+2\n"));
/// assert_ne!(shown, change_digest("--- a\n+++ a\n@@ -1,2 +1,2 @@\n one\n-two and a half\n+2\n"));
/// ```
pub fn change_digest(preview: &str) -> Arc<str> {
    // A line of a file may end with `\r` alone; then several lines of the diff are one here.
    let is_one = |line: &str| !line.trim_end_matches(['\r', '\n']).contains('\r');
    let is_around = |line: &&str| (line.starts_with(' ') || line.starts_with("@@")) && is_one(line);
    let lines = preview.split_inclusive('\n').filter(|line| !is_around(line));
    hex_digest(&lines.collect::<String>())
}

/// An action that the agent needs from outside: the decision on a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ExternalAction {
    /// The call that waits. For an action of a sub-agent, the id consists of the call that the
    /// sub-agent works for, `~`, and the call in the sub-agent's session.
    pub call: CallId,
    /// The tool's name.
    pub name: Arc<str>,
    /// The arguments that would run, after coercion and hooks.
    pub arguments: Arc<Value>,
    /// The digest of the action. The decision must name it, so that nobody approves arguments that
    /// they have not seen.
    pub digest: Arc<str>,
    /// The request of a suspended tool; `None` asks for the approval of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<ActionRequest>>,
    /// The names of the sub-agents from the agent down to the sub-agent that needs the decision;
    /// empty for the agent itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<Arc<str>>,
    /// The text for the approver, who may decide, the accepted decisions, and the deadline. Left
    /// out of JSON if nothing was set.
    #[serde(default, skip_serializing_if = "ActionTerms::is_default")]
    pub terms: Arc<ActionTerms>,
    /// The approvals so far, if several are required.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalRecord>,
}

impl ExternalAction {
    /// Builds the action that asks for the approval of a call.
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
            path: Vec::new(),
            terms: Arc::default(),
            approvals: Vec::new(),
        }
    }

    /// Sets the request of a suspended tool.
    pub fn request(mut self, request: impl Into<Option<Arc<ActionRequest>>>) -> Self {
        self.request = request.into();
        self
    }

    /// Sets the text for the approver, who may decide, the accepted decisions, and the deadline.
    pub fn terms(mut self, terms: impl Into<Arc<ActionTerms>>) -> Self {
        self.terms = terms.into();
        self
    }

    /// Returns a sub-agent's action as its parent shows it.
    pub(crate) fn of_child(&self, call: &CallId, agent: &Arc<str>) -> Self {
        let path = std::iter::once(agent).chain(&self.path).cloned().collect();
        let call = format!("{call}{SEPARATOR}{}", self.call).into();
        ExternalAction { call, path, ..self.clone() }
    }

    /// Computes the digest that a decision must name. It covers the tool, the arguments and the
    /// request, or the tool's definition. For every action of a session, it equals
    /// [`digest`](Self::digest).
    pub fn computed_digest(&self) -> Arc<str> {
        match &self.request {
            Some(request) => digest(&self.name, &self.arguments, Some(request)),
            None => digest_of_call(&self.name, &self.arguments, self.terms.definition.as_deref()),
        }
    }

    /// Returns an action of a log with a freshly computed digest.
    pub(crate) fn from_log(logged: &Arc<Self>) -> Arc<Self> {
        let digest = logged.computed_digest();
        if digest == logged.digest {
            return logged.clone();
        }
        Arc::new(ExternalAction { digest, ..(**logged).clone() })
    }

    /// Sets the name of the tool that the reply calls. A changed log may have another name.
    pub(crate) fn set_name(action: &mut Arc<Self>, name: &Arc<str>) {
        if action.name != *name {
            Arc::make_mut(action).name = name.clone();
            *action = Self::from_log(action);
        }
    }

    /// Returns whether a decision with this digest is about the content of the action. Older logs
    /// have no digest.
    pub(crate) fn is_decided_by(&self, digest: Option<&Arc<str>>) -> bool {
        digest.is_none_or(|digest| *digest == self.digest)
    }

    /// Returns the question of the action, or `None` if the action is not a question.
    pub fn question(&self) -> Option<Question> {
        Question::of(self.request.as_ref()?)
    }

    /// Returns the result of the call if the decision answers its question and the tool need not be
    /// called with the answer. No tool runs then.
    pub(crate) fn answered_by(&self, decision: &Decision) -> Option<ToolOutput> {
        match decision {
            Decision::Provide(Provided::Input(answer)) => {
                let question = self.question().filter(|question| !question.resumes)?;
                Some(question.output(answer))
            }
            _ => None,
        }
    }

    /// Returns the decision for events: without the answer to a secret question.
    pub(crate) fn shown(&self, decision: &Arc<Decision>) -> Arc<Decision> {
        let is_answer = matches!(&**decision, Decision::Provide(Provided::Input(_)));
        if is_answer && self.question().is_some_and(|question| question.is_secret()) {
            return Decision::Provide(Provided::Input(Value::Null)).into();
        }
        decision.clone()
    }
}
