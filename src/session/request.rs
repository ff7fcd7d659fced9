//! Model requests: they are built, sent, and their replies join the conversation.

pub(crate) mod ask;
pub(crate) mod ask_all;
pub(crate) mod ask_for;
pub(crate) mod budget;
pub(crate) mod compaction;
pub(crate) mod compaction_state;
pub(crate) mod cut_replies;
pub(crate) mod detached;
pub(crate) mod estimate;
pub(crate) mod in_flight;
pub(crate) mod layers;
pub(crate) mod model_request;
pub(crate) mod repeated_calls;
pub(crate) mod reply;
pub(crate) mod shared_budget;
pub(crate) mod shown;
pub(crate) mod stream;
pub(crate) mod wrap_up;

use std::sync::Arc;

use crate::compaction::CompactionCause;
use crate::error::{ModelErrorKind, StepError};
use crate::event::input::{Prompt, QueueKind, Urgency};
use crate::event::{AgentEvent, Role};
use crate::hooks::RequestInfo;
use crate::log::entry::LogEntry;
use crate::log::state::Tail;
use crate::log::turn::Estimate;
use crate::message::{Message, MessageId, ResultStatus};
use crate::model::{ChatModel, ChatRequest, OutputSchema, ToolChoice};
use crate::session::Session;
use crate::session::input::intake;
use crate::session::part_time;
use crate::session::request::ask::{Ask, unsaved};
use crate::session::request::budget::Admission;
use crate::session::request::compaction::{Compacted, Trigger};
use crate::session::request::estimate::{Needed, estimate, estimate_last};
use crate::session::request::in_flight::HeldBudget;
use crate::session::request::layers::EndVerdict;
use crate::session::request::reply::{Reply, ReplyHooks};
use crate::session::request::stream::Streamed;
use crate::tool::{ToolList, ToolSpec};

/// Maximum number of times in a row that a request that is too large is compacted and sent again.
const MAX_OVERFLOWS: u32 = 2;

/// Sends a request and puts the reply into the conversation.
pub(crate) async fn send(session: &mut Session, ask: Ask) -> Result<Reply, StepError> {
    if ask.key.is_some() || ask.shown.is_some() {
        return Err(StepError::NotDetached);
    }
    let before = session.journal.state.info.entries;
    session.receive_all().await?;
    session.check_batch_closed()?;
    session.load_late_tools().await?;
    let answers_conversation = ask.messages.is_none() && ask.also.is_empty();
    if answers_conversation && session.tail() != Tail::Answerable {
        return existing_reply(session);
    }
    if answers_conversation && let Some(reply) = terminated_before_restart(session, &ask) {
        return Ok(reply);
    }
    if let Some(reply) = reply_before_restart(session, &ask) {
        return Ok(reply);
    }
    let model = session.config.model(ask.profile.model.as_deref())?.clone();
    // A summary would take the room of the last request.
    let compacts = ask.messages.is_none() && ask.wrap_up.is_none();
    let mut overflows = 0;
    budget::check_prices(session, model.info())?;
    if !session.is_interrupted(before) {
        repeated_calls::check(session, &ask).await?;
    }
    loop {
        // Nothing is built or summarised for a request that cannot be sent.
        budget::check(session, 1, Needed::default())?;
        if session.is_interrupted(before) {
            return Ok(Reply::empty(None));
        }
        if compacts && compaction::compact_if_needed(session, &ask).await? {
            budget::check(session, 1, Needed::default())?;
        }
        let request = build(session, &ask).await?;
        if answers_conversation && session.may_convert_last() && !is_answerable(&request) {
            return existing_reply(session);
        }
        if session.is_interrupted(before) {
            return Ok(Reply::empty(None));
        }
        let reply = stream_reply(session, &ask, &*model, request).await?;
        if !reply.is_complete() {
            part_time::check(session)?;
        }
        let overflow = |kind| kind == ModelErrorKind::ContextOverflow;
        let is_too_large = reply.error.as_ref().is_some_and(|error| overflow(error.kind));
        if !compacts || !is_too_large || reply.message.is_some() || overflows == MAX_OVERFLOWS {
            return Ok(reply);
        }
        overflows += 1;
        let trigger = Trigger::of(CompactionCause::Overflow, &ask);
        match compaction::compact(session, &trigger).await? {
            Compacted::Done(done) if done.is_empty() => return Ok(reply),
            _ => {}
        }
    }
}

const ENDED_BY_HOOK: &str = "Skipped: a hook ended the run.";
const FORBIDDEN: &str = "Skipped: no tool may be called in this reply.";

/// Returns the reply at the end of the conversation. It came before a restart, or before the
/// pattern was entered again.
fn existing_reply(session: &Session) -> Result<Reply, StepError> {
    let state = &session.journal.state;
    let replied = state.context.last().filter(|_| state.tail() == Tail::Replied);
    replied.cloned().map(Reply::of).ok_or(StepError::NothingToAnswer)
}

