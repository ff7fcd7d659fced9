//! Detached requests, whose replies stay out of the conversation.

use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::stream::{BoxStream, SelectAll};
use futures_util::{StreamExt, stream};

use crate::error::{MemoryError, ModelError, StepError};
use crate::log::entry::LogEntry;
use crate::log::turn::{Estimate, Reservation};
use crate::message::{AssistantMessage, Message, MessageId};
use crate::model::assemble::Assembler;
use crate::model::{ChatModel, ChatRequest, ModelEvent, ModelInfo};
use crate::session::Session;
use crate::session::part_time;
use crate::session::request::budget::{self, Admission};
use crate::session::request::estimate::Needed;
use crate::session::request::in_flight::HeldBudget;
use crate::session::request::reply::Reply;
use crate::session::request::shown::Speaker;
use crate::session::request::stream::{ReplySize, Streamed, follow, read, take_event};

/// The outcome of a detached request.
pub(crate) struct DetachedReply {
    /// The entry for the log. A request that failed or was interrupted is logged and counted too,
    /// so that a loop over failing requests ends at the limit.
    pub(crate) entry: LogEntry,
    /// The reply, unless it failed or was interrupted.
    pub(crate) message: Option<Arc<Message>>,
    pub(crate) error: Option<ModelError>,
}

/// The reply of a detached request as far as it has streamed.
struct Partial {
    id: MessageId,
    model: Arc<ModelInfo>,
    assembler: Assembler,
    /// The name under which the reply is shown. Then the session has what has streamed.
    speaker: Option<Arc<str>>,
}

impl Partial {
    fn new(session: &mut Session, model: &dyn ChatModel) -> Self {
        let id = session.journal.next_message_id();
        let (model, assembler) = (Arc::new(model.info().clone()), Assembler::default());
        Partial { id, model, assembler, speaker: None }
    }

    fn take(&mut self, session: &mut Session, event: ModelEvent) -> Result<(), ModelError> {
        match event {
            event if self.speaker.is_some() => {
                session.shown.take_event(self.id, event, session.journal.hub())
            }
            ModelEvent::AnsweredBy(other) => {
                self.model = other;
                Ok(())
            }
            event => self.assembler.take(event).map(drop),
        }
    }

    fn end(self, session: &mut Session, ended: Streamed, key: Option<RequestKey>) -> DetachedReply {
        let Partial { id, model, assembler, speaker } = self;
        let Streamed { stop, usage, error } = ended;
        let is_whole = error.is_none() && !stop.is_cut_off();
        let shown = session.shown.end(id, (stop, usage), is_whole, session.journal.hub());
        let (reply, model) =
            shown.unwrap_or_else(|| (assembler.finish(stop, model.id.clone(), usage), model));
        let reply = reply.filter(|_| is_whole);
        let parts = Vec::new();
        let empty = AssistantMessage { parts, stop, model: model.id.clone(), usage };
        let is_reply = reply.is_some();
        let message = Arc::new(Message::new(id, reply.unwrap_or(empty)));
        // A failed request is not stored under its key: it is sent again.
        let (key, request_digest) =
            key.filter(|_| is_reply).map(|RequestKey { key, digest }| (key, digest)).unzip();
        let (reply, cost) = (message.clone(), model.cost(&usage));
        let speaker = speaker.filter(|_| is_reply);
        let entry = LogEntry::Detached { message, cost, key, request_digest, speaker };
        DetachedReply { entry, message: is_reply.then_some(reply), error }
    }
}

/// Sends a request without showing its reply. The caller has reserved the budget for it, and writes
/// the entry.
pub(crate) async fn send(
    session: &mut Session,
    model: &dyn ChatModel,
    request: ChatRequest,
    (estimate, held): (Estimate, HeldBudget),
) -> Result<DetachedReply, MemoryError> {
    let mut partial = Partial::new(session, model);
    let id = partial.id;
    let requests = vec![Reservation::new(id, estimate)];
    session.journal.commit(LogEntry::DetachedStarted { requests }).await?;
    session.stop_if_cancelled().await;
    session.in_flight.start(id, partial.model.clone(), held);
    let ended =
        read(session, id, model.stream(request), |session, event| partial.take(session, event));
    let ended = ended.await?;
    if let Some(permit) = session.in_flight.end(id) {
        session.journal.when_written(|_| drop(permit)); // with the entry
    }
    Ok(partial.end(session, ended, None))
}

