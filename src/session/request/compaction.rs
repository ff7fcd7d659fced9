//! Compaction: the messages that the policy selects are summarised, and the log records the
//! replacement for later requests.

use std::sync::Arc;

use crate::compaction::{
    Compaction, CompactionCause, CompactionContext, CompactionPolicy, Replacement, SummaryRequest,
    check_range,
};
use crate::error::{Failure, InputError, StepError};
use crate::event::input::QueueKind;
use crate::limits::{Limit, LimitReached};
use crate::log::entry::LogEntry;
use crate::log::turn::Estimate;
use crate::message::{Message, MessageId, StopReason};
use crate::model::ChatRequest;
use crate::session::Session;
use crate::session::request::ask::Ask;
use crate::session::request::budget::{self, Admission};
use crate::session::request::detached::{self, DetachedReply};
use crate::session::request::estimate::{estimate, overhead};

/// The cause of a compaction, and the request that it precedes.
pub(crate) struct Trigger<'a> {
    pub(crate) cause: CompactionCause,
    /// The model of the next request, if it is not the agent's own.
    pub(crate) model: Option<&'a str>,
    /// The system prompt of the next request, if it is not the agent's own.
    pub(crate) system: Option<&'a Arc<str>>,
    /// The tokens that the request adds to the conversation and the system prompt.
    pub(crate) also: u64,
}

impl<'a> Trigger<'a> {
    fn asked(instructions: Option<Arc<str>>) -> Self {
        let cause = CompactionCause::Asked { instructions };
        Trigger { cause, model: None, system: None, also: 0 }
    }

    /// Builds the trigger of a compaction for this request.
    pub(crate) fn of(cause: CompactionCause, ask: &'a Ask) -> Self {
        let (model, system) = (ask.profile.model.as_deref(), ask.profile.system.as_ref());
        Trigger { cause, model, system, also: ask.tokens() }
    }
}

/// The end of a compaction.
pub(crate) enum Compacted {
    /// These messages were replaced. Empty if that was not necessary or not possible.
    Done(Vec<Arc<Compaction>>),
    /// A steer, or the end of a part's time, interrupted the compaction after these messages had
    /// been replaced.
    Interrupted(Vec<Arc<Compaction>>),
    /// The summary failed and nothing was replaced, because a caller asked for it, or because the
    /// request fits uncompacted.
    Failed(StepError),
}

impl Compacted {
    /// Returns the answer for the caller who asked for the compaction.
    fn answer(self) -> Result<Vec<Arc<Compaction>>, InputError> {
        match self {
            Compacted::Interrupted(done) if done.is_empty() => {
                Err(InputError::NotCompacted("it was interrupted".into()))
            }
            Compacted::Done(done) | Compacted::Interrupted(done) => Ok(done),
            Compacted::Failed(error) => Err(InputError::NotCompacted(Failure::of(error))),
        }
    }
}

/// The outcome of the request for a summary.
enum Summary {
    Text { entry: LogEntry, message: MessageId, text: String },
    Interrupted(Option<LogEntry>),
    Failed { entry: Option<LogEntry>, error: StepError },
}

/// The record of the summary for the log entry of the replacement.
#[derive(Default)]
struct SummaryRecord {
    text: Option<String>,
    message: Option<MessageId>,
    error: Option<Arc<str>>,
}

/// Compacts before a request: for callers who asked for it, and when the policy finds it necessary.
/// Returns whether a summary may have been paid for.
pub(crate) async fn compact_if_needed(session: &mut Session, ask: &Ask) -> Result<bool, StepError> {
    if session.config.compaction.is_none() {
        return Ok(false);
    }
    let was_asked = !session.intake.compactions.is_empty();
    while let Some(request) = session.intake.compactions.front() {
        let cause = CompactionCause::Asked { instructions: request.instructions.clone() };
        // If the future is dropped here, the request is still queued.
        let done = compact(session, &Trigger::of(cause, ask)).await?;
        let is_interrupted = matches!(done, Compacted::Interrupted(_));
        answer_next(session, done.answer());
        if is_interrupted {
            return Ok(true);
        }
    }
    let done = compact(session, &Trigger::of(CompactionCause::Threshold, ask)).await?;
    Ok(was_asked || !matches!(done, Compacted::Done(done) if done.is_empty()))
}

/// Answers the caller who asked first.
pub(crate) fn answer_next(session: &mut Session, answer: Result<Vec<Arc<Compaction>>, InputError>) {
    if let Some(request) = session.intake.compactions.pop_front() {
        request.answer(&mut session.journal, answer);
    }
}

