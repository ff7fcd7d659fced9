//! Connections and requests that are refused because their client has too many.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::error::{ApiError, ErrorBody, ErrorKind, RETRY_AFTER_SECONDS};

/// The minimum interval between two log lines about refused connections.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// A log of refused connections and requests, with at most one warning per [`LOG_INTERVAL`], since
/// they cost a client nothing. Clones share the count.
#[derive(Clone, Default)]
pub(super) struct RefusedConnections(Arc<Mutex<Refusals>>);

#[derive(Default)]
struct Refusals {
    last: Option<Instant>,
    /// The number of refusals since the last warning.
    unreported: u64,
}

impl RefusedConnections {
    /// Counts a refusal, and logs it unless the last warning is recent.
    pub(super) fn warn(&self, client: IpAddr) {
        let mut refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.unreported += 1;
        if refusals.last.is_some_and(|last| last.elapsed() < LOG_INTERVAL) {
            return;
        }
        let count = std::mem::take(&mut refusals.unreported);
        refusals.last = Some(Instant::now());
        tracing::warn!(%client, count, "a connection was refused: the client has too many");
    }
}

/// Returns the error for a client that has too many connections.
pub(super) fn too_many_connections() -> ApiError {
    let why = "Too many connections of this address are open: close one.";
    ApiError::new(ErrorKind::TooMany, why)
}

/// Sends an error to a client that has too many connections, without reading its request.
pub(super) fn refuse(stream: &TcpStream) {
    let error = too_many_connections();
    let retry_after = error.retry_after().unwrap_or(RETRY_AFTER_SECONDS);
    let body = ErrorBody { error };
    let body = serde_json::to_string(&body).unwrap_or_default();
    let response = format!(
        "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\n\
         Retry-After: {retry_after}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // It fits into the socket's buffer, unless the client has closed the connection.
    let _ = stream.try_write(response.as_bytes());
}
