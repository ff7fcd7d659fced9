//! Calls of patterns to tools, and their questions to the user.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;

use crate::error::{Failure, StepError};
use crate::event::input::{Decision, Provided};
use crate::log::calls::{CALLER, KeyedResult};
use crate::log::entry::LogEntry;
use crate::message::{
    AssistantMessage, CallId, Content, ContentPart, Message, ResultStatus, StopReason, ToolCall,
    ToolResult,
};
use crate::session::Session;
use crate::session::calls::batch;
use crate::session::calls::executor::suspended;
use crate::step_end::StepEnd;
use crate::tool::question::{ASK_USER, Question};

/// A tool call that a pattern makes; see [`StepContext::call`](crate::StepContext::call).
#[derive(Debug, Clone)]
#[must_use = "the call is made by `StepContext::call`"]
pub struct Call {
    name: Arc<str>,
    arguments: Result<Value, Failure>,
    key: Option<Arc<str>>,
    is_hidden: bool,
}

impl Call {
    /// Creates a call of the tool of this name, with arguments that are a JSON object.
    pub fn new(tool: impl Into<Arc<str>>, arguments: impl Serialize) -> Self {
        let arguments = serde_json::to_value(arguments).map_err(Failure::of);
        Call { name: tool.into(), arguments, key: None, is_hidden: false }
    }

    /// Creates a call that gives a task to the sub-agent of this name; see
    /// [`AgentBuilder::child`](crate::AgentBuilder::child). The text of the result is the
    /// sub-agent's answer; [`ToolResult::output`] parses it as a value.
    pub fn child(name: impl Into<Arc<str>>, task: impl Into<String>) -> Self {
        let task = Value::String(task.into());
        Call::new(name, BTreeMap::from([("task", task)]))
    }

    /// Sets a key, unique within the user's request. A call with this key is made only once.
    pub fn key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Hides the call and its result from models. Calls that are made together are hidden together
    /// if one of them is hidden.
    pub fn hidden(mut self) -> Self {
        self.is_hidden = true;
        self
    }
}

/// The state of a question to the user.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum QuestionStatus {
    /// The user answered. The value fits the question.
    Answered(Value),
    /// The user declined to answer, for this reason, which may be empty.
    Declined(String),
    /// Nobody answered before the deadline
    /// ([`ActionOptions::deadline`](crate::tool::ActionOptions::deadline)).
    Expired,
    /// The user sent another message instead of an answer.
    Superseded,
    /// The question waits. The step must end with
    /// [`StepEnd::AwaitingAction`](crate::StepEnd::AwaitingAction).
    Waiting,
}

