//! [`crash_at_every_entry`]: a scripted session is cut off behind each item of its log, and gone on
//! with.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::check::ensure;
use super::{FixedEnvironment, Script, ScriptedModel, check_log, check_transcript};
use crate::agent::RunContext;
use crate::agent::builder::AgentBuilder;
use crate::error::{MemoryError, ToolError};
use crate::log::compaction::CompactionCause;
use crate::log::entry::LogEntry;
use crate::log::event::{Envelope, ExternalAction, RunCause};
use crate::log::input::{Decision, InputEvent, Prompt, Provided};
use crate::log::memory::{InMemory, Memory};
use crate::log::session_log::SessionLog;
use crate::message::{CallId, ResultStatus};
use crate::session::handle::AgentHandle;
use crate::tool::{Effect, Tool, ToolContext, ToolOutput, ToolSpec};

/// A session for [`crash_at_every_entry`]: what the model replies, and what is said to the agent.
///
/// Everything is said in order, each thing once the agent rests, or at the place that
/// [`Scenario::when`] names.
#[derive(Clone)]
pub struct Scenario {
    replies: Vec<Script>,
    acts: Vec<Act>,
    answer: Arc<dyn Fn(&ExternalAction) -> Decision + Send + Sync>,
}

#[derive(Clone)]
struct Act {
    number: usize,
    event: InputEvent,
    when: Option<When>,
}

type When = Arc<dyn Fn(&LogEntry) -> bool + Send + Sync>;

impl Scenario {
    /// A session in which the model gives these replies, asides included, in turn. After a crash an
    /// agent may ask once more than without; then the model says "…".
    pub fn new(replies: impl IntoIterator<Item = Script>) -> Self {
        let answer = |action: &ExternalAction| match action.request {
            None => Decision::Approve,
            Some(_) => Decision::Provide(Provided::Input(Value::Null)),
        };
        Scenario {
            replies: replies.into_iter().collect(),
            acts: Vec::new(),
            answer: Arc::new(answer),
        }
    }

    /// A request of the user.
    pub fn request(self, prompt: impl Into<Prompt>) -> Self {
        self.act(|id| InputEvent::UserRequest(prompt.into().id(id)))
    }

    /// A steer.
    pub fn steer(self, prompt: impl Into<Prompt>) -> Self {
        self.act(|id| InputEvent::Steer(prompt.into().id(id)))
    }

    /// A follow-up.
    pub fn follow_up(self, prompt: impl Into<Prompt>) -> Self {
        self.act(|id| InputEvent::FollowUp(prompt.into().id(id)))
    }

    /// An abort.
    pub fn abort(self) -> Self {
        self.act(|_| InputEvent::Abort)
    }

    /// A reset.
    pub fn reset(self) -> Self {
        self.act(|_| InputEvent::Reset)
    }

    /// Somebody has the conversation compacted.
    pub fn compact(self) -> Self {
        self.act(|_| InputEvent::Compact(None))
    }

    /// What was added last is said as soon as the log has an item for which this holds (a call that
    /// has started, say), and at the latest when the agent rests.
    pub fn when(mut self, holds: impl Fn(&LogEntry) -> bool + Send + Sync + 'static) -> Self {
        if let Some(last) = self.acts.last_mut() {
            last.when = Some(Arc::new(holds));
        }
        self
    }

    /// What is answered where a call waits; by default it is approved, or answered with `null`
    /// where it suspended.
    pub fn answers(
        mut self,
        answer: impl Fn(&ExternalAction) -> Decision + Send + Sync + 'static,
    ) -> Self {
        self.answer = Arc::new(answer);
        self
    }

    fn act(mut self, event: impl FnOnce(String) -> InputEvent) -> Self {
        let number = self.acts.len();
        self.acts.push(Act { number, event: event(format!("act-{number}")), when: None });
        self
    }
}

/// What [`crash_at_every_entry`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashReport {
    /// Items of the session that was not cut off; there was a crash behind each.
    pub items: usize,
    /// Requests of that session, asides included.
    pub requests: usize,
    /// Its tool calls.
    pub calls: usize,
}

impl std::fmt::Display for CrashReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CrashReport { items, requests, calls } = self;
        write!(
            f,
            "{items} crashes, one behind each item, of a session with {requests} requests and {calls} calls"
        )
    }
}

