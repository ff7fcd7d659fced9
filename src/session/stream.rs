//! Reads a model's stream to its end while commands are handled.

use std::future::poll_fn;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;

use crate::error::{MemoryError, ModelError, ModelErrorKind};
use crate::log::event::AgentEvent;
use crate::log::input::Urgency;
use crate::message::{StopReason, Usage};
use crate::model::ModelEvent;
use crate::session::Session;
use crate::session::intake::{Accepted, Command};
use crate::session::reply::unfinished;

/// What comes next while a reply streams.
enum Next {
    Command(Command),
    Event(ModelEvent),
}

/// How a stream ended.
pub(crate) struct Streamed {
    pub(crate) stop: StopReason,
    pub(crate) usage: Usage,
    pub(crate) error: Option<ModelError>,
}

impl Streamed {
    fn failed(error: ModelError) -> Self {
        Streamed { stop: StopReason::Error, usage: Usage::default(), error: Some(error) }
    }
}

/// The bytes of a reply so far, against their limit.
struct ReplySize {
    bytes: usize,
    limit: usize,
}

impl ReplySize {
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

/// Passes each event of the stream to `take` until the stream ends, `take` fails, a steer
/// interrupts it, or the reply is too long.
pub(crate) async fn read(
    session: &mut Session,
    mut stream: BoxStream<'_, ModelEvent>,
    mut take: impl FnMut(&mut Session, ModelEvent) -> Result<(), ModelError>,
) -> Result<Streamed, MemoryError> {
    let mut size = ReplySize { bytes: 0, limit: session.config.limits.reply_bytes };
    loop {
        let commands = &mut session.intake.commands;
        let next = match commands.try_recv() {
            Ok(command) => Next::Command(command),
            // While the stream has events, the channel is only looked at: to wait for it costs
            // more.
            Err(_) => {
                poll_fn(|cx| match stream.poll_next_unpin(cx) {
                    Poll::Ready(event) => {
                        Poll::Ready(Next::Event(event.unwrap_or_else(unfinished)))
                    }
                    Poll::Pending => match commands.poll_recv(cx) {
                        Poll::Ready(Some(command)) => Poll::Ready(Next::Command(command)),
                        _ => Poll::Pending,
                    },
                })
                .await
            }
        };
        match next {
            Next::Command(command) => {
                if session.receive(command).await? == Accepted::Steer(Urgency::Interrupt) {
                    let stop = StopReason::Interrupted;
                    return Ok(Streamed { stop, usage: Usage::default(), error: None });
                }
            }
            Next::Event(ModelEvent::Done { stop, usage }) => {
                return Ok(Streamed { stop, usage, error: None });
            }
            Next::Event(ModelEvent::Retry(notice)) => {
                session.reply.note_retry(notice.clone(), session.config.environment.now());
                session.journal.emit_transient(AgentEvent::Retry(notice));
            }
            Next::Event(ModelEvent::Error(error)) => return Ok(Streamed::failed(error)),
            Next::Event(event) => {
                let counted = size.count(&event);
                if let Err(error) = counted.and_then(|()| take(session, event)) {
                    return Ok(Streamed::failed(error));
                }
            }
        }
        // A stream that is always ready must not starve the other tasks.
        tokio::task::coop::consume_budget().await;
    }
}