/// Runs the compaction that a run was started for. Returns `false` if a message has come since the
/// run began, which the pattern has to answer.
pub(crate) async fn compact_for_run(
    session: &mut Session,
    instructions: Option<Arc<str>>,
) -> Result<bool, StepError> {
    if session.journal.state.turn.number > 0 {
        return Ok(false); // the pattern has begun to answer, perhaps before a crash
    }
    let state = &session.journal.state;
    let is_done = state.active_summary().is_some_and(|summary| summary.run == state.info.run);
    if !is_done {
        let done = compact(session, &Trigger::asked(instructions)).await?;
        let error = if let Compacted::Failed(error) = &done { Some(error.clone()) } else { None };
        session.compaction.result = Some(done.answer());
        if let Some(error) = error {
            return Err(error);
        }
    }
    let state = &session.journal.state;
    let is_new = |at: u64| at > state.run_at;
    Ok(!state.queue.iter().any(|w| is_new(w.at) && w.kind != QueueKind::Request))
}

/// Returns whether the policy would replace anything now.
pub(crate) fn can_compact(session: &mut Session, instructions: Option<Arc<str>>) -> bool {
    with_policy(session, &Trigger::asked(instructions), |policy, cx| policy.plan(cx))
        .flatten()
        .is_some()
}

/// Makes the replacements that the policy plans, until it plans no more.
pub(crate) async fn compact(
    session: &mut Session,
    trigger: &Trigger<'_>,
) -> Result<Compacted, StepError> {
    let mut done = Vec::new();
    while let Some(plan) = with_policy(session, trigger, |policy, cx| policy.plan(cx)).flatten() {
        let range = &plan.replaces;
        let context = &session.journal.state.context;
        check_range(context, range).map_err(StepError::CompactionPlan)?;
        let first = context[range.start].id;
        let last = context[range.end - 1].id;
        let record = match &plan.summary {
            None => SummaryRecord::default(),
            Some(request) => match obtain_summary(session, request, trigger, plan.fits).await? {
                Obtained::Record(record) => record,
                Obtained::Postponed => break,
                Obtained::Interrupted => return Ok(Compacted::Interrupted(done)),
                Obtained::Failed(_) if !done.is_empty() => return Ok(Compacted::Done(done)),
                Obtained::Failed(error) => return Ok(Compacted::Failed(error)),
            },
        };
        let text = record.text.as_deref();
        let replacement =
            with_policy(session, trigger, |policy, cx| policy.finish(cx, &plan, text));
        let Some(Replacement { message, details }) = replacement else { break };
        let message = session.journal.message(message);
        let SummaryRecord { message: summary, error, .. } = record;
        let details = Arc::new(details);
        let why = trigger.cause.clone();
        let entry = LogEntry::Compacted { first, last, message, details, summary, error, why };
        session.journal.commit(entry).await?;
        let Some(summary) = session.journal.state.active_summary() else { break };
        let compaction = summary.compaction.clone();
        let shrinks = compaction.tokens_after < compaction.tokens_before;
        done.push(compaction);
        if !plan.more || !shrinks {
            break;
        }
    }
    Ok(Compacted::Done(done))
}

/// The result of asking for a summary, for [`compact`].
enum Obtained {
    /// The messages are replaced by the summary, or left out without one.
    Record(SummaryRecord),
    /// The request fits, and the last summary of nearly the same conversation failed.
    Postponed,
    Interrupted,
    /// There is no summary, and the messages stay.
    Failed(StepError),
}

/// Asks for a summary and stages its entry.
async fn obtain_summary(
    session: &mut Session,
    request: &SummaryRequest,
    trigger: &Trigger<'_>,
    fits: bool,
) -> Result<Obtained, StepError> {
    let is_optional = fits && matches!(trigger.cause, CompactionCause::Threshold);
    if is_optional && !has_changed_since_failure(session) {
        return Ok(Obtained::Postponed);
    }
    match summarise(session, request, trigger).await? {
        Summary::Text { entry, message, text } => {
            session.journal.stage(entry);
            let (text, message) = (Some(text), Some(message));
            Ok(Obtained::Record(SummaryRecord { text, message, error: None }))
        }
        Summary::Interrupted(entry) => {
            entry.into_iter().for_each(|entry| session.journal.stage(entry));
            session.journal.flush().await?;
            Ok(Obtained::Interrupted)
        }
        Summary::Failed { entry, error } => {
            let cause = &trigger.cause;
            tracing::warn!(session = &*session.id, %error, ?cause, "there is no summary");
            if is_optional && entry.is_some() {
                session.compaction.failed_at = Some(session.journal.state.size.messages);
            }
            entry.into_iter().for_each(|entry| session.journal.stage(entry));
            if is_optional || matches!(cause, CompactionCause::Asked { .. }) {
                session.journal.flush().await?;
                return Ok(Obtained::Failed(error));
            }
            // Behind a part of the work there may be room for a summary.
            if let StepError::Limit(LimitReached { limit: Limit::Part(_), .. }) = error {
                session.journal.flush().await?;
                return Err(error);
            }
            let error = Some(error.to_string().into());
            Ok(Obtained::Record(SummaryRecord { error, ..SummaryRecord::default() }))
        }
    }
}

