//! [`Connection`]: an HTTP/1.1 or HTTP/2 connection. Both versions have the same limits.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::{Request, StatusCode, Version};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};

use super::refused::{RefusedConnections, too_many_connections};
use super::requests::Requests;
use super::response_body::ResponseBody;
use super::stream_executor::StreamExecutor;
use super::write_timeout::{WRITE_TIMEOUT, with_write_timeout};
use crate::access::Proxies;
use crate::error::{ApiError, ErrorKind};
use crate::limits::quota::{Client, Permit, Quota};
use crate::routes::is_health_path;
use crate::server::drain::Drain;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::observer::enum_name;

/// Timeout for the head of a request, and for a connection without requests in progress.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The same timeout for a connection that can only ask for the server's health.
const HEALTH_HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of a head.
const MAX_HEAD_BYTES: u32 = 64 * 1024;
/// Maximum number of headers.
const MAX_HEADERS: usize = 100;
/// Maximum number of concurrent requests of an HTTP/2 connection.
const MAX_STREAMS: u32 = 100;
/// The number of bytes of a body that an HTTP/2 client may send before a route reads it.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// The number of bytes of all bodies of an HTTP/2 connection that may arrive before routes read
/// them.
const CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;

/// An accepted connection, and the data that its requests need.
pub(super) struct Connection {
    pub(super) peer: SocketAddr,
    pub(super) routes: Router,
    /// The quota that HTTP/2 requests and requests of trusted proxies share with connections.
    pub(super) quota: Quota,
    /// The quota for requests for the server's health, once the other quota is used up.
    pub(super) health_quota: Quota,
    pub(super) proxies: Arc<Proxies>,
    pub(super) drain: Drain,
    pub(super) metrics: Arc<Metrics>,
    pub(super) refused: RefusedConnections,
    pub(super) scope: Scope,
}

/// The requests that a connection allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Any number of requests.
    All,
    /// One request, because the server is shutting down.
    One,
    /// One request for the server's health, because the client has too many connections.
    Health,
}

impl Connection {
    /// Serves the connection until it is closed.
    pub(super) async fn serve<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let Connection { peer, scope, .. } = self;
        let drain = self.drain.clone();
        let is_proxy = self.proxies.has(peer.ip());
        let requests = Requests::default();
        let routes = TowerToHyperService::new(self.routes.clone());
        let counter = requests.clone();
        // Not a layer, which would build all routes again for each connection.
        let service = service_fn(move |mut request: Request<Incoming>| {
            let client = match is_proxy {
                // The port is unknown.
                true => {
                    SocketAddr::new(self.proxies.client_address(peer.ip(), request.headers()), 0)
                }
                false => peer,
            };
            request.extensions_mut().insert(ConnectInfo(client));
            let is_http2 = request.version() == Version::HTTP_2;
            let permit = self.admit(&request, is_http2 || is_proxy, client);
            if let Err(error) = &permit {
                self.metrics.refusal(&enum_name(&error.kind()));
                if error.kind() == ErrorKind::TooMany {
                    self.refused.warn(client.ip());
                }
            }
            let guard = counter.begin();
            let routes = routes.clone();
            async move {
                let (response, permit) = match permit {
                    Ok(permit) => (routes.call(request).await?, permit),
                    Err(error) => (error.into_response(), None),
                };
                let held = (guard, permit);
                Ok::<_, Infallible>(response.map(|body| ResponseBody::new(body, is_http2, held)))
            }
        });
        let head_timeout = match scope {
            Scope::All | Scope::One => HEAD_TIMEOUT,
            Scope::Health => HEALTH_HEAD_TIMEOUT,
        };
        let http = builder(scope == Scope::All, head_timeout);
        let io = TokioIo::new(with_write_timeout(stream, WRITE_TIMEOUT));
        let mut connection = pin!(http.serve_connection(io, service));
        let mut last_request = pin!(async {
            match scope {
                Scope::All => drain.started().await,
                Scope::One | Scope::Health => requests.first().await,
            }
        });
        let mut is_closing = false;
        loop {
            tokio::select! {
                result = connection.as_mut() => {
                    if let Err(error) = result {
                        tracing::debug!(%peer, %error, "a connection failed");
                    }
                    return;
                }
                () = &mut last_request, if !is_closing => {}
                () = requests.idle(head_timeout) => {
                    if is_closing {
                        return;
                    }
                }
            }
            is_closing = true;
            connection.as_mut().graceful_shutdown();
        }
    }

    /// Makes the checks of a request that hyper does not make. Takes a permit if the request
    /// `counts` like a connection.
    fn admit<B>(
        &self,
        request: &Request<B>,
        counts: bool,
        client: SocketAddr,
    ) -> Result<Option<Permit>, ApiError> {
        if request.headers().len() > MAX_HEADERS {
            let why = format!("The request has more than {MAX_HEADERS} headers.");
            return Err(ApiError::new(ErrorKind::BadRequest, why)
                .with_status(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        }
        let is_health = is_health_path(request.uri().path());
        match self.scope {
            Scope::Health if is_health => return Ok(None), // the connection has a permit
            Scope::Health => return Err(too_many_connections()),
            Scope::All | Scope::One if !counts => return Ok(None),
            Scope::All | Scope::One => {}
        }
        let client = Client::of(client.ip());
        let permit = match self.quota.try_acquire(client) {
            None if is_health => self.health_quota.try_acquire(client),
            permit => permit,
        };
        permit.map(Some).ok_or_else(|| {
            let why = "Too many connections and requests of this address are open: close one.";
            ApiError::new(ErrorKind::TooMany, why)
        })
    }
}

/// Returns the settings of both versions.
fn builder(keep_alive: bool, head_timeout: Duration) -> Builder<StreamExecutor> {
    let mut http = Builder::new(StreamExecutor);
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_buf_size(MAX_HEAD_BYTES as usize)
        .max_headers(MAX_HEADERS)
        .keep_alive(keep_alive);
    http.http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD_BYTES)
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(WRITE_TIMEOUT)
        .keep_alive_timeout(WRITE_TIMEOUT);
    http
}

#[cfg(test)]
mod tests;
