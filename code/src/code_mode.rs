//! [`CodeMode`]: the loop of an agent whose model writes scripts.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::session::Profile;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError, Tool};

use crate::interpreter::Interpreter;
use crate::run::ScriptRun;
use crate::script::{RUN_SCRIPT, end_earlier, pending, run_script, stops};
use crate::stubs::Functions;

/// A pattern whose model writes Python scripts that call the agent's tools.
///
/// ```text
/// take the input
///  └─ outer loop: deliver follow-ups when the agent would otherwise stop
///      └─ inner loop: run the scripts of the last reply, deliver steering messages, ask the model
///          └─ until there are no calls and no steering messages
/// ```
///
/// The model gets the tool `run_script`, and the agent's tools as stubs of Python functions in the
/// prompt. It sees what a script prints and the value of its last expression, not the results of
/// its calls. So a task of many calls takes few requests and few tokens.
///
/// The calls of a script are hidden [calls](loopwright_core::session::Call) of the pattern: they
/// are validated, pass the hooks, may need approval, and stand in the log and in front ends.
/// Calls that the script awaits together (`asyncio.gather`) are one batch. Each call has a key.
/// After a decision or a crash, the script is run again from its start, in any process, and gets
/// the recorded results: no call is made twice. A failed call raises `RuntimeError` and a denied
/// one `PermissionError`, which the script can catch.
///
/// A steer stops the script before its next call, one that interrupts at once, and another request
/// of the user does while a call waits. The model then sees what the user said.
///
/// From: Wang et al., *Executable Code Actions Elicit Better LLM Agents*, 2024 (CodeAct);
/// Cloudflare's and Anthropic's *code mode* for MCP, 2025.
///
/// **Use it** for tasks of many calls whose results need sorting, counting or filtering. **Do not
/// use it** if a task takes a call or two, if results are images, or with models that write poor
/// code.
///
/// ```no_run
/// use loopwright_code::{CodeMode, Interpreter};
/// use loopwright_core::GenericAgent;
/// # use loopwright_core::testing::ScriptedModel;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let model = ScriptedModel::new([]);
///
/// let pattern = CodeMode::new(Interpreter::program("loopwright-script")).direct(["ask_user"]);
/// let agent = GenericAgent::builder(model, pattern).build()?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct CodeMode {
    interpreter: Interpreter,
    direct: Vec<String>,
    max_calls: usize,
}

impl CodeMode {
    /// Creates a pattern whose scripts this interpreter runs. A script may make 200 calls.
    pub fn new(interpreter: Interpreter) -> Self {
        CodeMode { interpreter, direct: Vec::new(), max_calls: 200 }
    }

    /// Offers the tools of these names to the model directly, and not to its scripts.
    pub fn direct<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.direct.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Sets how many calls a script may make.
    pub fn max_calls(mut self, calls: usize) -> Self {
        self.max_calls = calls;
        self
    }
}

#[async_trait]
impl BehaviorPattern for CodeMode {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        vec![Arc::new(run_script())]
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        end_earlier(step)?;
        let offered = step.context().generate(&Ask::new()).await?.tools;
        let functions = Functions::of(&offered, &self.direct);
        let direct = self.direct.iter().map(String::as_str).chain([RUN_SCRIPT]);
        let mut profile = Profile::new().tools(direct).instruction(functions.instruction());
        if let Some(hook) = stops(step) {
            profile = profile.hook(hook);
        }
        let step = &mut step.with_profile(profile);
        loop {
            loop {
                for script in pending(step) {
                    let run = ScriptRun::new(&functions, &script, self.max_calls);
                    let output = run.finish(step, &self.interpreter).await?;
                    script.end(step, output).await?;
                }
                step.take_steering().await?;
                let reply = step.ask().await?.or_end()?;
                let batch = step.call_tools(&reply).await?.or_end()?;
                if !batch.wants_reply() && !step.has_steering() {
                    break;
                }
            }
            if !step.take_follow_ups().await? {
                return Ok(StepEnd::Done);
            }
        }
    }
}
