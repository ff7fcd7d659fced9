//! [`crash_tree`]: repeats an agent with sub-agents, with a crash at every pair of cuts of their
//! logs.

mod cuts;
mod recorder;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::agent::{GenericAgent, RunContext};
use crate::error::{InputError, MemoryError};
use crate::event::action::ExternalAction;
use crate::event::input::{AbortRequest, ActionResult, Decision, Input, InputEvent, Prompt};
use crate::log::check_log;
use crate::log::entry::LogEntry;
use crate::log::session_log::SessionLog;
use crate::log::store::SessionStore;
use crate::message::MessageKind;
use crate::session::handle::AgentHandle;
use crate::session::sub_agents::child_agent::ChildAgent;
use crate::testing::log_text::entry_line;
use crate::tool::Effect;
use cuts::{Cuts, Logs, all_cuts};
use recorder::Recorder;

/// The id of the root's session.
const ROOT: &str = "root";

/// Maximum number of times in a row that a session may ask for decisions.
const MAX_ROUNDS: usize = 1_000;

/// The counts of a [`crash_tree`] test.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeReport {
    /// Number of appends of all sessions without a crash.
    pub appends: usize,
    /// Number of sessions, including the root.
    pub sessions: usize,
    /// Number of crashes: pairs of cuts of the logs of a parent and a sub-agent.
    pub crashes: usize,
    /// Number of crashes after which the results were compared.
    pub compared: usize,
}

/// The user's reaction to a pending action.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TreeInput {
    /// The decision on the action.
    Decide(Decision),
    /// An abort of the run.
    Abort,
    /// Another request instead of a decision.
    Request(String),
}

impl From<Decision> for TreeInput {
    fn from(decision: Decision) -> Self {
        TreeInput::Decide(decision)
    }
}

impl TreeInput {
    /// Returns the input for this action. Its id is always the same.
    fn input(self, action: &ExternalAction) -> Input {
        let ExternalAction { call, digest, .. } = action;
        match self {
            TreeInput::Decide(decision) => {
                let result = ActionResult::new(call.clone(), digest.clone(), decision);
                InputEvent::ExternalActionResult(result).with_id(format!("decision-{call}"))
            }
            TreeInput::Abort => InputEvent::Abort(AbortRequest::new()).with_id("abort"),
            TreeInput::Request(text) => {
                InputEvent::UserRequest(Prompt::from(&*text)).with_id("instead")
            }
        }
    }
}

/// Runs an agent with sub-agents to its end, then repeats it with crashes. There is one crash for
/// each pair of cuts of a parent's and its sub-agent's log that a crash can leave. Each time, the
/// root is reopened as if the process had died then, run to its end, and compared with the sessions
/// without a crash.
///
/// All of this takes place twice: with each change of a session written at once, which the report
/// counts, and with appends joined as outside of tests.
///
/// `agent` builds the agent, with new instances of patterns and tools each time, and models whose
/// replies depend on the request. `react` returns the user's reaction to a pending action; `None`
/// lets it wait. `store` builds an empty store, in which the cut logs are reopened. After each
/// crash these checks must hold:
///
/// - The logs of all sessions fulfil [`check_log`].
/// - No call of a tool with [`Effect::AtMostOnce`] ran again, in any session.
/// - Each action was pending at the root once, and each sub-agent has one end.
/// - The root is charged with the turns of all sessions.
/// - The conversations equal those without a crash, and no additional request was sent. This is not
///   checked if an at-most-once call was running at the crash, because its outcome is then unknown.
///
/// # Errors
///
/// Returns the two cuts and the failed check.
///
/// # Example
///
/// ```
/// use loopwright_core::GenericAgent;
/// use loopwright_core::event::Decision;
/// use loopwright_core::log::InMemoryStore;
/// use loopwright_core::testing::{Script, ScriptedModel, crash_tree};
/// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
/// # struct Loop;
/// # #[async_trait::async_trait]
/// # impl BehaviorPattern for Loop {
/// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
/// #         step.take_input().await?;
/// #         loop {
/// #             let reply = step.ask().await?;
/// #             if step.call_tools(&reply).await?.awaits_user() {
/// #                 return Ok(StepEnd::AwaitingAction);
/// #             }
/// #             if !reply.has_calls() { return reply.finish() }
/// #         }
/// #     }
/// # }
///
/// fn agent() -> GenericAgent {
///     let child = ScriptedModel::new([]).default_reply(Script::text("4"));
///     let child = GenericAgent::builder(child, Loop).build().unwrap();
///     let model = ScriptedModel::new([]).reply_with(|request| match request.messages.len() {
///         1 => Script::calls([("c", "adder", serde_json::json!({ "task": "2 + 2" }))]),
///         _ => Script::text("It is 4."),
///     });
///     GenericAgent::builder(model, Loop).child("adder", "Adds.", child).build().unwrap()
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let approve = |_: &_| Some(Decision::Approve.into());
/// let store = async || InMemoryStore::new();
/// let report = crash_tree(agent, "Add.", approve, store).await.unwrap();
/// assert!(report.sessions == 2 && report.compared == report.crashes);
/// # }
/// ```
pub async fn crash_tree<S: SessionStore + Clone + 'static>(
    agent: impl Fn() -> GenericAgent,
    prompt: &str,
    react: impl Fn(&ExternalAction) -> Option<TreeInput>,
    store: impl AsyncFn() -> S,
) -> Result<TreeReport, String> {
    let mut trial = Trial { agent, prompt, react, appends_each: true };
    let report = cut_everywhere(&trial, &store).await?;
    trial.appends_each = false;
    let joined = cut_everywhere(&trial, &store).await;
    joined.map_err(|why| format!("with joined appends, {why}"))?;
    Ok(report)
}