/// Returns whether the conversation has grown by a sixteenth, or shrunk, since a summary failed.
fn has_changed_since_failure(session: &Session) -> bool {
    let now = session.journal.state.size.messages;
    let then = session.compaction.failed_at;
    then.is_none_or(|then| now < then || now > then + then / 16)
}

async fn summarise(
    session: &mut Session,
    request: &SummaryRequest,
    trigger: &Trigger<'_>,
) -> Result<Summary, StepError> {
    let model = match session.config.model(request.model.as_deref().or(trigger.model)) {
        Ok(model) => model.clone(),
        Err(error) => return Ok(Summary::Failed { entry: None, error }),
    };
    // The last turn is reserved for the request itself, if there is one.
    let more = u32::from(!matches!(trigger.cause, CompactionCause::Asked { .. }));
    let message = Message::new(Default::default(), request.message.clone());
    let max_output = model.info().max_output.and_then(|max| u32::try_from(max).ok());
    let request = ChatRequest {
        system: request.system.clone(),
        messages: Arc::new(vec![Arc::new(message)]),
        max_tokens: request.max_tokens.map(|max| max.min(max_output.unwrap_or(u32::MAX))),
        session: session.id.clone(),
        trace: session.run_trace(),
        ..ChatRequest::default()
    };
    let needed = estimate(session, model.info(), &request);
    let checked = budget::check_prices(session, model.info());
    let admitted = match checked.and_then(|()| budget::check(session, 1 + more, needed)) {
        Ok(()) => budget::admit(session, needed, Estimate::default()).await,
        Err(error) => Err(error),
    };
    let held = match admitted {
        Ok(Admission::Admitted(held)) => held,
        Ok(_) => return Ok(Summary::Interrupted(None)),
        // The request itself would be refused too, so nothing is left out for it.
        Err(StepError::Limit(reached)) if reached.limit == Limit::Shared && more > 0 => {
            return Err(StepError::Limit(reached));
        }
        Err(error) => return Ok(Summary::Failed { entry: None, error }),
    };
    let sent = detached::send(session, &*model, request, (needed.input, held)).await?;
    let DetachedReply { entry, message, error } = sent;
    if let Some(error) = error {
        return Ok(Summary::Failed { entry: Some(entry), error: error.into() });
    }
    let Some(message) = message else { return Ok(Summary::Interrupted(Some(entry))) };
    let text = message.text();
    if text.trim().is_empty() {
        return Ok(Summary::Failed { entry: Some(entry), error: StepError::EmptySummary });
    }
    let is_cut = message.as_assistant().is_some_and(|reply| reply.stop == StopReason::Length);
    let text = text + if is_cut { " […]" } else { "" };
    Ok(Summary::Text { entry, message: message.id, text })
}

/// Calls the policy, if there is one, with the conversation.
fn with_policy<T>(
    session: &mut Session,
    trigger: &Trigger<'_>,
    call: impl FnOnce(&dyn CompactionPolicy, &CompactionContext<'_>) -> T,
) -> Option<T> {
    let policy = session.config.compaction.clone()?;
    let tools = session.executor.tools.list().clone();
    let system = trigger.system.unwrap_or(&session.config.system).clone();
    let overhead = overhead(session, &tools, &system);
    let Session { journal, config, .. } = session;
    let state = &journal.state;
    let info =
        |name: Option<&str>| config.model(name.or(trigger.model)).ok().map(|model| model.info());
    let windows = |name: Option<&str>| info(name)?.context_window;
    let last = state.active_summary();
    let context = CompactionContext {
        messages: &state.context,
        tokens: state.size.tokens(overhead) + trigger.also,
        overhead: overhead + trigger.also,
        max_output: config.max_tokens.map(u64::from).or_else(|| info(None)?.max_output),
        why: &trigger.cause,
        last: last.map(|summary| (summary.compaction.message.id, &*summary.details)),
        windows: &windows,
    };
    Some(call(&*policy, &context))
}
