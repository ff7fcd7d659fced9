//! A run as frames. The run is aborted when its frames are no longer read.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::response::Response;
use futures::{Stream, StreamExt};
use loopwright_core::{AgentHandle, EventStream};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::frames::{CutOff, Frame, Frames};
use crate::metrics::OpenStream;
use crate::observer::Observer;
use crate::quota::Permit;
use crate::run_quota::RunPermit;
use crate::sse_frames::{SseFrame, response};

/// Aborts a run when it is dropped before the run has ended. The run's permit is released when it
/// has ended, so a client that disconnects does not get more runs at a time.
pub(super) struct RunGuard(Option<RunPermit>);

impl RunGuard {
    pub(super) fn new(handle: AgentHandle, permit: Permit) -> Self {
        RunGuard(Some(RunPermit::new(handle, permit)))
    }

    /// Releases the permit of a run that has ended.
    fn release(&mut self) {
        if let Some(run) = self.0.take() {
            run.release();
        }
    }

    fn abort(&mut self) {
        if let Some(run) = self.0.take() {
            run.abort();
        }
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.abort();
    }
}

/// The frames of a run.
pub(super) struct RunStream {
    guard: RunGuard,
    events: EventStream,
    observer: Observer,
    /// Resolves when the grace period of a shutdown is over.
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    _open: OpenStream,
    frames: Frames,
    ready: VecDeque<Frame>,
    /// Whether the last frame was returned.
    complete: bool,
}

impl RunStream {
    pub(super) fn new(
        guard: RunGuard,
        events: EventStream,
        observer: Observer,
        end: WaitForCancellationFutureOwned,
        open: OpenStream,
    ) -> Self {
        RunStream {
            guard,
            events,
            observer,
            end: Box::pin(end),
            _open: open,
            frames: Frames::default(),
            ready: VecDeque::new(),
            complete: false,
        }
    }

    pub(super) fn into_response(self) -> Response {
        response(self.map(|frame| SseFrame::new(None, &frame)))
    }
}

impl Stream for RunStream {
    type Item = Frame;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        let run = &mut *self;
        loop {
            if let Some(frame) = run.ready.pop_front() {
                run.complete = matches!(frame, Frame::Complete);
                if run.complete && run.frames.ended() {
                    run.guard.release();
                }
                return Poll::Ready(Some(frame));
            }
            if run.complete {
                return Poll::Ready(None);
            }
            let cut_off = match run.events.poll_next_unpin(cx) {
                Poll::Ready(Some(event)) => {
                    run.observer.observe(&event);
                    run.frames.convert(&event.event, &mut run.ready);
                    continue;
                }
                Poll::Ready(None) if run.events.lagged() => CutOff::Lagged,
                Poll::Ready(None) => CutOff::Gone,
                Poll::Pending if run.end.as_mut().poll(cx).is_ready() => CutOff::Draining,
                Poll::Pending => return Poll::Pending,
            };
            run.guard.abort();
            run.ready.extend(Frames::cut_off(cut_off));
        }
    }
}
