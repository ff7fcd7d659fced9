//! The transport: one POST, answered by an event stream that a decoder reads.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderValue, USER_AGENT};
use hyper::http::uri::InvalidUri;
use hyper::{Method, Response, StatusCode, Uri};
use loopwright_core::model::{ModelError, ModelErrorKind};
use reqwest::{NoProxy, Proxy, Url};

use crate::client::{Body, Client, TransportError, TransportErrorKind};
use crate::error::Endpoint;
use crate::key::{KeySource, Secret, hide};

/// As much of an error body as is read.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;
/// How long an error body may take.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a request may be without progress. Keep-alives are no progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect: Duration,
    /// From then until the first event of the reply.
    pub first_event: Duration,
    /// Between two events.
    pub between_events: Duration,
}

impl Default for Timeouts {
    /// 10 s, 300 s, 120 s.
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(10),
            first_event: Duration::from_secs(300),
            between_events: Duration::from_secs(120),
        }
    }
}

/// Connections to model servers. Clones share them, so make one and give it to every model.
///
/// A client is made when it is first needed, and one for plain `http://` reads no certificates.
#[derive(Clone, Default)]
pub struct Http {
    timeouts: Timeouts,
    proxy: Option<Proxy>,
    clients: Arc<[OnceLock<Client>; 3]>,
}

/// The three ways to reach a server; each has a client of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Route {
    /// `http://` on this machine: no certificates, no proxy.
    Local,
    /// `http://` elsewhere: no certificates.
    Plain,
    /// `https://`.
    Tls,
}

impl Route {
    fn to(url: &Url) -> Route {
        let host = url.host_str().unwrap_or("").trim_matches(['[', ']']);
        let local = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        match (url.scheme(), local) {
            ("https", _) => Route::Tls,
            (_, true) => Route::Local,
            (_, false) => Route::Plain,
        }
    }
}

impl Http {
    /// No connections yet, with the default timeouts.
    pub fn new() -> Self {
        Self::default()
    }

    /// No connections yet, with these timeouts.
    pub fn with_timeouts(timeouts: Timeouts) -> Self {
        Http { timeouts, ..Self::default() }
    }

    /// Goes to servers that are not on this machine through this proxy, `http://HOST:PORT` or
    /// `http://USER:PASSWORD@HOST:PORT`, with connections of its own. Without one, the proxies that
    /// the environment names count (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`).
    ///
    /// # Errors
    /// [`ModelErrorKind::InvalidRequest`] if that is no address.
    pub fn proxy(self, url: &str) -> Result<Self, ModelError> {
        let wrong = |_| {
            let why = "The proxy's address is not valid. Give one such as `http://127.0.0.1:3128`.";
            ModelError::new(ModelErrorKind::InvalidRequest, why)
        };
        let proxy = Proxy::all(url)
            .map_err(wrong)?
            .no_proxy(NoProxy::from_string("localhost,127.0.0.0/8,::1"));
        Ok(Http { proxy: Some(proxy), clients: Arc::default(), ..self })
    }

    /// The timeouts.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// The client for this way, made when it is first asked for.
    fn client(&self, route: Route) -> Result<&Client, TransportError> {
        let slot = &self.clients[route as usize];
        match slot.get() {
            Some(client) => Ok(client),
            None => {
                let client = Client::new(route, self.timeouts.connect, self.proxy.clone())?;
                Ok(slot.get_or_init(|| client))
            }
        }
    }

    /// Sends `body` and gives the answer, whatever its status.
    pub(crate) async fn send(
        &self,
        target: &Target,
        body: Bytes,
    ) -> Result<Response<Body>, ModelError> {
        let client = self.client(target.route).map_err(|why| target.broken(&why))?;
        let Some(source) = &target.key else {
            return client
                .send(Method::POST, target, body)
                .await
                .map_err(|why| target.broken(&why));
        };
        let mut keyed = target.clone();
        let mut secret = source.put(&mut keyed.headers, &target.endpoint).await?;
        let mut response = keyed.send_keyed(client, body.clone(), &secret).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            // It may have expired since the callback saw it; another one is worth another attempt.
            let fresh = source.put(&mut keyed.headers, &target.endpoint).await?;
            if fresh != secret {
                response = keyed.send_keyed(client, body, &fresh).await?;
                secret = fresh;
            }
        }
        response.extensions_mut().insert(secret);
        Ok(response)
    }

    /// Gets a small JSON document, within `time`.
    pub(crate) async fn get(&self, target: &Target, time: Duration) -> Result<Vec<u8>, ModelError> {
        let client = self.client(target.route).map_err(|why| target.broken(&why))?;
        let answer = async {
            let response = client
                .send(Method::GET, target, Bytes::new())
                .await
                .map_err(|why| target.broken(&why))?;
            if !response.status().is_success() {
                return Err(target.refused(response).await);
            }
            Ok(read(response, MAX_ERROR_BODY_BYTES).await)
        };
        tokio::time::timeout(time, answer)
            .await
            .unwrap_or_else(|_| Err(target.too_slow("did not answer", time)))
    }
}

impl std::fmt::Debug for Http {
    /// Without the proxy's address, which may have a password in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Http");
        debug
            .field("timeouts", &self.timeouts)
            .field("has_proxy", &self.proxy.is_some())
            .finish_non_exhaustive()
    }
}

