//! [`Telemetry`]: the export of sessions.

use std::sync::Arc;
use std::time::Duration;

use loopwright_core::event::Envelope;
use loopwright_core::session::AgentState;
use loopwright_core::{Environment, EventStream, SystemEnvironment, TraceContext};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::conventions::Conventions;
use crate::exporter::Exporter;
use crate::fold::SessionFold;

/// Timeout of [`Telemetry::flush`] and [`Telemetry::shutdown`] for the collector.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Their timeout for the last events of runs.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(1);

/// An exporter of the spans and metrics of sessions. Clones share it.
///
/// Sessions never wait for the collector: spans are queued, and dropped if the queue is full
/// because the collector is down or too slow.
#[derive(Debug, Clone)]
pub struct Telemetry {
    exporter: Arc<Exporter>,
    /// The number of sessions with a run in progress, by the events applied so far.
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

    /// Returns the trace context of a request with these headers, for its run. Without a valid one,
    /// returns a new trace.
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

    /// Returns the exporter for the events of a session of this agent. `state` is a snapshot of the
    /// session with its model and its work in progress.
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
    /// `events` does. `events` should come from
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

    /// Exports queued signals. Returns when they have been sent, when that has failed, or after 5
    /// s. Waits up to a second for the ends of runs in progress.
    pub async fn flush(&self) {
        self.finish(false).await;
    }

    /// Exports queued signals, like [`flush`](Telemetry::flush), and stops the exporters of all
    /// clones. Signals that are not sent by then are lost.
    pub async fn shutdown(&self) {
        self.finish(true).await;
    }

    /// Exports queued signals, and with `closes` stops. Sending metrics blocks, so it has its own
    /// thread: requests are sent in the runtime, which may have only one thread, and which must be
    /// able to end.
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

/// The exporter of the events of one session and its sub-agents.
pub struct SessionTelemetry {
    fold: SessionFold,
    exporter: Arc<Exporter>,
    running: Arc<watch::Sender<usize>>,
    /// `true` if the session counts as running.
    is_counted: bool,
}

impl SessionTelemetry {
    /// Applies the next event, and exports spans and measurements that end with it.
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
