//! HTTP clients: hyper for local servers, reqwest for TLS and proxies.
//!
//! No other module depends on the client that carries a request.

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::header::HeaderMap;
use hyper::http::uri::InvalidUri;
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client as HyperClient, Error as HyperError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use reqwest::{Proxy, Url, redirect};

use super::address_filter::{AddressFilter, AddressRefused};

const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// The maximum time that an idle connection stays open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// The maximum number of headers of a response from this machine. Elsewhere it is 100.
const MAX_HEADERS: usize = 512;
/// `true` if this build can reach `https://` addresses.
const HAS_TLS: bool = cfg!(any(
    feature = "rustls-ring",
    feature = "rustls-aws-lc",
    feature = "rustls-no-provider",
    feature = "native-tls",
));

/// The address of a request, and the client that carries it.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) url: Url,
    /// The same address, in hyper's type.
    uri: Uri,
    route: Route,
}

impl Address {
    pub(crate) fn new(url: Url) -> Result<Self, InvalidUri> {
        let uri = url.as_str().parse()?;
        let route = Route::to(&url);
        Ok(Address { url, uri, route })
    }
}

/// The ways to reach a server. Each has its own client.
#[derive(Debug, Clone, Copy)]
enum Route {
    /// `http://` on this machine: no certificates, no proxy.
    Local,
    /// `http://` on another machine: no certificates.
    Plain,
    /// `https://` on any machine.
    Tls,
}

impl Route {
    fn to(url: &Url) -> Route {
        let host = url.host_str().unwrap_or("").trim_matches(['[', ']']);
        let local = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        match (url.scheme(), local) {
            ("https", _) => Route::Tls,
            (_, true) => Route::Local,
            (_, false) => Route::Plain,
        }
    }
}

/// A pool of connections, and the clients that use it. Clones share it.
///
/// A client is built when its route is first used, so a program that only talks to plain `http://`
/// reads no certificates.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    connect_timeout: Duration,
    proxy: Option<Proxy>,
    filter: Option<AddressFilter>,
    clients: Arc<[OnceLock<Client>; 3]>,
}

impl Transport {
    pub(crate) fn new(connect_timeout: Duration) -> Self {
        Transport { connect_timeout, proxy: None, filter: None, clients: Arc::default() }
    }

    /// Returns the same transport, with new connections through `proxy`.
    pub(crate) fn with_proxy(self, proxy: Proxy) -> Self {
        Transport { proxy: Some(proxy), clients: Arc::default(), ..self }
    }

    /// Returns the same transport, with new connections, without a proxy, and only to addresses
    /// that `filter` allows.
    pub(crate) fn with_filter(self, filter: AddressFilter) -> Self {
        Transport { proxy: None, filter: Some(filter), clients: Arc::default(), ..self }
    }

    pub(crate) fn has_proxy(&self) -> bool {
        self.proxy.is_some()
    }

    /// Sends a request and returns the response, whatever its status.
    pub(crate) async fn send(
        &self,
        method: Method,
        address: &Address,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, TransportError> {
        if let Some(filter) = &self.filter {
            filter.check(&address.url)?;
        }
        match self.client(address.route)? {
            Client::Hyper(client) => {
                let mut request = Request::new(Full::new(body));
                *request.method_mut() = method;
                *request.uri_mut() = address.uri.clone();
                *request.headers_mut() = headers;
                Ok(client.request(request).await?.map(ResponseBody::Hyper))
            }
            Client::Reqwest(client) => {
                let mut request = reqwest::Request::new(method, address.url.clone());
                *request.headers_mut() = headers;
                *request.body_mut() = Some(body.into());
                let response = Response::<reqwest::Body>::from(client.execute(request).await?);
                Ok(response.map(ResponseBody::Reqwest))
            }
        }
    }

    fn client(&self, route: Route) -> Result<&Client, TransportError> {
        let slot = &self.clients[route as usize];
        match slot.get() {
            Some(client) => Ok(client),
            None => {
                let client = match &self.filter {
                    None => Client::new(route, self.connect_timeout, self.proxy.clone()),
                    Some(filter) => Client::filtered(route, self.connect_timeout, filter),
                }?;
                Ok(slot.get_or_init(|| client))
            }
        }
    }
}

/// A client for one route.
#[derive(Debug)]
enum Client {
    /// For this machine, where reqwest's handling of redirects and proxies would be a seventh of a
    /// short turn's work.
    Hyper(Box<HyperClient<HttpConnector, Full<Bytes>>>),
    Reqwest(reqwest::Client),
}

impl Client {
    fn new(
        route: Route,
        connect_timeout: Duration,
        proxy: Option<Proxy>,
    ) -> Result<Client, TransportError> {
        match route {
            Route::Local => Ok(Client::hyper(connect_timeout)),
            Route::Plain => Client::reqwest(without_certificates(builder(connect_timeout)), proxy),
            Route::Tls if !HAS_TLS => Err(TransportError::no_tls()),
            Route::Tls => Client::reqwest(builder(connect_timeout), proxy),
        }
    }

