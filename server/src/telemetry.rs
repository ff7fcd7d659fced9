//! Metrics and traces, derived from the events of sessions. [`ServerTelemetry`] is OpenTelemetry,
//! if the host has set it up. Without the feature `otel` it does nothing.

pub(crate) mod metrics;
pub(crate) mod observer;

use std::sync::Arc;

use axum::http::HeaderMap;
use loopwright_core::event::{Envelope, Prompt};
use loopwright_core::session::AgentState;
use loopwright_core::{AgentHandle, RunContext, TraceContext};
#[cfg(feature = "otel")]
use loopwright_otel::{SessionTelemetry, Telemetry};

/// The export of the sessions' events, and the connection of their runs with the traces of
/// requests.
#[derive(Clone, Default)]
pub(crate) struct ServerTelemetry {
    #[cfg(feature = "otel")]
    pub(crate) telemetry: Option<Telemetry>,
}

#[cfg(feature = "otel")]
impl ServerTelemetry {
    /// Returns the trace context in the headers of a request.
    pub(crate) fn trace(&self, headers: &HeaderMap) -> Option<TraceContext> {
        self.telemetry.as_ref()?;
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        // With two values, neither is known to be right: W3C Trace Context §3.2.
        let is_single = headers.get_all("traceparent").iter().count() == 1;
        let parent = header("traceparent").filter(|_| is_single)?;
        TraceContext::parse(parent, header("tracestate"))
    }

    /// Gives a prompt a trace of its own, unless it has one.
    pub(crate) fn start_trace(&self, prompt: &mut Prompt) {
        let Some(telemetry) = &self.telemetry else { return };
        if prompt.extensions.get::<TraceContext>().is_none() {
            let trace = telemetry.trace_context(None, None);
            prompt.extensions = std::mem::take(&mut prompt.extensions).with(trace);
        }
    }

    /// Adds the events to export to the stream of a new session.
    pub(crate) fn prepare(&self, cx: RunContext) -> RunContext {
        if self.telemetry.is_some() { cx.tree_events() } else { cx }
    }

    /// Returns the exporter of a session's events.
    pub(crate) fn session(&self, agent: &Arc<str>, state: &AgentState) -> ExportedSession {
        let telemetry = self.telemetry.as_ref();
        ExportedSession(telemetry.map(|telemetry| telemetry.session(agent.clone(), state)))
    }

    /// Exports the events of a session from here on, in a task.
    pub(crate) fn follow(&self, handle: &AgentHandle, agent: &Arc<str>, state: &AgentState) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.follow(handle.subscribe_tree(), agent.clone(), state);
        }
    }
}

/// The exporter of the events of a session and its sub-agents, if there is telemetry.
pub(crate) struct ExportedSession(#[cfg(feature = "otel")] Option<SessionTelemetry>);

impl ExportedSession {
    #[cfg(feature = "otel")]
    pub(crate) fn apply(&mut self, event: &Envelope) {
        if let Some(session) = &mut self.0 {
            session.apply(event);
        }
    }

    #[cfg(not(feature = "otel"))]
    pub(crate) fn apply(&mut self, _: &Envelope) {}
}

#[cfg(not(feature = "otel"))]
impl ServerTelemetry {
    pub(crate) fn trace(&self, _: &HeaderMap) -> Option<TraceContext> {
        None
    }

    pub(crate) fn start_trace(&self, _: &mut Prompt) {}

    pub(crate) fn prepare(&self, cx: RunContext) -> RunContext {
        cx
    }

    pub(crate) fn session(&self, _: &Arc<str>, _: &AgentState) -> ExportedSession {
        ExportedSession()
    }

    pub(crate) fn follow(&self, _: &AgentHandle, _: &Arc<str>, _: &AgentState) {}
}