async fn cut_everywhere<A, R, S>(
    trial: &Trial<'_, A, R>,
    store: &impl AsyncFn() -> S,
) -> Result<TreeReport, String>
where
    A: Fn() -> GenericAgent,
    R: Fn(&ExternalAction) -> Option<TreeInput>,
    S: SessionStore + Clone + 'static,
{
    let recorder = Recorder::default();
    let failed = |why| format!("without a crash: {why}");
    let complete = trial.run(&recorder).await.map_err(failed)?;
    trial.check(&complete, None).map_err(failed)?;
    let order = recorder.order();
    let mut report =
        TreeReport { appends: order.len(), sessions: complete.len(), crashes: 0, compared: 0 };
    for cuts in all_cuts(&order, &complete) {
        let at = |why: String| format!("with {}: {why}", describe(&cuts));
        let store = store().await;
        restore(&store, &complete, &cuts).await.map_err(|error| at(error.to_string()))?;
        let after = trial.run(&store).await.map_err(at)?;
        let is_compared = !is_call_lost(&cuts, &complete, &trial.effects());
        let expected = is_compared.then_some((&complete, &cuts));
        trial.check(&after, expected).map_err(at)?;
        report.crashes += 1;
        report.compared += usize::from(is_compared);
    }
    Ok(report)
}

struct Trial<'a, A, R> {
    agent: A,
    prompt: &'a str,
    react: R,
    appends_each: bool,
}

impl<A, R> Trial<'_, A, R>
where
    A: Fn() -> GenericAgent,
    R: Fn(&ExternalAction) -> Option<TreeInput>,
{
    /// Opens the root, acts as the user until no work is left, and returns the logs of all
    /// sessions.
    async fn run<S: SessionStore + Clone + 'static>(&self, store: &S) -> Result<Logs, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let cx = RunContext::new().stored(store, ROOT).await.map_err(|error| text(&error))?;
        let cx = if self.appends_each { cx.append_each() } else { cx };
        let (handle, _events) = (self.agent)().run(cx).await.map_err(|error| text(&error))?;
        if handle.state().await.map_err(|error| text(&error))?.interrupted_run.is_some() {
            drop(handle.continue_run().await);
        }
        let request = InputEvent::UserRequest(Prompt::from(self.prompt)).with_id("request");
        handle.send(request).await.map_err(|error| text(&error))?;
        self.react_to_all(&handle).await?;
        handle.close().await;
        let mut logs = Logs::new();
        let mut sessions = vec![Arc::from(ROOT)];
        while let Some(session) = sessions.pop() {
            let log = store.read(&session, 0).await.map_err(|error| text(&error))?;
            sessions.extend(log.iter().filter_map(LogEntry::sub_agent).cloned());
            logs.insert(session, log);
        }
        Ok(logs)
    }

    async fn react_to_all(&self, handle: &AgentHandle) -> Result<(), String> {
        for _ in 0..MAX_ROUNDS {
            handle.wait_for_idle().await;
            let pending = handle.pending().await.map_err(|error| error.to_string())?;
            let next = pending.iter().find_map(|action| Some((self.react)(action)?.input(action)));
            let Some(input) = next else { return Ok(()) };
            match handle.send(input).await {
                Ok(_) | Err(InputError::NotPending(_)) => {}
                Err(error) => return Err(format!("an input is refused: {error}")),
            }
        }
        Err(format!("actions are still pending after {MAX_ROUNDS} decisions"))
    }

    /// Returns the effects of all tools of the agent and its sub-agents, by name.
    fn effects(&self) -> BTreeMap<Arc<str>, Effect> {
        (self.agent)().effects()
    }

    fn check(&self, logs: &Logs, expected: Option<(&Logs, &Cuts)>) -> Result<(), String> {
        let effects = self.effects();
        for (session, log) in logs {
            let of = |why: String| format!("in the session `{session}`: {why}");
            check_log(log).map_err(of)?;
            check_once(log, &effects).map_err(of)?;
        }
        check_spent(logs)?;
        let Some((complete, cuts)) = expected else { return Ok(()) };
        let found = by_path(logs);
        for (path, session) in by_path(complete) {
            let expected = &complete[&session];
            let Some(log) = found.get(&path).map(|found| &logs[found]) else {
                return Err(format!("no sub-agent works for the call `{path}`"));
            };
            let (found, expected_text) = (conversation(log), conversation(expected));
            if found != expected_text {
                return Err(format!(
                    "the conversation of `{session}` differs after the crash: {found:?} instead of \
                     {expected_text:?}"
                ));
            }
            let cut = &expected[..cuts[&session]];
            let sent = requests(log) - usize::from(SessionLog::of(cut).awaits_reply());
            if sent != requests(expected) {
                let wanted = requests(expected);
                return Err(format!("`{session}` sends {sent} requests instead of {wanted}"));
            }
        }
        Ok(())
    }
}

