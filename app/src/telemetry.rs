//! OpenTelemetry of the program, if the environment asks for it. Without the feature `otel`, it is
//! always off, which is said to a user whose environment asks for it.

use std::sync::Arc;
#[cfg(feature = "otel")]
use std::sync::OnceLock;

use loopwright_core::AgentHandle;
use loopwright_core::event::Prompt;
#[cfg(feature = "otel")]
use loopwright_otel::Telemetry;
use loopwright_server::ServerBuilder;

use crate::environment::Names;
use crate::error::StartError;
#[cfg(not(feature = "otel"))]
use crate::output;

/// The telemetry of the program's sessions. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct AppTelemetry {
    #[cfg(feature = "otel")]
    telemetry: Arc<OnceLock<Telemetry>>,
}

#[cfg(feature = "otel")]
impl AppTelemetry {
    /// Starts the exporters in the current runtime if the environment names an endpoint.
    pub(crate) fn start(&self, names: &Names) -> Result<(), StartError> {
        let started =
            Telemetry::from_env(names.app()).map_err(|why| StartError(why.to_string()))?;
        if let Some(telemetry) = started {
            let _ = self.telemetry.set(telemetry); // started once
        }
        Ok(())
    }

    /// Sets the trace of a prompt: from `TRACEPARENT` and `TRACESTATE`, or a new one.
    pub(crate) fn trace(&self, prompt: Prompt) -> Prompt {
        let Some(telemetry) = self.telemetry.get() else { return prompt };
        let variable = |name| std::env::var(name).ok();
        let (parent, state) = (variable("TRACEPARENT"), variable("TRACESTATE"));
        prompt.with(telemetry.trace_context(parent.as_deref(), state.as_deref()))
    }

    /// Exports the events of a session of this agent from now on.
    pub(crate) async fn follow(&self, handle: &AgentHandle, agent: &Arc<str>) {
        let Some(telemetry) = self.telemetry.get() else { return };
        let events = handle.subscribe_tree();
        if let Ok(state) = handle.state().await {
            telemetry.follow(events, agent.clone(), &state);
        }
    }

    /// Adds the telemetry of a server's sessions to the server.
    pub(crate) fn serve(&self, builder: ServerBuilder) -> ServerBuilder {
        match self.telemetry.get() {
            Some(telemetry) => builder.telemetry(telemetry.clone()),
            None => builder,
        }
    }

    /// Exports the remaining data.
    pub(crate) async fn shutdown(&self) {
        if let Some(telemetry) = self.telemetry.get() {
            telemetry.shutdown().await;
        }
    }
}

#[cfg(not(feature = "otel"))]
impl AppTelemetry {
    pub(crate) fn start(&self, _: &Names) -> Result<(), StartError> {
        let endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT";
        if std::env::var_os(endpoint).is_some_and(|it| !it.is_empty()) {
            let why = StartError::without_feature(endpoint, "otel");
            output::notice(&format!("No telemetry is exported: {why}"));
        }
        Ok(())
    }

    pub(crate) fn trace(&self, prompt: Prompt) -> Prompt {
        prompt
    }

    pub(crate) async fn follow(&self, _: &AgentHandle, _: &Arc<str>) {}

    pub(crate) fn serve(&self, builder: ServerBuilder) -> ServerBuilder {
        builder
    }

    pub(crate) async fn shutdown(&self) {}
}
