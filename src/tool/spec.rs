//! [`ToolSpec`], the definition of a tool: name, description, schema, effect and rules.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::extensions::Extensions;
use crate::tool::action_options::ActionOptions;
use crate::tool::schema::Schema;

/// The effect of a tool call outside the process. It determines what happens after a crash during a
/// call, and whether a call needs approval if no rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A call that changes nothing. By default it runs without approval; after a crash it runs
    /// again.
    ReadOnly,
    /// A call that has the same effect when run twice. After a crash it runs again.
    Idempotent,
    /// A call that must not run twice. After a crash its result tells the model that it may have
    /// run.
    #[default]
    AtMostOnce,
}

/// The rule for the user's approval of a tool's calls.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Approval {
    /// The agent's rules decide. Without a rule, every tool needs approval except read-only tools.
    #[default]
    ByEffect,
    /// No call needs approval, regardless of the agent's rules.
    Never,
    /// Every call needs approval, regardless of the agent's rules.
    Always,
    /// Only calls for which the predicate returns `true`, or panics, need approval.
    When(ApprovalPredicate),
    /// Calls for which the predicate returns `true`, or panics, need approval, regardless of the
    /// agent's rules. The agent's rules decide on the others.
    AlwaysIf(ApprovalPredicate),
}

impl Approval {
    /// Builds the rule that only calls for which `predicate` returns `true`, or panics, need
    /// approval.
    pub fn when(
        predicate: impl Fn(&Value, &Extensions) -> bool + Send + Sync + 'static,
    ) -> Approval {
        Approval::When(Arc::new(predicate))
    }
}

/// The need of a tool's calls for the user's approval, by the rules of the tool and of an agent;
/// see [`GenericAgent::needs_approval`](crate::GenericAgent::needs_approval).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NeedsApproval {
    /// All calls run without approval.
    Never,
    /// It depends on the arguments, or on the host's values.
    Sometimes,
    /// Every call needs approval.
    Always,
}

/// A predicate that returns `true` if a call with these validated arguments needs approval.
pub type ApprovalPredicate = Arc<dyn Fn(&Value, &Extensions) -> bool + Send + Sync>;

/// The definition of a tool: name, description, schema, effect and rules.
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolSpec {
    /// The name, `[A-Za-z0-9_-]{1,64}`.
    pub name: Arc<str>,
    /// Title that front ends show.
    pub title: Option<String>,
    /// Description for the model: the purpose of the tool, and when to use it.
    pub description: String,
    /// The JSON Schema of the arguments, which are an object.
    pub schema: Value,
    /// The effect of a call outside the process.
    pub effect: Effect,
    /// `true` if a batch that contains the tool runs one call after the other. Tools that write
    /// should set it.
    pub sequential: bool,
    /// `true` if a steer with [`Urgency::Interrupt`](crate::event::Urgency::Interrupt) cancels a
    /// call.
    pub interruptible: bool,
    /// Time limit of a call; `None` means
    /// [`Limits::tool_timeout`](crate::limits::Limits::tool_timeout).
    pub timeout: Option<Duration>,
    /// Time without an update after which a call is cancelled; `None` for no such limit.
    pub idle_timeout: Option<Duration>,
    /// The rule for the user's approval of a call.
    pub approval: Approval,
    /// Options of the pending actions of calls; `None` lets calls wait without a deadline for any
    /// decision. A call that suspends uses the description, roles, deadline, default decision and
    /// data.
    pub action_options: Option<Arc<ActionOptions>>,
    /// Digest of a definition that others can change, such as a tool server's. A call that was
    /// approved under another digest is put to the user again.
    pub definition: Option<Arc<str>>,
    /// Compiled schema, shared by clones.
    pub(crate) compiled: Compiled,
}

/// The schema of a tool, compiled on first use by a toolbox.
#[derive(Clone, Default)]
pub(crate) struct Compiled(Arc<OnceLock<Arc<Schema>>>);

impl Compiled {
    /// Returns the compiled schema. The error names the mistake in the schema.
    pub(crate) fn of(&self, schema: &Value) -> Result<Arc<Schema>, String> {
        match self.0.get().filter(|compiled| compiled.is_of(schema)) {
            Some(compiled) => Ok(compiled.clone()),
            None => {
                let compiled = Arc::new(Schema::compile(schema)?);
                let _ = self.0.set(compiled.clone()); // unless there is one, of another schema
                Ok(compiled)
            }
        }
    }
}

impl ToolSpec {
    /// Builds the definition of a tool whose arguments are of type `A`. The rest has its default:
    /// [`Effect::AtMostOnce`], parallel, interruptible, approval by effect.
    pub fn new<A: JsonSchema>(name: impl Into<Arc<str>>, description: impl Into<String>) -> Self {
        let mut schema = schemars::schema_for!(A).to_value();
        if let Some(map) = schema.as_object_mut() {
            map.remove("title"); // the Rust type's name tells a model nothing
        }
        Self::with_schema(name, description, schema)
    }

    /// Builds the definition of a tool from the JSON Schema of its arguments.
    pub fn with_schema(
        name: impl Into<Arc<str>>,
        description: impl Into<String>,
        schema: Value,
    ) -> Self {
        ToolSpec {
            name: name.into(),
            title: None,
            description: description.into(),
            schema,
            effect: Effect::default(),
            sequential: false,
            interruptible: true,
            timeout: None,
            idle_timeout: None,
            approval: Approval::default(),
            action_options: None,
            definition: None,
            compiled: Compiled::default(),
        }
    }

    /// Sets the effect.
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Sets the title that front ends show.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Makes every batch that contains the tool run one call after the other.
    pub fn sequential(mut self) -> Self {
        self.sequential = true;
        self
    }

    /// Prevents steers from cancelling a call. Aborts still do.
    pub fn uninterruptible(mut self) -> Self {
        self.interruptible = false;
        self
    }

    /// Sets the time limit of a call.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self
    }

    /// Sets the time without an update after which a call is cancelled.
    pub fn idle_timeout(mut self, time: Duration) -> Self {
        self.idle_timeout = Some(time);
        self
    }

    /// Sets the rule for the user's approval of a call.
    pub fn approval(mut self, approval: Approval) -> Self {
        self.approval = approval;
        self
    }

    /// Sets the text for the approver, who may decide, the accepted decisions, and the deadline.
    pub fn action_options(mut self, options: ActionOptions) -> Self {
        self.action_options = Some(Arc::new(options));
        self
    }

    /// Sets the digest of a definition that others can change.
    pub fn definition(mut self, digest: impl Into<Arc<str>>) -> Self {
        self.definition = Some(digest.into());
        self
    }
}

impl std::fmt::Debug for ToolSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolSpec")
            .field("name", &self.name)
            .field("effect", &self.effect)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clones_share_the_compiled_schema_unless_it_was_changed() {
        let spec = ToolSpec::with_schema("t", "T.", json!({ "type": "object" }));
        let compiled = spec.compiled.of(&spec.schema).unwrap();
        let mut clone = spec.clone();
        assert!(Arc::ptr_eq(&compiled, &clone.compiled.of(&clone.schema).unwrap()));
        clone.schema = json!({ "type": "object", "required": ["x"] });
        let other = clone.compiled.of(&clone.schema).unwrap();
        assert!(other.is_of(&clone.schema) && !Arc::ptr_eq(&compiled, &other));
        assert!(Arc::ptr_eq(&compiled, &spec.compiled.of(&spec.schema).unwrap()));
    }
}
