//! [`serve`]: the routes on a listener, with all checks and limits.

mod access_log;
mod connection;
mod guard;
mod refused;
mod requests;
mod response_body;
mod stream_executor;
mod write_timeout;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::{from_fn, from_fn_with_state};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tower_http::cors::{AllowOrigin, CorsLayer};

use self::connection::{Connection, Scope};
use self::guard::Guard;
use self::refused::{RefusedConnections, refuse};
use crate::limits::quota::{Client, Quota};
use crate::routes::{error_form, routes};
use crate::server::Server;

/// Maximum number of connections. Further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 16_384;
/// The number of additional connections for a client that has used up its connections. Each may
/// send one request to `/healthz` or `/readyz`.
const HEALTH_CONNECTIONS_PER_CLIENT: usize = 32;
/// Maximum number of such connections of all clients.
const MAX_HEALTH_CONNECTIONS: usize = 512;
/// Timeout for streams of events to end after a shutdown.
const STREAM_END_TIMEOUT: Duration = Duration::from_secs(1);
/// The time for which browsers may cache the response to a preflight.
const PREFLIGHT_AGE: Duration = Duration::from_secs(600);
/// The delay after a connection could not be accepted, for example because too many files are open.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Serves all routes over HTTP/1.1 and HTTP/2 until `shutdown` resolves, then until all runs have
/// ended, for [some seconds](crate::ServerBuilder::grace) at most.
///
/// Requests must name this server (`Host`: its address, `localhost`, or a [configured
/// name](crate::ServerBuilder::host)). They must not come from pages of an origin that is not
/// [configured](crate::ServerBuilder::origin), and must carry the token if there is one. Requests
/// that fail these checks are logged as warnings, with the client's address, like the requests that
/// [`router`](crate::router) refuses. Every request is logged at the level `debug`, without its
/// query.
///
/// A connection that begins with HTTP/2's preface uses HTTP/2 (`h2c` with prior knowledge, as
/// proxies use it). TLS is left to a proxy.
///
/// If the future is dropped, the listener is closed. Requests in progress continue until the
/// runtime shuts down.
///
/// # Errors
/// Returns an error if the listener has no local address. If other machines can reach it, the
/// server needs a token and [rules](crate::ServerBuilder::rules): also through a
/// [trusted proxy](crate::ServerBuilder::trusted_proxies).
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
                "Other machines can reach {address}, directly or through a trusted proxy, so the \
                 server needs a token: everyone who reaches it can run commands."
            ),
        ));
    };
    if guard.is_reachable() && !server.shared().has_rules {
        let why = format!(
            "Other machines can reach {address}, directly or through a trusted proxy: say what \
             their users may do, with `ServerBuilder::rules`."
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    #[cfg(feature = "cluster")]
    {
        let cluster = &server.shared().cluster;
        if cluster.is_reachable() && !cluster.has_token() && !server.shared().users.is_empty() {
            let why = "The servers of a cluster know each other by a token, the operator's, which \
                       is the same for all.";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        server.join_cluster().await.map_err(io::Error::other)?;
    }
    let mut routes = routes(server.clone())
        .layer(from_fn_with_state(guard, guard::check))
        .layer(from_fn(error_form));
    if !server.shared().origins.is_empty() {
        routes = routes.layer(cors(server.shared().origins.clone()));
    }
    routes = routes.layer(from_fn_with_state(server.clone(), access_log::log));
    let per_client = server.shared().limits.connections_per_client;
    let mut acceptor = Acceptor {
        listener,
        capacity: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        quota: Quota::new(per_client, MAX_CONNECTIONS),
        health_quota: Quota::new(HEALTH_CONNECTIONS_PER_CLIENT, MAX_HEALTH_CONNECTIONS),
        routes,
        server: server.clone(),
    };
    let connections = TaskTracker::new();
    let late_connections = TaskTracker::new();
    tokio::select! {
        () = shutdown => {}
        _ = async {
            let accepting = acceptor.accept_all(&connections, Scope::All);
            tokio::join!(accepting, server.keep_running_due(), server.report_actions())
        } => {}
    }
    // Requests that arrive from here on are refused, until all runs have ended.
    connections.close();
    let grace = server.shared().limits.grace;
    // Connections that are still open after that end with the runtime.
    let closed = tokio::time::timeout(grace + STREAM_END_TIMEOUT, connections.wait());
    tokio::select! {
        _ = async { tokio::join!(server.drain(grace), closed) } => {}
        () = acceptor.accept_all(&late_connections, Scope::One) => {}
    }
    Ok(())
}

/// Allows pages of these origins to read the responses. Preflights are answered here, before the
/// checks, since browsers send them without the token.
fn cors(origins: Vec<HeaderValue>) -> CorsLayer {
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin, request| {
            let is_allowed = origins.contains(origin);
            if !is_allowed && request.method == Method::OPTIONS {
                // The guard logs all other refused requests.
                let client = request.extensions.get::<ConnectInfo<SocketAddr>>();
                let client = client.map(|ConnectInfo(address)| address.ip());
                tracing::warn!(?client, ?origin, "a preflight of another origin was refused");
            }
            is_allowed
        }))
        .allow_methods([Method::GET, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            HeaderName::from_static("last-event-id"),
        ])
        .max_age(PREFLIGHT_AGE)
}

/// The accept loop of the listener.
struct Acceptor {
    listener: TcpListener,
    capacity: Arc<Semaphore>,
    quota: Quota,
    health_quota: Quota,
    routes: Router,
    server: Server,
}

impl Acceptor {
    /// Accepts connections until the future is dropped. Connections within the quota get this
    /// scope. Further ones can only ask for the server's health.
    async fn accept_all(&mut self, connections: &TaskTracker, scope: Scope) {
        let refused = RefusedConnections::default();
        while let Ok(capacity) = self.capacity.clone().acquire_owned().await {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let shared = self.server.shared();
                    let client = match shared.proxies.has(peer.ip()) {
                        true => Client(None), // its requests count for the clients behind it
                        false => Client::of(peer.ip()),
                    };
                    let health = || Some((self.health_quota.try_acquire(client)?, Scope::Health));
                    let permit = self.quota.try_acquire(client).map(|permit| (permit, scope));
                    let Some((permit, scope)) = permit.or_else(health) else {
                        refuse(&stream);
                        shared.metrics.refusal("too_many");
                        refused.warn(peer.ip());
                        continue;
                    };
                    let _ = stream.set_nodelay(true); // only slower without it
                    let connection = Connection {
                        peer,
                        routes: self.routes.clone(),
                        quota: self.quota.clone(),
                        health_quota: self.health_quota.clone(),
                        proxies: shared.proxies.clone(),
                        drain: shared.drain.clone(),
                        metrics: shared.metrics.clone(),
                        refused: refused.clone(),
                        scope,
                    };
                    connections.spawn(async move {
                        connection.serve(stream).await;
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
