//! [`ActionOptions`]: what an approver is shown, who may decide, how, and until when.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Sets what the approver of a call is shown, who may decide, how, and what happens without a
/// decision.
///
/// A tool has them for all its calls ([`ToolSpec::action_options`](crate::tool::ToolSpec)), a hook
/// sets them for one call
/// ([`BeforeToolCall::NeedsApproval`](crate::hooks::BeforeToolCall::NeedsApproval)), and a question
/// has its own ([`Question::options`](crate::pattern::Question::options)). They do not say whether
/// a call needs approval.
///
/// ```
/// use std::time::Duration;
///
/// use loopwright_core::event::DecisionKind;
/// use loopwright_core::tool::{ActionOptions, ToolSpec};
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
    /// A text for the person who decides.
    pub description: Option<Arc<str>>,
    /// The roles of those who may decide; empty if everybody may who has access to the session.
    /// Front ends enforce them, such as a server, which knows the roles of its callers.
    pub roles: Vec<Arc<str>>,
    /// The time after which the default decision is taken, counted from when the action became
    /// pending. `None` means that it waits for as long as the session exists.
    pub deadline: Option<Duration>,
    /// The decision that is taken at the deadline.
    pub default_decision: DefaultDecision,
    /// The decisions that are accepted besides `deny`, which always is; empty if all are.
    pub decisions: Vec<DecisionKind>,
    /// How many different principals must approve the call. 0, the default, is the same as 1, and
    /// questions and suspended calls always need one answer.
    pub quorum: u32,
    /// The host's data for its front ends.
    pub data: Option<Arc<Value>>,
}

impl ActionOptions {
    /// Builds options without a deadline, which allow everybody each decision.
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

    /// Sets the time after which the action is resolved without a decision. It is denied then,
    /// unless [`approved_by_default`](ActionOptions::approved_by_default) is set.
    pub fn deadline(mut self, after: Duration) -> Self {
        self.deadline = Some(after);
        self
    }

    /// Approves the call at the deadline, instead of denying it. A question is denied all the same.
    pub fn approved_by_default(mut self) -> Self {
        self.default_decision = DefaultDecision::Approve;
        self
    }

    /// Sets the decisions that are accepted besides `deny`.
    pub fn decisions(mut self, kinds: impl IntoIterator<Item = DecisionKind>) -> Self {
        self.decisions = kinds.into_iter().collect();
        self
    }

    /// Sets how many different principals must approve the call. One denial denies it. Above 1,
    /// each must approve the arguments as they are, so they cannot be edited, nor can a result be
    /// provided, and each approval must name its principal
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

    /// Returns the terms of an approval that becomes pending now, in milliseconds since 1970.
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

    /// Returns the terms of a question or of a suspended call: what answers it is up to the
    /// question or the tool, and one answer is enough.
    pub(crate) fn terms_of_request(&self, now: u64) -> ActionTerms {
        ActionTerms { decisions: Vec::new(), quorum: 1, ..self.terms(now) }
    }
}

/// Holds what the approver of a pending action is shown, who may decide, how, and until when: the
/// [`ActionOptions`] with a deadline that is a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[non_exhaustive]
pub struct ActionTerms {
    /// A text for the person who decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Arc<str>>,
    /// The roles of those who may decide; empty if everybody may who has access to the session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Arc<str>>,
    /// When the default decision is taken, in milliseconds since 1970. A decision must be sent
    /// before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    /// The decision that is taken at the deadline.
    pub default_decision: DefaultDecision,
    /// The decisions that are accepted besides `deny`; empty if all are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<DecisionKind>,
    /// How many different principals must approve the call.
    pub quorum: u32,
    /// The host's data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Arc<Value>>,
    /// The definition of the tool whose call is to be approved
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
    /// Returns whether these are the terms of an action for which nothing was set.
    pub(crate) fn is_default(terms: &Arc<ActionTerms>) -> bool {
        **terms == ActionTerms::default()
    }

    /// Returns whether this kind of decision is accepted. What the action asks for is not
    /// considered: a question takes no approval, whatever its terms are.
    pub fn allows(&self, kind: DecisionKind) -> bool {
        let is_listed = self.decisions.is_empty() || self.decisions.contains(&kind);
        match kind {
            DecisionKind::Deny => true,
            DecisionKind::Approve => is_listed,
            DecisionKind::ApproveWith | DecisionKind::Provide => is_listed && self.quorum <= 1,
        }
    }

    /// Returns whether the deadline is at this time or before it.
    pub fn is_overdue(&self, now: u64) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// Names the decision that is taken at the deadline of an action.
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

/// Names a kind of [`Decision`](crate::event::Decision).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DecisionKind {
    /// Runs the call with the arguments that were shown.
    Approve,
    /// Runs the call with other arguments.
    ApproveWith,
    /// Does not run the call.
    Deny,
    /// Provides the result of the call, or the input that a suspended tool asked for.
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
