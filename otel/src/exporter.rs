//! Exporters of spans and metrics.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::MeterProvider;
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, Protocol, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use tokio::runtime::Handle;

use crate::http_client::Client;
use crate::instruments::Instruments;
use crate::settings::{Delivery, Settings, TelemetryError};
use crate::signal::Signal;
use crate::span_batches::SpanBatches;

/// The default of `OTEL_EXPORTER_OTLP_TIMEOUT`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a flush or a shutdown for the collector.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// An exporter of signals in batches: spans in a task of the runtime, metrics on a thread.
pub(crate) struct Exporter {
    spans: Option<SpanBatches>,
    metrics: Option<(SdkMeterProvider, Instruments)>,
}

impl Exporter {
    pub(crate) fn new(settings: &Settings, runtime: Handle) -> Result<Self, TelemetryError> {
        let failed = |why: ExporterBuildError| TelemetryError(format!("{why}."));
        let timeout = settings.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let client = Client::new(runtime.clone(), timeout)
            .map_err(|why| TelemetryError(format!("there is no HTTP client: {why}.")))?;
        let client = Arc::new(client);
        let resource = resource(settings);
        let variable = |name: &str| std::env::var(name).ok();
        let spans = settings.traces.as_ref().map(|endpoint| {
            let delivery = Delivery::new(endpoint, variable)?;
            Ok(SpanBatches::new(delivery, client.clone(), &resource, &runtime))
        });
        let metrics = settings.metrics.as_ref().map(|endpoint| {
            let exporter = MetricExporter::builder()
                .with_http()
                .with_shared_http_client(client.clone())
                .with_protocol(Protocol::HttpBinary)
                .with_endpoint(endpoint)
                .with_timeout(timeout)
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
        Ok(Exporter { spans: spans.transpose()?, metrics: metrics.transpose().map_err(failed)? })
    }

    /// Queues a span, which is dropped if the queue is full, or records a measurement.
    pub(crate) fn export(&self, signal: Signal) {
        match signal {
            Signal::Span(span) => {
                if let Some(spans) = &self.spans {
                    spans.push(*span);
                }
            }
            Signal::Measurement(measurement) => {
                if let Some((_, instruments)) = &self.metrics {
                    instruments.record(&measurement);
                }
            }
        }
    }

    /// Sends the queued spans. With `closes` it accepts no more.
    pub(crate) async fn send_spans(&self, closes: bool) {
        let Some(spans) = &self.spans else { return };
        if closes {
            spans.close();
        }
        spans.flush().await;
    }

    /// Sends the metrics. With `closes` it stops sending them. Blocks its thread until they are
    /// sent, or until that has failed.
    pub(crate) fn send_metrics(&self, closes: bool) {
        let Some((metrics, _)) = &self.metrics else { return };
        let _ = match closes {
            true => metrics.shutdown_with_timeout(FLUSH_TIMEOUT),
            false => metrics.force_flush(), // the client logs why it has failed
        };
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

/// Returns the resource from the environment. `OTEL_SERVICE_NAME` takes precedence.
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
