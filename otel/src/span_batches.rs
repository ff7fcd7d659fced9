//! [`SpanBatches`]: spans, encoded when they end and sent in batches.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use opentelemetry_http::{Bytes, HttpClient, Request};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, message};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::fold::scope;
use crate::http_client::Client;
use crate::settings::Delivery;

/// The numbers of fields in OTLP's messages: spans in `ScopeSpans`, `ScopeSpans` in
/// `ResourceSpans`, and `ResourceSpans` in `ExportTraceServiceRequest`.
const SPANS: u32 = 2;
const SCOPE_SPANS: u32 = 2;
const RESOURCE_SPANS: u32 = 1;

/// A sender of spans in batches. A span is kept as its encoded bytes: queued spans are small, and
/// the next span reuses the memory of a span.
///
/// A task of the runtime sends them. After this is dropped, the task sends the queue and ends.
pub(crate) struct SpanBatches {
    queue: Arc<Queue>,
    /// Wakes the task: at the first queued span, and when a batch is full.
    wake: mpsc::Sender<()>,
}

struct Queue {
    waiting: Mutex<Waiting>,
    delivery: Delivery,
    client: Arc<Client>,
    /// The part shared by all requests: the fields of `ResourceSpans` and `ScopeSpans`, except for
    /// the fields with the spans.
    resource: Vec<u8>,
    scope: Vec<u8>,
    /// Held while batches are sent, one after the other.
    sending: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Waiting {
    batches: VecDeque<Batch>,
    /// The number of spans in all batches.
    spans: usize,
    is_closed: bool,
}

#[derive(Default)]
struct Batch {
    /// The fields of all spans, one after the other.
    bytes: Vec<u8>,
    spans: usize,
}

impl SpanBatches {
    pub(crate) fn new(
        delivery: Delivery,
        client: Arc<Client>,
        resource: &Resource,
        runtime: &Handle,
    ) -> Self {
        let resource = ResourceAttributesWithSchema::from(resource);
        let resource = ResourceSpans {
            schema_url: resource.schema_url.unwrap_or_default(),
            resource: Some(opentelemetry_proto::tonic::resource::v1::Resource {
                attributes: resource.attributes.0,
                ..Default::default()
            }),
            scope_spans: Vec::new(),
        };
        let scope = ScopeSpans { scope: Some((scope(), None).into()), ..Default::default() };
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            delivery,
            client,
            resource: resource.encode_to_vec(),
            scope: scope.encode_to_vec(),
            sending: tokio::sync::Mutex::default(),
        });
        let (wake, woken) = mpsc::channel(1);
        runtime.spawn(send_batches(queue.clone(), woken));
        SpanBatches { queue, wake }
    }

    /// Queues a span, or drops it if the queue is full or closed.
    pub(crate) fn push(&self, span: SpanData) {
        let mut field = Vec::with_capacity(1024);
        message::encode(SPANS, &Span::from(span), &mut field);
        if self.queue.push(&field) {
            let _ = self.wake.try_send(()); // or it will wake anyway
        }
    }

    /// Sends the queued spans. Resolves when they have been sent, or sending has failed.
    pub(crate) async fn flush(&self) {
        self.queue.send().await;
    }

    /// Drops all further spans.
    pub(crate) fn close(&self) {
        self.queue.waiting().is_closed = true;
    }
}

