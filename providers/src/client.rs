//! The clients under [`Http`](crate::Http): hyper's for servers on this machine, reqwest for
//! certificates and proxies.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client as Legacy, Error as LegacyError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use reqwest::{Proxy, redirect};

use crate::http::{Route, Target};

const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// How long a connection is kept for the next request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Connections of one way.
#[derive(Debug)]
pub(crate) enum Client {
    /// To this machine, where what reqwest does for redirects and proxies would be a seventh of a
    /// short turn's work.
    Local(Box<Legacy<HttpConnector, Full<Bytes>>>),
    Far(reqwest::Client),
}

impl Client {
    pub(crate) fn new(
        route: Route,
        connect: Duration,
        proxy: Option<Proxy>,
    ) -> Result<Client, TransportError> {
        if let Route::Local = route {
            let mut connector = HttpConnector::new();
            connector.set_connect_timeout(Some(connect));
            connector.set_nodelay(true);
            connector.set_keepalive(Some(TCP_KEEPALIVE));
            let mut builder = Legacy::builder(TokioExecutor::new());
            builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIMEOUT);
            return Ok(Client::Local(Box::new(builder.build(connector))));
        }
        // Fails if the program has installed a provider already, which is then the one to use.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .connect_timeout(connect)
            .tcp_nodelay(true)
            .tcp_keepalive(TCP_KEEPALIVE)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .redirect(redirect::Policy::none()) // a key must not follow a redirect
            .retry(reqwest::retry::never()); // it would copy each request; `Retry` is for that
        let client = if let Route::Plain = route { client.tls_certs_only([]) } else { client };
        let client = if let Some(proxy) = proxy { client.proxy(proxy) } else { client };
        Ok(Client::Far(client.build()?))
    }

    /// Sends a request and gives the answer, whatever its status.
    pub(crate) async fn send(
        &self,
        method: Method,
        target: &Target,
        body: Bytes,
    ) -> Result<Response<Body>, TransportError> {
        match self {
            Client::Local(client) => {
                let mut request = Request::new(Full::new(body));
                *request.method_mut() = method;
                *request.uri_mut() = target.uri.clone();
                *request.headers_mut() = target.headers.clone();
                Ok(client.request(request).await?.map(Body::Local))
            }
            Client::Far(client) => {
                let mut request = reqwest::Request::new(method, target.url.clone());
                *request.headers_mut() = target.headers.clone();
                *request.body_mut() = Some(body.into());
                Ok(Response::<reqwest::Body>::from(client.execute(request).await?).map(Body::Far))
            }
        }
    }
}

/// The body of an answer. Dropped before its end, it closes the connection.
#[derive(Debug)]
pub(crate) enum Body {
    Local(Incoming),
    Far(reqwest::Body),
}

impl Body {
    /// The next bytes; `None` at the end.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, TransportError>>> {
        loop {
            let frame = match self {
                Body::Local(body) => ready!(Pin::new(body).poll_frame(cx))
                    .map(|frame| frame.map_err(TransportError::from)),
                Body::Far(body) => ready!(Pin::new(body).poll_frame(cx))
                    .map(|frame| frame.map_err(TransportError::from)),
            };
            match frame.map(|frame| frame.map(|frame| frame.into_data())) {
                Some(Ok(Ok(bytes))) => return Poll::Ready(Some(Ok(bytes))),
                Some(Ok(Err(_))) => {} // trailers
                Some(Err(why)) => return Poll::Ready(Some(Err(why))),
                None => return Poll::Ready(None),
            }
        }
    }

    /// The same, to await.
    pub(crate) async fn chunk(&mut self) -> Option<Result<Bytes, TransportError>> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }
}

/// Why there is no answer, or no more of it.
#[derive(Debug)]
pub(crate) struct TransportError {
    pub(crate) kind: TransportErrorKind,
    /// What lies at the root of it, in that library's words.
    pub(crate) root: String,
}

/// Where it broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransportErrorKind {
    /// There was no connection.
    Connect,
    /// It took too long.
    Time,
    /// The request cannot be sent as it is.
    Request,
    /// The connection broke.
    Stream,
}

impl TransportError {
    fn new(kind: TransportErrorKind, error: &(dyn Error + 'static)) -> TransportError {
        let (mut cause, mut kind) = (error, kind);
        loop {
            if cause
                .downcast_ref()
                .is_some_and(|io: &io::Error| io.kind() == io::ErrorKind::TimedOut)
            {
                kind = TransportErrorKind::Time;
            }
            match cause.source() {
                Some(deeper) => cause = deeper,
                None => {
                    return TransportError { kind, root: cause.to_string() };
                }
            }
        }
    }
}

impl From<LegacyError> for TransportError {
    fn from(why: LegacyError) -> TransportError {
        TransportError::new(
            if why.is_connect() { TransportErrorKind::Connect } else { TransportErrorKind::Stream },
            &why,
        )
    }
}

impl From<hyper::Error> for TransportError {
    fn from(why: hyper::Error) -> TransportError {
        TransportError::new(TransportErrorKind::Stream, &why)
    }
}

impl From<reqwest::Error> for TransportError {
    fn from(why: reqwest::Error) -> TransportError {
        let kind = match () {
            () if why.is_timeout() => TransportErrorKind::Time,
            () if why.is_connect() => TransportErrorKind::Connect,
            () if why.is_builder() => TransportErrorKind::Request,
            () => TransportErrorKind::Stream,
        };
        TransportError::new(kind, &why)
    }
}
