//! The parts of a request as text, for comparison.

use std::sync::Arc;

use crate::model::ChatRequest;
use crate::tool::ToolSpec;

/// Formats the tools that a request offers.
pub(super) fn tools_text(request: &ChatRequest) -> String {
    let text =
        |spec: &Arc<ToolSpec>| format!("{}: {} {}", spec.name, spec.description, spec.schema);
    request.tools.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Formats the options of a request.
pub(super) fn options_text(request: &ChatRequest) -> String {
    format!(
        "{:?}, thinking {:?}, {:?}, at most {:?} tokens, temperature {:?}, stop at {:?}",
        request.tool_choice,
        request.thinking,
        request.output,
        request.max_tokens,
        request.temperature,
        request.stop
    )
}
