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

use crate::client::{Body, Broken, Client, Fault};
use crate::error::Place;
use crate::key::{KeySource, Secret, hide};

/// As much of an error body as is read.
const ERROR_BODY: usize = 64 * 1024;
/// How long an error body may take.
const ERROR_BODY_TIME: Duration = Duration::from_secs(10);

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
pub(crate) enum Way {
    /// `http://` on this machine: no certificates, no proxy.
    Local,
    /// `http://` elsewhere: no certificates.
    Plain,
    /// `https://`.
    Tls,
}

impl Way {
    fn to(url: &Url) -> Way {
        let host = url.host_str().unwrap_or("").trim_matches(['[', ']']);
        let local = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        match (url.scheme(), local) {
            ("https", _) => Way::Tls,
            (_, true) => Way::Local,
            (_, false) => Way::Plain,
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
    fn client(&self, way: Way) -> Result<&Client, Broken> {
        let slot = &self.clients[way as usize];
        match slot.get() {
            Some(client) => Ok(client),
            None => {
                let client = Client::new(way, self.timeouts.connect, self.proxy.clone())?;
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
        let client = self.client(target.way).map_err(|why| target.broken(&why))?;
        let Some(source) = &target.key else {
            return client
                .send(Method::POST, target, body)
                .await
                .map_err(|why| target.broken(&why));
        };
        let mut keyed = target.clone();
        let mut secret = source.put(&mut keyed.headers, &target.place).await?;
        let mut response = keyed.send_keyed(client, body.clone(), &secret).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            // It may have expired since the callback saw it; another one is worth another attempt.
            let fresh = source.put(&mut keyed.headers, &target.place).await?;
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
        let client = self.client(target.way).map_err(|why| target.broken(&why))?;
        let answer = async {
            let response = client
                .send(Method::GET, target, Bytes::new())
                .await
                .map_err(|why| target.broken(&why))?;
            if !response.status().is_success() {
                return Err(target.refused(response).await);
            }
            Ok(read(response, ERROR_BODY).await)
        };
        tokio::time::timeout(time, answer)
            .await
            .unwrap_or_else(|_| Err(target.too_slow("did not answer", time)))
    }
}

impl std::fmt::Debug for Http {
    /// Without the proxy's address, which may have a password in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Http");
        shown
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
    way: Way,
    pub(crate) headers: HeaderMap,
    pub(crate) place: Arc<Place>,
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
        place: impl Into<Arc<Place>>,
        secrets: Vec<String>,
    ) -> Result<Target, InvalidUri> {
        let ours = HeaderValue::from_static(concat!("loopwright/", env!("CARGO_PKG_VERSION")));
        headers.entry(USER_AGENT).or_insert(ours);
        let (uri, way) = (url.as_str().parse()?, Way::to(&url));
        Ok(Target { url, uri, way, headers, place: place.into(), key: None, secrets })
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
        let body = tokio::time::timeout(ERROR_BODY_TIME, read(response, ERROR_BODY))
            .await
            .unwrap_or_default();
        self.clean(self.place.refused(status, &headers, &body, SystemTime::now()))
    }

    /// The connection failed or broke.
    pub(crate) fn broken(&self, why: &Broken) -> ModelError {
        use ModelErrorKind::{InvalidRequest, Network, Timeout};
        let (kind, what, advice) = match why.at {
            Fault::Connect => (
                Network,
                "cannot be reached",
                "Check that the server runs and that the base URL is right.",
            ),
            Fault::Time => {
                (Timeout, "did not answer in time", "Check the connection, or try again later.")
            }
            Fault::Request => {
                (InvalidRequest, "cannot be asked", "Check the base URL and the headers.")
            }
            Fault::Stream => (Network, "broke the connection", "Try again."),
        };
        // An address is in our sentence already, and may hold what is secret.
        let root = if why.root.contains("://") { "the request failed" } else { &why.root };
        self.clean(ModelError::new(kind, format!("{} {what}: {root}. {advice}", self.place)))
    }

    /// Nothing came for `limit`.
    pub(crate) fn too_slow(&self, what: &str, limit: Duration) -> ModelError {
        let why = format!(
            "{} {what} for {} s. Try again, or raise the timeout.",
            self.place,
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
            .field("place", &self.place)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

/// The body's first `most` bytes, or as many as come.
async fn read(response: Response<Body>, most: usize) -> Vec<u8> {
    let (mut bytes, mut body) = (Vec::new(), response.into_body());
    while let Some(Ok(chunk)) = body.chunk().await {
        bytes.extend_from_slice(&chunk[..chunk.len().min(most - bytes.len())]);
        if bytes.len() == most {
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
    fn the_way_is_found_from_the_address() {
        assert!(matches!(Way::to(&url("http://127.0.0.1:8080/v1")), Way::Local));
        assert!(matches!(Way::to(&url("http://[::1]:8080/v1")), Way::Local));
        assert!(matches!(Way::to(&url("http://box.lan/v1")), Way::Plain));
        assert!(matches!(Way::to(&url("https://localhost/v1")), Way::Tls));
    }

    #[test]
    fn a_proxys_password_is_not_shown() {
        let http = Http::new().proxy("http://me:pass-word@127.0.0.1:3128").unwrap();
        let shown = format!("{http:?}");
        assert!(shown.contains("has_proxy: true") && !shown.contains("pass-word"), "{shown}");
    }

    #[test]
    fn clients_are_made_when_needed_and_shared() {
        let http = Http::new();
        let other = http.clone();
        assert!(other.clients.iter().all(|slot| slot.get().is_none()));
        http.client(Way::Local).unwrap();
        assert!(other.clients[Way::Local as usize].get().is_some());
        assert!(other.clients[Way::Tls as usize].get().is_none());
    }
}
