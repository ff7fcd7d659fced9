//! A run as frames; the run ends with whoever reads them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::response::Response;
use axum::response::sse::Event;
use futures::{Stream, StreamExt};
use loopwright_core::{AgentHandle, EventStream};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::frames::{CutOff, Frame, Frames};
use crate::metrics::OpenStream;
use crate::observe::Observer;
use crate::shares::{Begun, Share};
use crate::sse::alive;

/// The session of a run, before the run has begun and until it has ended. Dropped before its end,
/// the run is aborted: whoever hangs up does not get more of them at a time.
pub(crate) struct Session(Option<Begun>);

impl Session {
    pub(crate) fn new(handle: AgentHandle, share: Share) -> Self {
        Session(Some(Begun::new(handle, share)))
    }

    /// The run has ended.
    fn ended(&mut self) {
        if let Some(run) = self.0.take() {
            run.ended();
        }
    }

    /// Aborts the run.
    fn stop(&mut self) {
        if let Some(run) = self.0.take() {
            run.abort();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A run that somebody reads.
pub(crate) struct Running {
    pub(crate) session: Session,
    pub(crate) events: EventStream,
    pub(crate) observer: Observer,
    /// When the server has no more time for it.
    pub(crate) over: Pin<Box<WaitForCancellationFutureOwned>>,
    pub(crate) _open: OpenStream,
}

impl Running {
    pub(crate) fn into_response(self) -> Response {
        let told = Told {
            running: self,
            frames: Frames::default(),
            ready: VecDeque::new(),
            complete: false,
        };
        alive(told.map(|frame| Event::default().data(frame.json())))
    }
}

/// Its frames.
struct Told {
    running: Running,
    frames: Frames,
    ready: VecDeque<Frame>,
    /// The last frame is out.
    complete: bool,
}

impl Stream for Told {
    type Item = Frame;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        let Told { running, frames, ready, complete } = &mut *self;
        loop {
            if let Some(frame) = ready.pop_front() {
                *complete = matches!(frame, Frame::Complete);
                if *complete && frames.ended() {
                    running.session.ended();
                }
                return Poll::Ready(Some(frame));
            }
            if *complete {
                return Poll::Ready(None);
            }
            let cut_off = match running.events.poll_next_unpin(cx) {
                Poll::Ready(Some(event)) => {
                    running.observer.see(&event);
                    frames.tell(&event.event, ready);
                    continue;
                }
                Poll::Ready(None) if running.events.lagged() => CutOff::Lagged,
                Poll::Ready(None) => CutOff::Gone,
                Poll::Pending if running.over.as_mut().poll(cx).is_ready() => CutOff::Draining,
                Poll::Pending => return Poll::Pending,
            };
            running.session.stop();
            ready.extend(Frames::cut_off(cut_off));
        }
    }
}