/// Runs a session to its end; then, for each item of its log, opens a session whose process died
/// behind that item, goes on with it, says what had not been said, answers what waits, and checks
/// what must hold.
///
/// `agent` makes an agent like the one under test around a model, with tools of its own each time.
/// The checks: the log and the conversation keep their rules ([`check_log`], [`check_transcript`]),
/// so no message is delivered twice and every call is answered once; no malformed request went out;
/// no call that was finished ran again, and no once-only one that had started, whose result says
/// so; events are numbered without gaps and are those that the log tells. The error says behind
/// which item the crash was, and what did not hold.
///
/// ```
/// # use loopwright_core::pattern::{BatchOutcome, BehaviorPattern, StepContext, StepEnd, StepError};
/// # use loopwright_core::tool::Effect;
/// # use loopwright_core::GenericAgent;
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
/// use loopwright_core::testing::{Scenario, Script, TestTool, crash_at_every_entry};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let pay = || TestTool::new("pay").effect(Effect::AtMostOnce);
/// let replies = [Script::calls([("a", "pay", serde_json::json!({}))]), Script::text("Paid.")];
/// let scenario = Scenario::new(replies).request("Pay the bill.");
/// let report = crash_at_every_entry(|model| GenericAgent::builder(model, Once).tool(pay()), scenario).await.unwrap();
/// assert_eq!((report.requests, report.calls), (2, 1));
/// # }
/// ```
pub async fn crash_at_every_entry(
    agent: impl Fn(ScriptedModel) -> AgentBuilder,
    scenario: Scenario,
) -> Result<CrashReport, String> {
    let trial = Trial { agent: &agent, scenario: &scenario };
    let whole = trial
        .run(&[], &scenario.acts, None)
        .await
        .map_err(|why| format!("without a crash: {why}"))?;
    for cut in 1..=whole.log.len() {
        let left: Vec<Act> =
            scenario.acts.iter().filter(|act| !whole.said(act, cut)).cloned().collect();
        let ended = trial.run(&whole.log[..cut], &left, Some(&whole.effects)).await;
        ended.map_err(|why| {
            format!("after a crash behind item {}, {:?}: {why}", cut - 1, whole.log[cut - 1])
        })?;
    }
    let count = |is: fn(&LogEntry) -> bool| whole.log.iter().filter(|item| is(item)).count();
    Ok(CrashReport {
        items: whole.log.len(),
        requests: count(|item| {
            matches!(item, LogEntry::RequestStarted { .. } | LogEntry::Detached { .. })
        }),
        calls: count(|item| matches!(item, LogEntry::CallFinished { .. })),
    })
}

struct Trial<'a, F> {
    agent: &'a F,
    scenario: &'a Scenario,
}

struct Ended {
    log: Vec<LogEntry>,
    /// How long the log was when each act was said.
    said: Vec<(usize, usize)>,
    effects: HashMap<Arc<str>, Effect>,
}

impl Ended {
    /// Whether the first `cut` items say that this was said.
    fn said(&self, act: &Act, cut: usize) -> bool {
        let at =
            self.said.iter().find(|(number, _)| *number == act.number).map_or(0, |(_, at)| *at);
        let brought = |item: &LogEntry| match &act.event {
            InputEvent::Abort => {
                matches!(
                    item,
                    LogEntry::AbortRequested { .. }
                        | LogEntry::RunStarted { cause: RunCause::Abort, .. }
                )
            }
            InputEvent::Reset => matches!(item, LogEntry::Reset),
            InputEvent::Compact(_) => matches!(
                item,
                LogEntry::RunStarted { cause: RunCause::Compact { .. }, .. }
                    | LogEntry::Compacted { why: CompactionCause::Asked { .. }, .. }
            ),
            _ => {
                matches!(item, LogEntry::Queued { input, .. } if **input == *format!("act-{}", act.number))
            }
        };
        let first = self.log[at..].iter().position(brought).map_or(at, |n| at + n);
        cut > first
    }
}

/// How long nothing may happen; under paused time nobody waits for that.
const PATIENCE: Duration = Duration::from_secs(60);

