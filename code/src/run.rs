//! [`ScriptRun`], the run of a script: its calls become calls of the pattern.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use loopwright_core::message::{CallId, ResultStatus, ToolCall, ToolResult};
use loopwright_core::session::Call;
use loopwright_core::{StepContext, StepEnd, StepError};
use serde::Serialize;
use serde_json::Value;

use crate::interpreter::{Interpreter, InterpreterError, Process};
use crate::protocol::{CallResult, Ended, Exception, FunctionCall, Progress};
use crate::script::Script;
use crate::stubs::Functions;

/// The maximum length of the parts of an output, in bytes.
const MAX_OUTPUT_BYTES: usize = 16 << 10;

/// The run of a script in this process.
pub(crate) struct ScriptRun<'a> {
    functions: &'a Functions,
    script: &'a Script,
    max_calls: usize,
    /// The number of calls of each tool so far.
    made: BTreeMap<Arc<str>, usize>,
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
        ScriptRun { functions, script, max_calls, made: BTreeMap::new() }
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
                None => return Ok(self.stopped("")),
                Some(Progress::Ended(ended)) => return Ok(self.output(ended)),
                Some(Progress::Calls(calls)) => calls,
            };
            let count = self.made.values().sum::<usize>() + calls.len();
            if count > self.max_calls {
                let why = format!(", since it made more than {} calls", self.max_calls);
                return Ok(self.stopped(&why));
            }
            if step.has_steering() && !self.is_recorded(step, count) {
                return Ok(self.stopped(""));
            }
            let made = calls.iter().map(|call| self.call(call)).collect::<Result<Vec<_>, _>>()?;
            let results = step.call_all(made).await?.ok_or(StepEnd::AwaitingAction)?;
            self.check_recorded(step, &calls, &results)?;
            for result in results.iter().filter(|result| has_run(result)) {
                *self.made.entry(result.name.clone()).or_default() += 1;
            }
            let is_cut = |status| matches!(status, ResultStatus::Skipped | ResultStatus::Aborted);
            if results.iter().any(|result| is_cut(result.status)) {
                return Ok(self.stopped(""));
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

    /// Returns whether an earlier run of the script has made this many calls.
    fn is_recorded(&self, step: &StepContext<'_>, count: usize) -> bool {
        let results = step.messages().rev().filter_map(|message| message.as_tool_result());
        let of_script = results.take_while(|result| result.call != self.script.call);
        of_script.filter(|result| has_run(result)).count() >= count
    }

    /// Checks that the results are of these calls, and not of others that an earlier run of the
    /// script has made under the same keys.
    fn check_recorded(
        &self,
        step: &StepContext<'_>,
        calls: &[FunctionCall],
        results: &[ToolResult],
    ) -> Result<(), StepError> {
        let of_message = |call: &ToolCall| (call.id.clone(), call.parse_arguments());
        let replies = step.messages().rev().filter_map(|message| message.as_assistant());
        let is_script = |call: &ToolCall| call.id == self.script.call;
        let replies = replies.take_while(|reply| !reply.calls().any(is_script));
        let made: HashMap<CallId, Option<Value>> =
            replies.flat_map(|reply| reply.calls().map(of_message).collect::<Vec<_>>()).collect();
        for (call, result) in calls.iter().zip(results) {
            let recorded = made.get(&result.call).and_then(Option::as_ref);
            if recorded.and_then(Value::as_object).is_some_and(|made| *made != call.arguments) {
                let script = self.script.call.clone();
                return Err(StepError::pattern(Diverged { script, number: call.number }));
            }
        }
        Ok(())
    }

    /// Returns the output of a script that has ended.
    fn output(&self, ended: Ended) -> String {
        let Ended { printed, value, error } = ended;
        let mut output = match error {
            None => "Output of the script:".to_owned(),
            Some(error) => format!("The script failed{}:\n{}", self.calls(), excerpt(&error)),
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
    fn stopped(&self, why: &str) -> String {
        format!("The script was stopped{}{why}.", self.calls())
    }

    /// Returns which calls were made, since they may have had effects.
    fn calls(&self) -> String {
        let calls: Vec<_> =
            self.made.iter().map(|(tool, count)| format!("{tool} × {count}")).collect();
        match calls.is_empty() {
            true => String::new(),
            false => format!(" after these calls: {}", calls.join(", ")),
        }
    }
}

fn has_run(result: &ToolResult) -> bool {
    result.status != ResultStatus::Skipped
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
