//! The tool `run_script`, and the scripts that are still to be run.

use loopwright_core::message::{CallId, MessageKind, ToolResult};
use loopwright_core::tool::{Effect, ToolOutput};
use loopwright_core::{StepContext, Tool, ToolContext, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

pub(crate) const RUN_SCRIPT: &str = "run_script";

const STARTED: &str = "The script was started. The next message has its output, or is a message of \
    the user, which has stopped it.";

/// A script of the model.
pub(crate) struct Script {
    /// The call of `run_script`.
    pub(crate) call: CallId,
    pub(crate) code: String,
}

#[derive(Deserialize, JsonSchema)]
struct RunScript {
    /// The Python code.
    code: String,
}

/// Returns the tool with which the model hands in a script. The pattern runs it afterwards, since
/// the calls of the script cannot be made while this one is open.
pub(crate) fn run_script() -> impl Tool + use<> {
    let about = "Runs a Python script, which can call the functions in the instructions.";
    let tool = tool_fn(RUN_SCRIPT, about, async |script: RunScript, _cx: ToolContext| {
        // The code that ran: the user or a hook may have changed it.
        let details = json!({ "code": script.code });
        Ok::<_, ToolError>(ToolOutput::text(STARTED).details(details))
    });
    tool.effect(Effect::ReadOnly)
}

/// Returns the scripts of the model's last reply, unless their output or another message of the
/// user has followed.
pub(crate) fn pending(step: &StepContext<'_>) -> Vec<Script> {
    let mut scripts = Vec::new();
    for message in step.messages().rev() {
        match &message.body {
            MessageKind::ToolResult(result) => scripts.extend(script(result)),
            MessageKind::Assistant(reply)
                if reply.calls().any(|call| *call.name == *RUN_SCRIPT) =>
            {
                break;
            }
            MessageKind::Assistant(reply) if reply.calls().next().is_some() => {} // of a script
            MessageKind::Assistant(_) | MessageKind::User(_) => return Vec::new(),
            _ => {}
        }
    }
    scripts.reverse();
    scripts
}

fn script(result: &ToolResult) -> Option<Script> {
    let started = Some(result).filter(|result| *result.name == *RUN_SCRIPT && !result.is_error());
    let code = started?.details.as_ref()?.get("code")?.as_str()?;
    Some(Script { call: result.call.clone(), code: code.to_owned() })
}