impl<F: Fn(ScriptedModel) -> AgentBuilder> Trial<'_, F> {
    /// Opens a session with this past and goes on to its end.
    /// `effects` are those of the tools as they were before the crash.
    async fn run(
        &self,
        past: &[LogEntry],
        acts: &[Act],
        effects: Option<&HashMap<Arc<str>, Effect>>,
    ) -> Result<Ended, String> {
        let unanswered = usize::from(SessionLog::of(past).awaits_reply());
        let asked = past
            .iter()
            .filter(|item| {
                matches!(item, LogEntry::RequestStarted { .. } | LogEntry::Detached { .. })
            })
            .count();
        let model =
            ScriptedModel::new(self.scenario.replies.iter().skip(asked - unanswered).cloned());
        let model = if past.is_empty() { model } else { model.otherwise(Script::text("…")) };
        let ran = Ran::default();
        let watch = |tool| Arc::new(Watched { tool, ran: ran.clone() }) as Arc<dyn Tool>;
        let builder =
            (self.agent)(model.clone()).environment(FixedEnvironment::default()).wrap_tools(watch);
        let agent = builder.build().map_err(|why| why.to_string())?;
        let log = InMemory::from_items(past.to_vec());
        let acts = Acts { left: acts.iter().cloned().collect(), ..Acts::default() };
        let desk = Desk { log: log.clone(), acts: Arc::new(Mutex::new(acts)) };
        let cx = RunContext::new().session("s").memory(desk.clone());
        let (handle, mut events) = agent.run(cx).await.map_err(|why| why.to_string())?;
        desk.acts().handle = Some(handle.clone());
        let ended = self.go_on(&handle, &desk).await;
        if past.is_empty() && model.ran_out() {
            return Err(
                "the scenario has fewer replies than the agent asks for: give it more".into()
            );
        }
        ended?;
        let state = handle.state().await.map_err(|why| why.to_string())?;
        let items = log.items();
        if !state.pending_tool_calls.is_empty() {
            return Err(format!("the calls {:?} have no result", state.pending_tool_calls));
        }
        check_log(&items)?;
        check_transcript(&state.messages)?;
        if let Some(why) = model.refused().first() {
            return Err(format!("a malformed request went out: {why}"));
        }
        let own = state.tools.iter().map(|spec| (spec.name.clone(), spec.effect));
        let effects = effects.cloned().unwrap_or_else(|| own.collect());
        check_runs(past, &items, &ran, &effects)?;
        let told: Vec<Arc<Envelope>> = std::iter::from_fn(|| events.try_next()).collect();
        check_numbers(past, &items, &told)?;
        let said = desk.acts().said.clone();
        Ok(Ended { log: items, said, effects })
    }

    /// Goes on, answers and says what is left, until nothing is.
    async fn go_on(&self, handle: &AgentHandle, desk: &Desk) -> Result<(), String> {
        let why = |why: crate::agent::InputError| why.to_string();
        for _ in 0..1000 {
            let idle = tokio::time::timeout(PATIENCE, handle.wait_for_idle()).await;
            idle.map_err(|_| format!("the agent has not come to rest for {PATIENCE:?}"))?;
            let state = handle.state().await.map_err(why)?;
            if state.interrupted_run.is_some() {
                handle.send(InputEvent::Continue(None)).await.map_err(why)?;
            } else if let Some(action) = state.pending_actions.first() {
                handle
                    .resolve(
                        action.call.clone(),
                        action.digest.clone(),
                        (self.scenario.answer)(action),
                    )
                    .await
                    .map_err(why)?;
            } else if let Some(act) = desk.next(|_| true) {
                handle.send(act.event).await.map_err(why)?;
            } else {
                return Ok(());
            }
        }
        Err("the agent does not come to an end: it has rested a thousand times".into())
    }
}

