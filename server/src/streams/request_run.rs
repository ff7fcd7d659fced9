//! [`RequestRun`]: a run that answers one request. It stores nothing and ends with its client's
//! connection.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::response::Response;
use futures::{Stream, StreamExt};
use loopwright_core::event::{AgentEvent, Envelope, Prompt, StreamEnd};
use loopwright_core::log::{InMemory, LogEntry};
use loopwright_core::{AgentHandle, EventStream, Memory, Principal, RunContext};
use loopwright_host::{RequestAgent, RequestOptions, SessionSettings};
use loopwright_protocols::RunFailure;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::sse_frames::{SseFrame, response};
use crate::access::{Caller, check_create};
use crate::error::{ApiError, ErrorKind};
use crate::limits::quota::{Client, Permit};
use crate::limits::run_quota::RunPermit;
use crate::server::Server;
use crate::telemetry::metrics::{OpenStream, Source};
use crate::telemetry::observer::Observer;

/// The input of a run.
pub(crate) struct RunRequest {
    pub(crate) prompt: Prompt,
    /// The earlier messages, as the log of a session.
    pub(crate) history: Vec<LogEntry>,
    pub(crate) settings: SessionSettings,
    pub(crate) options: RequestOptions,
}

/// A run, as a stream of its events. Dropping the stream early aborts the run.
pub(crate) struct RequestRun {
    guard: RunGuard,
    events: EventStream,
    observer: Observer,
    /// A future that resolves when the grace period of a shutdown is over.
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    _open: OpenStream,
    has_ended: bool,
}

/// The reason that the events of a run end before the run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutOff {
    /// The client reads too slowly.
    Lagged,
    /// The server shuts down, and the grace period is over.
    Draining,
    /// The session has ended.
    Gone,
}

impl CutOff {
    /// Returns the failure that the client receives.
    pub(crate) fn failure(self) -> RunFailure {
        match self {
            CutOff::Lagged => {
                RunFailure::new("too_slow", "The client reads too slowly; the run was stopped.")
            }
            CutOff::Draining => RunFailure::new(
                "draining",
                "The server shuts down, and the run was stopped: try again when it is back.",
            ),
            CutOff::Gone => RunFailure::new("internal", "The session ended before the run did."),
        }
    }
}

impl RequestRun {
    /// Starts a run if the caller may have one. It counts towards the client's quota. It also
    /// counts towards the caller's daily budget, unless the model is the client's.
    pub(crate) async fn start(
        server: &Server,
        client: Client,
        caller: &Caller,
        request: RunRequest,
    ) -> Result<RequestRun, ApiError> {
        let RunRequest { prompt, history, settings, options } = request;
        let shared = server.shared();
        check_create(server, caller, &settings).await?;
        let permit = shared.runs.acquire(client).await?;
        let principal = caller.principal();
        let name = shared.agents.name_of(&settings);
        let RequestAgent { agent, is_clients_model, .. } =
            shared.agents.for_request(settings, options, principal).await?;
        // With the client's own key, the operator pays nothing.
        let payer = caller.named().filter(|_| !is_clients_model);
        if let Some(payer) = payer {
            shared.daily_budget.check(payer).await?;
        }
        let first = history.len() as u64;
        let memory: Arc<dyn Memory> = Arc::new(InMemory::from_entries(history));
        let failed = |error: &dyn std::fmt::Display| {
            ApiError::new(ErrorKind::Internal, format!("The run could not be started: {error}."))
        };
        let mut context = RunContext::new().shared_memory(memory.clone());
        if let Some(principal) = principal {
            context = context.with(principal.clone());
        }
        if let Some(budget) = payer.and_then(|payer| shared.daily_budget.of(payer)) {
            context = context.shared_budget(budget);
        }
        let (handle, _) = agent.run(context).await.map_err(|error| failed(&error))?;
        // From here on, a client that disconnects ends the run, even during its start.
        let guard = RunGuard::new(handle.clone(), permit);
        let state = handle.state().await.map_err(|error| failed(&error))?;
        shared.telemetry.follow(&handle, &name, &state);
        let model = state.model;
        let mut prompt = caller.sends(prompt);
        shared.telemetry.start_trace(&mut prompt);
        if let Some(payer) = payer {
            shared.daily_budget.start_run(payer, memory.clone(), first).await;
        }
        let started = handle.prompt_stream(prompt).await;
        if let Some(payer) = payer.cloned() {
            tokio::spawn(count(server.clone(), payer, handle, memory));
        }
        Ok(RequestRun {
            guard,
            events: started?,
            observer: Observer::new(shared.metrics.clone(), Source { agent: name, model }),
            end: Box::pin(shared.drain.finished()),
            _open: shared.metrics.open_stream(),
            has_ended: false,
        })
    }

