//! Those who act in a replay: a model, tools and a memory that do as the log says.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::Value;

use super::compaction::{Step, step};
use super::difference::Difference;
use super::progress::{Against, Sent, State};
use super::stage::Stage;
use crate::error::{ActionRequest, MemoryError, ModelError, ModelErrorKind, ToolError};
use crate::log::compaction::CompactionCause;
use crate::log::entry::LogEntry;
use crate::log::memory::{InMemory, Memory};
use crate::message::{
    AssistantMessage, ContentPart, Message, ResultStatus, StopReason, ToolResult,
};
use crate::model::{BlockKind, ChatModel, ChatRequest, ModelEvent, ModelInfo, Prices};
use crate::session::executor::STOPPED_ITSELF;
use crate::tool::{Tool, ToolContext, ToolOutput, ToolSpec};

/// A model that says what the log has.
pub(super) struct Actor {
    stage: Arc<Stage>,
    info: ModelInfo,
}

/// What a model says to a request.
struct Lines {
    events: Vec<ModelEvent>,
    /// What it waits for before it ends.
    until: usize,
    /// How it ends; nothing if it was cut off.
    end: Option<ModelEvent>,
    detached: bool,
}

impl Actor {
    pub(super) fn new(stage: Arc<Stage>, id: Arc<str>, window: Option<u64>) -> Self {
        let priced = |item: &LogEntry| {
            matches!(
                item,
                LogEntry::Replied { cost: Some(_), .. } | LogEntry::Detached { cost: Some(_), .. }
            )
        };
        let prices = stage.log.iter().any(priced).then(Prices::default);
        let info = ModelInfo::new(id);
        Actor { info: ModelInfo { prices, context_window: window, ..info }, stage }
    }

    /// What the log has for this request; nothing if the log is not followed any further.
    fn part(&self, request: ChatRequest) -> Option<Lines> {
        let (log, mut state) = (&self.stage.log, self.stage.state());
        let life = &self.stage.lives[state.life];
        if state.is_over(life) {
            return None;
        }
        let announced = state.announced.take();
        let found = match announced {
            Some(at) => Some(at),
            None => {
                let next = life.next(log, state.at);
                next.filter(|at| matches!(log[*at], LogEntry::Detached { .. }))
            }
        };
        let Some(at) = found else {
            let difference = state.not_in_log(log.get(state.at).filter(|_| state.at < life.end));
            drop(state);
            self.stage.found(difference);
            return None;
        };
        if let Some(difference) = differs(&state, &self.info.id, &request, announced.is_none()) {
            drop(state);
            self.stage.found(difference);
            return None;
        }
        state.sent.push(Sent { model: self.info.id.clone(), request });
        drop(state);
        self.stage.speaks();
        let log = &log[..life.end];
        Some(if announced.is_some() { reply(log, at) } else { detached(log, at) })
    }
}

/// How a request differs from what it is compared with.
fn differs(
    state: &State,
    model: &Arc<str>,
    request: &ChatRequest,
    detached: bool,
) -> Option<Difference> {
    let number = state.asked + usize::from(detached);
    match &state.against {
        Against::Nothing => None,
        Against::Log if detached => None,
        Against::Log => Difference::of_messages(number, &state.fold.context, &request.messages),
        Against::Sent(sent) => {
            let Some(Sent { model: old_model, request: old }) = sent.get(state.sent.len()) else {
                return Some(Difference::of_request(number, " is one more than was sent before"));
            };
            let tools = |request: &ChatRequest| {
                let tool = |spec: &Arc<ToolSpec>| {
                    format!("{}: {} {}", spec.name, spec.description, spec.schema)
                };
                request.tools.iter().map(tool).collect::<Vec<_>>().join(", ")
            };
            let rest = |r: &ChatRequest| {
                format!(
                    "{:?}, thinking {:?}, {:?}, at most {:?} tokens, temperature {:?}",
                    r.tool_choice, r.thinking, r.output, r.max_tokens, r.temperature
                )
            };
            Difference::of_values(number, "the model", old_model, model)
                .or_else(|| {
                    Difference::of_values(number, "the system prompt", &old.system, &request.system)
                })
                .or_else(|| Difference::of_messages(number, &old.messages, &request.messages))
                .or_else(|| {
                    Difference::of_values(number, "the list of tools", &tools(old), &tools(request))
                })
                .or_else(|| {
                    Difference::of_values(number, "what it asks for", &rest(old), &rest(request))
                })
        }
    }
}

