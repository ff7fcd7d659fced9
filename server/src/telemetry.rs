//! [`ServerTelemetry`]: OpenTelemetry, if the host has set it up. Without the feature `otel`, it is
//! never set up.

use std::sync::Arc;

use axum::http::HeaderMap;
use loopwright_core::AgentHandle;
use loopwright_core::agent::{AgentState, TraceContext};
use loopwright_core::event::Prompt;
#[cfg(feature = "otel")]
use loopwright_otel::Telemetry;

/// Exports what sessions do, and connects their runs with the traces of requests.
#[derive(Clone, Default)]
pub(crate) struct ServerTelemetry {
    #[cfg(feature = "otel")]
    pub(crate) telemetry: Option<Telemetry>,
}

#[cfg(feature = "otel")]
impl ServerTelemetry {
    /// Returns the trace context that the headers of a request name.
    pub(crate) fn trace(&self, headers: &HeaderMap) -> Option<TraceContext> {
        self.telemetry.as_ref()?;
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        // Of two values neither is known to be the right one: W3C Trace Context §3.2.
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

    /// Exports the events of a session and its sub-agents from here on, in a task.
    pub(crate) fn follow(&self, handle: &AgentHandle, agent: &Arc<str>, state: &AgentState) {
        let Some(telemetry) = &self.telemetry else { return };
        telemetry.follow(handle.subscribe_tree(), agent.clone(), state);
    }
}

#[cfg(not(feature = "otel"))]
impl ServerTelemetry {
    pub(crate) fn trace(&self, _: &HeaderMap) -> Option<TraceContext> {
        None
    }

    pub(crate) fn start_trace(&self, _: &mut Prompt) {}

    pub(crate) fn follow(&self, _: &AgentHandle, _: &Arc<str>, _: &AgentState) {}
}