    /// Builds a client that only connects to addresses that `filter` allows. It uses no proxy,
    /// which would resolve names itself.
    fn filtered(
        route: Route,
        connect_timeout: Duration,
        filter: &AddressFilter,
    ) -> Result<Client, TransportError> {
        let builder = match route {
            Route::Tls if !HAS_TLS => return Err(TransportError::no_tls()),
            Route::Tls => builder(connect_timeout),
            Route::Local | Route::Plain => without_certificates(builder(connect_timeout)),
        };
        Client::reqwest(builder.no_proxy().dns_resolver(Arc::new(filter.clone())), None)
    }

    fn hyper(connect_timeout: Duration) -> Client {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(connect_timeout));
        connector.set_nodelay(true);
        connector.set_keepalive(Some(TCP_KEEPALIVE));
        let mut builder = HyperClient::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIMEOUT);
        builder.http1_max_headers(MAX_HEADERS);
        Client::Hyper(Box::new(builder.build(connector)))
    }

    fn reqwest(
        builder: reqwest::ClientBuilder,
        proxy: Option<Proxy>,
    ) -> Result<Client, TransportError> {
        let builder = match proxy {
            Some(proxy) => builder.proxy(proxy),
            None => builder,
        };
        ensure_crypto_provider()?;
        Ok(Client::Reqwest(builder.build()?))
    }
}

/// Installs a crypto provider for rustls, without which reqwest panics.
fn ensure_crypto_provider() -> Result<(), TransportError> {
    // Fails if the program has installed a provider, which is then used.
    #[cfg(feature = "rustls-ring")]
    let _ = rustls::crypto::ring::default_provider().install_default();
    #[cfg(all(
        feature = "rustls-no-provider",
        not(any(feature = "rustls-ring", feature = "rustls-aws-lc", feature = "native-tls")),
    ))]
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(TransportError {
            kind: TransportErrorKind::NoTls,
            root: "no rustls crypto provider is installed".into(),
        });
    }
    Ok(())
}

fn builder(connect_timeout: Duration) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
        .tcp_keepalive(TCP_KEEPALIVE)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .redirect(redirect::Policy::none()) // a key must not follow a redirect
        .retry(reqwest::retry::never()) // it would copy each request; `Retry` does this
}

/// Keeps reqwest from reading the system's certificates, which plain HTTP does not need.
fn without_certificates(builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    #[cfg(any(
        feature = "rustls-ring",
        feature = "rustls-aws-lc",
        feature = "rustls-no-provider",
        feature = "native-tls",
    ))]
    let builder = builder.tls_certs_only([]);
    builder
}

/// The body of a response. Dropping it before its end closes the connection.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    Hyper(Incoming),
    Reqwest(reqwest::Body),
}

impl ResponseBody {
    /// Polls for the next bytes. Returns `None` at the end.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, TransportError>>> {
        loop {
            let frame = match self {
                ResponseBody::Hyper(body) => ready!(Pin::new(body).poll_frame(cx))
                    .map(|frame| frame.map_err(TransportError::from)),
                ResponseBody::Reqwest(body) => ready!(Pin::new(body).poll_frame(cx))
                    .map(|frame| frame.map_err(TransportError::from)),
            };
            match frame.map(|frame| frame.map(|frame| frame.into_data())) {
                Some(Ok(Ok(bytes))) => return Poll::Ready(Some(Ok(bytes))),
                Some(Ok(Err(_))) => {} // trailers
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }

    /// Returns the next bytes, or `None` at the end.
    pub(crate) async fn chunk(&mut self) -> Option<Result<Bytes, TransportError>> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }
}

/// The reason for a missing or incomplete response.
#[derive(Debug)]
pub(crate) struct TransportError {
    pub(crate) kind: TransportErrorKind,
    /// The root cause, in the words of the HTTP library.
    pub(crate) root: String,
}