/// The reply to the request at this place of the log.
fn reply(log: &[LogEntry], at: usize) -> Lines {
    let LogEntry::RequestStarted { message: id, .. } = &log[at] else {
        return lost(log, at);
    };
    let over = |item: &LogEntry| {
        matches!(
            item,
            LogEntry::RequestStarted { .. } | LogEntry::RunEnded { .. } | LogEntry::Detached { .. }
        )
    };
    for (next, item) in log.iter().enumerate().skip(at + 1) {
        match item {
            LogEntry::Replied { message, cost } if message.id == *id => {
                return said(log, next, message, *cost, false);
            }
            item if over(item) => break,
            _ => {}
        }
    }
    lost(log, at)
}

/// The aside at this place of the log.
fn detached(log: &[LogEntry], at: usize) -> Lines {
    match &log[at] {
        LogEntry::Detached { message, cost } => said(log, at, message, *cost, true),
        _ => lost(log, at),
    }
}

fn said(
    log: &[LogEntry],
    at: usize,
    message: &Message,
    cost: Option<f64>,
    detached: bool,
) -> Lines {
    let nothing = AssistantMessage::default();
    let reply = message.as_assistant().unwrap_or(&nothing);
    let end = match reply.stop {
        StopReason::Interrupted | StopReason::Aborted => None,
        // An aside that failed did so by its model.
        StopReason::Error => error(log, at + 1).or_else(|| detached.then(unknown)),
        stop => Some(ModelEvent::Done { stop, usage: reply.usage }),
    };
    // Prices at which this reply cost what it did.
    let tokens = reply.usage.total() as f64;
    let prices = cost.map(|cost| {
        let each = if tokens > 0.0 { cost * 1e6 / tokens } else { 0.0 };
        Prices { input: each, output: each, cache_read: each, cache_write: each, long: None }
    });
    let info = ModelInfo { prices, ..ModelInfo::new(reply.model.clone()) };
    let mut events = vec![ModelEvent::AnsweredBy(Arc::new(info))];
    for (block, part) in (0..).zip(&reply.parts) {
        let (kind, delta, signature) = match part {
            ContentPart::Text { text, signature } => (BlockKind::Text, text.clone(), signature),
            ContentPart::Thinking { text, signature } => {
                (BlockKind::Thinking, text.clone(), signature)
            }
            ContentPart::ToolCall(call) => {
                let kind =
                    BlockKind::ToolCall { id: call.id.to_string(), name: call.name.to_string() };
                (kind, call.arguments.to_string(), &call.signature)
            }
        };
        events.push(ModelEvent::BlockStart { block, kind });
        events.push(ModelEvent::Delta { block, delta });
        events.push(ModelEvent::BlockEnd { block, signature: signature.clone() });
    }
    Lines { events, until: at, end, detached }
}

/// A request without a word in answer: it was cut off, or it failed.
fn lost(log: &[LogEntry], at: usize) -> Lines {
    let told = |item: &LogEntry| {
        matches!(
            item,
            LogEntry::Queued { .. }
                | LogEntry::Decided { .. }
                | LogEntry::Withdrawn { .. }
                | LogEntry::Settings { .. }
        )
    };
    let next = (at + 1..log.len()).find(|at| !told(&log[*at])).unwrap_or(log.len());
    // What was said meanwhile is said while an aside that follows goes on.
    let until =
        if matches!(log.get(next), Some(LogEntry::Detached { .. })) { at + 1 } else { next };
    if let Some(error) = overflow(log, next) {
        return Lines { events: Vec::new(), until, end: Some(error), detached: false };
    }
    let interrupted = log[at + 1..next].iter().any(|item| {
        matches!(
            item,
            LogEntry::Queued {
                kind: crate::event::QueueKind::Steering,
                urgency: crate::event::Urgency::Interrupt,
                ..
            }
        )
    });
    let cut = interrupted
        || matches!(
            log.get(next),
            None | Some(LogEntry::AbortRequested { .. } | LogEntry::Opened { .. })
        );
    let end = if cut { None } else { error(log, next) };
    Lines { events: Vec::new(), until, end, detached: false }
}

/// A model's refusal of a request as too large, if what comes next in the log is what the engine
/// does about it.
fn overflow(log: &[LogEntry], next: usize) -> Option<ModelEvent> {
    let overflown = match step(log, next)? {
        Step::Made { why, .. } => *why == CompactionCause::Overflow,
        Step::Unmade { failed } => !failed,
    };
    let error = ModelError::new(ModelErrorKind::ContextOverflow, "the request was too large");
    overflown.then_some(ModelEvent::Error(error))
}

fn unknown() -> ModelEvent {
    ModelEvent::Error(ModelError::new(
        ModelErrorKind::Network,
        "the request failed, and the log does not say why",
    ))
}

