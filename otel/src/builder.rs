//! [`TelemetryBuilder`]: the destination and the contents of telemetry.

use std::time::Duration;

use tokio::runtime::Handle;

use crate::conventions::Conventions;
use crate::exporter::Exporter;
use crate::settings::{Settings, TelemetryError};
use crate::telemetry::Telemetry;

/// The settings of telemetry: its destination and its contents.
///
/// The environment sets everything else, by the names of OpenTelemetry: the headers of exports
/// (`OTEL_EXPORTER_OTLP_HEADERS`), the attributes of the resource (`OTEL_RESOURCE_ATTRIBUTES`), the
/// sizes and intervals of exports (`OTEL_BSP_SCHEDULE_DELAY`, `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`,
/// `OTEL_BSP_MAX_QUEUE_SIZE`, `OTEL_METRIC_EXPORT_INTERVAL`) and so on.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct TelemetryBuilder(Settings);

impl Telemetry {
    /// Returns a builder. Settings made with it are not read from the environment.
    pub fn builder() -> TelemetryBuilder {
        TelemetryBuilder::default()
    }

    /// Starts the exporters that the environment asks for. Returns `None` if
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` and its variables per signal are not set, or if
    /// `OTEL_SDK_DISABLED` is `true`.
    ///
    /// # Errors
    /// Fails if a variable has an invalid value, or outside a runtime of tokio.
    pub fn from_env(service_name: &str) -> Result<Option<Self>, TelemetryError> {
        let settings = Settings::from_variables(|name| std::env::var(name).ok())?;
        settings.map(|it| TelemetryBuilder(it).service_name(service_name).build()).transpose()
    }
}

impl TelemetryBuilder {
    /// Sets the base address of the collector, such as `http://127.0.0.1:4318`. Spans are posted to
    /// `/v1/traces` below it, metrics to `/v1/metrics`.
    pub fn endpoint(mut self, endpoint: impl AsRef<str>) -> Self {
        self.0.set_endpoint(endpoint.as_ref());
        self
    }

    /// Sets `service.name`, unless the environment sets it. Defaults to `loopwright`.
    pub fn service_name(mut self, name: impl Into<String>) -> Self {
        self.0.service_name = Some(name.into());
        self
    }

    /// Sets the version of the semantic conventions.
    pub fn conventions(mut self, conventions: Conventions) -> Self {
        self.0.conventions = conventions;
        self
    }

    /// Sets whether spans contain prompts, replies, arguments and results. Defaults to `false`.
    /// Images are never included.
    pub fn capture_content(mut self, captures: bool) -> Self {
        self.0.captures_content = captures;
        self
    }

    /// Sets the timeout of an export. Defaults to 10 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = Some(timeout);
        self
    }

    /// Sets the time between two exports of metrics. Defaults to 60 s.
    pub fn metric_interval(mut self, interval: Duration) -> Self {
        self.0.metric_interval = Some(interval);
        self
    }

    /// Starts the exporters, which send their requests in the current tokio runtime.
    ///
    /// # Errors Fails outside a runtime, if no endpoint is set or one is invalid, or if the
    /// environment asks for an unsupported feature, such as OTLP over gRPC.
    pub fn build(self) -> Result<Telemetry, TelemetryError> {
        let runtime = Handle::try_current()
            .map_err(|_| TelemetryError("it has to be started in a runtime of tokio.".into()))?;
        let TelemetryBuilder(settings) = self;
        if settings.traces.is_none() && settings.metrics.is_none() {
            let why = "no endpoint is set: set one, such as `http://127.0.0.1:4318`.";
            return Err(TelemetryError(why.into()));
        }
        let exporter = Exporter::new(&settings, runtime)?;
        Ok(Telemetry::new(exporter, settings.conventions, settings.captures_content))
    }
}
