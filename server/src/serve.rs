//! [`serve`]: the routes on a listener, with all checks and all bounds.

mod write_timeout;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::{HeaderName, HeaderValue, Method, header};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tower_http::cors::{AllowOrigin, CorsLayer};

use self::write_timeout::with_write_timeout;
use crate::error::{ApiError, ErrorBody, ErrorKind};
use crate::guard::{self, Guard};
use crate::quota::{Client, Quota};
use crate::routes::router;
use crate::server::Server;

/// The maximum number of connections; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 16_384;
/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of a head.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// The maximum number of headers.
const MAX_HEADERS: usize = 100;
/// How long a client may receive nothing while the server has something to send.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long streams of events may take to end after a shutdown.
const STREAM_END_TIMEOUT: Duration = Duration::from_secs(1);
/// How long browsers may remember the answer to a preflight.
const PREFLIGHT_AGE: Duration = Duration::from_secs(600);
/// How long to wait when no connection can be accepted, for example because too many files are
/// open.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Serves all routes until `shutdown` resolves, and then until all runs have ended, for
/// [some seconds](crate::ServerBuilder::grace) at most.
///
/// Requests must name this server (`Host`: its address, `localhost`, or a
/// [configured name](crate::ServerBuilder::host)), must not come from pages of an origin that is
/// not [configured](crate::ServerBuilder::origin), and must carry the token if there is one.
/// Requests that fail these checks are logged as warnings, with the client's address.
///
/// If the future is dropped, the listener is closed; requests in progress continue until the
/// runtime shuts down.
///
/// # Errors
/// Returns an error if the listener has no local address, or if other machines can reach it and the
/// server has no token.
pub async fn serve(
    listener: TcpListener,
    server: Server,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let Some(guard) = Guard::new(address, server.clone()) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "Other machines can reach {address}, so the server needs a token: everyone who \
                 reaches it can run commands."
            ),
        ));
    };
    let mut routes =
        router(server.clone()).layer(axum::middleware::from_fn_with_state(guard, guard::check));
    if !server.shared().origins.is_empty() {
        routes = routes.layer(cors(server.shared().origins.clone()));
    }
    let per_client = server.shared().limits.connections_per_client;
    let mut acceptor = Acceptor {
        listener,
        capacity: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        quota: Quota::new(per_client, MAX_CONNECTIONS),
        routes,
        server: server.clone(),
    };
    let connections = TaskTracker::new();
    let late_connections = TaskTracker::new();
    tokio::select! {
        () = shutdown => {}
        _ = async {
            let due = server.shared().live.keep_running_due();
            tokio::join!(acceptor.accept_all(&connections, true), due)
        } => {}
    }
    // Requests that arrive from here on are refused, until all runs have ended.
    connections.close();
    let grace = server.shared().limits.grace;
    // Connections that are still open after that end with the runtime.
    let closed = tokio::time::timeout(grace + STREAM_END_TIMEOUT, connections.wait());
    tokio::select! {
        _ = async { tokio::join!(server.drain(grace), closed) } => {}
        () = acceptor.accept_all(&late_connections, false) => {}
    }
    Ok(())
}

/// Tells browsers that pages of these origins may read the responses. Preflights are answered here,
/// before the checks: browsers send them without the token.
fn cors(origins: Vec<HeaderValue>) -> CorsLayer {
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin, request| {
            let is_allowed = origins.contains(origin);
            if !is_allowed && request.method == Method::OPTIONS {
                // The guard logs all other requests that are refused.
                let client = request.extensions.get::<ConnectInfo<SocketAddr>>();
                let client = client.map(|ConnectInfo(address)| address.ip());
                tracing::warn!(?client, ?origin, "a preflight of another origin was refused");
            }
            is_allowed
        }))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            HeaderName::from_static("last-event-id"),
        ])
        .max_age(PREFLIGHT_AGE)
}

/// Accepts connections.
struct Acceptor {
    listener: TcpListener,
    capacity: Arc<Semaphore>,
    quota: Quota,
    routes: Router,
    server: Server,
}

impl Acceptor {
    /// Accepts connections until the future is dropped. Without `keep_alive` each has one request.
    async fn accept_all(&mut self, connections: &TaskTracker, keep_alive: bool) {
        while let Ok(capacity) = self.capacity.clone().acquire_owned().await {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let Some(permit) = self.quota.try_acquire(Client::of(peer.ip())) else {
                        refuse(&stream);
                        continue;
                    };
                    let (routes, server) = (self.routes.clone(), self.server.clone());
                    connections.spawn(async move {
                        serve_connection(stream, peer, routes, &server, keep_alive).await;
                        drop((capacity, permit));
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "no connection could be accepted");
                    tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
                }
            }
        }
    }
}

/// Sends an error to a client that has too many connections, without reading its request.
fn refuse(stream: &TcpStream) {
    let why = "Too many connections of this address are open: close one.";
    let body = ErrorBody { error: ApiError::new(ErrorKind::TooMany, why) };
    let body = serde_json::to_string(&body).unwrap_or_default();
    let response = format!(
        "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // It fits into the socket's buffer, unless the client has closed the connection.
    let _ = stream.try_write(response.as_bytes());
}

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    routes: Router,
    server: &Server,
    keep_alive: bool,
) {
    let _ = stream.set_nodelay(true); // without it, the connection is only slower
    let routes = TowerToHyperService::new(routes);
    // Not a layer, which would build all routes again for each connection.
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        routes.call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .keep_alive(keep_alive);
    let io = TokioIo::new(with_write_timeout(stream, WRITE_TIMEOUT));
    let mut connection = std::pin::pin!(http.serve_connection(io, service));
    let result = tokio::select! {
        result = &mut connection => result,
        () = server.shared().drain.started(), if keep_alive => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%peer, %error, "a connection failed");
    }
}