/// Returns the reply to this request if it came before a restart. The digest of the request
/// decides, because the request has messages of its own that the conversation does not show.
fn reply_before_restart(session: &mut Session, ask: &Ask) -> Option<Reply> {
    let state = &session.journal.state;
    let message = state.context.last().filter(|_| state.tail() == Tail::Replied)?;
    let (reply, digest) = state.request_digest.as_ref()?;
    if *reply != message.id || session.reply.returned == Some(message.id) {
        return None;
    }
    if ask.digest.as_ref() != Some(digest) {
        return None;
    }
    session.reply.returned = Some(message.id);
    Some(Reply::of(message.clone()))
}

/// Returns the reply whose results asked for the end of this run before a restart. The pattern then
/// ends the run as it would have done.
fn terminated_before_restart(session: &mut Session, ask: &Ask) -> Option<Reply> {
    let message = session.journal.state.terminated.as_ref().filter(|_| !ask.detached)?;
    if session.reply.returned == Some(message.id) {
        return None;
    }
    session.reply.returned = Some(message.id);
    Some(Reply::of(message.clone()))
}

/// Returns whether the request ends with a message that a model can answer.
pub(crate) fn is_answerable(request: &ChatRequest) -> bool {
    request.messages.last().is_some_and(|message| message.as_assistant().is_none())
}

/// Builds the request as the model gets it.
pub(crate) async fn build(session: &mut Session, ask: &Ask) -> Result<ChatRequest, StepError> {
    let hooks = session.config.hooks.and(&ask.profile.hooks);
    let mut messages = match &ask.messages {
        Some(given) => Arc::new(given.iter().map(unsaved).collect()),
        None if hooks.is_empty() => session.journal.state.context.clone(),
        None => {
            let cx = session.hook_context();
            let conversation = session.journal.state.conversation();
            match session.wait_for(hooks.transform(&cx, conversation)).await? {
                Some(changed) => Arc::new(changed),
                None => session.journal.state.context.clone(),
            }
        }
    };
    if !ask.also.is_empty() {
        Arc::make_mut(&mut messages).extend(ask.also.iter().map(unsaved));
    }
    let messages = cut_replies::with_notes(messages);
    let tools = offered_tools(session, ask, &messages);
    let Session { journal, config, id, .. } = session;
    let state = &journal.state;
    let own_output = || {
        if ask.detached {
            None
        } else {
            output_schema(state.output.as_ref(), config.output.as_ref())
        }
    };
    let summary = state.active_summary().filter(|_| ask.messages.is_none());
    Ok(ChatRequest {
        system: system_prompt(ask, &config.system),
        messages,
        tool_choice: tool_choice(&ask.tool_choice, &tools),
        tools,
        thinking: ask.profile.thinking.unwrap_or(config.thinking),
        output: ask.output.clone().or_else(own_output),
        max_tokens: ask.max_tokens.or(config.max_tokens),
        temperature: ask.temperature.or(config.temperature),
        stop: ask.stop.clone(),
        session: id.clone(),
        compacted: summary.map(|summary| summary.compaction.message.id),
        trace: state.run_trace(id),
    })
}

/// Returns the tool choice, or the default if no offered tool fits it.
fn tool_choice(choice: &ToolChoice, offered: &ToolList) -> ToolChoice {
    let fits = match choice {
        ToolChoice::Tool(name) => offered.iter().any(|spec| *spec.name == **name),
        ToolChoice::Required => !offered.is_empty(),
        _ => true,
    };
    if fits { choice.clone() } else { ToolChoice::default() }
}

/// Returns the system prompt of the request, else the agent's, with the instructions of the
/// request.
fn system_prompt(ask: &Ask, agent: &Arc<str>) -> Arc<str> {
    let system = ask.profile.system.as_ref().unwrap_or(agent);
    if ask.profile.instructions.is_empty() {
        return system.clone();
    }
    let paragraphs = std::iter::once(system).chain(&ask.profile.instructions).map(|text| &**text);
    let paragraphs: Vec<&str> = paragraphs.filter(|text| !text.is_empty()).collect();
    paragraphs.join("\n\n").into()
}

/// Returns the schema that the reply to the user must fit: the request's, else the agent's.
pub(crate) fn output_schema(
    request: Option<&Arc<OutputSchema>>,
    agent: Option<&Arc<OutputSchema>>,
) -> Option<Arc<OutputSchema>> {
    request.or(agent).cloned()
}