/// A pattern's key of a request, and a digest of the request.
pub(crate) struct RequestKey {
    pub(crate) key: Arc<str>,
    pub(crate) digest: Arc<str>,
}

/// A request that is sent together with others.
pub(crate) struct DetachedRequest {
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) request: ChatRequest,
    pub(crate) needed: Needed,
    pub(crate) key: Option<RequestKey>,
    /// The name under which the reply is shown, if it is.
    pub(crate) speaker: Option<Speaker>,
}

/// The conditions under which several requests are sent.
pub(crate) struct Terms<'a> {
    /// The maximum number of requests in progress at once.
    pub(crate) at_most: usize,
    /// `true` if a budget that is too small for all of them is used for the first ones.
    pub(crate) as_many_as_fit: bool,
    /// Returns whether a reply makes the other requests unnecessary.
    pub(crate) until: Option<Box<Accepts<'a>>>,
}

type Accepts<'a> = dyn Fn(&Reply) -> bool + Send + Sync + 'a;

impl Default for Terms<'_> {
    fn default() -> Self {
        Terms { at_most: usize::MAX, as_many_as_fit: false, until: None }
    }
}

impl Terms<'_> {
    /// Returns whether the other requests are unnecessary.
    pub(crate) fn are_met_by(&self, reply: &Reply) -> bool {
        reply.message.is_some() && self.until.as_ref().is_some_and(|until| until(reply))
    }
}

/// One of several requests, while its reply streams.
struct InFlight {
    partial: Partial,
    size: ReplySize,
    needed: Needed,
    key: Option<RequestKey>,
    /// The name under which the reply is shown, until the request is sent.
    speaker: Option<Speaker>,
}

