//! [`crash_at_every_entry`]: runs a session once for each entry of its log, with a crash after that
//! entry.

mod checks;
mod input_queue;
mod scenario;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub use scenario::Scenario;

use super::check::check_transcript;
use super::fixed_environment::FixedEnvironment;
use super::script::Script;
use super::scripted_model::ScriptedModel;
use crate::agent::RunContext;
use crate::agent::builder::AgentBuilder;
use crate::error::InputError;
use crate::log::check_log;
use crate::log::entry::LogEntry;
use crate::log::event::Envelope;
use crate::log::input::InputEvent;
use crate::log::memory::InMemory;
use crate::log::session_log::SessionLog;
use crate::session::handle::AgentHandle;
use crate::tool::{Effect, Tool};
use checks::{RecordedCalls, check_calls, check_due, check_numbers};
use input_queue::{InputQueue, SentInput};
use scenario::ScenarioInput;

/// Counts what [`crash_at_every_entry`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashReport {
    /// The entries of the session without a crash, and so the number of crashes.
    pub entries: usize,
    /// The requests of that session to its model, detached ones included.
    pub requests: usize,
    /// The tool calls of that session.
    pub calls: usize,
}

impl std::fmt::Display for CrashReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CrashReport { entries, requests, calls } = self;
        write!(
            f,
            "{entries} crashes, one after each entry, of a session with {requests} requests and \
             {calls} calls"
        )
    }
}

/// Runs a session to its end; then, for each entry of its log, reopens the session as if its
/// process had died after that entry, runs it to its end, and checks it.
///
/// `agent` builds the agent under test around a model, with new instances of its tools each time.
/// A reopened session resumes its interrupted run, resolves its pending actions and receives the
/// inputs that its log does not have yet. Then these checks must hold:
///
/// - The log and the conversation fulfil [`check_log`] and [`check_transcript`]: no message is
///   delivered twice, and every call has one result.
/// - No malformed request was sent to the model.
/// - No finished call ran again. No started call whose tool has [`Effect::AtMostOnce`] ran again,
///   and its result says that its outcome is unknown.
/// - Events are numbered without gaps and equal those of the log.
///
/// # Errors
///
/// Returns the entry after which the crash was, and the check that failed.
///
/// # Example
///
/// ```
/// # use loopwright_core::pattern::{
/// #     BatchOutcome, BehaviorPattern, StepContext, StepEnd, StepError,
/// # };
/// # struct Once;
/// # #[async_trait::async_trait]
/// # impl BehaviorPattern for Once {
/// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
/// #         step.take_input().await?;
/// #         loop {
/// #             let reply = step.ask().await?;
/// #             match step.call_tools(&reply).await? {
/// #                 BatchOutcome::AwaitsUser => return Ok(StepEnd::AwaitingAction),
/// #                 batch if !batch.wants_reply() => return Ok(StepEnd::Done),
/// #                 _ => {}
/// #             }
/// #         }
/// #     }
/// # }
/// use loopwright_core::GenericAgent;
/// use loopwright_core::testing::{Scenario, Script, TestTool, crash_at_every_entry};
/// use loopwright_core::tool::Effect;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let replies = [Script::calls([("a", "pay", json!({}))]), Script::text("Paid.")];
/// let scenario = Scenario::new(replies).request("Pay the bill.");
/// let pay = || TestTool::new("pay").effect(Effect::AtMostOnce);
/// let agent = |model| GenericAgent::builder(model, Once).tool(pay());
/// let report = crash_at_every_entry(agent, scenario).await.unwrap();
/// assert_eq!((report.requests, report.calls), (2, 1));
/// # }
/// ```
pub async fn crash_at_every_entry(
    agent: impl Fn(ScriptedModel) -> AgentBuilder,
    scenario: Scenario,
) -> Result<CrashReport, String> {
    let trial = Trial { agent: &agent, scenario: &scenario };
    let complete = trial
        .run(&[], &scenario.inputs, None)
        .await
        .map_err(|why| format!("without a crash: {why}"))?;
    for cut in 1..=complete.log.len() {
        let inputs: Vec<ScenarioInput> = scenario
            .inputs
            .iter()
            .filter(|input| !complete.has_input(input, cut))
            .cloned()
            .collect();
        let ended = trial.run(&complete.log[..cut], &inputs, Some(&complete.effects)).await;
        ended.map_err(|why| {
            format!("after a crash after entry {}, {:?}: {why}", cut - 1, complete.log[cut - 1])
        })?;
    }
    let count = |is: fn(&LogEntry) -> bool| complete.log.iter().filter(|entry| is(entry)).count();
    Ok(CrashReport {
        entries: complete.log.len(),
        requests: count(is_request),
        calls: count(|entry| matches!(entry, LogEntry::CallFinished { .. })),
    })
}

