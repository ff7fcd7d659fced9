//! The loops of a coding agent.

use std::sync::Arc;

use loopwright_core::BehaviorPattern;
use loopwright_core::model::ToolChoice;
use loopwright_core::session::Call;
use loopwright_patterns::{
    Clarify, FirstCall, GenericPattern, Goal, PiPattern, PlanExecute, PlanFirst, ReAct, Reflect,
    SelfConsistency,
};

use crate::rejection::AgentRejection;
use crate::settings::{PATTERNS, SessionSettings};

/// The criterion for answers of the loop `reflect`.
const RUBRIC: &str = "It must be correct, complete and to the point.";

/// The number of answers of the loop `self-consistency`.
const SAMPLES: usize = 5;

/// Returns the loop that the settings choose for an agent with these tools. With a call to `check`,
/// it works until the call succeeds.
pub(super) fn of(
    settings: &SessionSettings,
    tools: &[&str],
    check: Option<Call>,
) -> Result<Arc<dyn BehaviorPattern>, AgentRejection> {
    let name = settings.pattern.as_deref().unwrap_or("pi");
    let pattern: Arc<dyn BehaviorPattern> = match name {
        "generic" => Arc::new(GenericPattern),
        "pi" | "plan-first" => Arc::new(PiPattern),
        "plan-execute" => Arc::new(PlanExecute::new(PiPattern)),
        "reflect" => Arc::new(Reflect::new(RUBRIC, PiPattern)),
        "self-consistency" => Arc::new(SelfConsistency::new(SAMPLES)),
        "clarify" => Arc::new(Clarify::new(PiPattern)),
        "react" => Arc::new(ReAct),
        _ => {
            let names: Vec<&str> = PATTERNS.iter().map(|(name, _)| *name).collect();
            let why = format!("There is no loop `{name}`: give one of {}.", names.join(", "));
            return Err(AgentRejection::bad_request("/pattern", why));
        }
    };
    let pattern: Arc<dyn BehaviorPattern> = match settings.tool_choice.as_deref() {
        None => pattern,
        Some("required") => Arc::new(FirstCall::new(ToolChoice::Required, pattern)),
        Some(name) if tools.contains(&name) => {
            Arc::new(FirstCall::new(ToolChoice::Tool(name.to_owned()), pattern))
        }
        Some(name) => {
            let why = format!(
                "There is no tool `{name}`. Give `required`, or one of: {}.",
                tools.join(", ")
            );
            return Err(AgentRejection::bad_request("/toolChoice", why));
        }
    };
    let pattern: Arc<dyn BehaviorPattern> = match check {
        Some(check) => Arc::new(Goal::call(check, pattern)),
        None => pattern,
    };
    // A plan is made before a forced call, and before the first check.
    Ok(match name {
        "plan-first" => Arc::new(PlanFirst::new(pattern)),
        _ => Arc::new(PlanFirst::new(pattern).on_command("/plan")),
    })
}
