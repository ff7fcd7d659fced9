//! Reading of a model's stream to its end, while commands are handled.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::{Context, Poll, ready};

use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, Stream, StreamExt};

use crate::error::{MemoryError, ModelError, ModelErrorKind};
use crate::event::AgentEvent;
use crate::event::input::Urgency;
use crate::message::{MessageId, StopReason, Usage};
use crate::model::ModelEvent;
use crate::session::Session;
use crate::session::input::command::Command;
use crate::session::input::intake::Accepted;
use crate::session::part_time::{self, PartTime};
use crate::session::request::reply::unfinished;
use crate::session::wake_gate::WakeGate;

/// The number of items of a stream that are taken before other tasks run, even if more are ready.
const ITEMS_PER_POLL: usize = 64;

/// The reason for a pause in a stream.
enum Next<B> {
    Command(Box<Command>),
    /// The time of a part of the work is up.
    TimeUp,
    Ended(B),
}

/// The end of a stream.
pub(crate) struct Streamed {
    pub(crate) stop: StopReason,
    pub(crate) usage: Usage,
    pub(crate) error: Option<ModelError>,
}

impl Streamed {
    /// Returns the end of a reply that a steer, or the end of a part's time, has cut off.
    pub(crate) fn cut_off(session: &Session, message: MessageId) -> Self {
        let stop = match part_time::check(session) {
            Ok(()) => StopReason::Interrupted,
            Err(_) => StopReason::Aborted,
        };
        Streamed { stop, usage: session.in_flight.usage(message), error: None }
    }

    fn failed(error: ModelError, usage: Usage) -> Self {
        Streamed { stop: StopReason::Error, usage, error: Some(error) }
    }
}

/// The bytes of a reply so far, and their limit.
pub(crate) struct ReplySize {
    message: MessageId,
    bytes: usize,
    limit: usize,
}

impl ReplySize {
    pub(crate) fn new(session: &Session, message: MessageId) -> Self {
        ReplySize { message, bytes: 0, limit: session.config.limits.reply_bytes }
    }

    /// Counts an event. Fails if the reply is longer than the limit.
    fn count(&mut self, event: &ModelEvent) -> Result<(), ModelError> {
        match event {
            ModelEvent::Delta { delta, .. } => self.bytes += delta.len(),
            ModelEvent::Withdrawn => self.bytes = 0,
            _ => {}
        }
        if self.bytes <= self.limit {
            return Ok(());
        }
        let why = format!(
            "the reply was cut off because it is longer than {} bytes: raise `Limits::reply_bytes` \
             if such a reply is expected",
            self.limit
        );
        Err(ModelError::new(ModelErrorKind::Protocol, why))
    }
}

/// Passes each event of the stream of the reply `message` to `take`. Ends when the stream ends,
/// `take` fails, a steer interrupts, the time of a part is up, or the reply is too long.
pub(crate) async fn read(
    session: &mut Session,
    message: MessageId,
    mut stream: BoxStream<'_, ModelEvent>,
    mut take: impl FnMut(&mut Session, ModelEvent) -> Result<(), ModelError>,
) -> Result<Streamed, MemoryError> {
    let mut size = ReplySize::new(session, message);
    let ended = follow(session, &mut stream, |session, event| {
        take_event(session, &mut size, event, |session, event| take(session, event))
    });
    let ended = ended.await?;
    Ok(ended.unwrap_or_else(|| Streamed::cut_off(session, message)))
}

/// Takes an event of a reply, or `None` if its stream ended early. Breaks at the end of the reply.
pub(crate) fn take_event(
    session: &mut Session,
    size: &mut ReplySize,
    event: Option<ModelEvent>,
    take: impl FnOnce(&mut Session, ModelEvent) -> Result<(), ModelError>,
) -> ControlFlow<Streamed> {
    let error = match event.unwrap_or_else(unfinished) {
        ModelEvent::Done { stop, usage } => {
            return ControlFlow::Break(Streamed { stop, usage, error: None });
        }
        ModelEvent::Retry(notice) => {
            session.reply.note_retry(notice.clone(), session.config.environment.now());
            session.journal.emit_transient(AgentEvent::Retry(notice));
            return ControlFlow::Continue(());
        }
        ModelEvent::Usage(usage) => {
            session.in_flight.report(size.message, usage);
            return ControlFlow::Continue(());
        }
        ModelEvent::Error(error) => error,
        event => {
            if let ModelEvent::Withdrawn | ModelEvent::AnsweredBy(_) = event {
                end_attempt(session, size.message, &event);
            }
            let counted = size.count(&event);
            match counted.and_then(|()| take(session, event)) {
                Ok(()) => return ControlFlow::Continue(()),
                Err(error) => error,
            }
        }
    };
    ControlFlow::Break(Streamed::failed(error, session.in_flight.usage(size.message)))
}

/// Charges for an attempt that ended without an error, and records the model that replies next.
fn end_attempt(session: &mut Session, message: MessageId, event: &ModelEvent) {
    let charged = session.in_flight.end_attempt(message);
    charged.into_iter().for_each(|entry| session.journal.stage(entry));
    if let ModelEvent::AnsweredBy(model) = event {
        session.in_flight.answered_by(message, model.clone());
    }
}

/// Passes each item of the stream, and `None` at its end, to `take` until it breaks. Commands are
/// handled meanwhile. Returns `None` if a steer interrupts, or if the time of a part is up.
pub(crate) async fn follow<T, B>(
    session: &mut Session,
    stream: &mut (impl Stream<Item = T> + Unpin),
    mut take: impl FnMut(&mut Session, Option<T>) -> ControlFlow<B>,
) -> Result<Option<B>, MemoryError> {
    let mut gate = WakeGate::default();
    let mut time = PartTime::of(session);
    loop {
        match poll_fn(|cx| poll_items(session, stream, &mut take, (&mut gate, &mut time), cx)).await
        {
            Next::Ended(end) => return Ok(Some(end)),
            Next::TimeUp => return Ok(None),
            Next::Command(command) => {
                if session.receive(*command).boxed().await? == Accepted::Steer(Urgency::Interrupt) {
                    return Ok(None);
                }
            }
        }
    }
}

/// Passes the items of the stream that are ready to `take`, until it breaks, a command arrives or
/// the time is up.
///
/// It is a function of its own, so that the code that runs for each delta lies together in the
/// processor's cache.
#[inline(never)]
fn poll_items<T, B>(
    session: &mut Session,
    stream: &mut (impl Stream<Item = T> + Unpin),
    take: &mut impl FnMut(&mut Session, Option<T>) -> ControlFlow<B>,
    (gate, time): (&mut WakeGate, &mut PartTime),
    cx: &mut Context<'_>,
) -> Poll<Next<B>> {
    for _ in 0..ITEMS_PER_POLL {
        // Commands and the time come first. If nothing has happened, they cost a delta almost
        // nothing.
        let commands = &mut session.intake.commands;
        let around = gate.poll(cx, |cx| match commands.poll_recv(cx) {
            Poll::Ready(Some(command)) => Poll::Ready(Next::Command(Box::new(command))),
            _ => time.poll_up(cx).map(|()| Next::TimeUp),
        });
        if around.is_ready() {
            return around;
        }
        let item = ready!(stream.poll_next_unpin(cx));
        if let ControlFlow::Break(end) = take(session, item) {
            return Poll::Ready(Next::Ended(end));
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}
