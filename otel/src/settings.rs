//! [`Settings`]: the settings of telemetry from the environment.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName};
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use crate::conventions::Conventions;

/// The reason why telemetry cannot be exported.
#[derive(Debug, thiserror::Error)]
#[error("Telemetry cannot be exported: {0}")]
pub struct TelemetryError(pub(crate) String);

/// The settings of telemetry.
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

    /// Reads the environment through `variable`, which looks up a name. Returns `None` if the
    /// environment asks for no exports.
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

/// The address, the headers and the batching of span exports.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) url: Uri,
    pub(crate) headers: HeaderMap,
    /// Maximum number of queued spans. Further ones are dropped.
    pub(crate) max_queue: usize,
    /// Maximum number of spans in a request.
    pub(crate) max_batch: usize,
    /// Maximum time that a span waits for others.
    pub(crate) delay: Duration,
}

impl Delivery {
    /// Reads the settings for spans that are sent to this address from the environment, in which
    /// `variable` looks up a name.
    pub(crate) fn new(
        url: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, TelemetryError> {
        let invalid = |why| TelemetryError(format!("`{url}` is no address of a collector: {why}."));
        let number = |name: &str, default: u64| match variable(name) {
            None => Ok(default),
            Some(text) => text.trim().parse().ok().filter(|number| *number > 0).ok_or_else(|| {
                TelemetryError(format!("{name} is `{text}`. It must be a number above 0."))
            }),
        };
        Ok(Delivery {
            url: url.parse().map_err(|why: http::uri::InvalidUri| invalid(why.to_string()))?,
            headers: headers(&variable)?,
            max_queue: number("OTEL_BSP_MAX_QUEUE_SIZE", 2048)? as usize,
            max_batch: number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)? as usize,
            delay: Duration::from_millis(number("OTEL_BSP_SCHEDULE_DELAY", 5000)?),
        })
    }
}

/// Reads the headers of requests with spans: comma-separated `NAME=VALUE`, percent-encoded.
fn headers(variable: impl Fn(&str) -> Option<String>) -> Result<HeaderMap, TelemetryError> {
    let names = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
    let set = names.iter().find_map(|name| Some((name, variable(name)?)));
    let Some((variable, text)) = set else { return Ok(HeaderMap::new()) };
    let header = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((name.trim().parse::<HeaderName>().ok()?, value.parse::<HeaderValue>().ok()?))
    };
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs.map(header).collect::<Option<HeaderMap>>().ok_or_else(|| {
        TelemetryError(format!("{variable} must be headers: NAME=VALUE, with commas between."))
    })
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
    fn batches_and_headers_are_those_of_the_environment() {
        let read = |variables: &[(&str, &str)]| {
            Delivery::new("http://c:4318/v1/traces", |name| {
                let value = variables.iter().find(|(other, _)| *other == name);
                value.map(|(_, value)| (*value).to_owned())
            })
        };
        let delivery = read(&[]).unwrap();
        let limits = (delivery.max_queue, delivery.max_batch, delivery.delay.as_millis());
        assert_eq!((limits, delivery.headers.len()), ((2048, 512, 5000), 0));
        let delivery = read(&[
            ("OTEL_BSP_SCHEDULE_DELAY", "250"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key = a%20b=,x=1,"),
        ]);
        let delivery = delivery.unwrap();
        assert_eq!(delivery.delay.as_millis(), 250);
        assert_eq!(delivery.headers["api-key"], "a b=");
        assert_eq!(delivery.headers["x"], "1");
        for variable in [
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
            ("OTEL_BSP_SCHEDULE_DELAY", "1s"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a b=c"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
        ] {
            let error = read(&[variable]).unwrap_err().to_string();
            assert!(error.contains(variable.0) && !error.contains("secret"), "{error}");
        }
        assert!(Delivery::new("http://a b", |_| None).is_err());
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
