//! HTTP for models: a POST with a key, answered by an event stream or an error. Below it are the
//! clients, keys, errors, and the parser of event streams.

pub(crate) mod address_filter;
pub(crate) mod endpoint;
pub(crate) mod failure;
pub(crate) mod key;
mod retry_after;
pub(crate) mod sse;
pub(crate) mod transport;
pub(crate) mod unexpected_body;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderValue, USER_AGENT};
use hyper::http::uri::InvalidUri;
use hyper::{Method, Response, StatusCode};
use loopwright_core::TraceContext;
use loopwright_core::model::{ModelError, ModelErrorKind};
use reqwest::{NoProxy, Proxy, Url};

use self::address_filter::AddressFilter;
use self::endpoint::Endpoint;
use self::key::{KeySource, Secret, hide};
use self::transport::{Address, ResponseBody, Transport, TransportError, TransportErrorKind};
use self::unexpected_body::UnexpectedBody;

/// The maximum number of bytes read from an error body.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;
/// The time limit for reading an error body.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of bytes read from a web page, for an excerpt in the error.
const MAX_PAGE_BYTES: usize = 16 * 1024;
/// The time limit for reading a web page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limits of a request. `Duration::MAX` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Time until the connection is established.
    pub connect: Duration,
    /// Time from then until the first data of the reply: an event, a ping or a comment.
    pub first_event: Duration,
    /// Time without any data from the server: no event, ping or comment. Most servers send only
    /// pings and comments while a model thinks.
    pub idle: Duration,
    /// Time without a part of the reply, even if the server sends pings and comments.
    pub silence: Duration,
}

impl Default for Timeouts {
    /// Returns timeouts of 10 s, 300 s, 300 s and half an hour.
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(10),
            first_event: Duration::from_secs(300),
            idle: Duration::from_secs(300),
            silence: Duration::from_secs(1800),
        }
    }
}

/// A pool of connections to model servers. Clones share it, so build one and give it to every
/// model.
///
/// A client is built when it is first needed. The client for plain `http://` reads no certificates.
/// Addresses with `https://` need one of the crate's TLS features.
///
/// ```
/// use std::time::Duration;
///
/// use loopwright_providers::{Anthropic, Http, OpenAiChat, Timeouts};
///
/// let idle = Duration::from_secs(30);
/// let http = Http::with_timeouts(Timeouts { idle, ..Timeouts::default() });
/// let writer = Anthropic::builder("claude-sonnet-4-5").http(http.clone()).build()?;
/// let critic = OpenAiChat::builder("gpt-4o").http(http).build()?;
/// # Ok::<(), loopwright_core::model::ModelError>(())
/// ```
#[derive(Clone)]
pub struct Http {
    timeouts: Timeouts,
    transport: Transport,
}

impl Default for Http {
    fn default() -> Self {
        Http::new()
    }
}

impl Http {
    /// Returns a pool without connections, with the default timeouts.
    pub fn new() -> Self {
        Http::with_timeouts(Timeouts::default())
    }

    /// Returns a pool without connections, with these timeouts.
    pub fn with_timeouts(timeouts: Timeouts) -> Self {
        Http { timeouts, transport: Transport::new(timeouts.connect) }
    }

    /// Sends requests to other machines through this proxy, `http://HOST:PORT` or
    /// `http://USER:PASSWORD@HOST:PORT`, over new connections. Without this call, the proxies in
    /// the environment apply (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`).
    ///
    /// # Errors
    /// Returns [`ModelErrorKind::InvalidRequest`] if `url` is not a valid address of an HTTP proxy.
    pub fn proxy(self, url: &str) -> Result<Self, ModelError> {
        let invalid = || {
            let why = "The proxy's address is not valid. Give one such as `http://127.0.0.1:3128`.";
            ModelError::new(ModelErrorKind::InvalidRequest, why)
        };
        let is_http = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
        let proxy = is_http.then(|| Proxy::all(url).ok()).flatten();
        let proxy =
            proxy.ok_or_else(invalid)?.no_proxy(NoProxy::from_string("localhost,127.0.0.0/8,::1"));
        Ok(Http { transport: self.transport.with_proxy(proxy), ..self })
    }

    /// Sends requests only to IP addresses that `allows` accepts, over new connections. Use it for
    /// addresses that others choose. `allows` gets the address in a URL, in any notation, and each
    /// address of a name when a connection is made. IPv4-mapped IPv6 addresses are passed as IPv4.
    ///
    /// A request to another address fails with [`ModelErrorKind::InvalidRequest`] before anything
    /// is sent. Proxies are not used, since they resolve names themselves.
    ///
    /// ```
    /// use loopwright_providers::Http;
    ///
    /// let http = Http::new().only_to(|ip| !ip.is_loopback());
    /// ```
    pub fn only_to(self, allows: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Http { transport: self.transport.with_filter(AddressFilter::new(allows)), ..self }
    }