/// Sends queued spans, until no more can be queued.
async fn send_batches(queue: Arc<Queue>, mut woken: mpsc::Receiver<()>) {
    let mut is_open = true;
    while is_open {
        if queue.waiting().spans == 0 {
            is_open = woken.recv().await.is_some();
        }
        if is_open && !queue.has_full_batch() {
            is_open = timeout(queue.delivery.delay, woken.recv()).await != Ok(None);
        }
        queue.send().await;
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the field of a span. Returns whether the task must be woken.
    fn push(&self, field: &[u8]) -> bool {
        let mut waiting = self.waiting();
        if waiting.is_closed || waiting.spans >= self.delivery.max_queue {
            return false;
        }
        waiting.spans += 1;
        let is_first = waiting.spans == 1;
        let max = self.delivery.max_batch;
        if waiting.batches.back().is_none_or(|batch| batch.spans >= max) {
            waiting.batches.push_back(Batch::default());
        }
        let Some(batch) = waiting.batches.back_mut() else { return false };
        batch.bytes.extend_from_slice(field);
        batch.spans += 1;
        is_first || batch.spans == max
    }

    fn has_full_batch(&self) -> bool {
        let waiting = self.waiting();
        waiting.batches.front().is_some_and(|batch| batch.spans >= self.delivery.max_batch)
    }

    /// Sends the queued batches, after any that are already being sent.
    async fn send(&self) {
        let _sending = self.sending.lock().await;
        let batches = self.waiting().batches.len();
        for _ in 0..batches {
            let batch = {
                let mut waiting = self.waiting();
                let batch = waiting.batches.pop_front();
                waiting.spans -= batch.as_ref().map_or(0, |batch| batch.spans);
                batch
            };
            if let Some(batch) = batch {
                self.post(&batch.bytes).await;
            }
        }
    }

    async fn post(&self, spans: &[u8]) {
        let mut request = Request::new(Bytes::from(self.request(spans)));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.delivery.url.clone();
        *request.headers_mut() = self.delivery.headers.clone();
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        request.headers_mut().insert(CONTENT_TYPE, protobuf);
        let _ = self.client.send_bytes(request).await; // the client logs why it has failed
    }

    /// Returns an `ExportTraceServiceRequest` with these spans.
    fn request(&self, spans: &[u8]) -> Vec<u8> {
        let mut resource = self.resource.clone();
        encode_key(SCOPE_SPANS, WireType::LengthDelimited, &mut resource);
        encode_varint((self.scope.len() + spans.len()) as u64, &mut resource);
        let length = resource.len() + self.scope.len() + spans.len();
        let mut request = Vec::with_capacity(length + 16);
        encode_key(RESOURCE_SPANS, WireType::LengthDelimited, &mut request);
        encode_varint(length as u64, &mut request);
        for part in [&resource, &self.scope, spans] {
            request.extend_from_slice(part);
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, Uri};
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;

    use super::*;

    fn batches(max_queue: usize, max_batch: usize) -> SpanBatches {
        let url = Uri::from_static("http://127.0.0.1:9/v1/traces"); // nothing is sent
        let (headers, delay) = (HeaderMap::new(), Duration::from_secs(3600));
        let delivery = Delivery { url, headers, max_queue, max_batch, delay };
        let client = Client::new(Handle::current(), Duration::from_secs(1)).unwrap();
        let resource = Resource::builder().with_service_name("acme").build();
        SpanBatches::new(delivery, Arc::new(client), &resource, &Handle::current())
    }

    fn field(name: &str) -> Vec<u8> {
        let mut field = Vec::new();
        message::encode(SPANS, &Span { name: name.into(), ..Span::default() }, &mut field);
        field
    }

    #[tokio::test]
    async fn a_request_has_the_resource_the_scope_and_the_spans() {
        let batches = batches(10, 10);
        let spans = [field("a"), field("b")].concat();
        let request = batches.queue.request(&spans);
        let request = ExportTraceServiceRequest::decode(&*request).unwrap();
        let [resource] = &request.resource_spans[..] else { panic!("{request:?}") };
        let attributes = &resource.resource.as_ref().unwrap().attributes;
        assert!(attributes.iter().any(|attribute| attribute.key == "service.name"));
        let [scope] = &resource.scope_spans[..] else { panic!("{request:?}") };
        assert_eq!(scope.scope.as_ref().unwrap().name, "loopwright");
        let names: Vec<&str> = scope.spans.iter().map(|span| &*span.name).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[tokio::test]
    async fn the_task_is_woken_at_the_first_span_and_by_a_full_batch() {
        let queue = batches(5, 2).queue;
        let woken: Vec<bool> = (0..6).map(|_| queue.push(&field("a"))).collect();
        assert_eq!(woken, [true, true, false, true, false, false], "the last one is dropped");
        assert!(queue.has_full_batch());
        let spans: Vec<usize> = queue.waiting().batches.iter().map(|batch| batch.spans).collect();
        assert_eq!((spans, queue.waiting().spans), (vec![2, 2, 1], 5));
        queue.send().await;
        assert_eq!(queue.waiting().spans, 0);
        assert!(queue.waiting().batches.is_empty());
        queue.waiting().is_closed = true;
        assert!(!queue.push(&field("a")) && queue.waiting().spans == 0);
    }
}
