//! A collector that decodes requests with the official protobuf messages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;

/// The requests received so far.
#[derive(Default)]
pub struct Received {
    /// All spans, in the order of their arrival.
    pub spans: Vec<Span>,
    /// The last state of each metric, by name.
    pub metrics: BTreeMap<String, Metric>,
    /// The attributes of the last resource.
    pub resource: BTreeMap<String, String>,
    /// All bodies, to search for contents that must not be in them.
    pub bytes: Vec<u8>,
}

/// A collector that listens on a local port.
#[derive(Clone)]
pub struct Collector {
    /// The address, without a path.
    pub url: String,
    received: Arc<Mutex<Received>>,
}

impl Collector {
    /// Starts the collector on a free local port.
    pub async fn start() -> Collector {
        let received = Arc::<Mutex<Received>>::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new()
            .route("/v1/traces", post(traces))
            .route("/v1/metrics", post(metrics))
            .with_state(received.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Collector { url, received }
    }

    /// Returns the requests received so far. Requests wait while the guard exists.
    pub fn received(&self) -> std::sync::MutexGuard<'_, Received> {
        self.received.lock().unwrap()
    }

    /// Returns the only span of this name.
    pub fn span(&self, name: &str) -> Span {
        let received = self.received();
        let mut named = received.spans.iter().filter(|span| span.name == name);
        let names: Vec<&str> = received.spans.iter().map(|span| &*span.name).collect();
        let span = named.next().unwrap_or_else(|| panic!("no span `{name}` in {names:?}"));
        assert!(named.next().is_none(), "several spans `{name}` in {names:?}");
        span.clone()
    }

    /// Returns whether a body contained this text.
    pub fn contains(&self, text: &str) -> bool {
        self.received().bytes.windows(text.len()).any(|part| part == text.as_bytes())
    }
}

type Shared = State<Arc<Mutex<Received>>>;

async fn traces(State(received): Shared, headers: HeaderMap, body: Bytes) -> StatusCode {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let request = ExportTraceServiceRequest::decode(body.clone()).unwrap();
    let mut received = received.lock().unwrap();
    received.bytes.extend(body);
    for spans in request.resource_spans {
        received.resource = attributes(&spans.resource.unwrap().attributes);
        for spans in spans.scope_spans {
            assert_eq!(spans.scope.unwrap().name, "loopwright");
            received.spans.extend(spans.spans);
        }
    }
    StatusCode::OK
}

async fn metrics(State(received): Shared, body: Bytes) -> StatusCode {
    let request = ExportMetricsServiceRequest::decode(body.clone()).unwrap();
    let mut received = received.lock().unwrap();
    received.bytes.extend(body);
    for metrics in request.resource_metrics {
        for metric in metrics.scope_metrics.into_iter().flat_map(|metrics| metrics.metrics) {
            received.metrics.insert(metric.name.clone(), metric);
        }
    }
    StatusCode::OK
}

/// Returns attributes as text, by name.
pub fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let pair = |pair: &KeyValue| (pair.key.clone(), text(pair.value.as_ref().unwrap()));
    attributes.iter().map(pair).collect()
}

fn text(value: &AnyValue) -> String {
    match value.value.as_ref().unwrap() {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(value) => value.to_string(),
        Value::IntValue(value) => value.to_string(),
        Value::DoubleValue(value) => value.to_string(),
        Value::ArrayValue(values) => values.values.iter().map(text).collect::<Vec<_>>().join(","),
        other => panic!("unexpected attribute: {other:?}"),
    }
}
