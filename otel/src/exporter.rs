//! The exporters of spans and metrics.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::MeterProvider;
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SpanProcessor};
use tokio::runtime::Handle;

use crate::http_client::Client;
use crate::instruments::Instruments;
use crate::settings::{Settings, TelemetryError};
use crate::signal::Signal;

/// The default of `OTEL_EXPORTER_OTLP_TIMEOUT`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a flush or a shutdown waits for the collector.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Exports signals in batches, on threads of its own.
pub(crate) struct Exporter {
    spans: Option<BatchSpanProcessor>,
    metrics: Option<(SdkMeterProvider, Instruments)>,
}

impl Exporter {
    pub(crate) fn new(settings: &Settings, runtime: Handle) -> Result<Self, TelemetryError> {
        let failed = |why: ExporterBuildError| TelemetryError(format!("{why}."));
        let timeout = settings.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let client = Client::new(runtime, timeout)
            .map_err(|why| TelemetryError(format!("there is no HTTP client: {why}.")))?;
        let client = Arc::new(client);
        let resource = resource(settings);
        let spans = settings.traces.as_ref().map(|endpoint| {
            let exporter =
                over_http(SpanExporter::builder().with_http(), endpoint, &client, timeout)
                    .build()?;
            let mut spans =
                BatchSpanProcessor::new(exporter, BatchConfigBuilder::default().build());
            spans.set_resource(&resource);
            Ok(spans)
        });
        let metrics = settings.metrics.as_ref().map(|endpoint| {
            let exporter =
                over_http(MetricExporter::builder().with_http(), endpoint, &client, timeout)
                    .build()?;
            let mut reader = PeriodicReader::builder(exporter);
            if let Some(interval) = settings.metric_interval {
                reader = reader.with_interval(interval);
            }
            let provider = SdkMeterProvider::builder()
                .with_resource(resource.clone())
                .with_reader(reader.build())
                .build();
            let instruments = Instruments::new(&provider.meter("loopwright"));
            Ok((provider, instruments))
        });
        Ok(Exporter {
            spans: spans.transpose().map_err(failed)?,
            metrics: metrics.transpose().map_err(failed)?,
        })
    }

    /// Queues a span, which is dropped if the queue is full, or records a measurement.
    pub(crate) fn export(&self, signal: Signal) {
        match signal {
            Signal::Span(span) => {
                if let Some(spans) = &self.spans {
                    spans.on_end(*span);
                }
            }
            Signal::Measurement(measurement) => {
                if let Some((_, instruments)) = &self.metrics {
                    instruments.record(&measurement);
                }
            }
        }
    }

    /// Exports what is queued. Blocks its thread until then, or until it has failed.
    pub(crate) fn flush(&self) {
        if let Some(spans) = &self.spans {
            let _ = spans.force_flush(); // the client logs why
        }
        if let Some((metrics, _)) = &self.metrics {
            let _ = metrics.force_flush();
        }
    }

    /// Exports what is queued, and stops. Blocks its thread.
    pub(crate) fn shut_down(&self) {
        if let Some(spans) = &self.spans {
            let _ = spans.shutdown_with_timeout(FLUSH_TIMEOUT);
        }
        if let Some((metrics, _)) = &self.metrics {
            let _ = metrics.shutdown_with_timeout(FLUSH_TIMEOUT);
        }
    }
}

fn over_http<B: WithExportConfig + WithHttpConfig>(
    builder: B,
    endpoint: &str,
    client: &Arc<Client>,
    timeout: Duration,
) -> B {
    builder
        .with_shared_http_client(client.clone())
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(endpoint)
        .with_timeout(timeout)
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

/// Returns the resource that the environment describes. `OTEL_SERVICE_NAME` takes precedence.
fn resource(settings: &Settings) -> Resource {
    let resource = Resource::builder().build();
    let key = opentelemetry::Key::from_static_str("service.name");
    let is_named =
        resource.get(&key).is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    if is_named {
        return resource;
    }
    let name = settings.service_name.clone().unwrap_or_else(|| "loopwright".into());
    Resource::builder().with_service_name(name).build()
}
