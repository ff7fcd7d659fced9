//! [`TelemetryBuilder`]: where telemetry goes, and what it contains.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::conventions::Conventions;
use crate::exporter::Exporter;
use crate::telemetry::Telemetry;

/// The default of `OTEL_EXPORTER_OTLP_TIMEOUT`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Describes why telemetry cannot be exported.
#[derive(Debug, thiserror::Error)]
#[error("Telemetry cannot be exported: {0}")]
pub struct TelemetryError(pub(crate) String);

/// Says where telemetry goes, and what it contains.
///
/// What is not set here is what the environment says, by the names of OpenTelemetry: the headers
/// of exports (`OTEL_EXPORTER_OTLP_HEADERS`), the attributes of the resource
/// (`OTEL_RESOURCE_ATTRIBUTES`), the sizes and intervals of batches (`OTEL_BSP_*`,
/// `OTEL_METRIC_EXPORT_INTERVAL`) and so on.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct TelemetryBuilder {
    pub(crate) traces: Option<String>,
    pub(crate) metrics: Option<String>,
    pub(crate) service_name: Option<String>,
    pub(crate) conventions: Conventions,
    pub(crate) captures_content: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) metric_interval: Option<Duration>,
}

impl TelemetryBuilder {
    /// Sets the base address of the collector, such as `http://127.0.0.1:4318`: spans are posted
    /// to `/v1/traces` below it, metrics to `/v1/metrics`.
    pub fn endpoint(mut self, endpoint: impl AsRef<str>) -> Self {
        let base = endpoint.as_ref().trim_end_matches('/');
        self.traces = Some(format!("{base}/v1/traces"));
        self.metrics = Some(format!("{base}/v1/metrics"));
        self
    }

    /// Sets `service.name`, unless the environment names one; the default is `loopwright`.
    pub fn service_name(mut self, name: impl Into<String>) -> Self {
        self.service_name = Some(name.into());
        self
    }

    /// Sets the version of the conventions.
    pub fn conventions(mut self, conventions: Conventions) -> Self {
        self.conventions = conventions;
        self
    }

    /// Says whether spans contain prompts, replies, arguments and results; by default they do not.
    /// Images are never contained.
    pub fn capture_content(mut self, captures: bool) -> Self {
        self.captures_content = captures;
        self
    }

    /// Sets the longest time that an export may take; the default is 10 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the time between two exports of metrics; the default is 60 s.
    pub fn metric_interval(mut self, interval: Duration) -> Self {
        self.metric_interval = Some(interval);
        self
    }

    /// Starts the exporters, which send their requests in the current runtime of tokio.
    ///
    /// # Errors
    /// Fails if there is no runtime, if no endpoint is set or one is invalid, or if the
    /// environment asks for what is not supported, such as OTLP over gRPC.
    pub fn build(self) -> Result<Telemetry, TelemetryError> {
        let runtime = Handle::try_current()
            .map_err(|_| TelemetryError("it has to be started in a runtime of tokio.".into()))?;
        if self.traces.is_none() && self.metrics.is_none() {
            let why = "no endpoint is set: set one, such as `http://127.0.0.1:4318`.";
            return Err(TelemetryError(why.into()));
        }
        let timeout = self.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let exporter = Exporter::new(&self, runtime, timeout)?;
        Ok(Telemetry::new(Arc::new(exporter), self.conventions, self.captures_content))
    }

    /// Reads the environment, in which `variable` looks up a name. Returns `None` if nothing is to
    /// be exported.
    pub(crate) fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, TelemetryError> {
        let get = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let is_true =
            |name: &str| get(name).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
        if is_true("OTEL_SDK_DISABLED") {
            return Ok(None);
        }
        let mut builder = TelemetryBuilder::default();
        if let Some(endpoint) = get("OTEL_EXPORTER_OTLP_ENDPOINT") {
            builder = builder.endpoint(endpoint);
        }
        builder.traces = get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or(builder.traces);
        builder.metrics = get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT").or(builder.metrics);
        for (name, endpoint) in [
            ("OTEL_TRACES_EXPORTER", &mut builder.traces),
            ("OTEL_METRICS_EXPORTER", &mut builder.metrics),
        ] {
            match get(name).as_deref().map(str::trim) {
                None | Some("otlp") => {}
                Some("none") => *endpoint = None,
                Some(other) => {
                    let why = format!("{name} is `{other}`. It must be `otlp` or `none`.");
                    return Err(TelemetryError(why));
                }
            }
        }
        if builder.traces.is_none() && builder.metrics.is_none() {
            return Ok(None);
        }
        if let Some(milliseconds) = get("OTEL_EXPORTER_OTLP_TIMEOUT") {
            let invalid = || {
                let name = "OTEL_EXPORTER_OTLP_TIMEOUT";
                TelemetryError(format!(
                    "{name} is `{milliseconds}`. It must be a number of milliseconds."
                ))
            };
            let number = milliseconds.trim().parse().map_err(|_| invalid())?;
            builder.timeout = Some(Duration::from_millis(number));
        }
        let opt_in = get("OTEL_SEMCONV_STABILITY_OPT_IN").unwrap_or_default();
        builder.conventions = Conventions::from_opt_in(&opt_in);
        builder.captures_content = is_true("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
        Ok(Some(builder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<TelemetryBuilder>, TelemetryError> {
        TelemetryBuilder::from_variables(|name| {
            let value = variables.iter().find(|(other, _)| *other == name);
            value.map(|(_, value)| (*value).to_owned())
        })
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/");

    #[test]
    fn without_an_endpoint_nothing_is_exported() {
        let off = |variables: &[_]| read(variables).unwrap().is_none();
        assert!(off(&[]));
        assert!(off(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]));
        assert!(off(&[ENDPOINT, ("OTEL_SDK_DISABLED", "true")]));
        let none = [("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")];
        assert!(off(&[ENDPOINT, none[0], none[1]]));
    }

    #[test]
    fn variables_have_the_names_of_opentelemetry() {
        let builder = read(&[ENDPOINT]).unwrap().unwrap();
        assert_eq!(builder.traces.as_deref(), Some("http://c:4318/v1/traces"));
        assert_eq!(builder.metrics.as_deref(), Some("http://c:4318/v1/metrics"));
        assert_eq!(builder.conventions, Conventions::V1_36);
        assert!(!builder.captures_content);
        let builder = read(&[
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/spans"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "True"),
        ]);
        let builder = builder.unwrap().unwrap();
        assert_eq!(builder.traces.as_deref(), Some("http://t/spans"));
        assert_eq!(builder.metrics, None);
        assert_eq!(builder.timeout, Some(Duration::from_millis(250)));
        assert_eq!(builder.conventions, Conventions::Latest);
        assert!(builder.captures_content);
    }

    #[test]
    fn what_is_not_supported_is_an_error() {
        for variable in [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")]
        {
            let error = read(&[ENDPOINT, variable]).unwrap_err().to_string();
            assert!(error.contains(variable.0) && error.contains(variable.1), "{error}");
        }
    }
}