/// How a model failed whose failure comes before this place of the log; nothing if it was not the
/// model that did.
fn error(log: &[LogEntry], at: usize) -> Option<ModelEvent> {
    use LogEntry::{Compacted, Detached, RequestStarted, RunEnded};
    let over = |item: &&LogEntry| {
        matches!(item, RequestStarted { .. } | Detached { .. } | Compacted { .. } | RunEnded { .. })
    };
    let (kind, text) = match log[at..].iter().find(over)? {
        RunEnded { model_error: Some(kind), error, .. } => {
            (*kind, error.as_deref().unwrap_or_default())
        }
        RunEnded { .. } => return None,
        // Of what kind the failure of a summary was is of interest to nobody.
        Compacted { error: Some(error), .. } => (ModelErrorKind::Network, &**error),
        // The pattern went on, and the log does not say what it was told.
        _ => return Some(unknown()),
    };
    Some(ModelEvent::Error(ModelError::new(kind, text)))
}

fn over() -> ModelEvent {
    ModelEvent::Error(ModelError::new(ModelErrorKind::InvalidRequest, "the replay is over"))
}

impl ChatModel for Actor {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        let Some(Lines { events, until, end, detached }) = self.part(request) else {
            return stream::iter([over()]).boxed();
        };
        let last = async move {
            if self.stage.has_spoken(detached) {
                tokio::task::yield_now().await; // the session hears it before the model ends
            }
            match end {
                Some(end) if self.stage.reached(until).await => end,
                _ => {
                    self.stage.over().cancelled().await;
                    over()
                }
            }
        };
        stream::iter(events).chain(stream::once(last)).boxed()
    }
}

/// A tool that gives the log's results.
pub(super) struct StandIn {
    stage: Arc<Stage>,
    spec: Arc<ToolSpec>,
}

impl StandIn {
    pub(super) fn new(stage: Arc<Stage>, spec: Arc<ToolSpec>) -> Self {
        StandIn { stage, spec }
    }

    /// What became of the call, and where in the log.
    fn outcome(&self, call: &str) -> Option<(usize, Result<ToolResult, ActionRequest>)> {
        let state = self.stage.state();
        let (from, to) = (*state.started.get(call)? + 1, self.stage.lives[state.life].end);
        self.stage.log[from..to].iter().enumerate().find_map(|(n, item)| {
            let outcome = match item {
                LogEntry::CallAwaiting { call: waits, request: Some(need), .. }
                    if **waits == *call =>
                {
                    Err((**need).clone())
                }
                LogEntry::CallFinished { result } => {
                    Ok(result.as_tool_result().filter(|result| *result.call == *call)?.clone())
                }
                _ => return None,
            };
            Some((from + n, outcome))
        })
    }
}

#[async_trait]
impl Tool for StandIn {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn check_arguments(&self, _: &Value) -> Option<Result<(), String>> {
        Some(Ok(())) // it does not read them
    }

    async fn call(&self, _: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let over = self.stage.over();
        let outcome = self.outcome(cx.call_id());
        self.stage.has_begun(cx.call_id());
        let Some((at, outcome)) = outcome else {
            over.cancelled().await; // the process died while it ran
            return Err(ToolError::Cancelled);
        };
        if !self.stage.reached(at).await {
            return Err(ToolError::Cancelled);
        }
        let result = outcome.map_err(ToolError::Suspend)?;
        let why = result.text();
        let ToolResult { status, content, details, terminate, .. } = result;
        let details = details.map(Arc::unwrap_or_clone);
        match (status, details) {
            (ResultStatus::Error, Some(details)) => Err(ToolError::FailedWith { why, details }),
            (ResultStatus::Error, None) => Err(ToolError::Failed(why)),
            (ResultStatus::Aborted | ResultStatus::OutcomeUnknown, _) => {
                if why != STOPPED_ITSELF {
                    tokio::select! {
                        () = cx.cancelled() => {}
                        () = over.cancelled() => {}
                    }
                }
                Err(ToolError::Cancelled)
            }
            (_, details) => Ok(ToolOutput { content, details, terminate }),
        }
    }
}

/// The memory of a replayed session, which knows where the log stands.
pub(super) struct Kept {
    stage: Arc<Stage>,
    log: InMemory,
    over: tokio_util::sync::CancellationToken,
}

impl Kept {
    pub(super) fn new(stage: Arc<Stage>, log: InMemory) -> Self {
        let over = stage.over();
        Kept { stage, log, over }
    }
}

#[async_trait]
impl Memory for Kept {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        if self.over.is_cancelled() {
            return Err(MemoryError::Failed("the replay is over".into()));
        }
        self.log.append(at, items.clone()).await?;
        if self.stage.written(&items) {
            tokio::task::yield_now().await; // the session's task hears what was said before the pattern goes on
        }
        Ok(())
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.log.load(from).await
    }
}