/// No call that was finished ran again, and none that must not run twice did.
fn check_runs(
    past: &[LogEntry],
    items: &[LogEntry],
    ran: &Ran,
    effects: &HashMap<Arc<str>, Effect>,
) -> Result<(), String> {
    let ran = ran.lock().unwrap_or_else(PoisonError::into_inner);
    let finished = |items: &[LogEntry], id: &CallId| {
        items.iter().find_map(|item| match item {
            LogEntry::CallFinished { result } => {
                result.as_tool_result().filter(|result| result.call == *id).cloned()
            }
            _ => None,
        })
    };
    let started = past.iter().filter_map(|item| {
        if let LogEntry::CallStarted { call, .. } = item { Some(call) } else { None }
    });
    for call in started {
        let runs = ran.iter().filter(|id| *id == call).count();
        if finished(past, call).is_some() {
            ensure(runs == 0, &format!("call {call} was finished and ran again"))?;
            continue;
        }
        let last = past.iter().rev().find(|item| match item {
            LogEntry::CallStarted { call: id, .. } | LogEntry::CallAwaiting { call: id, .. } => {
                id == call
            }
            _ => false,
        });
        let (Some(LogEntry::CallStarted { .. }), Some(result)) = (last, finished(items, call))
        else {
            continue;
        };
        if effects.get(&result.name) == Some(&Effect::AtMostOnce) {
            if runs > 0 {
                return Err(format!(
                    "the once-only call {call} of `{}` had started and ran again",
                    result.name
                ));
            }
            if result.status != ResultStatus::OutcomeUnknown {
                let (name, status) = (&result.name, result.status);
                return Err(format!(
                    "the once-only call {call} of `{name}` had started, and its result is {status:?}"
                ));
            }
        }
    }
    Ok(())
}

/// Numbers go on where the past ends, without gaps, and each event is the one that the log tells
/// under its number.
fn check_numbers(
    past: &[LogEntry],
    items: &[LogEntry],
    told: &[Arc<Envelope>],
) -> Result<(), String> {
    let (before, all) =
        (SessionLog::events("s", past).len() as u64, SessionLog::events("s", items));
    let mut last = before;
    for event in told {
        if event.seq == last {
            continue; // a delta, or the first of several
        }
        if event.seq != last + 1 {
            return Err(format!("event {} follows event {last}: {:?}", event.seq, event.event));
        }
        last = event.seq;
        let logged = all.get(last as usize - 1).map(|logged| &logged.event);
        if logged != Some(&event.event) {
            return Err(format!(
                "event {last} was told as {:?}, and the log tells {logged:?}",
                event.event
            ));
        }
    }
    if last == all.len() as u64 {
        Ok(())
    } else {
        Err(format!("event {last} is the last of {}", all.len()))
    }
}

/// The calls that ran.
type Ran = Arc<Mutex<Vec<CallId>>>;

/// A tool whose runs are noted.
struct Watched {
    tool: Arc<dyn Tool>,
    ran: Ran,
}

#[async_trait]
impl Tool for Watched {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.tool.spec()
    }

    async fn call(&self, arguments: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).push(cx.call_id().clone());
        self.tool.call(arguments, cx).await
    }

    fn check_arguments(&self, arguments: &Value) -> Option<Result<(), String>> {
        self.tool.check_arguments(arguments)
    }
}

/// A memory that says what is to be said when the log has a certain item.
#[derive(Clone)]
struct Desk {
    log: InMemory,
    acts: Arc<Mutex<Acts>>,
}

#[derive(Default)]
struct Acts {
    /// Who is spoken to, once it can be.
    handle: Option<AgentHandle>,
    left: VecDeque<Act>,
    /// How long the log was when each act was said.
    said: Vec<(usize, usize)>,
}

impl Desk {
    fn acts(&self) -> std::sync::MutexGuard<'_, Acts> {
        self.acts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is said next, if it is its time.
    fn next(&self, due: impl Fn(&Act) -> bool) -> Option<Act> {
        let mut acts = self.acts();
        let act = acts.left.front().is_some_and(due).then(|| acts.left.pop_front())??;
        acts.said.push((act.number, self.log.items().len()));
        Some(act)
    }
}

#[async_trait]
impl Memory for Desk {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.log.append(at, items.clone()).await?;
        let due =
            |act: &Act| act.when.as_ref().is_some_and(|when| items.iter().any(|item| when(item)));
        let handle = self.acts().handle.clone();
        if let Some(handle) = handle
            && let Some(Act { event, .. }) = self.next(due)
        {
            drop(handle.post(event, None));
            tokio::task::yield_now().await; // the session's task hears it before the pattern goes on
        }
        Ok(())
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.log.load(from).await
    }
}
