//! Events of open sessions, for other workers: the route, and its client.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use loopwright_core::EventStream;
use loopwright_core::event::Envelope;
use serde::Deserialize;
use subtle::ConstantTimeEq;
use tokio::time::{Instant, timeout};
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};
use tokio_util::io::StreamReader;

use crate::host::Host;
use crate::http_client;

/// The path at which other workers read the events of a worker's sessions.
pub const EVENTS_PATH: &str = "/cluster/events";
/// The media type of the stream: a JSON value per line.
const LINES: &str = "application/x-ndjson";
/// The header with the length of the log before the events.
const ENTRIES: &str = "loopwright-entries";
/// Silence after which an empty line is sent.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Silence after which the reader of a stream tries another source.
const SILENCE: Duration = Duration::from_secs(6);
/// Pause before a worker that could not be reached is asked again.
const FAILED_PAUSE: Duration = Duration::from_secs(10);
/// Maximum length of a line, in bytes.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// A client for events from other workers.
#[derive(Clone)]
pub(crate) struct Peers {
    client: reqwest::Client,
    token: Option<Arc<str>>,
    /// The addresses that could not be reached, with the end of their pause.
    failed: Arc<Mutex<HashMap<String, Instant>>>,
}

/// The events of a session from the worker that has it open.
pub(crate) struct PeerEvents(BoxStream<'static, Result<String, LinesCodecError>>);

impl Peers {
    pub(crate) fn new(token: Option<Arc<str>>) -> Result<Self, reqwest::Error> {
        let client = http_client::builder().build()?;
        Ok(Peers { client, token, failed: Arc::default() })
    }

    fn failed(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a worker could not be reached recently.
    pub(crate) fn has_failed(&self, address: &str) -> bool {
        let mut failed = self.failed();
        failed.retain(|_, until| *until > Instant::now());
        failed.contains_key(address)
    }

    /// Joins a session at the worker with this address. Returns the length of its log and the
    /// events after it, or `None` if that worker does not have it open or cannot be reached.
    pub(crate) async fn join(
        &self,
        address: &str,
        session: &str,
        tree: bool,
    ) -> Option<(u64, PeerEvents)> {
        let mut url = reqwest::Url::parse(address).ok()?;
        let path = format!("{}{EVENTS_PATH}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        let tree = if tree { "true" } else { "false" };
        url.query_pairs_mut().append_pair("session", session).append_pair("tree", tree);
        let mut request = self.client.get(url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let Ok(Ok(response)) = timeout(SILENCE, request.send()).await else {
            tracing::debug!(session, address, "its owner cannot be reached");
            self.failed().insert(address.to_owned(), Instant::now() + FAILED_PAUSE);
            return None;
        };
        if !response.status().is_success() {
            let status = response.status().as_u16();
            if status != StatusCode::NOT_FOUND {
                tracing::warn!(session, address, status, "its owner sends no events");
            }
            return None;
        }
        let entries = response.headers().get(ENTRIES)?.to_str().ok()?.parse().ok()?;
        let body = response.bytes_stream().map_err(std::io::Error::other);
        let lines = LinesCodec::new_with_max_length(MAX_LINE);
        Some((entries, PeerEvents(FramedRead::new(StreamReader::new(body), lines).boxed())))
    }
}

impl PeerEvents {
    /// Returns the next event, or `None` if the stream has ended or is silent. If the future is
    /// dropped, no event is lost.
    pub(crate) async fn next(&mut self) -> Option<Arc<Envelope>> {
        loop {
            let line = timeout(SILENCE, self.0.next()).await.ok()??.ok()?;
            // Empty lines show that the worker lives. Workers with newer code may send events that
            // this one does not know.
            if let Ok(event) = serde_json::from_str(&line) {
                return Some(Arc::new(event));
            }
        }
    }

    /// Converts the events into a stream.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Arc<Envelope>> + Send {
        stream::unfold(self, async |mut peer| Some((peer.next().await?, peer)))
    }
}

/// The state of the route.
#[derive(Clone)]
struct Served {
    host: Arc<dyn Host>,
    token: Option<Arc<str>>,
}

/// Returns the route from which other workers read.
pub(crate) fn router(host: Arc<dyn Host>, token: Option<Arc<str>>) -> Router {
    Router::new().route(EVENTS_PATH, get(events)).with_state(Served { host, token })
}

#[derive(Deserialize)]
struct Wanted {
    session: String,
    /// `true` to include the events of sub-agents.
    tree: bool,
}

async fn events(
    State(Served { host, token }): State<Served>,
    headers: HeaderMap,
    Query(wanted): Query<Wanted>,
) -> Response {
    let sent = headers.get(header::AUTHORIZATION).map_or(&[][..], |value| value.as_bytes());
    if let Some(token) = token
        && !bool::from(sent.ct_eq(format!("Bearer {token}").as_bytes()))
    {
        return (StatusCode::UNAUTHORIZED, "The token of the cluster is missing or wrong.")
            .into_response();
    }
    let not_here = || (StatusCode::NOT_FOUND, "The session is not open here.").into_response();
    let Some(handle) = host.open_session(&wanted.session).await else { return not_here() };
    let joined = match wanted.tree {
        true => handle.join_tree().await,
        false => handle.join().await,
    };
    let Ok((entries, live)) = joined else { return not_here() };
    drop(handle); // the reader does not keep the session open
    let lines = stream::unfold(live, async |mut live: EventStream| {
        let line = match timeout(HEARTBEAT, live.next()).await {
            Ok(event) => to_line(&*event?),
            Err(_) => Bytes::from_static(b"\n"),
        };
        Some((Ok::<_, Infallible>(line), live))
    });
    let headers =
        [(header::CONTENT_TYPE.as_str(), LINES.to_owned()), (ENTRIES, entries.to_string())];
    (headers, Body::from_stream(lines)).into_response()
}

fn to_line(event: &Envelope) -> Bytes {
    let mut line = serde_json::to_vec(event).unwrap_or_else(|error| {
        tracing::error!(name = event.event.name(), %error, "an event cannot be serialised");
        Vec::new()
    });
    line.push(b'\n');
    line.into()
}
