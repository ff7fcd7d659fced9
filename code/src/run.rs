//! [`ScriptRun`], the run of a script: its calls become calls of the pattern.

use std::collections::HashMap;

use loopwright_core::message::{CallId, ResultStatus, ToolCall, ToolResult};
use loopwright_core::session::Call;
use loopwright_core::{StepContext, StepEnd, StepError};
use serde::Serialize;

use crate::interpreter::{Interpreter, InterpreterError, Process};
use crate::protocol::{CallResult, Ended, Exception, FunctionCall, Progress};
use crate::script::{Script, after, calls_at_end};
use crate::stubs::Functions;

/// The maximum length of the parts of an output, in bytes.
const MAX_OUTPUT_BYTES: usize = 16 << 10;

/// The run of a script in this process.
pub(crate) struct ScriptRun<'a> {
    functions: &'a Functions,
    script: &'a Script,
    max_calls: usize,
    /// The number of calls so far.
    made: usize,
}

/// A script that calls other tools than the recorded ones when it is run again.
#[derive(Debug, thiserror::Error)]
#[error(
    "the script `{script}` cannot be continued: when it was run again, call {number} of it \
     differed from the recorded one. Its interpreter may have been replaced by another version."
)]
struct Diverged {
    script: CallId,
    number: u32,
}

impl<'a> ScriptRun<'a> {
    pub(crate) fn new(functions: &'a Functions, script: &'a Script, max_calls: usize) -> Self {
        ScriptRun { functions, script, max_calls, made: 0 }
    }

    /// Runs the script and returns its output for the model. Ends the step while calls wait for
    /// decisions.
    pub(crate) async fn finish(
        mut self,
        step: &mut StepContext<'_>,
        interpreter: &Interpreter,
    ) -> Result<String, StepError> {
        let mut process = interpreter.start().map_err(StepError::pattern)?;
        let start = interpreter.script(&self.script.code, self.functions.names());
        let mut progress = send(step, &mut process, &start).await?;
        loop {
            let calls = match progress {
                None => return Ok(stopped(step, "")),
                Some(Progress::Ended(ended)) => return Ok(output(step, ended)),
                Some(Progress::Calls(calls)) => calls,
            };
            self.made += calls.len();
            if self.made > self.max_calls {
                let why = format!(", since it made more than {} calls", self.max_calls);
                return Ok(stopped(step, &why));
            }
            if step.has_steering() && !self.is_recorded(step) {
                return Ok(stopped(step, ""));
            }
            let made = calls.iter().map(|call| self.call(call)).collect::<Result<Vec<_>, _>>()?;
            let results = step.call_all(made).await?.ok_or(StepEnd::AwaitingAction)?;
            self.check_recorded(step, &calls, &results)?;
            let is_cut = |status| matches!(status, ResultStatus::Skipped | ResultStatus::Aborted);
            if results.iter().any(|result| is_cut(result.status)) {
                return Ok(stopped(step, ""));
            }
            let results = calls.iter().zip(&results).map(|(call, result)| of_script(call, result));
            progress = send(step, &mut process, &results.collect::<Vec<_>>()).await?;
        }
    }

    /// Returns the pattern's call for a call of the script.
    fn call(&self, call: &FunctionCall) -> Result<Call, StepError> {
        let FunctionCall { number, function, arguments } = call;
        let tool = self.functions.tool(function).ok_or_else(|| {
            StepError::Pattern(
                format!("the script called `{function}`, which it was not given").into(),
            )
        })?;
        Ok(Call::new(tool.clone(), arguments)
            .key(format!("{}/{number}", self.script.call))
            .hidden())
    }

    /// Returns whether an earlier run of the script has made as many calls as this one.
    fn is_recorded(&self, step: &StepContext<'_>) -> bool {
        let calls = calls_at_end(step.messages().rev());
        let recorded = calls.iter().filter(|(_, result)| result.status != ResultStatus::Skipped);
        recorded.count() >= self.made
    }

    /// Checks that the results are of these calls, and not of others that an earlier run of the
    /// script has made under the same keys.
    fn check_recorded(
        &self,
        step: &StepContext<'_>,
        calls: &[FunctionCall],
        results: &[ToolResult],
    ) -> Result<(), StepError> {
        let recorded = calls_at_end(step.messages().rev());
        let recorded: HashMap<&CallId, &ToolCall> =
            recorded.into_iter().map(|(call, _)| (&call.id, call)).collect();
        for (call, result) in calls.iter().zip(results) {
            let made = recorded.get(&result.call).and_then(|made| made.parse_arguments());
            if made.is_some_and(|made| made.as_object() != Some(&call.arguments)) {
                let script = self.script.call.clone();
                return Err(StepError::pattern(Diverged { script, number: call.number }));
            }
        }
        Ok(())
    }
}

/// Returns the output of a script that has ended.
fn output(step: &StepContext<'_>, ended: Ended) -> String {
    let Ended { printed, value, error } = ended;
    let mut output = match error {
        None => "Output of the script:".to_owned(),
        Some(error) => {
            let after = after(&calls_at_end(step.messages().rev()));
            format!("The script failed{after}:\n{}", excerpt(&error))
        }
    };
    let printed = Some(printed).filter(|printed| !printed.is_empty());
    if printed.is_none() && value.is_none() {
        output += if output.ends_with(':') { " none." } else { "" };
    }
    for part in [printed, value].into_iter().flatten() {
        output += &format!("\n{}", excerpt(part.trim_end()));
    }
    output
}

/// Returns the output of a script that was stopped, with the reason if it is not the user.
fn stopped(step: &StepContext<'_>, why: &str) -> String {
    format!("The script was stopped{}{why}.", after(&calls_at_end(step.messages().rev())))
}

/// Sends a message to the process and waits for its answer. Returns `None` if a steer interrupts.
async fn send(
    step: &mut StepContext<'_>,
    process: &mut Process,
    message: &(impl Serialize + Sync),
) -> Result<Option<Progress>, StepError> {
    let answer = step.wait_for(process.send(message)).await?;
    answer.transpose().map_err(|error: InterpreterError| StepError::pattern(error))
}

/// Returns a result as the script gets it.
fn of_script(call: &FunctionCall, result: &ToolResult) -> CallResult {
    let exception = match result.status {
        ResultStatus::Ok => None,
        ResultStatus::Denied => Some(Exception::Denied),
        _ => Some(Exception::Failed),
    };
    CallResult { number: call.number, text: result.text(), exception }
}

/// Returns a text without its middle if it is too long.
fn excerpt(text: &str) -> String {
    if text.len() <= MAX_OUTPUT_BYTES {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(MAX_OUTPUT_BYTES / 2);
    let tail = text.ceil_char_boundary(text.len() - MAX_OUTPUT_BYTES / 2);
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}
