//! The tool `run_script`, and the scripts that are still to be run.

use std::collections::BTreeMap;
use std::sync::Arc;

use loopwright_core::hooks::FnTransformContext;
use loopwright_core::message::{
    AssistantMessage, CallId, Content, Message, MessageId, MessageKind, ResultStatus, ToolCall,
    ToolResult, UserMessage,
};
use loopwright_core::tool::{Effect, ToolOutput};
use loopwright_core::{StepContext, StepError, Tool, ToolContext, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

pub(crate) const RUN_SCRIPT: &str = "run_script";

/// The key of the [`Position`] of the last script that has ended.
const LAST: &str = "code_mode.last";

/// The key of a value that a request of the user has once the scripts of earlier ones have ended.
const BEGUN: &str = "code_mode.begun";

/// The key of [`Stopped`].
const STOPPED: &str = "code_mode.stopped";

/// Maximum number of [`Stopped`] scripts: the last ones of the session.
const MAX_STOPPED: usize = 50;

/// The scripts that ended without an output, with the text for the model.
type Stopped = Vec<(CallId, String)>;

/// The position of a script in its conversation: the reply, and the number of the script in it.
type Position = (MessageId, usize);

/// A script of the model.
pub(crate) struct Script {
    /// The call of `run_script`.
    pub(crate) call: CallId,
    pub(crate) code: String,
    position: Position,
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
        Ok::<_, ToolError>(ToolOutput::text("The script was started.").details(details))
    });
    tool.effect(Effect::ReadOnly)
}

impl Script {
    /// Ends the script with this message, which the model sees.
    pub(crate) async fn end(
        &self,
        step: &mut StepContext<'_>,
        output: String,
    ) -> Result<(), StepError> {
        step.set_session_state(LAST, self.position)?; // in one append with the message
        step.remember(UserMessage::from(output)).await?;
        Ok(())
    }
}

/// Returns the scripts of the last reply with scripts that have not ended, in their order.
pub(crate) fn pending(step: &StepContext<'_>) -> Vec<Script> {
    let last: Option<Position> = step.session_state(LAST);
    let mut results = Vec::new();
    for message in step.messages().rev() {
        match &message.body {
            MessageKind::ToolResult(result) if *result.name == *RUN_SCRIPT => results.push(result),
            MessageKind::Assistant(reply) if has_scripts(reply) => {
                let started = results.into_iter().rev().filter(|result| !result.is_error());
                let scripts = started.enumerate().filter_map(|(number, result)| {
                    let position = (message.id, number);
                    let has_ended = last.is_some_and(|last| position <= last);
                    if has_ended { None } else { script(result, position) }
                });
                return scripts.collect();
            }
            _ => {}
        }
    }
    Vec::new()
}

fn has_scripts(reply: &AssistantMessage) -> bool {
    reply.calls().any(|call| *call.name == *RUN_SCRIPT)
}

fn script(result: &ToolResult, position: Position) -> Option<Script> {
    let code = result.details.as_ref()?.get("code")?.as_str()?.to_owned();
    Some(Script { call: result.call.clone(), code, position })
}

/// Ends the scripts of earlier requests of the user: an abort or this request has stopped them.
/// They cannot be continued, since the results of their calls are no longer kept under the keys.
pub(crate) fn end_earlier(step: &mut StepContext<'_>) -> Result<(), StepError> {
    if step.state::<bool>(BEGUN).is_some() {
        return Ok(());
    }
    step.set_state(BEGUN, true)?;
    let scripts = pending(step);
    let Some(last) = scripts.last() else { return Ok(()) };
    let is_user = |message: &&Arc<Message>| matches!(message.body, MessageKind::User(_));
    let mut calls = calls_at_end(step.messages().rev().skip_while(is_user));
    let mut stopped: Stopped = step.session_state(STOPPED).unwrap_or_default();
    for script in &scripts {
        let text = format!("The script was stopped{}.", after(&std::mem::take(&mut calls)));
        stopped.push((script.call.clone(), text));
    }
    stopped.drain(..stopped.len().saturating_sub(MAX_STOPPED));
    step.set_session_state(STOPPED, stopped)?;
    step.set_session_state(LAST, last.position)
}

/// Returns a hook that shows the model how such scripts ended, in place of the results of their
/// calls; `None` if there are none.
pub(crate) fn stops(step: &StepContext<'_>) -> Option<FnTransformContext> {
    let stopped: Stopped = step.session_state(STOPPED)?;
    let shown = move |message: Arc<Message>| {
        let Some(result) = message.as_tool_result() else { return message };
        let Some((_, text)) = stopped.iter().find(|(call, _)| *call == result.call) else {
            return message;
        };
        let mut result = result.clone();
        result.content = vec![Content::text(text.as_str())];
        Arc::new(Message::new(message.id, MessageKind::ToolResult(result)))
    };
    Some(FnTransformContext::new(move |_, messages| {
        std::future::ready(messages.into_iter().map(&shown).collect())
    }))
}

/// Returns the calls of the script at the end of the conversation with their results, from the last
/// to the first. The messages are in reverse, too.
pub(crate) fn calls_at_end<'a>(
    messages: impl Iterator<Item = &'a Arc<Message>>,
) -> Vec<(&'a ToolCall, &'a ToolResult)> {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for message in messages {
        match &message.body {
            MessageKind::ToolResult(result) => results.push(result),
            MessageKind::Assistant(reply) if !has_scripts(reply) => {
                for result in results.drain(..) {
                    calls.extend(reply.calls().find(|c| c.id == result.call).zip(Some(result)));
                }
            }
            // The reply with the script, or the output of the one before it.
            MessageKind::Assistant(_) | MessageKind::User(_) => break,
            _ => {}
        }
    }
    calls
}

/// Returns which of these calls may have had effects, as a part of a sentence.
pub(crate) fn after(calls: &[(&ToolCall, &ToolResult)]) -> String {
    let mut counts = BTreeMap::new();
    for (_, result) in calls {
        let end = match result.status {
            ResultStatus::Skipped | ResultStatus::Denied => continue,
            ResultStatus::Aborted => " (aborted)",
            _ => "",
        };
        *counts.entry((&result.name, end)).or_insert(0) += 1;
    }
    let counts: Vec<_> =
        counts.iter().map(|((tool, end), count)| format!("{tool} × {count}{end}")).collect();
    match counts.is_empty() {
        true => String::new(),
        false => format!(" after these calls: {}", counts.join(", ")),
    }
}