fn is_request(entry: &LogEntry) -> bool {
    matches!(entry, LogEntry::RequestStarted { .. } | LogEntry::Detached { .. })
}

struct Trial<'a, F> {
    agent: &'a F,
    scenario: &'a Scenario,
}

/// A session that ran to its end.
struct EndedSession {
    log: Vec<LogEntry>,
    sent: Vec<SentInput>,
    effects: HashMap<Arc<str>, Effect>,
}

impl EndedSession {
    /// Returns whether the first `cut` entries contain this input.
    fn has_input(&self, input: &ScenarioInput, cut: usize) -> bool {
        let sent = self.sent.iter().find(|sent| sent.number == input.number);
        let log_len = sent.map_or(0, |sent| sent.log_len);
        let first = self.log[log_len..].iter().position(|entry| input.leads_to(entry));
        cut > first.map_or(log_len, |n| log_len + n)
    }
}

/// The time without any progress after which a trial fails. Under paused time it costs nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The number of inputs and decisions after which a trial fails.
const MAX_ROUNDS: usize = 1000;

impl<F: Fn(ScriptedModel) -> AgentBuilder> Trial<'_, F> {
    /// Opens a session whose log has the entries `logged`, runs it to its end and checks it.
    /// `effects` are those that the tools had before the crash.
    async fn run(
        &self,
        logged: &[LogEntry],
        inputs: &[ScenarioInput],
        effects: Option<&HashMap<Arc<str>, Effect>>,
    ) -> Result<EndedSession, String> {
        let unanswered = usize::from(SessionLog::of(logged).awaits_reply());
        let requested = logged.iter().filter(|entry| is_request(entry)).count();
        let replies = self.scenario.replies.iter().skip(requested - unanswered).cloned();
        let model = ScriptedModel::new(replies);
        let model =
            if logged.is_empty() { model } else { model.default_reply(Script::text("…")) };
        let calls = RecordedCalls::default();
        let record = {
            let calls = calls.clone();
            move |tool: Arc<dyn Tool>| calls.record(tool)
        };
        let builder = (self.agent)(model.clone()).environment(FixedEnvironment::default());
        let agent = builder.wrap_tools(record).build().map_err(|why| why.to_string())?;
        let log = InMemory::from_entries(logged.to_vec());
        let queue = InputQueue::new(log.clone(), inputs);
        let cx = RunContext::new().session("s").memory(queue.clone());
        let (handle, mut events) = agent.run(cx).await.map_err(|why| why.to_string())?;
        queue.set_handle(handle.clone());
        let ended = self.run_to_end(&handle, &queue).await;
        if logged.is_empty() && model.ran_out() {
            return Err("the agent sends more requests than the scenario has replies".into());
        }
        ended?;
        let state = handle.state().await.map_err(|why| why.to_string())?;
        let entries = log.entries();
        if !state.pending_tool_calls.is_empty() {
            return Err(format!("the calls {:?} have no result", state.pending_tool_calls));
        }
        check_log(&entries)?;
        check_due(&entries)?;
        check_transcript(&state.messages)?;
        if let Some(why) = model.refused().first() {
            return Err(format!("a malformed request was sent: {why}"));
        }
        let current = state.tools.iter().map(|spec| (spec.name.clone(), spec.effect));
        let effects = effects.cloned().unwrap_or_else(|| current.collect());
        check_calls(logged, &entries, &calls, &effects)?;
        let emitted: Vec<Arc<Envelope>> = std::iter::from_fn(|| events.try_next()).collect();
        check_numbers(logged, &entries, &emitted)?;
        Ok(EndedSession { log: entries, sent: queue.sent(), effects })
    }

    /// Resumes the interrupted run, resolves pending actions and sends the remaining inputs until
    /// the session is idle and none is left.
    async fn run_to_end(&self, handle: &AgentHandle, queue: &InputQueue) -> Result<(), String> {
        let text = |why: InputError| why.to_string();
        for _ in 0..MAX_ROUNDS {
            let idle = tokio::time::timeout(IDLE_TIMEOUT, handle.wait_for_idle()).await;
            idle.map_err(|_| format!("the agent is not idle after {IDLE_TIMEOUT:?}"))?;
            let state = handle.state().await.map_err(text)?;
            if state.interrupted_run.is_some() {
                handle.send(InputEvent::Continue(None)).await.map_err(text)?;
            } else if let Some(action) = state.pending_actions.first() {
                let decision = (self.scenario.decide)(action);
                let (call, digest) = (action.call.clone(), action.digest.clone());
                handle.resolve(call, digest, decision).await.map_err(text)?;
            } else if let Some(input) = queue.next() {
                handle.send(input.event).await.map_err(text)?;
            } else {
                return Ok(());
            }
        }
        Err(format!("the session does not end: it was idle {MAX_ROUNDS} times"))
    }
}