/// Sends requests at the same time, at most as many as the limits allow. Returns their replies in
/// the order of the requests. All are reserved in the log before the first is sent, and each reply
/// is logged when it arrives.
///
/// After an interrupt, incomplete requests have no reply. When a budget is used up, no more
/// requests are sent: their replies have the limit, as have those that the end of a part's time
/// cuts off. If none was sent, the limit is an error, unless as many as fit are wanted: then the
/// last ones are given up for those before. Near the end of a budget, the expected output of those
/// in progress lets fewer be sent at once.
pub(crate) async fn send_all(
    session: &mut Session,
    requests: Vec<DetachedRequest>,
    terms: &Terms<'_>,
) -> Result<Vec<Reply>, StepError> {
    let max = session.config.limits.parallel_requests.min(terms.at_most).max(1);
    let models: Vec<Arc<dyn ChatModel>> = requests.iter().map(|r| r.model.clone()).collect();
    let mut reserved = Vec::new();
    let mut waiting = requests
        .into_iter()
        .enumerate()
        .map(|(at, DetachedRequest { model, request, needed, key, speaker })| {
            let mut partial = Partial::new(session, &*model);
            partial.speaker = speaker.as_ref().map(|speaker| speaker.name.clone());
            let size = ReplySize::new(session, partial.id);
            let reservation = Reservation::new(partial.id, needed.input);
            reserved.push(reservation.speaker(partial.speaker.clone()));
            (at, request, InFlight { partial, size, needed, key, speaker })
        })
        .collect::<Vec<_>>()
        .into_iter();
    if !reserved.is_empty() {
        session.journal.commit(LogEntry::DetachedStarted { requests: reserved }).await?;
        session.stop_if_cancelled().await;
    }
    let mut replies: Vec<Reply> = models.iter().map(|_| Reply::empty(None)).collect();
    let mut in_flight: Vec<Option<InFlight>> = models.iter().map(|_| None).collect();
    let (mut streams, mut failed, mut any_sent) = (SelectAll::new(), Ok(()), false);
    'sending: loop {
        // A stream whose reply has ended is still among the streams.
        while in_flight.iter().flatten().count() < max
            && failed.is_ok()
            && let Some((.., next)) = waiting.as_slice().first()
        {
            let needed = next.needed;
            let mut to_give_up = Estimate::default();
            if terms.as_many_as_fit {
                let behind = waiting.as_slice().iter().skip(1);
                behind.for_each(|(.., behind)| to_give_up.add(behind.needed.input));
            }
            let held = match admit_next(session, needed, to_give_up).await {
                Ok(Admission::Admitted(held)) => held,
                Ok(Admission::Later) => break,
                Ok(Admission::Interrupted) => break 'sending,
                Err(StepError::Limit(limit)) if terms.as_many_as_fit && waiting.len() > 1 => {
                    // The last one makes room for the next.
                    let Some((at, _, last)) = waiting.next_back() else { continue };
                    let messages = vec![last.partial.id];
                    session.journal.stage(LogEntry::NotSent { messages });
                    session.journal.apply_ahead().await?;
                    replies[at] = Reply::not_sent(limit);
                    continue;
                }
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            };
            if let Some((at, request, mut started)) = waiting.next() {
                let Partial { id, model, .. } = &started.partial;
                session.in_flight.start(*id, model.clone(), held);
                if let Some(speaker) = started.speaker.take() {
                    session.shown.start(*id, model.clone(), speaker);
                }
                in_flight[at] = Some(started);
                any_sent = true;
                streams.push(numbered(at, models[at].stream(request)));
            }
        }
        if streams.is_empty() {
            break;
        }
        let next = follow(session, &mut streams, |session, next| {
            let Some((at, event)) = next else { return ControlFlow::Break(None) };
            let Some(InFlight { partial, size, .. }) = &mut in_flight[at] else {
                return ControlFlow::Continue(()); // it is complete, or too long
            };
            take_event(session, size, event, |session, event| partial.take(session, event))
                .map_break(|ended| Some((at, ended)))
        });
        let Some(next) = next.await? else { break };
        let Some((at, ended)) = next else { continue };
        if let Some(InFlight { partial, key, .. }) = in_flight[at].take() {
            let permit = session.in_flight.end(partial.id);
            let DetachedReply { entry, message, error } = partial.end(session, ended, key);
            session.journal.commit(entry).await?;
            drop(permit); // the log has what was used
            replies[at] = Reply { message, ..Reply::empty(error) };
            if terms.are_met_by(&replies[at]) {
                break;
            }
        }
    }
    let mut cut_off = Vec::new();
    for (at, in_flight) in in_flight.into_iter().enumerate() {
        let Some(InFlight { partial, .. }) = in_flight else { continue };
        cut_off.push(at);
        let ended = Streamed::cut_off(session, partial.id);
        session.in_flight.end(partial.id);
        let entry = partial.end(session, ended, None).entry;
        session.journal.stage(entry);
    }
    let unsent = waiting.map(|(at, _, waiting)| (at, waiting.partial.id));
    let (mut unanswered, messages): (Vec<usize>, Vec<MessageId>) = unsent.unzip();
    if let Err(limit) = part_time::check(session)
        && !(cut_off.is_empty() && unanswered.is_empty())
    {
        failed = Err(limit);
        unanswered.extend(cut_off);
    }
    if !messages.is_empty() {
        session.journal.stage(LogEntry::NotSent { messages });
    }
    session.journal.flush().await?;
    match failed {
        Err(StepError::Limit(limit)) if any_sent || terms.as_many_as_fit => {
            unanswered.iter().for_each(|at| replies[*at] = Reply::not_sent(limit.clone()));
            Ok(replies)
        }
        failed => failed.map(|()| replies),
    }
}

/// Checks the budget for the next of several requests. Usage since the first one counts.
async fn admit_next(
    session: &mut Session,
    needed: Needed,
    to_give_up: Estimate,
) -> Result<Admission, StepError> {
    let output = Needed { output: needed.output, ..Needed::default() };
    budget::check(session, 0, output)?;
    budget::admit(session, needed, to_give_up).await
}

/// Numbers the events of a stream, and ends it with `None` or with the event that ends the reply.
fn numbered(
    at: usize,
    events: BoxStream<'_, ModelEvent>,
) -> BoxStream<'_, (usize, Option<ModelEvent>)> {
    let end = stream::once(async { None });
    let is_end = |event: &Option<ModelEvent>| {
        matches!(event, None | Some(ModelEvent::Done { .. } | ModelEvent::Error(_)))
    };
    let until_end = events.map(Some).chain(end).scan(false, move |has_ended, event| {
        let next = (!*has_ended).then_some((at, event));
        *has_ended |= next.as_ref().is_some_and(|(_, event)| is_end(event));
        async { next }
    });
    until_end.boxed()
}