    /// Returns the timeouts of requests.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// Posts `body` with the headers of the trace, and returns the response, whatever its status.
    ///
    /// If the key came from a callback, the response carries it as [`Secret`].
    pub(crate) async fn send(
        &self,
        target: &Target,
        trace: Option<TraceContext>,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, ModelError> {
        let mut headers = target.headers.clone();
        if let Some(trace) = trace {
            put_trace(&mut headers, &trace);
        }
        let Some(source) = &target.key else {
            return self.request(Method::POST, target, headers, body).await;
        };
        let mut secret = source.put(&mut headers, &target.endpoint).await?;
        let keyed = async |headers, body, secret: &Secret| {
            let response = self.request(Method::POST, target, headers, body).await;
            response.map_err(|error| secret.clean(error))
        };
        let mut response = keyed(headers.clone(), body.clone(), &secret).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            // The key may have expired since the callback returned it. A new one is worth a retry.
            let fresh = source.put(&mut headers, &target.endpoint).await?;
            if fresh != secret {
                response = keyed(headers, body, &fresh).await?;
                secret = fresh;
            }
        }
        response.extensions_mut().insert(secret);
        Ok(response)
    }

    /// Gets a small JSON document within `timeout`.
    pub(crate) async fn get(
        &self,
        target: &Target,
        timeout: Duration,
    ) -> Result<Vec<u8>, ModelError> {
        let answer = async {
            let headers = target.headers.clone();
            let response = self.request(Method::GET, target, headers, Bytes::new()).await?;
            if !response.status().is_success() {
                return Err(target.refused(response).await);
            }
            Ok(read(response.into_body(), MAX_ERROR_BODY_BYTES).await)
        };
        tokio::time::timeout(timeout, answer)
            .await
            .unwrap_or_else(|_| Err(target.too_slow("did not answer", timeout)))
    }

    async fn request(
        &self,
        method: Method,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, ModelError> {
        let response = self.transport.send(method, &target.address, headers, body).await;
        response.map_err(|error| target.transport_error(&error))
    }
}

/// Adds the headers of W3C Trace Context, unless the host has set headers of these names.
fn put_trace(headers: &mut HeaderMap, trace: &TraceContext) {
    let state = trace.tracestate().map(str::to_owned);
    for (name, value) in [("traceparent", Some(trace.traceparent())), ("tracestate", state)] {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
            headers.entry(name).or_insert(value);
        }
    }
}

impl fmt::Debug for Http {
    /// Omits the proxy's address, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("timeouts", &self.timeouts)
            .field("has_proxy", &self.transport.has_proxy())
            .finish_non_exhaustive()
    }
}

/// The address and headers of requests. Its `Debug` output contains no header values.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) headers: HeaderMap,
    pub(crate) endpoint: Arc<Endpoint>,
    /// The source of each request's key, if it is not in `headers`.
    pub(crate) key: Option<KeySource>,
    /// Texts that must not appear in an error, even if the server repeats them.
    pub(crate) secrets: Vec<String>,
}

impl Target {
    pub(crate) fn new(
        url: Url,
        mut headers: HeaderMap,
        endpoint: impl Into<Arc<Endpoint>>,
        secrets: Vec<String>,
    ) -> Result<Target, InvalidUri> {
        let ours = HeaderValue::from_static(concat!("loopwright/", env!("CARGO_PKG_VERSION")));
        headers.entry(USER_AGENT).or_insert(ours);
        let address = Address::new(url)?;
        Ok(Target { address, headers, endpoint: endpoint.into(), key: None, secrets })
    }

    /// Reads the body of an error response and returns it as an error.
    pub(crate) async fn refused(&self, response: Response<ResponseBody>) -> ModelError {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = read(response.into_body(), MAX_ERROR_BODY_BYTES);
        let body = tokio::time::timeout(ERROR_BODY_TIMEOUT, body).await.unwrap_or_default();
        self.clean(self.endpoint.refused(status, &headers, &body, SystemTime::now()))
    }

