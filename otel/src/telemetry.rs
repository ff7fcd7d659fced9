//! [`Telemetry`]: exports what sessions do.

use std::sync::Arc;
use std::time::Duration;

use loopwright_core::EventStream;
use loopwright_core::agent::{AgentState, Environment, SystemEnvironment, TraceContext};
use loopwright_core::event::Envelope;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::conventions::Conventions;
use crate::exporter::Exporter;
use crate::fold::SessionFold;

/// How long [`Telemetry::flush`] and [`Telemetry::shutdown`] wait for the collector.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long they wait for the last events of runs.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(1);

/// Exports spans and metrics of sessions. Clones share the exporters.
///
/// Nothing waits for the collector: spans are queued, and dropped if the queue is full, because the
/// collector is down or too slow.
#[derive(Debug, Clone)]
pub struct Telemetry {
    exporter: Arc<Exporter>,
    /// The number of sessions whose runs have not ended, as far as their events were applied.
    running: Arc<watch::Sender<usize>>,
    conventions: Conventions,
    captures_content: bool,
}

impl Telemetry {
    pub(crate) fn new(
        exporter: Exporter,
        conventions: Conventions,
        captures_content: bool,
    ) -> Self {
        let exporter = Arc::new(exporter);
        let running = Arc::new(watch::Sender::new(0));
        Telemetry { exporter, running, conventions, captures_content }
    }

    /// Returns the trace context of a request with these headers, to give to its run; a new trace
    /// if there is none or it is malformed.
    pub fn trace_context(
        &self,
        traceparent: Option<&str>,
        tracestate: Option<&str>,
    ) -> TraceContext {
        let given = traceparent.and_then(|header| TraceContext::parse(header, tracestate));
        given.unwrap_or_else(|| {
            let half = || u128::from(SystemEnvironment.random());
            TraceContext::new(half() << 64 | half())
        })
    }

    /// Returns what exports the events of a session of this agent. `state` is a snapshot of the
    /// session: it has the model, and what is in progress.
    pub fn session(&self, agent: impl Into<Arc<str>>, state: &AgentState) -> SessionTelemetry {
        let fold = SessionFold::new(self.conventions, agent, state.model.clone())
            .capture_content(self.captures_content)
            .resume(state);
        SessionTelemetry {
            fold,
            exporter: self.exporter.clone(),
            running: self.running.clone(),
            is_counted: false,
        }
    }

    /// Exports the events of a session and its sub-agents, in a task, until the session ends or
    /// `events` does. `events` should be those of
    /// [`subscribe_tree`](loopwright_core::AgentHandle::subscribe_tree).
    pub fn follow(
        &self,
        mut events: EventStream,
        agent: impl Into<Arc<str>>,
        state: &AgentState,
    ) -> JoinHandle<()> {
        let mut session = self.session(agent, state);
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                session.apply(&event);
            }
        })
    }

    /// Exports what is queued. Returns when it has been sent, when that has failed, or after 5 s.
    /// Waits up to a second for the ends of runs in progress.
    pub async fn flush(&self) {
        self.finish(false).await;
    }

    /// Exports what is queued, and stops the exporters of all clones, as
    /// [`flush`](Telemetry::flush) does. What has not been sent then is lost.
    pub async fn shutdown(&self) {
        self.finish(true).await;
    }

    /// Exports what is queued, and with `closes` stops. Metrics are sent from a thread of their
    /// own, which blocks: requests are sent in the runtime, which may have one thread, and which
    /// must be able to end.
    async fn finish(&self, closes: bool) {
        let mut running = self.running.subscribe();
        let idle = running.wait_for(|running| *running == 0);
        let _ = tokio::time::timeout(EVENTS_TIMEOUT, idle).await;
        let (done, is_done) = oneshot::channel();
        let exporter = self.exporter.clone();
        let thread = std::thread::Builder::new().name("telemetry-flush".into());
        let started = thread.spawn(move || {
            exporter.send_metrics(closes);
            let _ = done.send(());
        });
        let metrics = async {
            if started.is_ok() {
                let _ = is_done.await;
            }
        };
        let sent = async { tokio::join!(self.exporter.send_spans(closes), metrics) };
        let _ = tokio::time::timeout(TIMEOUT, sent).await;
    }
}

/// Exports the events of one session and its sub-agents.
pub struct SessionTelemetry {
    fold: SessionFold,
    exporter: Arc<Exporter>,
    running: Arc<watch::Sender<usize>>,
    /// Whether the session is one of those that are running.
    is_counted: bool,
}

impl SessionTelemetry {
    /// Applies the next event, and exports what has ended with it.
    pub fn apply(&mut self, event: &Envelope) {
        let exporter = &self.exporter;
        self.fold.apply(event, &mut |signal| exporter.export(signal));
        self.count(self.fold.is_running());
    }

    fn count(&mut self, is_running: bool) {
        if std::mem::replace(&mut self.is_counted, is_running) != is_running {
            let change = if is_running { 1 } else { -1 };
            self.running.send_modify(|running| *running = running.saturating_add_signed(change));
        }
    }
}

impl Drop for SessionTelemetry {
    fn drop(&mut self) {
        self.count(false);
    }
}
