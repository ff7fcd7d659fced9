//! Who may ask: `Host`, `Origin`, the token, content type and size, and how many runs at a time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use sha2::{Digest, Sha256};

use crate::config::Server;

/// The runs that go on, by client.
#[derive(Default)]
pub(crate) struct Runs(#[expect(dead_code)] Mutex<HashMap<IpAddr, usize>>);

/// What of a token is kept.
pub(crate) fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Bounds bodies and demands JSON.
pub(crate) async fn body(State(_server): State<Server>, request: Request, next: Next) -> Response {
    next.run(request).await
}
