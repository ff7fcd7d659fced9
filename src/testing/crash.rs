//! [`crash_at_every_append`]: repeats a session once for each append to its log, with a crash after
//! that append.

mod checks;
mod comparison;
mod ended_session;
mod input_queue;
mod requests;
mod scripted_session;
mod tree;

use std::sync::Arc;
use std::time::Duration;

pub use scripted_session::{ScriptedInput, ScriptedSession, default_decision};
pub use tree::{TreeInput, TreeReport, crash_tree};

use super::check::check_transcript;
use super::check_error::CheckError;
use super::log_text::entry_name;
use super::script::Script;
use super::scripted_model::ScriptedModel;
use super::test_clock::TestClock;
use crate::agent::RunContext;
use crate::agent::builder::AgentBuilder;
use crate::error::InputError;
use crate::event::Envelope;
use crate::event::input::InputEvent;
use crate::log::entry::LogEntry;
use crate::log::memory::InMemory;
use crate::log::state::SessionState;
use crate::log::{SessionInfo, check_log};
use crate::session::handle::AgentHandle;
use crate::tool::Tool;
use checks::{RecordedCalls, check_calls, check_effects, check_numbers};
use comparison::Comparison;
use ended_session::EndedSession;
use input_queue::InputQueue;
use requests::{request_end, sent_requests, used_replies};

/// The counts of a [`crash_at_every_append`] test.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashReport {
    /// Number of appends in the session without a crash, which is the number of crashes.
    pub appends: usize,
    /// Number of crashes after which the results were compared.
    pub compared: usize,
    /// Number of requests of that session to its model, including detached requests.
    pub requests: usize,
    /// Number of tool calls of that session.
    pub calls: usize,
}

impl std::fmt::Display for CrashReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CrashReport { appends, compared, requests, calls } = self;
        write!(
            f,
            "{appends} crashes, one after each append, of a session with {requests} requests and \
             {calls} calls; compared after {compared}"
        )
    }
}

/// Runs a session to its end, then repeats it with a crash after each append to its log. Each time,
/// the session is reopened as if its process had died after that append, run to its end, and
/// compared with the session without a crash.
///
/// `agent` builds the agent under test around a model, with new instances of its pattern and tools
/// each time. A reopened session resumes its interrupted run, resolves its pending actions, and
/// receives the inputs that its log still lacks. When no input is left, the clock of the session
/// moves to its next [timer](crate::StepContext::sleep_until). After every second crash the session
/// is opened from a [snapshot](crate::log::Snapshots). Crashes are as with a real store: an append
/// is in the log as a whole or not at all. Then these checks must hold:
///
/// - The log and the conversation fulfil [`check_log`] and [`check_transcript`]: no message is
///   delivered twice, and every call has one result.
/// - No malformed request was sent to the model.
/// - No finished call ran again. No started call whose tool has
///   [`Effect::AtMostOnce`](crate::tool::Effect::AtMostOnce) ran again, and its result says that
///   its outcome is unknown.
/// - No [side effect](ScriptedSession::effects) took place before the crash and again after it.
/// - Events are numbered without gaps and equal the events of the log.
/// - The conversation, the messages of the next request, the ends of the runs, the custom events
///   and the pattern's final state equal those without a crash. No request was sent that the
///   session without a crash did not send.
///
/// # What may differ
///
/// Numbers of messages may differ, also in the pattern's state, because a repeated request has a
/// new number. A request may be repeated if its reply was not in the log, or was detached. Two
/// crashes have consequences that no pattern can avoid:
///
/// - After a crash during an at-most-once call, its result says that its outcome is unknown. The
///   results of that call are not compared, neither in the conversation nor in requests. If its
///   result would have asked to end the run, nothing is compared.
/// - After a crash between an input with a [condition](ScriptedSession::when) and the end of the
///   work during which it arrived, the message finds other work in progress. For example, a reply
///   that it interrupted is requested as a whole. Nothing is compared.
///
/// [`CrashReport::compared`] counts the crashes after which everything was compared. Tools must
/// return the same results for the same arguments.
///
/// # Errors
///
/// Returns the entry before the crash, the failed check, and the log that shows it.
///
/// # Example
///
/// ```
/// # use loopwright_core::StepEnd;
/// # use loopwright_core::error::StepError;
/// # use loopwright_core::pattern::{BehaviorPattern, StepContext};
/// # use loopwright_core::session::BatchOutcome;
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
/// use loopwright_core::testing::{ScriptedSession, Script, TestTool, crash_at_every_append};
/// use loopwright_core::tool::Effect;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let replies = [Script::calls([("a", "pay", json!({}))]), Script::text("Paid.")];
/// let session = ScriptedSession::new(replies).request("Pay the bill.");
/// let pay = || TestTool::new("pay").effect(Effect::AtMostOnce);
/// let agent = |model| GenericAgent::builder(model, Once).tool(pay());
/// let report = crash_at_every_append(agent, session).await.unwrap();
/// assert_eq!((report.requests, report.calls), (2, 1));
/// # }
/// ```
pub async fn crash_at_every_append(
    agent: impl Fn(ScriptedModel) -> AgentBuilder,
    session: ScriptedSession,
) -> Result<CrashReport, CheckError> {
    let trial = Trial { agent: &agent, script: &session };
    let complete = trial.run().await.map_err(|error| error.when("without a crash"))?;
    let mut compared = 0;
    for (at, append) in complete.appends.iter().enumerate() {
        let crash = Crash { complete: &complete, append: at, cut: append.end };
        let is_compared = trial.run_after(&crash).await.map_err(|error| {
            let last = entry_name(&complete.log, append.end - 1);
            error.when(format!("after a crash right after {last}"))
        })?;
        compared += usize::from(is_compared);
    }
    let count = |is: fn(&LogEntry) -> bool| complete.log.iter().filter(|entry| is(entry)).count();
    Ok(CrashReport {
        appends: complete.appends.len(),
        compared,
        requests: sent_requests(&complete.log).len(),
        calls: count(|entry| matches!(entry, LogEntry::CallFinished { .. })),
    })
}