    /// Reads more of a body that is no reply, after its `start`, and returns it as an error.
    pub(crate) async fn unexpected(
        &self,
        status: StatusCode,
        unexpected: UnexpectedBody,
        start: Vec<u8>,
        body: ResponseBody,
    ) -> ModelError {
        let mut bytes = start;
        if unexpected == UnexpectedBody::Page {
            let more = read(body, MAX_PAGE_BYTES);
            bytes.extend(tokio::time::timeout(PAGE_TIMEOUT, more).await.unwrap_or_default());
        }
        self.clean(self.endpoint.unexpected(status.as_u16(), &unexpected, &bytes))
    }

    /// Returns the error of a request without a response, or of a broken connection.
    pub(crate) fn transport_error(&self, error: &TransportError) -> ModelError {
        use ModelErrorKind::{InvalidRequest, Network, Protocol, Timeout, Unreachable};
        let (kind, what, advice) = match error.kind {
            TransportErrorKind::Connect => (
                Unreachable,
                "cannot be reached",
                "Check that the server runs, the base URL, and the proxy if there is one.",
            ),
            TransportErrorKind::Proxy => (
                Unreachable,
                "cannot be reached through the proxy",
                "Check its address, which may be in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, and its \
                 rules.",
            ),
            TransportErrorKind::ProxyScheme => (
                InvalidRequest,
                "cannot be reached through the proxy, which is not one for HTTP",
                "Set HTTPS_PROXY, HTTP_PROXY or ALL_PROXY to an address with http://, or unset \
                 them. SOCKS is not supported.",
            ),
            TransportErrorKind::Headers => (
                InvalidRequest,
                "sent more headers than are accepted",
                "Check the base URL, and the proxy if there is one.",
            ),
            TransportErrorKind::Response => {
                (Protocol, "did not answer in HTTP", "Check that the base URL is right.")
            }
            TransportErrorKind::Refused => {
                (InvalidRequest, "may not be reached", "Use another address.")
            }
            TransportErrorKind::Timeout => {
                (Timeout, "did not answer in time", "Check the connection, or try again later.")
            }
            TransportErrorKind::Request => {
                (InvalidRequest, "cannot be asked", "Check the base URL and the headers.")
            }
            TransportErrorKind::NoTls => (
                InvalidRequest,
                "cannot be reached over https",
                "Enable a TLS feature of loopwright-providers, such as `rustls-ring`; with \
                 `rustls-no-provider`, install a crypto provider first.",
            ),
            TransportErrorKind::Stream => (Network, "broke the connection", "Try again."),
        };
        // The message already names the address, and the URL in the cause may contain a secret.
        let root = if error.root.contains("://") { "the request failed" } else { &error.root };
        self.clean(ModelError::new(kind, format!("{} {what}: {root}. {advice}", self.endpoint)))
    }

    /// Returns the error of a server that sent nothing for `limit`.
    pub(crate) fn too_slow(&self, what: &str, limit: Duration) -> ModelError {
        let why = format!(
            "{} {what} for {} s. Try again, or raise the timeout.",
            self.endpoint,
            limit.as_secs_f32()
        );
        ModelError::new(ModelErrorKind::Timeout, why)
    }

    /// Returns `error` with all secrets removed.
    pub(crate) fn clean(&self, mut error: ModelError) -> ModelError {
        self.secrets.iter().for_each(|secret| hide(&mut error.message, secret));
        error
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.keys().collect();
        f.debug_struct("Target")
            .field("endpoint", &self.endpoint)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

/// Reads the body up to `limit` bytes, or until it ends or fails.
async fn read(mut body: ResponseBody, limit: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(chunk)) = body.chunk().await {
        bytes.extend_from_slice(&chunk[..chunk.len().min(limit - bytes.len())]);
        if bytes.len() == limit {
            break;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A proxy from the environment is not checked before.
    #[tokio::test]
    async fn a_proxy_for_socks_is_refused_at_once() {
        for url in ["http://model.invalid/v1", "https://model.invalid/v1"] {
            let mut http = Http::new();
            let proxy = Proxy::all("socks5://127.0.0.1:9").unwrap();
            http.transport = http.transport.with_proxy(proxy);
            let url = Url::parse(url).unwrap();
            let target = Target::new(url, HeaderMap::new(), Endpoint::default(), vec![]).unwrap();
            let error = http.send(&target, None, Bytes::new()).await.unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::InvalidRequest, "{error}");
            assert!(error.message.contains("SOCKS is not supported"), "{error}");
        }
    }

    #[test]
    fn debug_output_contains_no_proxy_password() {
        let http = Http::new().proxy("http://me:pass-word@127.0.0.1:3128").unwrap();
        let debug = format!("{http:?}");
        assert!(debug.contains("has_proxy: true") && !debug.contains("pass-word"), "{debug}");
    }
}
