//! A run as frames; the run ends with whoever reads them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt};
use loopwright::{AgentHandle, EventStream};

use crate::frames::{Frame, Frames};
use crate::metrics::OpenStream;
use crate::observe::Observer;
use crate::runs::Permit;
use crate::sse::HEARTBEAT;

/// A run that somebody reads. Dropped before its end, it is aborted.
pub(crate) struct Running {
    events: EventStream,
    frames: Frames,
    ready: VecDeque<Frame>,
    session: Option<Session>,
    /// The last frame is out.
    complete: bool,
    observer: Observer,
    _open: OpenStream,
}

/// What a run holds until it has ended.
struct Session {
    handle: AgentHandle,
    permit: Permit,
}

impl Running {
    pub(crate) fn new(
        handle: AgentHandle,
        events: EventStream,
        permit: Permit,
        observer: Observer,
        open: OpenStream,
    ) -> Self {
        let (session, frames, ready) = (Some(Session { handle, permit }), Frames::default(), VecDeque::new());
        Running { events, frames, ready, session, complete: false, observer, _open: open }
    }

    pub(crate) fn into_sse(self) -> Sse<impl Stream<Item = Result<Event, Infallible>> + Send + 'static> {
        let events = self.map(|frame| Ok(Event::default().data(frame.json())));
        Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT))
    }
}

impl Stream for Running {
    type Item = Frame;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        let this = &mut *self;
        loop {
            if let Some(frame) = this.ready.pop_front() {
                if matches!(frame, Frame::Complete) {
                    this.complete = true;
                    if this.frames.ended() {
                        this.session = None; // else it is aborted with this stream
                    }
                }
                return Poll::Ready(Some(frame));
            }
            if this.complete {
                return Poll::Ready(None);
            }
            match this.events.poll_next_unpin(cx) {
                Poll::Ready(Some(event)) => {
                    this.observer.see(&event);
                    this.frames.tell(&event.event, &mut this.ready);
                }
                Poll::Ready(None) if this.frames.ended() => return Poll::Ready(None),
                Poll::Ready(None) => this.ready.extend(Frames::cut_off(this.events.lagged())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (Some(session), Ok(runtime)) = (self.session.take(), tokio::runtime::Handle::try_current()) else { return };
        // The permit is given back when the run is over: whoever hangs up does not get more of them at a time.
        runtime.spawn(async move {
            let Session { handle, permit } = session;
            if handle.abort().await.is_ok() {
                handle.wait_for_idle().await;
            }
            drop(permit);
        });
    }
}
