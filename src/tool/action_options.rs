//! [`ActionOptions`]: the text for the approver, the deciders, their decisions, and the deadline.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The options of an action: the text for the approver, who may decide, the accepted decisions, and
/// the outcome without one.
///
/// A tool sets them for all its calls ([`ToolSpec::action_options`](crate::tool::ToolSpec)), a hook
/// for one call ([`BeforeToolCall::NeedsApproval`](crate::hooks::BeforeToolCall::NeedsApproval)),
/// and a question for itself ([`Question::options`](crate::tool::Question::options)). They do
/// not decide whether a call needs approval.
///
/// ```
/// use std::time::Duration;
///
/// use loopwright_core::tool::{ActionOptions, DecisionKind, ToolSpec};
///
/// let options = ActionOptions::new()
///     .description("Pays an invoice from the company's account.")
///     .role("treasurer")
///     .deadline(Duration::from_secs(24 * 60 * 60)) // denied then
///     .decisions([DecisionKind::Approve])          // or deny
///     .quorum(2);
/// let spec = ToolSpec::with_schema("pay", "Pays an invoice.", serde_json::json!({}));
/// let spec = spec.action_options(options);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ActionOptions {
    /// Text for the person who decides.
    pub description: Option<Arc<str>>,
    /// Roles that may decide; empty if everybody with access to the session may. Front ends that
    /// know the roles of their callers enforce them, such as a server.
    pub roles: Vec<Arc<str>>,
    /// Time from the start of the wait to the default decision; `None` waits for as long as the
    /// session exists.
    pub deadline: Option<Duration>,
    /// The decision that is taken at the deadline.
    pub default_decision: DefaultDecision,
    /// Decisions that are accepted besides `deny`, which always is; empty accepts all.
    pub decisions: Vec<DecisionKind>,
    /// Number of different principals who must approve the call. 0, the default, is the same as 1.
    /// Questions and suspended calls always need one answer.
    pub quorum: u32,
    /// The host's data for its front ends.
    pub data: Option<Arc<Value>>,
}

impl ActionOptions {
    /// Builds options without a deadline that allow everybody every decision.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the text for the person who decides.
    pub fn description(mut self, text: impl Into<Arc<str>>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Adds a role whose holders may decide.
    pub fn role(mut self, name: impl Into<Arc<str>>) -> Self {
        self.roles.push(name.into());
        self
    }

    /// Sets the time after which the action is resolved without a decision. It is then denied,
    /// unless [`approved_by_default`](ActionOptions::approved_by_default) is set.
    pub fn deadline(mut self, after: Duration) -> Self {
        self.deadline = Some(after);
        self
    }

    /// Approves the call at the deadline instead of denying it. A question is denied all the same.
    pub fn approved_by_default(mut self) -> Self {
        self.default_decision = DefaultDecision::Approve;
        self
    }

    /// Sets the decisions that are accepted besides `deny`.
    pub fn decisions(mut self, kinds: impl IntoIterator<Item = DecisionKind>) -> Self {
        self.decisions = kinds.into_iter().collect();
        self
    }

    /// Sets how many different principals must approve the call. One denial denies it.
    ///
    /// Above 1, each principal must approve the arguments as shown: they cannot be edited, and no
    /// result can be provided. Each approval must name its principal
    /// ([`ActionResult::by`](crate::event::ActionResult::by)).
    pub fn quorum(mut self, approvals: u32) -> Self {
        self.quorum = approvals;
        self
    }

    /// Sets the host's data for its front ends.
    pub fn data(mut self, data: impl Into<Value>) -> Self {
        self.data = Some(Arc::new(data.into()));
        self
    }

    /// Returns the terms of an approval that becomes pending at `now`, in milliseconds since 1970.
    pub(crate) fn terms(&self, now: u64) -> ActionTerms {
        let after = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        ActionTerms {
            description: self.description.clone(),
            roles: self.roles.clone(),
            deadline: self.deadline.map(|time| now.saturating_add(after(time))),
            default_decision: self.default_decision,
            decisions: self.decisions.clone(),
            quorum: self.quorum.max(1),
            data: self.data.clone(),
            definition: None,
        }
    }

    /// Returns the terms of a question or a suspended call. The question or the tool determines the
    /// accepted decisions, and one answer suffices.
    pub(crate) fn terms_of_request(&self, now: u64) -> ActionTerms {
        ActionTerms { decisions: Vec::new(), quorum: 1, ..self.terms(now) }
    }
}

/// The terms of a pending action: [`ActionOptions`] whose deadline is a point in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[non_exhaustive]
pub struct ActionTerms {
    /// Text for the person who decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Arc<str>>,
    /// Roles that may decide; empty if everybody with access to the session may.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Arc<str>>,
    /// Time of the default decision, in milliseconds since 1970. A decision must be sent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    /// The decision that is taken at the deadline.
    pub default_decision: DefaultDecision,
    /// Decisions that are accepted besides `deny`; empty accepts all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<DecisionKind>,
    /// Number of different principals who must approve the call.
    pub quorum: u32,
    /// The host's data for its front ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Arc<Value>>,
    /// Digest of the definition of the tool whose call needs approval
    /// ([`ToolSpec::definition`](crate::tool::ToolSpec::definition)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<Arc<str>>,
}

impl Default for ActionTerms {
    fn default() -> Self {
        ActionOptions::default().terms(0)
    }
}

impl ActionTerms {
    /// Returns whether nothing was set for the action.
    pub(crate) fn is_default(terms: &Arc<ActionTerms>) -> bool {
        **terms == ActionTerms::default()
    }

    /// Returns whether this kind of decision is accepted. This ignores the action's request: a
    /// question takes no approval, whatever its terms are.
    pub fn allows(&self, kind: DecisionKind) -> bool {
        let is_listed = self.decisions.is_empty() || self.decisions.contains(&kind);
        match kind {
            DecisionKind::Deny => true,
            DecisionKind::Approve => is_listed,
            DecisionKind::ApproveWith | DecisionKind::Provide => is_listed && self.quorum <= 1,
        }
    }

    /// Returns whether the deadline is at or before `now`, in milliseconds since 1970.
    pub fn is_overdue(&self, now: u64) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// The decision at the deadline of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DefaultDecision {
    /// The call is denied.
    #[default]
    Deny,
    /// The call runs.
    Approve,
}

/// The kind of a [`Decision`](crate::event::Decision).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DecisionKind {
    /// The call runs with the arguments that were shown.
    Approve,
    /// The call runs with other arguments.
    ApproveWith,
    /// The call does not run.
    Deny,
    /// The result of the call, or the input that a suspended tool asked for.
    Provide,
}

impl DecisionKind {
    /// Returns the name of the kind in JSON.
    pub fn name(self) -> &'static str {
        match self {
            DecisionKind::Approve => "approve",
            DecisionKind::ApproveWith => "approve_with",
            DecisionKind::Deny => "deny",
            DecisionKind::Provide => "provide",
        }
    }
}
