//! Checks of each request to a listening server: the host name, the page's origin, the token. A
//! refusal is logged with the client's address.
//!
//! A browser sends requests for any page, even to this machine. `Origin` reveals a page of another
//! site. `Host` reveals an attacker's name that resolves to this machine (DNS rebinding).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::access::Caller;
use crate::error::{ApiError, ErrorKind};
use crate::routes::{is_agent_card, is_health_path, is_page_file};
use crate::server::Server;

/// The checks of requests to a listening server.
#[derive(Clone)]
pub(crate) struct Guard {
    server: Server,
    /// `true` if only this machine can reach the server.
    local: bool,
}

/// The token of a request.
enum Bearer {
    NotNeeded,
    Needed(Option<String>),
}

impl Guard {
    /// Returns the guard for this address. Returns `None` if other machines can reach the address,
    /// directly or through a trusted proxy, and there is no token.
    pub(crate) fn new(address: SocketAddr, server: Server) -> Option<Arc<Self>> {
        let local = address.ip().to_canonical().is_loopback();
        let has_token = !server.shared().users.is_empty();
        let guard = Arc::new(Guard { server, local });
        (has_token || !guard.is_reachable()).then_some(guard)
    }

    /// Returns whether other machines can reach the server, directly or through a trusted proxy.
    pub(crate) fn is_reachable(&self) -> bool {
        !self.local || !self.server.shared().proxies.is_empty()
    }

    /// Checks a request, and returns the token that identifies the caller.
    fn check(&self, request: &Request) -> Result<Bearer, ApiError> {
        let refuse = |why: &str| Err(ApiError::new(ErrorKind::Forbidden, why));
        let headers = request.headers();
        let Some(host) = host(request) else {
            return Err(ApiError::new(
                ErrorKind::BadRequest,
                "The request needs one `Host` header.",
            ));
        };
        let same_authority = request.uri().authority().is_none_or(|authority| *authority == host);
        if !same_authority || host.as_str().contains('@') || !self.is_name(host.host()) {
            return refuse(
                "The server does not have this name: use the address that it was started with, or \
                 start it with --host.",
            );
        }
        let mut is_allowed_page = false;
        if headers.contains_key(header::ORIGIN) {
            let is_same = |origin: &str| {
                let origin =
                    origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
                origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host.as_str()))
            };
            is_allowed_page = single(headers, header::ORIGIN).is_some_and(|origin| {
                self.server.shared().origins.iter().any(|allowed| allowed == origin)
            });
            if !is_allowed_page && !single(headers, header::ORIGIN).is_some_and(is_same) {
                return refuse(
                    "A page of another origin may not use this server, unless it is started with \
                     that --origin.",
                );
            }
        }
        // Public paths need no token and disclose nothing about sessions.
        let path = request.uri().path();
        // The route for workers checks a token of its own.
        let is_for_workers = self.server.shared().cluster.serves(path);
        let is_public =
            is_health_path(path) || is_page_file(path) || is_agent_card(path) || is_for_workers;
        let site =
            headers.get(HeaderName::from_static("sec-fetch-site")).map(|site| site.as_bytes());
        let is_foreign = site.is_some_and(|site| site != b"same-origin" && site != b"none");
        if !is_public && !is_allowed_page && is_foreign {
            return refuse("A page of another site may not use this server.");
        }
        match is_public || self.server.shared().users.is_empty() {
            true => Ok(Bearer::NotNeeded),
            false => Ok(Bearer::Needed(bearer(headers).map(str::to_owned))),
        }
    }

    /// Returns whether this is a name of the server that nobody else can point at it.
    fn is_name(&self, host: &str) -> bool {
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let hosts = &self.server.shared().hosts;
        hosts.iter().any(|name| name.eq_ignore_ascii_case(host))
            || host.eq_ignore_ascii_case("localhost")
            || ip.is_ok_and(|ip| !self.local || ip.is_loopback())
    }
}

/// Refuses requests that fail the checks.
pub(crate) async fn check(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = match guard.check(&request) {
        Ok(Bearer::NotNeeded) => Ok(Caller::operator()),
        Ok(Bearer::Needed(token)) => guard.server.shared().users.caller(token.as_deref()).await,
        Err(error) => Err(error),
    };
    match caller {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(error) => {
            let challenge = challenge(&error, request.headers());
            let client = request.extensions().get::<ConnectInfo<SocketAddr>>();
            let client = client.map(|ConnectInfo(address)| address.ip());
            let (method, path) = (request.method(), request.uri().path());
            tracing::warn!(?client, %method, path, %error, "a request was refused");
            let mut response = error.into_response();
            response.headers_mut().extend(challenge);
            response
        }
    }
}

/// Returns the header that asks for a token (RFC 6750), if the token was missing or wrong.
fn challenge(error: &ApiError, headers: &HeaderMap) -> Option<(HeaderName, HeaderValue)> {
    let value = match (error.kind(), bearer(headers)) {
        (ErrorKind::Token, None) => r#"Bearer realm="loopwright""#,
        (ErrorKind::Token, Some(_)) => r#"Bearer realm="loopwright", error="invalid_token""#,
        _ => return None,
    };
    Some((header::WWW_AUTHENTICATE, HeaderValue::from_static(value)))
}

/// Returns the host name in the request. HTTP/2 has `:authority`, which is in the URI, and needs no
/// `Host` header.
fn host(request: &Request) -> Option<Authority> {
    let headers = request.headers();
    if request.version() == Version::HTTP_2 && !headers.contains_key(header::HOST) {
        return request.uri().authority().cloned();
    }
    single(headers, header::HOST)?.parse().ok()
}

/// Returns the value of a header that must not be repeated.
fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = single(headers, header::AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}