/// Where requests go, with the headers they carry. Its `Debug` shows no header values.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) url: Url,
    /// The same, as hyper wants it.
    pub(crate) uri: Uri,
    route: Route,
    pub(crate) headers: HeaderMap,
    pub(crate) endpoint: Arc<Endpoint>,
    /// Where each request gets its key, if it is not in `headers`. The answer carries the
    /// [`Secret`](crate::key::Secret) that was used.
    pub(crate) key: Option<KeySource>,
    /// What must not appear in an error, even if the server repeats it.
    pub(crate) secrets: Vec<String>,
}

impl Target {
    pub(crate) fn new(
        url: Url,
        mut headers: HeaderMap,
        endpoint: impl Into<Arc<Endpoint>>,
        secrets: Vec<String>,
    ) -> Result<Target, InvalidUri> {
        let ours = HeaderValue::from_static(concat!("loopwright/", env!("CARGO_PKG_VERSION")));
        headers.entry(USER_AGENT).or_insert(ours);
        let (uri, route) = (url.as_str().parse()?, Route::to(&url));
        Ok(Target { url, uri, route, headers, endpoint: endpoint.into(), key: None, secrets })
    }

    /// Posts `body` with the key `secret`, which is in the headers already.
    async fn send_keyed(
        &self,
        client: &Client,
        body: Bytes,
        secret: &Secret,
    ) -> Result<Response<Body>, ModelError> {
        let answer = client.send(Method::POST, self, body).await;
        answer.map_err(|why| secret.clean(self.broken(&why)))
    }

    /// What a server said instead of an event stream.
    pub(crate) async fn refused(&self, response: Response<Body>) -> ModelError {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = tokio::time::timeout(ERROR_BODY_TIMEOUT, read(response, MAX_ERROR_BODY_BYTES))
            .await
            .unwrap_or_default();
        self.clean(self.endpoint.refused(status, &headers, &body, SystemTime::now()))
    }

    /// The connection failed or broke.
    pub(crate) fn broken(&self, why: &TransportError) -> ModelError {
        use ModelErrorKind::{InvalidRequest, Network, Timeout};
        let (kind, what, advice) = match why.kind {
            TransportErrorKind::Connect => (
                Network,
                "cannot be reached",
                "Check that the server runs and that the base URL is right.",
            ),
            TransportErrorKind::Time => {
                (Timeout, "did not answer in time", "Check the connection, or try again later.")
            }
            TransportErrorKind::Request => {
                (InvalidRequest, "cannot be asked", "Check the base URL and the headers.")
            }
            TransportErrorKind::Stream => (Network, "broke the connection", "Try again."),
        };
        // An address is in our sentence already, and may hold what is secret.
        let root = if why.root.contains("://") { "the request failed" } else { &why.root };
        self.clean(ModelError::new(kind, format!("{} {what}: {root}. {advice}", self.endpoint)))
    }

    /// Nothing came for `limit`.
    pub(crate) fn too_slow(&self, what: &str, limit: Duration) -> ModelError {
        let why = format!(
            "{} {what} for {} s. Try again, or raise the timeout.",
            self.endpoint,
            limit.as_secs_f32()
        );
        ModelError::new(ModelErrorKind::Timeout, why)
    }

    /// `error` without what is secret.
    pub(crate) fn clean(&self, mut error: ModelError) -> ModelError {
        self.secrets.iter().for_each(|secret| hide(&mut error.message, secret));
        error
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let headers: Vec<_> = self.headers.keys().collect();
        f.debug_struct("Target")
            .field("place", &self.endpoint)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

/// The body's first `limit` bytes, or as many as come.
async fn read(response: Response<Body>, limit: usize) -> Vec<u8> {
    let (mut bytes, mut body) = (Vec::new(), response.into_body());
    while let Some(Ok(chunk)) = body.chunk().await {
        bytes.extend_from_slice(&chunk[..chunk.len().min(limit - bytes.len())]);
        if bytes.len() == limit {
            break;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn the_route_is_derived_from_the_address() {
        assert!(matches!(Route::to(&url("http://127.0.0.1:8080/v1")), Route::Local));
        assert!(matches!(Route::to(&url("http://[::1]:8080/v1")), Route::Local));
        assert!(matches!(Route::to(&url("http://box.lan/v1")), Route::Plain));
        assert!(matches!(Route::to(&url("https://localhost/v1")), Route::Tls));
    }

    #[test]
    fn debug_output_contains_no_proxy_password() {
        let http = Http::new().proxy("http://me:pass-word@127.0.0.1:3128").unwrap();
        let debug = format!("{http:?}");
        assert!(debug.contains("has_proxy: true") && !debug.contains("pass-word"), "{debug}");
    }

    #[test]
    fn clients_are_built_on_first_use_and_shared() {
        let http = Http::new();
        let other = http.clone();
        assert!(other.clients.iter().all(|slot| slot.get().is_none()));
        http.client(Route::Local).unwrap();
        assert!(other.clients[Route::Local as usize].get().is_some());
        assert!(other.clients[Route::Tls as usize].get().is_none());
    }
}