/// A crash after an append.
struct Crash<'a> {
    complete: &'a EndedSession,
    append: usize,
    /// Length of the log after the crash.
    cut: usize,
}

struct Trial<'a, F> {
    agent: &'a F,
    script: &'a ScriptedSession,
}

/// Time without any progress after which a trial fails. Under paused time it costs nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of inputs and decisions after which a trial fails.
const MAX_ROUNDS: usize = 1000;

impl<F: Fn(ScriptedModel) -> AgentBuilder> Trial<'_, F> {
    /// Runs the session without a crash and checks it.
    async fn run(&self) -> Result<EndedSession, CheckError> {
        let model = self.script.model();
        let (log, calls) = (InMemory::new(), RecordedCalls::default());
        let ended = self.run_from(&log, &self.script.inputs, &model, &calls).await;
        if model.ran_out() {
            let error = CheckError::new("the agent sends more requests than there are replies");
            return Err(error.log(&log.entries()));
        }
        ended.map_err(|error| error.log(&log.entries()))
    }

    /// Runs the session after a crash and checks it. Returns whether it was compared with the
    /// session without a crash.
    async fn run_after(&self, crash: &Crash<'_>) -> Result<bool, CheckError> {
        let Crash { complete, append, cut } = *crash;
        let logged = &complete.log[..cut];
        let inputs: Vec<ScriptedInput> = self
            .script
            .inputs
            .iter()
            .filter(|input| !complete.has_input(input, cut))
            .cloned()
            .collect();
        let unknown = complete.unknown_calls(cut);
        let is_compared =
            complete.is_settled(&self.script.inputs, cut) && !complete.terminates(&unknown);
        let recording = complete.recording.clone().skip(&used_replies(logged));
        let model = if is_compared {
            ScriptedModel::replaying(recording.ignore_results(&unknown))
        } else {
            // Requests that the recording lacks are legitimate.
            let used = used_replies(logged).into_iter().filter(|used| *used).count();
            let model = self.script.model();
            model.set_replies(self.script.replies.iter().skip(used).cloned());
            match self.script.default_reply {
                Some(_) => model,
                None => model.default_reply(Script::text("…")),
            }
        };
        let (log, calls) = (InMemory::from_entries(logged.to_vec()), RecordedCalls::default());
        let effects = self.effects();
        let ended = self.run_from(&log, &inputs, &model, &calls).await;
        if let Some((number, request)) = model.unrecorded().first() {
            let error = CheckError::new(
                "the agent paid again: it sent a request that the session without a crash did \
                 not send",
            );
            let error = error.note(format!("The request: {request}")).note(
                "If the log has its answer, test `is_answered()` first or ask with `Ask::once`. \
                 Otherwise the conversation differs.",
            );
            let log = log.entries();
            return Err(error.log(&log[..request_end(&log, cut, *number)]));
        }
        let ended = ended.map_err(|error| error.log(&log.entries()))?;
        let checked = check_calls(logged, &ended.log, &calls, &complete.effects);
        checked.map_err(|error| error.log(&ended.log))?;
        let after = self.effects() - effects;
        let checked = check_effects(complete.effects_before(append + 1), after, complete);
        checked.map_err(|error| error.log(&ended.log))?;
        if is_compared {
            Comparison::new(&complete.log, &unknown).check(&ended.log)?;
        }
        Ok(is_compared)
    }

    fn effects(&self) -> u64 {
        self.script.effects.as_ref().map_or(0, |count| count())
    }

    /// Opens a session over this log, runs it to its end, and checks it.
    async fn run_from(
        &self,
        log: &InMemory,
        inputs: &[ScriptedInput],
        model: &ScriptedModel,
        calls: &RecordedCalls,
    ) -> Result<EndedSession, CheckError> {
        let logged = log.entries();
        let record = {
            let calls = calls.clone();
            move |tool: Arc<dyn Tool>| calls.record(tool)
        };
        let clock = TestClock::default();
        clock.advance_to(SessionInfo::of("s", &logged).changed).await;
        let builder = (self.agent)(model.clone()).environment(clock.clone());
        let agent = builder.wrap_tools(record).build().map_err(|why| why.to_string())?;
        let first_effect = self.effects();
        // Every second session is opened from a snapshot.
        let snapshot =
            logged.len().is_multiple_of(2).then(|| SessionState::snapshot_of(&logged)).flatten();
        let effects = self.script.effects.clone();
        let queue = InputQueue::new(log.clone(), inputs, snapshot, effects);
        let cx = RunContext::new().session("s").memory(queue.clone());
        let cx = if self.script.joins_appends { cx } else { cx.append_each() };
        let (handle, mut events) = agent.run(cx).await.map_err(|why| why.to_string())?;
        queue.set_handle(handle.clone());
        self.run_to_end(&handle, &queue, &clock).await?;
        let state = handle.state().await.map_err(|why| why.to_string())?;
        let entries = log.entries();
        if !state.pending_tool_calls.is_empty() {
            let calls: Vec<&str> = state.pending_tool_calls.iter().map(|call| &**call).collect();
            return Err(CheckError::new(format!("calls have no result: {}", calls.join(", "))));
        }
        check_log(&entries)?;
        check_transcript(&state.messages)?;
        if let Some(why) = model.refused().first() {
            return Err(CheckError::new(format!("a malformed request was sent: {why}")));
        }
        let emitted: Vec<Arc<Envelope>> = std::iter::from_fn(|| events.try_next()).collect();
        check_numbers(&logged, &entries, &emitted)?;
        let effects = state.tools.iter().map(|spec| (spec.name.clone(), spec.effect)).collect();
        Ok(EndedSession {
            log: entries,
            appends: queue.appends(),
            sent: queue.sent(),
            effects,
            recording: model.recording(),
            side_effects: first_effect..self.effects(),
        })
    }

    /// Resumes the interrupted run, resolves pending actions, sends inputs, and lets timers ring
    /// until the session is idle and no input is left.
    async fn run_to_end(
        &self,
        handle: &AgentHandle,
        queue: &InputQueue,
        clock: &TestClock,
    ) -> Result<(), String> {
        let text = |why: InputError| why.to_string();
        for _ in 0..MAX_ROUNDS {
            let idle = tokio::time::timeout(IDLE_TIMEOUT, handle.wait_for_idle()).await;
            idle.map_err(|_| format!("the agent had not finished after {IDLE_TIMEOUT:?}"))?;
            let state = handle.state().await.map_err(text)?;
            if state.interrupted_run.is_some() {
                handle.send(InputEvent::Continue(None)).await.map_err(text)?;
            } else if let Some(action) = state.pending_actions.first() {
                let decision = self.script.decision(action);
                handle.resolve(action, decision).await.map_err(text)?;
            } else if let Some(input) = queue.next() {
                handle.send(input.input).await.map_err(text)?;
            } else if let Some(time) = SessionInfo::of("s", &queue.entries()).wakes_at() {
                clock.advance_to(time).await;
            } else {
                return Ok(());
            }
        }
        Err(format!("the session does not end: it was idle {MAX_ROUNDS} times"))
    }
}
