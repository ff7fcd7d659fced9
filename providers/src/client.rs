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

use crate::http::{Target, Way};

const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// How long a connection is kept for the next request.
const IDLE: Duration = Duration::from_secs(90);

/// Connections of one way.
#[derive(Debug)]
pub(crate) enum Client {
    /// To this machine, where what reqwest does for redirects and proxies would be a seventh of a
    /// short turn's work.
    Local(Box<Legacy<HttpConnector, Full<Bytes>>>),
    Far(reqwest::Client),
}

impl Client {
    pub(crate) fn new(way: Way, connect: Duration, proxy: Option<Proxy>) -> Result<Client, Broken> {
        if let Way::Local = way {
            let mut connector = HttpConnector::new();
            connector.set_connect_timeout(Some(connect));
            connector.set_nodelay(true);
            connector.set_keepalive(Some(KEEP_ALIVE));
            let mut builder = Legacy::builder(TokioExecutor::new());
            builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
            return Ok(Client::Local(Box::new(builder.build(connector))));
        }
        // Fails if the program has installed a provider already, which is then the one to use.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .connect_timeout(connect)
            .tcp_nodelay(true)
            .tcp_keepalive(KEEP_ALIVE)
            .pool_idle_timeout(IDLE)
            .redirect(redirect::Policy::none()) // a key must not follow a redirect
            .retry(reqwest::retry::never()); // it would copy each request; `Retry` is for that
        let client = if let Way::Plain = way { client.tls_certs_only([]) } else { client };
        let client = if let Some(proxy) = proxy { client.proxy(proxy) } else { client };
        Ok(Client::Far(client.build()?))
    }

    /// Sends a request and gives the answer, whatever its status.
    pub(crate) async fn send(
        &self,
        method: Method,
        target: &Target,
        body: Bytes,
    ) -> Result<Response<Body>, Broken> {
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
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        loop {
            let frame =
                match self {
                    Body::Local(body) => ready!(Pin::new(body).poll_frame(cx))
                        .map(|frame| frame.map_err(Broken::from)),
                    Body::Far(body) => ready!(Pin::new(body).poll_frame(cx))
                        .map(|frame| frame.map_err(Broken::from)),
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
    pub(crate) async fn chunk(&mut self) -> Option<Result<Bytes, Broken>> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }
}

/// Why there is no answer, or no more of it.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) at: Fault,
    /// What lies at the root of it, in that library's words.
    pub(crate) root: String,
}

/// Where it broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There was no connection.
    Connect,
    /// It took too long.
    Time,
    /// The request cannot be sent as it is.
    Request,
    /// The connection broke.
    Stream,
}

impl Broken {
    fn new(at: Fault, error: &(dyn Error + 'static)) -> Broken {
        let (mut cause, mut at) = (error, at);
        loop {
            if cause
                .downcast_ref()
                .is_some_and(|io: &io::Error| io.kind() == io::ErrorKind::TimedOut)
            {
                at = Fault::Time;
            }
            match cause.source() {
                Some(deeper) => cause = deeper,
                None => {
                    return Broken { at, root: cause.to_string() };
                }
            }
        }
    }
}

impl From<LegacyError> for Broken {
    fn from(why: LegacyError) -> Broken {
        Broken::new(if why.is_connect() { Fault::Connect } else { Fault::Stream }, &why)
    }
}

impl From<hyper::Error> for Broken {
    fn from(why: hyper::Error) -> Broken {
        Broken::new(Fault::Stream, &why)
    }
}

impl From<reqwest::Error> for Broken {
    fn from(why: reqwest::Error) -> Broken {
        let at = match () {
            () if why.is_timeout() => Fault::Time,
            () if why.is_connect() => Fault::Connect,
            () if why.is_builder() => Fault::Request,
            () => Fault::Stream,
        };
        Broken::new(at, &why)
    }
}
