//! Who may ask: the names that the server is called by, where a page comes from, the token.
//!
//! A browser sends what any page tells it to, also to this machine. So a page elsewhere is known by
//! its `Origin`, and a name of the attacker's that leads here (DNS rebinding) by the `Host`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::config::Server;
use crate::error::{ApiError, Kind};
use crate::page;

/// The checks of a server that is listening.
#[derive(Clone)]
pub(crate) struct Guard {
    server: Server,
    /// Reachable from this machine only.
    local: bool,
}

impl Guard {
    /// The checks for this address; `None` if other machines reach it and there is no token.
    pub(crate) fn at(address: SocketAddr, server: Server) -> Option<Arc<Self>> {
        let local = address.ip().to_canonical().is_loopback();
        (local || server.shared().token.is_some()).then(|| Arc::new(Guard { server, local }))
    }

    fn check(&self, request: &Request) -> Result<(), ApiError> {
        let refuse = |why: &str| Err(ApiError::new(Kind::Forbidden, why));
        let headers = request.headers();
        let Some(host) =
            only(headers, header::HOST).and_then(|host| host.parse::<Authority>().ok())
        else {
            return Err(ApiError::new(Kind::BadRequest, "The request needs one `Host` header."));
        };
        let named = request.uri().authority().is_none_or(|named| *named == host);
        if !named || host.as_str().contains('@') || !self.is_ours(host.host()) {
            return refuse(
                "The server is not called so: use the address that it was started with, or start it with --host.",
            );
        }
        if headers.contains_key(header::ORIGIN) {
            let ours = |origin: &str| {
                let from =
                    origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
                from.is_some_and(|from| from.eq_ignore_ascii_case(host.as_str()))
            };
            if !only(headers, header::ORIGIN).is_some_and(ours) {
                return refuse("A page of another origin may not use this server.");
            }
        }
        // What needs no token says nothing of anybody's work.
        let path = request.uri().path();
        let open = path == "/healthz" || page::is_file(path);
        let site =
            headers.get(HeaderName::from_static("sec-fetch-site")).map(|site| site.as_bytes());
        if !open && site.is_some_and(|site| site != b"same-origin" && site != b"none") {
            return refuse("A page of another site may not use this server.");
        }
        match self.server.shared().token {
            Some(token)
                if !open && !bearer(headers).is_some_and(|shown| same(&digest(shown), &token)) =>
            {
                let why = "The token is missing or wrong: send `Authorization: Bearer TOKEN` with the server's token.";
                Err(ApiError::new(Kind::Token, why))
            }
            _ => Ok(()),
        }
    }

    /// Whether this name leads here and cannot be made to by somebody else.
    fn is_ours(&self, host: &str) -> bool {
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let named = self.server.shared().hosts.iter().any(|name| name.eq_ignore_ascii_case(host));
        named
            || host.eq_ignore_ascii_case("localhost")
            || ip.is_ok_and(|ip| !self.local || ip.is_loopback())
    }
}

/// Lets through what may ask.
pub(crate) async fn check(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    match guard.check(&request) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = only(headers, header::AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// What of a token is kept and compared: of one length, and nothing that a client could come near
/// to step by step.
pub(crate) fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// In the same time wherever they differ.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b))) == 0
}