impl QuestionStatus {
    /// Returns the answer, or ends the step while the question waits. Returns `None` if the user
    /// declined to answer, did not answer in time, or sent another message instead.
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::Ended`] while the question waits.
    pub fn answer(self) -> Result<Option<Value>, StepError> {
        match self {
            QuestionStatus::Answered(answer) => Ok(Some(answer)),
            QuestionStatus::Declined(_) | QuestionStatus::Expired | QuestionStatus::Superseded => {
                Ok(None)
            }
            QuestionStatus::Waiting => Err(StepEnd::AwaitingAction.into()),
        }
    }

    /// Returns the state of a question, from the result of its call.
    fn of(recorded: &KeyedResult) -> Self {
        match recorded.decision.as_deref() {
            Some(Decision::Provide(Provided::Input(answer))) => {
                QuestionStatus::Answered(answer.clone())
            }
            Some(Decision::Deny(_)) if recorded.by_default => QuestionStatus::Expired,
            Some(Decision::Deny(why)) => QuestionStatus::Declined(why.clone()),
            _ => QuestionStatus::Superseded,
        }
    }
}

/// Several calls, which are made when this is awaited. Built by
/// [`StepContext::call_all`](crate::StepContext::call_all).
#[must_use = "the calls are made when it is awaited"]
pub struct CallAll<'a> {
    session: &'a mut Session,
    calls: Vec<Call>,
    terms: Terms,
}

/// The conditions under which several calls are made.
#[derive(Default)]
struct Terms {
    at_most: Option<u32>,
    first: bool,
    as_many_as_fit: bool,
}

impl<'a> CallAll<'a> {
    pub(crate) fn new(session: &'a mut Session, calls: Vec<Call>) -> Self {
        CallAll { session, calls, terms: Terms::default() }
    }

    /// Sets the maximum number of calls that run at the same time: at least 1, and at most
    /// [`Limits::parallel_calls`](crate::limits::Limits::parallel_calls), the default. It holds
    /// after a crash and a decision too.
    pub fn at_most(mut self, calls: usize) -> Self {
        self.terms.at_most = u32::try_from(calls).ok();
        self
    }

    /// Ends with the first call that succeeds: the others are cancelled or not made, also after a
    /// crash, and their results say so.
    pub fn first(mut self) -> Self {
        self.terms.first = true;
        self
    }

    /// Returns the results even if the time of a [part](crate::StepContext::with_budget) is up,
    /// which is an error otherwise. The results of calls that were cut off or not made say so.
    pub fn as_many_as_fit(mut self) -> Self {
        self.terms.as_many_as_fit = true;
        self
    }
}

impl<'a> IntoFuture for CallAll<'a> {
    type Output = Result<Option<Vec<ToolResult>>, StepError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.session, self.calls, self.terms).boxed()
    }
}

/// Makes the calls in one batch. Returns their results in the same order, or `None` if some wait
/// for decisions. Calls whose keys have results are not made again.
async fn run(
    session: &mut Session,
    calls: Vec<Call>,
    terms: Terms,
) -> Result<Option<Vec<ToolResult>>, StepError> {
    session.receive_all().await?;
    session.check_batch_closed()?;
    let mut results = Vec::with_capacity(calls.len());
    let (mut keys, mut new, mut hidden) = (BTreeMap::new(), Vec::new(), false);
    for call in calls {
        let Call { name, arguments, key, is_hidden } = call;
        let arguments = arguments.map_err(StepError::NotJson)?;
        if key.is_some() && keys.values().any(|other| Some(other) == key.as_ref()) {
            return Err(taken(key.unwrap_or_default(), &name));
        }
        if let Some(recorded) = recorded(session, key.as_ref(), &name)? {
            results.push(Err(recorded.result.clone()));
            continue;
        }
        let taken: Vec<CallId> = new.iter().map(|call: &ToolCall| call.id.clone()).collect();
        let id = session.journal.state.unique_call_id(&name, &taken);
        keys.extend(key.map(|key| (id.clone(), key)));
        results.push(Ok(id.clone()));
        hidden |= is_hidden;
        new.push(ToolCall::new(id, name, arguments.to_string()));
    }
    let Terms { at_most, first, as_many_as_fit } = terms;
    let has_succeeded = |result: &Result<CallId, Arc<Message>>| {
        let result = result.as_ref().err().and_then(|recorded| recorded.as_tool_result());
        result.is_some_and(|result| result.status == ResultStatus::Ok)
    };
    let is_decided = first && results.iter().any(has_succeeded);
    let unnecessary = if is_decided { std::mem::take(&mut new) } else { Vec::new() };
    if !new.is_empty() {
        let message = message(session, new);
        let called = LogEntry::Called { message, keys, hidden, at_most, first };
        session.journal.commit(called).await?;
        match batch::run(session, None).await {
            Err(StepError::Limit(_)) if as_many_as_fit && session.journal.state.batch.is_none() => {
            }
            outcome => {
                if outcome?.awaits_user() {
                    return Ok(None);
                }
            }
        }
    }
    let history = &session.journal.state.history;
    let result = |call: Result<CallId, Arc<Message>>| match call {
        Ok(id) => {
            let mut results = history.iter().rev().filter_map(|m| m.as_tool_result());
            results.find(|result| result.call == id).cloned().or_else(|| skipped(&unnecessary, &id))
        }
        Err(recorded) => recorded.as_tool_result().cloned(),
    };
    Ok(results.into_iter().map(result).collect())
}

/// Returns the result of one of these calls, which another one has made unnecessary.
fn skipped(unnecessary: &[ToolCall], id: &CallId) -> Option<ToolResult> {
    let call = unnecessary.iter().find(|call| call.id == *id)?;
    let content = vec![Content::text(batch::DECIDED)];
    Some(ToolResult::new(id.clone(), call.name.clone(), ResultStatus::Skipped, content))
}

/// Asks the user, unless a question with this key was already asked for this request.
pub(crate) async fn ask_user(
    session: &mut Session,
    key: Arc<str>,
    question: Question,
) -> Result<QuestionStatus, StepError> {
    session.receive_all().await?;
    session.check_batch_closed()?;
    if let Some(recorded) = recorded(session, Some(&key), ASK_USER)? {
        return Ok(QuestionStatus::of(recorded));
    }
    question.check_form().map_err(StepError::Question)?;
    let name: Arc<str> = ASK_USER.into();
    let request = question.action_request();
    let arguments = Arc::new(request.data.clone());
    let call = session.journal.state.unique_call_id(&name, &[]);
    let message =
        message(session, vec![ToolCall::new(call.clone(), name.clone(), arguments.to_string())]);
    let time = session.config.environment.now();
    let keys = BTreeMap::from([(call.clone(), key)]);
    let hidden = !question.is_shown;
    // One append, so that every logged question waits for its answer.
    let (at_most, first) = (None, false);
    session.journal.stage(LogEntry::Called { message, keys, hidden, at_most, first });
    let options = question.options.as_deref();
    session.journal.stage(suspended(call, name, arguments, request, options, time));
    session.journal.flush().await?;
    batch::announce(session, &[]).await?;
    Ok(QuestionStatus::Waiting)
}

/// Returns the result that is recorded under this key, if any.
fn recorded<'a>(
    session: &'a Session,
    key: Option<&Arc<str>>,
    tool: &str,
) -> Result<Option<&'a KeyedResult>, StepError> {
    let Some(key) = key else { return Ok(None) };
    let recorded = session.journal.state.keyed_results.get(key);
    match recorded.and_then(|recorded| recorded.result.as_tool_result()) {
        Some(result) if *result.name != *tool => Err(taken(key.clone(), &result.name)),
        _ => Ok(recorded),
    }
}

fn taken(key: Arc<str>, by: &str) -> StepError {
    StepError::KeyTaken { key, by: format!("a call of `{by}`").into() }
}

/// Builds the message that contains a pattern's calls.
fn message(session: &mut Session, calls: Vec<ToolCall>) -> Arc<Message> {
    let mut message = AssistantMessage::new(calls.into_iter().map(ContentPart::ToolCall).collect());
    (message.stop, message.model) = (StopReason::ToolCalls, CALLER.into());
    session.journal.message(message)
}
