//! [`RecordedSpec`]: the specification of a tool from a source.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::{Approval, Effect, ToolSpec};

/// The specification of a tool.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedSpec {
    name: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    description: String,
    schema: Value,
    effect: Effect,
    sequential: bool,
    interruptible: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    idle_timeout: Option<Duration>,
    /// The rule for approval; `None` if the agent's rules decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    needs_approval: Option<bool>,
}

impl RecordedSpec {
    /// Converts a specification. Returns `None` if a predicate decides which calls need approval.
    pub(super) fn of(spec: &ToolSpec) -> Option<Self> {
        let needs_approval = match spec.approval {
            Approval::ByEffect => None,
            Approval::Never => Some(false),
            Approval::Always => Some(true),
            Approval::When(_) | Approval::AlwaysIf(_) => return None,
        };
        Some(RecordedSpec {
            name: spec.name.clone(),
            title: spec.title.clone(),
            description: spec.description.clone(),
            schema: spec.schema.clone(),
            effect: spec.effect,
            sequential: spec.sequential,
            interruptible: spec.interruptible,
            timeout: spec.timeout,
            idle_timeout: spec.idle_timeout,
            needs_approval,
        })
    }

    pub(super) fn spec(self) -> ToolSpec {
        ToolSpec {
            title: self.title,
            effect: self.effect,
            sequential: self.sequential,
            interruptible: self.interruptible,
            timeout: self.timeout,
            idle_timeout: self.idle_timeout,
            approval: match self.needs_approval {
                None => Approval::ByEffect,
                Some(false) => Approval::Never,
                Some(true) => Approval::Always,
            },
            ..ToolSpec::with_schema(self.name, self.description, self.schema)
        }
    }
}