/// The stage at which a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransportErrorKind {
    /// No connection could be established.
    Connect,
    /// The proxy refused.
    Proxy,
    /// The proxy is not one for HTTP.
    ProxyScheme,
    /// The response is not HTTP.
    Response,
    /// The response has too many headers, or too long ones.
    Headers,
    /// A time limit expired.
    Timeout,
    /// The request is invalid and cannot be sent.
    Request,
    /// The IP address is not allowed.
    Refused,
    /// There is no TLS backend, or it has no crypto provider.
    NoTls,
    /// The connection broke.
    Stream,
}

impl TransportError {
    fn new(kind: TransportErrorKind, error: &(dyn Error + 'static)) -> TransportError {
        let mut kind = kind;
        let mut cause = error;
        loop {
            let timed_out = |io: &io::Error| io.kind() == io::ErrorKind::TimedOut;
            if cause.downcast_ref().is_some_and(timed_out) && kind == TransportErrorKind::Stream {
                kind = TransportErrorKind::Timeout;
            }
            if cause.downcast_ref().is_some_and(hyper::Error::is_parse) {
                kind = TransportErrorKind::Response;
            }
            // hyper has no public name for it.
            if kind == TransportErrorKind::Response && cause.to_string().contains("too large") {
                kind = TransportErrorKind::Headers;
            }
            // The types of these are private. The scheme of the server's own address is known to
            // be right, so the errors about a scheme are about a proxy such as `socks5://`.
            if matches!(kind, TransportErrorKind::Connect | TransportErrorKind::Proxy) {
                let text = cause.to_string();
                let not_http = ["scheme is not http", "unsupported scheme"];
                kind = match () {
                    () if not_http.iter().any(|sign| text.contains(sign)) => {
                        TransportErrorKind::ProxyScheme
                    }
                    () if text.starts_with("tunnel error") => TransportErrorKind::Proxy,
                    () => kind,
                };
            }
            if cause.is::<AddressRefused>() {
                kind = TransportErrorKind::Refused;
            }
            match cause.source() {
                Some(deeper) => cause = deeper,
                None => return TransportError { kind, root: cause.to_string() },
            }
        }
    }

    fn no_tls() -> TransportError {
        let root = "this program was built without TLS";
        TransportError { kind: TransportErrorKind::NoTls, root: root.to_owned() }
    }
}

impl From<AddressRefused> for TransportError {
    fn from(error: AddressRefused) -> TransportError {
        TransportError::new(TransportErrorKind::Refused, &error)
    }
}

impl From<HyperError> for TransportError {
    fn from(error: HyperError) -> TransportError {
        let kind = if error.is_connect() {
            TransportErrorKind::Connect
        } else {
            TransportErrorKind::Stream
        };
        TransportError::new(kind, &error)
    }
}

impl From<hyper::Error> for TransportError {
    fn from(error: hyper::Error) -> TransportError {
        TransportError::new(TransportErrorKind::Stream, &error)
    }
}

impl From<reqwest::Error> for TransportError {
    fn from(error: reqwest::Error) -> TransportError {
        let kind = match () {
            () if error.is_connect() => TransportErrorKind::Connect,
            () if error.is_timeout() => TransportErrorKind::Timeout,
            () if error.is_builder() => TransportErrorKind::Request,
            () => TransportErrorKind::Stream,
        };
        TransportError::new(kind, &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn the_route_is_derived_from_the_address() {
        assert!(matches!(Route::to(&url("http://127.0.0.1:8080/v1")), Route::Local));
        assert!(matches!(Route::to(&url("http://[::1]:8080/v1")), Route::Local));
        assert!(matches!(Route::to(&url("http://box.lan/v1")), Route::Plain));
        assert!(matches!(Route::to(&url("https://localhost/v1")), Route::Tls));
    }

    #[test]
    fn clients_are_built_on_first_use_and_shared() {
        let transport = Transport::new(Duration::from_secs(1));
        let other = transport.clone();
        assert!(other.clients.iter().all(|slot| slot.get().is_none()));
        transport.client(Route::Local).unwrap();
        assert!(other.clients[Route::Local as usize].get().is_some());
        assert!(other.clients[Route::Tls as usize].get().is_none());
    }

    #[test]
    fn https_needs_a_tls_back_end() {
        let client = Transport::new(Duration::from_secs(1)).client(Route::Tls).map(|_| ());
        match (client, HAS_TLS) {
            (Ok(()), true) => {}
            (Err(error), false) => assert_eq!(error.kind, TransportErrorKind::NoTls, "{error:?}"),
            (other, _) => panic!("{other:?}"),
        }
    }
}
