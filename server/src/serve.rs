//! [`serve`]: the routes on a listener, with all checks, and clients held to their bounds.

mod patient;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use self::patient::Patient;
use crate::config::Server;
use crate::error::{ApiError, Kind, Refused};
use crate::guard::{self, Guard};
use crate::shares::{Client, Shares};

/// The most connections at a time; further ones wait.
const CONNECTIONS: usize = 16_384;
/// How long a client may take for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The most bytes of a head.
const HEAD: usize = 64 * 1024;
/// The most headers.
const HEADERS: usize = 100;
/// How long a client may take nothing of what is sent to it.
const STALL: Duration = Duration::from_secs(30);
/// How long the streams of events may take to end after that.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long to wait when no connection can be taken, as when all files are open.
const RETRY: Duration = Duration::from_millis(100);

/// Serves all routes until `shutdown` resolves, and then until what goes on has ended, for
/// [some seconds](crate::ServerBuilder::grace) at most; whose run does not end in time is told so.
///
/// Requests must come by a name of this server (`Host`: the address, `localhost`, or a
/// [named](crate::ServerBuilder::host) one), not from pages of another origin, and with the token
/// if there is one.
///
/// # Errors
/// The listener's address cannot be told, or other machines reach it while the server has no token.
pub async fn serve(
    listener: TcpListener,
    server: Server,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let Some(guard) = Guard::at(address, server.clone()) else {
        let why = format!(
            "Other machines reach {address}, so the server needs a token: whoever reaches it can run commands."
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    };
    let routes = crate::router(server.clone())
        .layer(axum::middleware::from_fn_with_state(guard, guard::check));
    let (connections, late) = (TaskTracker::new(), TaskTracker::new());
    let (places, shares) = (Arc::new(Semaphore::new(CONNECTIONS)), Shares::default());
    let mut door = Door { listener, places, shares, routes, server };
    tokio::select! {
        () = shutdown => {}
        () = door.let_in(&connections, true) => {}
    }
    // From here on whoever comes is told that it is too late, until what goes on has ended.
    connections.close();
    let server = door.server.clone();
    let grace = server.shared().limits.grace;
    let ended = tokio::time::timeout(grace + LAST_WORDS, connections.wait()); // what is left goes with the runtime
    tokio::select! {
        _ = async { tokio::join!(server.drain(grace), ended) } => {}
        () = door.let_in(&late, false) => {}
    }
    Ok(())
}

/// Where clients come in.
struct Door {
    listener: TcpListener,
    places: Arc<Semaphore>,
    /// The places by client.
    shares: Shares,
    routes: Router,
    server: Server,
}

impl Door {
    /// Takes connections for ever; one that does not stay has one request.
    async fn let_in(&mut self, connections: &TaskTracker, stay: bool) {
        while let Ok(place) = self.places.clone().acquire_owned().await {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let most = self.server.shared().limits.connections;
                    let Some(share) = self.shares.take(Client::of(peer.ip()), most, CONNECTIONS)
                    else {
                        too_many(&stream);
                        continue;
                    };
                    let (routes, server) = (self.routes.clone(), self.server.clone());
                    connections.spawn(async move {
                        connection(stream, peer, routes, &server, stay).await;
                        drop((place, share));
                    });
                }
                Err(why) => {
                    tracing::warn!(%why, "no connection could be taken");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}

/// Tells a client that has too many connections, without a wait for what it wants.
fn too_many(stream: &TcpStream) {
    let why = "Too many connections of this address are open: close one.";
    let error = ApiError::new(Kind::TooMany, why);
    let told = serde_json::to_string(&Refused { error }).unwrap_or_default();
    let head =
        "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let length = told.len();
    // It has room in the socket, unless the client is gone.
    let _ = stream.try_write(format!("{head}Content-Length: {length}\r\n\r\n{told}").as_bytes());
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    routes: Router,
    server: &Server,
    stay: bool,
) {
    let _ = stream.set_nodelay(true); // it is slower without, no more
    let routes = TowerToHyperService::new(routes);
    // Not as a layer, which would make all routes anew for each connection.
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        routes.call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
        .max_headers(HEADERS)
        .keep_alive(stay);
    let io = TokioIo::new(Patient::new(stream, STALL));
    let mut connection = std::pin::pin!(http.serve_connection(io, service));
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = server.shared().drain.begun(), if stay => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(why) = ended {
        tracing::debug!(%peer, %why, "a connection broke off");
    }
}