/// Returns the tools that the request offers. A list that equals the last one is the same value, so
/// that it is encoded only once.
fn offered_tools(session: &Session, ask: &Ask, messages: &[Arc<Message>]) -> Arc<ToolList> {
    let all = session.executor.tools.list();
    let hooks = session.config.hooks.and(&ask.profile.hooks);
    if hooks.is_empty() && ask.profile.tools.is_none() {
        return all.clone();
    }
    let turn = &session.journal.state.turn;
    let request = RequestInfo { turn: turn.number + u32::from(!turn.open), messages };
    let cx = session.hook_context();
    let is_named =
        |name: &str| ask.profile.tools.as_ref().is_none_or(|names| names.iter().any(|n| n == name));
    let is_offered =
        |spec: &&Arc<ToolSpec>| is_named(&spec.name) && hooks.offers(&cx, &request, spec);
    let offered: Vec<_> = all.iter().filter(is_offered).cloned().collect();
    let is_same = |list: &&Arc<ToolList>| {
        list.len() == offered.len() && list.iter().zip(&offered).all(|(a, b)| Arc::ptr_eq(a, b))
    };
    let known = std::iter::once(all).chain(session.reply.offered.as_ref());
    let same = known.into_iter().find(is_same).cloned();
    same.unwrap_or_else(|| Arc::new(ToolList::new(offered)))
}

/// Sends a request whose reply is streamed to the subscribers and joins the conversation.
async fn stream_reply(
    session: &mut Session,
    ask: &Ask,
    model: &dyn ChatModel,
    mut request: ChatRequest,
) -> Result<Reply, StepError> {
    let needed = match ask.wrap_up {
        None => estimate(session, model.info(), &request),
        Some(_) => estimate_last(session, model.info(), &request),
    };
    budget::check(session, 1, needed)?;
    let Admission::Admitted(held) = budget::admit(session, needed, Estimate::default()).await?
    else {
        return Ok(Reply::empty(None));
    };
    let estimate = needed.input;
    let forbids_calls = request.tool_choice == ToolChoice::None;
    let id = start_reply(session, model, &request, ask, (estimate, held)).await?;
    request.trace = request.trace.map(|trace| trace.reply(&session.id, id));
    let hooks = ReplyHooks {
        layers: session.config.hooks.and(&ask.profile.hooks),
        cx: session.hook_context(),
    };
    session.stop_if_cancelled().await;
    let streamed = stream::read(session, id, model.stream(request), |session, event| {
        session.reply.take_event(event, &hooks, session.journal.hub())
    });
    let Streamed { stop, usage, error } = streamed.await?;
    let Some((message, cost)) = session.reply.close(&mut session.journal, stop, usage) else {
        if let Some(charged) = session.in_flight.end_without_reply(id) {
            session.journal.commit(charged).await?;
        }
        return Ok(Reply::empty(error));
    };
    let permit = session.in_flight.end(id);
    session.reply.hold(LogEntry::Replied { message: message.clone(), cost });
    let mut verdict = EndVerdict::default();
    if hooks.exist() && error.is_none() && !stop.is_cut_off() {
        // The reply is held meanwhile, so an abort keeps it.
        verdict = session.wait_for(hooks.layers.before_end(&hooks.cx, &message)).await?;
    }
    session.reply.stage_pending(&mut session.journal);
    let may_go_on = ask.wrap_up.is_none();
    for more in verdict.messages.into_iter().filter(|_| may_go_on) {
        // Without an id and a schema, it cannot be refused.
        let prompt = Prompt::from(more);
        let _ = intake::queue(
            &mut session.journal,
            prompt,
            None,
            QueueKind::Steering,
            Urgency::AfterTurn,
        );
    }
    session.journal.apply_ahead().await?;
    if verdict.ends || forbids_calls {
        let Session { executor, journal, config, .. } = session;
        let why = if verdict.ends { ENDED_BY_HOOK } else { FORBIDDEN };
        executor.finish_unstarted(journal, &config.limits, ResultStatus::Skipped, why);
        journal.apply_ahead().await?;
    }
    if let Some(permit) = permit {
        session.journal.when_written(|_| drop(permit)); // the log has what was used
    }
    Ok(Reply { message: Some(message), ended_by_hook: verdict.ends, ..Reply::empty(error) })
}

/// Logs the request, which charges for it, and starts the reply.
async fn start_reply(
    session: &mut Session,
    model: &dyn ChatModel,
    request: &ChatRequest,
    ask: &Ask,
    (estimate, held): (Estimate, HeldBudget),
) -> Result<MessageId, StepError> {
    let Session { journal, reply, executor, in_flight, .. } = session;
    reply.offered = Some(request.tools.clone());
    let id = journal.next_message_id();
    let info = Arc::new(model.info().clone());
    let is_subset = !Arc::ptr_eq(&request.tools, executor.tools.list());
    let tools = is_subset.then(|| request.tools.iter().map(|spec| spec.name.clone()).collect());
    let model = info.id.clone();
    let (request_digest, wrap_up) = (ask.digest.clone(), ask.wrap_up);
    let entry =
        LogEntry::RequestStarted { message: id, model, tools, request_digest, estimate, wrap_up };
    journal.commit(entry).await?;
    reply.returned = Some(id);
    in_flight.start(id, info.clone(), held);
    reply.start(id, info);
    journal.emit_transient(AgentEvent::MessageStart { message_id: id, role: Role::Assistant });
    Ok(id)
}
