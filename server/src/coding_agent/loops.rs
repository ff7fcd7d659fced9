//! The loops of a coding agent.

use std::sync::Arc;

use loopwright_core::BehaviorPattern;
use loopwright_core::model::ToolChoice;
use loopwright_patterns::{
    Clarify, FirstCall, GenericPattern, PiPattern, PlanExecute, PlanFirst, ReAct, Reflect,
    SelfConsistency,
};

use crate::agents::AgentRejection;
use crate::settings::SessionSettings;

/// The loops that the setting `pattern` selects: the name and a description of each.
pub const CODING_LOOPS: [(&str, &str); 8] = [
    ("generic", "One plain loop: messages are delivered before the next model request"),
    ("pi", "Two loops: steers are delivered before the next model request, follow-ups at the end"),
    (
        "plan-first",
        "Every request begins with a plan; nothing is changed before you have accepted it",
    ),
    ("plan-execute", "A plan, its first step, a new plan, until the request is done"),
    ("reflect", "The model judges its answer, and improves it up to two times"),
    ("self-consistency", "Five answers at once, without tools; the most frequent one wins"),
    ("clarify", "The model asks back while a request is unclear, up to three times"),
    ("react", "Tools for models that cannot call any: actions in the text"),
];

/// The criterion for answers of the loop `reflect`.
const RUBRIC: &str = "It must be correct, complete and to the point.";

/// The number of answers of the loop `self-consistency`.
const SAMPLES: usize = 5;

/// Returns the loop that the settings choose for an agent with these tools.
pub(super) fn of(
    settings: &SessionSettings,
    tools: &[&str],
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
            let names = CODING_LOOPS.map(|(name, _)| name).join(", ");
            let why = format!("There is no loop `{name}`: give one of {names}.");
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
    // A plan is made before a forced call.
    Ok(match name {
        "plan-first" => Arc::new(PlanFirst::new(pattern)),
        _ => Arc::new(PlanFirst::new(pattern).on_command("/plan")),
    })
}
