//! [`Settings`]: what telemetry is started with, as the environment says.

use std::time::Duration;

use crate::conventions::Conventions;

/// Describes why telemetry cannot be exported.
#[derive(Debug, thiserror::Error)]
#[error("Telemetry cannot be exported: {0}")]
pub struct TelemetryError(pub(crate) String);

/// What telemetry is started with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// The address of spans.
    pub(crate) traces: Option<String>,
    /// The address of metrics.
    pub(crate) metrics: Option<String>,
    pub(crate) service_name: Option<String>,
    pub(crate) conventions: Conventions,
    pub(crate) captures_content: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) metric_interval: Option<Duration>,
}

impl Settings {
    /// Sets the base address of the collector.
    pub(crate) fn set_endpoint(&mut self, base: &str) {
        let base = base.trim().trim_end_matches('/');
        self.traces = Some(format!("{base}/v1/traces"));
        self.metrics = Some(format!("{base}/v1/metrics"));
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
        let mut settings = Settings::default();
        if let Some(endpoint) = get("OTEL_EXPORTER_OTLP_ENDPOINT") {
            settings.set_endpoint(&endpoint);
        }
        settings.traces = get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or(settings.traces);
        settings.metrics = get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT").or(settings.metrics);
        for (name, endpoint) in [
            ("OTEL_TRACES_EXPORTER", &mut settings.traces),
            ("OTEL_METRICS_EXPORTER", &mut settings.metrics),
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
        if settings.traces.is_none() && settings.metrics.is_none() {
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
            settings.timeout = Some(Duration::from_millis(number));
        }
        let opt_in = get("OTEL_SEMCONV_STABILITY_OPT_IN").unwrap_or_default();
        settings.conventions = Conventions::from_opt_in(&opt_in);
        settings.captures_content = is_true("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
        Ok(Some(settings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, TelemetryError> {
        Settings::from_variables(|name| {
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
        let settings = read(&[ENDPOINT]).unwrap().unwrap();
        assert_eq!(settings.traces.as_deref(), Some("http://c:4318/v1/traces"));
        assert_eq!(settings.metrics.as_deref(), Some("http://c:4318/v1/metrics"));
        assert_eq!(settings.conventions, Conventions::V1_36);
        assert!(!settings.captures_content);
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/spans"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "True"),
        ]);
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.traces.as_deref(), Some("http://t/spans"));
        assert_eq!(settings.metrics, None);
        assert_eq!(settings.timeout, Some(Duration::from_millis(250)));
        assert_eq!(settings.conventions, Conventions::Latest);
        assert!(settings.captures_content);
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