/// Returns the sessions by the calls that they work for, from the root on. Names may differ: they
/// contain the number of a reply, which changes if its request is repeated.
fn by_path(logs: &Logs) -> BTreeMap<String, Arc<str>> {
    let mut found = BTreeMap::new();
    let mut open = vec![(String::new(), Arc::from(ROOT))];
    while let Some((path, session)) = open.pop() {
        for entry in &logs[&session] {
            if let LogEntry::ChildStarted { call, session, .. } = entry {
                open.push((format!("{path}/{call}"), session.clone()));
            }
        }
        found.insert(path, session);
    }
    found
}

/// Checks that the root's spending is the sum of all sessions' usage, unless sub-agents are open.
fn check_spent(logs: &Logs) -> Result<(), String> {
    let root = SessionLog::of(&logs[ROOT]);
    let is_open = !root.pending().is_empty() || root.run().is_some();
    let own = |log: &Vec<LogEntry>| {
        let ended = |entry: &LogEntry| match entry {
            LogEntry::ChildEnded { used, .. } => used.turns,
            _ => 0,
        };
        SessionLog::of(log).used().turns - log.iter().map(ended).sum::<u32>()
    };
    let (charged, sent) = (root.used().turns, logs.values().map(own).sum::<u32>());
    if is_open || charged == sent {
        return Ok(());
    }
    Err(format!("the root is charged with {charged} turns, and all sessions have used {sent}"))
}

/// Checks the rules for at-most-once calls and for sub-agents.
fn check_once(log: &[LogEntry], effects: &BTreeMap<Arc<str>, Effect>) -> Result<(), String> {
    let mut names = BTreeMap::new();
    let calls = log.iter().filter_map(LogEntry::message).filter_map(|m| m.as_assistant());
    names.extend(calls.flat_map(|reply| reply.calls()).map(|c| (&c.id, &c.name)));
    let (mut started, mut listed, mut ended) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for entry in log {
        let is_new = match entry {
            LogEntry::CallStarted { call, .. } => {
                let effect = names.get(call).and_then(|name| effects.get(*name));
                effect != Some(&Effect::AtMostOnce) || started.insert(call)
            }
            LogEntry::ChildAwaits { actions, idle: false, .. } => {
                actions.iter().all(|action| listed.insert(&action.call))
            }
            LogEntry::ChildEnded { call, .. } => ended.insert(call),
            _ => true,
        };
        if !is_new {
            return Err(format!("this happens twice: {}", entry_line(entry)));
        }
    }
    Ok(())
}

fn requests(log: &[LogEntry]) -> usize {
    log.iter().filter(|entry| matches!(entry, LogEntry::RequestStarted { .. })).count()
}

/// Returns the conversation without the numbers of messages.
fn conversation(log: &[LogEntry]) -> Vec<String> {
    let text = |message: &Arc<crate::Message>| match &message.body {
        MessageKind::ToolResult(result) => format!("{}: {:?}", result.call, result.status),
        MessageKind::Assistant(reply) => {
            let calls: Vec<&str> = reply.calls().map(|call| &*call.id).collect();
            format!("reply {:?} {}", calls, message.text())
        }
        _ => message.text(),
    };
    SessionLog::of(log).messages().iter().map(text).collect()
}

/// Returns whether an at-most-once call was running at the crash.
fn is_call_lost(cuts: &Cuts, logs: &Logs, effects: &BTreeMap<Arc<str>, Effect>) -> bool {
    cuts.iter().any(|(session, cut)| {
        let log = &logs[session][..*cut];
        log.iter().any(|entry| {
            let LogEntry::CallStarted { call, .. } = entry else { return false };
            let is_result = |entry: &LogEntry| {
                entry.message().and_then(|m| m.as_tool_result()).is_some_and(|r| r.call == *call)
            };
            let calls = log.iter().filter_map(LogEntry::message).filter_map(|m| m.as_assistant());
            let name = calls.flat_map(|reply| reply.calls()).find(|c| c.id == *call);
            let effect = name.and_then(|c| effects.get(&c.name));
            effect == Some(&Effect::AtMostOnce) && !log.iter().any(is_result)
        })
    })
}

/// Writes the cut logs into an empty store.
async fn restore(store: &impl SessionStore, logs: &Logs, cuts: &Cuts) -> Result<(), MemoryError> {
    for (session, cut) in cuts.iter().filter(|(_, cut)| **cut > 0) {
        let memory = store.open(session).await?;
        memory.append(0, logs[session][..*cut].into()).await?;
        memory.close().await;
    }
    Ok(())
}

fn describe(cuts: &Cuts) -> String {
    let cuts = cuts.iter().map(|(session, cut)| format!("{cut} entries of `{session}`"));
    cuts.collect::<Vec<_>>().join(", ")
}
