//! Checks of a call before it runs, by the hooks and the schema of its tool.

use std::sync::Arc;

use serde_json::Value;

use crate::error::StepError;
use crate::hooks::ToolCallInfo;
use crate::message::{CallId, ResultStatus};
use crate::session::Session;
use crate::session::request::layers::{CallRefused, PassedCall};
use crate::tool::ToolSpec;

/// A call that gets its result without running.
pub(crate) struct Refusal {
    pub(crate) status: ResultStatus,
    pub(crate) why: String,
}

impl Refusal {
    pub(crate) fn error(why: impl Into<String>) -> Self {
        Refusal { status: ResultStatus::Error, why: why.into() }
    }
}

/// Passes the arguments of a call through the hooks.
pub(crate) async fn pass_hooks(
    session: &mut Session,
    id: &CallId,
    spec: &Arc<ToolSpec>,
    arguments: Arc<Value>,
) -> Result<Result<PassedCall, Refusal>, StepError> {
    let hooks = session.config.hooks.clone();
    if hooks.is_empty() {
        return Ok(Ok(PassedCall { arguments, needs_approval: None }));
    }
    let cx = session.hook_context();
    let info = ToolCallInfo { call: id.clone(), tool: spec.clone(), arguments };
    let tools = session.executor.tools.clone();
    let validate = |arguments| tools.validate_value(&spec.name, arguments);
    let passed = session.wait_for(hooks.before_tool_call(&cx, info, validate)).await?;
    Ok(passed.map_err(|refused| match refused {
        CallRefused::Blocked(why) => Refusal { status: ResultStatus::Denied, why },
        CallRefused::Invalid(why) => Refusal::error(format!("A hook rewrote the arguments. {why}")),
    }))
}

/// Checks that a decided call may still run: its arguments still fit, and no hook forbids it.
pub(crate) async fn check_allowed(
    session: &mut Session,
    id: &CallId,
    spec: &Arc<ToolSpec>,
    arguments: &Arc<Value>,
) -> Result<Result<(), Refusal>, StepError> {
    let valid = session.executor.tools.validate_value(&spec.name, (**arguments).clone());
    if let Err(why) = valid {
        return Ok(Err(Refusal::error(format!("The tool has changed since the call. {why}"))));
    }
    let hooks = session.config.hooks.clone();
    if hooks.is_empty() {
        return Ok(Ok(()));
    }
    let cx = session.hook_context();
    let (tool, arguments) = (spec.clone(), arguments.clone());
    let info = ToolCallInfo { call: id.clone(), tool, arguments };
    let forbidden = session.wait_for(hooks.forbid(&cx, info)).await?;
    let denied = |why| Refusal { status: ResultStatus::Denied, why };
    Ok(forbidden.map_or(Ok(()), |why| Err(denied(why))))
}
