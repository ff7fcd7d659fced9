//! A worker: a cluster, and the routes for clients.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::StreamExt;
use loopwright_core::event::Input;
use loopwright_durable::{Cluster, ClusterError, Leases, Restate};
use loopwright_memory::Postgres;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::agent::agent;
use crate::records::{Recording, Records};

/// The orders of a worker.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) database: String,
    pub(crate) records: PathBuf,
    /// The address of the worker.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) lease: Duration,
    /// The version of the code: the number of upgrades of this worker.
    pub(crate) version: usize,
    pub(crate) restate: Option<RestateOrders>,
}

/// The orders of a worker with Restate.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct RestateOrders {
    pub(crate) ingress: String,
    /// The ingress of another node, if the cluster has several.
    pub(crate) or_ingress: String,
    pub(crate) admin: String,
    /// The ports of the worker's endpoint and of the balancer, for even and for odd versions.
    pub(crate) endpoints: [u16; 2],
    pub(crate) balancers: [u16; 2],
}

/// The variable with the orders.
pub(crate) const ORDERS: &str = "LOOPWRIGHT_WORKER";
/// Timeout of a shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// The token with which workers authenticate to each other.
const TOKEN: &str = "between workers";

/// An input of a client.
#[derive(Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) session: String,
    pub(crate) input: Input,
    /// `true` if the client waits until the session has taken the input.
    pub(crate) waits: bool,
}

/// The address space of a worker, in bytes.
const MAX_ADDRESS_SPACE: u64 = 6 << 30;

pub(crate) async fn run() {
    let limit = Rlimit { current: Some(MAX_ADDRESS_SPACE), maximum: Some(MAX_ADDRESS_SPACE) };
    setrlimit(Resource::As, limit).unwrap();
    let orders: Orders = serde_json::from_str(&std::env::var(ORDERS).unwrap()).unwrap();
    let records = Arc::new(Records::open(&orders.records));
    let store = loop {
        // The database may be down.
        match Postgres::builder(&*orders.database).lease(orders.lease).connect().await {
            Ok(store) => break store,
            Err(error) => eprintln!("{error}"),
        }
    };
    let store = Recording { store, records: records.clone() };
    let mut builder = Cluster::builder(store, agent(records, orders.version))
        .token(TOKEN)
        .reachable_at(format!("http://{}:{}", orders.host, orders.port))
        .idle_timeout(Duration::from_millis(300));
    builder = match &orders.restate {
        None => builder.placement(Leases::new()),
        Some(restate) => {
            let parity = orders.version % 2;
            let restate = Restate::builder(&restate.ingress)
                .or_ingress(&restate.or_ingress)
                .admin(&restate.admin)
                .listen(SocketAddr::from(([127, 0, 0, 1], restate.endpoints[parity])))
                .reachable_at(format!("http://127.0.0.1:{}", restate.balancers[parity]));
            builder.placement(restate.build().unwrap())
        }
    };
    // Must listen before Restate asks for the worker's handlers.
    let listener = TcpListener::bind((&*orders.host, orders.port)).await.unwrap();
    let cluster = builder.start().await.unwrap();
    let routes = Router::new()
        .route("/input", post(input))
        .route("/events", get(events))
        .with_state(cluster.clone())
        .merge(cluster.router());
    let mut terminated = signal(SignalKind::terminate()).unwrap();
    tokio::select! {
        served = async { axum::serve(listener, routes).await } => served.unwrap(),
        _ = terminated.recv() => cluster.drain(DRAIN_TIMEOUT).await,
    }
}

async fn input(State(cluster): State<Cluster>, Json(sent): Json<Sent>) -> Response {
    let session = cluster.session(sent.session);
    let done = match sent.waits {
        true => session.send(sent.input).await,
        false => session.post(sent.input).await,
    };
    match done {
        Ok(_) => StatusCode::OK.into_response(),
        Err(ClusterError::Input(why)) => (StatusCode::CONFLICT, Json(json!(why))).into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}

#[derive(Deserialize)]
struct Wanted {
    session: String,
    after: u64,
}

async fn events(State(cluster): State<Cluster>, Query(wanted): Query<Wanted>) -> Response {
    let events = cluster.session(wanted.session).events(wanted.after).into_stream();
    let lines = events.map(|event| {
        let line = match event {
            Ok(event) => serde_json::to_string(&*event).unwrap() + "\n",
            Err(error) => {
                eprintln!("{error}");
                String::new()
            }
        };
        Ok::<_, Infallible>(line)
    });
    Body::from_stream(lines).into_response()
}