    /// Returns a response with the frames that `encoder` makes from the events.
    pub(crate) fn into_response(self, mut encoder: impl Encoder) -> Response {
        let mut ready = VecDeque::new();
        encoder.start(&mut ready);
        response(RunFrames { run: self, encoder, ready })
    }
}

/// Adds the usage of a run to the daily budget when the run has ended, even if its client has
/// disconnected.
async fn count(server: Server, payer: Principal, handle: AgentHandle, memory: Arc<dyn Memory>) {
    handle.wait_for_idle().await;
    server.shared().daily_budget.end_run(&payer, &memory).await;
}

impl Stream for RequestRun {
    type Item = Result<Arc<Envelope>, CutOff>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let run = &mut *self;
        if run.has_ended {
            return Poll::Ready(None);
        }
        let cut_off = match run.events.poll_next_unpin(cx) {
            Poll::Ready(Some(event)) => {
                run.observer.observe(&event);
                let is_own = event.parent.is_none();
                if is_own && matches!(event.event, AgentEvent::AgentEnd(_)) {
                    run.has_ended = true;
                    run.guard.release();
                }
                return Poll::Ready(Some(Ok(event)));
            }
            Poll::Ready(None) if run.events.end() == Some(StreamEnd::Lagged) => CutOff::Lagged,
            Poll::Ready(None) => CutOff::Gone,
            Poll::Pending if run.end.as_mut().poll(cx).is_ready() => CutOff::Draining,
            Poll::Pending => return Poll::Pending,
        };
        run.has_ended = true;
        run.guard.abort();
        Poll::Ready(Some(Err(cut_off)))
    }
}

/// A guard that aborts a run when it is dropped early. The run's permit is released when the run
/// has ended, so a client that disconnects does not get more concurrent runs.
struct RunGuard(Option<RunPermit>);

impl RunGuard {
    fn new(handle: AgentHandle, permit: Permit) -> Self {
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

/// An encoder of the events of a run as frames.
pub(crate) trait Encoder: Send + Unpin + 'static {
    /// Appends the frames before all events. Appends nothing by default.
    fn start(&mut self, _to: &mut VecDeque<SseFrame>) {}

    /// Appends the frames of an event.
    fn event(&mut self, event: &Envelope, to: &mut VecDeque<SseFrame>);

    /// Appends the last frames if the events end before the run does.
    fn cut_off(&mut self, why: CutOff, to: &mut VecDeque<SseFrame>);
}

/// The frames of a run.
struct RunFrames<E> {
    run: RequestRun,
    encoder: E,
    ready: VecDeque<SseFrame>,
}

impl<E: Encoder> Stream for RunFrames<E> {
    type Item = SseFrame;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SseFrame>> {
        let RunFrames { run, encoder, ready } = &mut *self;
        loop {
            if let Some(frame) = ready.pop_front() {
                return Poll::Ready(Some(frame));
            }
            match std::task::ready!(run.poll_next_unpin(cx)) {
                Some(Ok(event)) => encoder.event(&event, ready),
                Some(Err(why)) => encoder.cut_off(why, ready),
                None => return Poll::Ready(None),
            }
        }
    }
}
