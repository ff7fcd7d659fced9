//! [`IssuerKeys`]: the keys of a token issuer, fetched over HTTP.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jsonwebtoken::jwk::{Jwk, JwkSet};
use loopwright_host::ConfigError;
use reqwest::redirect::Policy;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::error::{ApiError, ErrorKind};
use crate::http_client::install_crypto_provider;

/// The maximum time since the last attempt to fetch keys. After it, a token waits for a new
/// attempt, so a withdrawn key is not accepted for ever.
const MAX_KEYS_AGE: Duration = Duration::from_secs(60 * 60);
/// The age from which keys in use are fetched again in the background.
const REFRESH_AGE: Duration = Duration::from_secs(50 * 60);
/// The minimum time between two attempts to fetch keys.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(10);
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of a document from the issuer.
const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;

/// The keys of a token issuer. No lock is held during a fetch, so a slow issuer delays only tokens
/// with unknown keys.
pub(super) struct IssuerKeys(Arc<Inner>);

struct Inner {
    issuer: String,
    keys_url: Option<String>,
    client: reqwest::Client,
    keys: Mutex<Keys>,
    /// Held by the task that fetches.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Keys {
    /// The keys, and the time of the fetch.
    set: Option<(JwkSet, Instant)>,
    /// The end of the last attempt to fetch them.
    attempted: Option<Instant>,
}

/// The fields of the issuer's document that the server uses.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl IssuerKeys {
    /// Creates the keys, which are fetched from this address, or from the one in the issuer's
    /// document.
    pub(super) fn new(issuer: String, keys_url: Option<String>) -> Result<Self, ConfigError> {
        install_crypto_provider();
        let client = reqwest::Client::builder().redirect(Policy::none()).timeout(FETCH_TIMEOUT);
        let client = client.build().map_err(|why| {
            ConfigError::new(format!("The keys of `{issuer}` cannot be fetched: {why}."))
        })?;
        let (keys, fetching) = Default::default();
        Ok(IssuerKeys(Arc::new(Inner { issuer, keys_url, client, keys, fetching })))
    }

    /// Returns the key with this id, or the only one. Waits for the issuer if the key is unknown.
    pub(super) async fn key(&self, id: Option<&str>) -> Result<Jwk, ApiError> {
        if let Some(known) = self.0.recent(id) {
            if self.0.needs_refresh() {
                let inner = self.0.clone();
                tokio::spawn(async move { inner.refresh().await });
            }
            return Ok(known);
        }
        self.0.refresh().await;
        match &self.0.keys().set {
            Some((set, _)) => find(set, id)
                .ok_or_else(|| invalid("its issuer does not have the key that it is signed with")),
            None => {
                let why = "The token cannot be checked now, as its issuer does not answer: try \
                           again later.";
                Err(ApiError::new(ErrorKind::Internal, why)
                    .with_status(axum::http::StatusCode::SERVICE_UNAVAILABLE))
            }
        }
    }
}

impl Inner {
    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a key that is usable without waiting.
    fn recent(&self, id: Option<&str>) -> Option<Jwk> {
        let keys = self.keys();
        let is_recent = keys.attempted.is_some_and(|at| at.elapsed() < MAX_KEYS_AGE);
        keys.set.as_ref().filter(|_| is_recent).and_then(|(set, _)| find(set, id))
    }

    fn needs_refresh(&self) -> bool {
        let keys = self.keys();
        let is_old = keys.set.as_ref().is_some_and(|(_, at)| at.elapsed() >= REFRESH_AGE);
        is_old && keys.may_fetch() && self.fetching.try_lock().is_ok()
    }

    /// Fetches the keys, unless the last attempt was just now. Concurrent callers share one
    /// attempt.
    async fn refresh(&self) {
        let _fetching = self.fetching.lock().await;
        if !self.keys().may_fetch() {
            return;
        }
        let fetched = self.fetch().await;
        let mut keys = self.keys();
        keys.attempted = Some(Instant::now());
        match fetched {
            Ok(set) => keys.set = Some((set, Instant::now())),
            Err(why) => {
                let issuer = &self.issuer;
                tracing::warn!(issuer, why, "the keys of the issuer of tokens are missing");
            }
        }
    }

    async fn fetch(&self) -> Result<JwkSet, String> {
        let url = match &self.keys_url {
            Some(url) => url.clone(),
            None => {
                let issuer = self.issuer.trim_end_matches('/');
                let url = format!("{issuer}/.well-known/openid-configuration");
                let document: Discovery = self.document(&url).await?;
                if document.issuer != self.issuer {
                    return Err(format!("{url} is that of another issuer: {}", document.issuer));
                }
                check_url(&document.jwks_uri).map_err(|why| why.to_string())?;
                document.jwks_uri
            }
        };
        self.document(&url).await
    }

    async fn document<T: DeserializeOwned>(&self, url: &str) -> Result<T, String> {
        let failed = |why: &dyn std::fmt::Display| format!("{url}: {why}");
        let mut response = self.client.get(url).send().await.map_err(|why| failed(&why))?;
        if !response.status().is_success() {
            return Err(failed(&response.status()));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|why| failed(&why))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_DOCUMENT_BYTES {
                return Err(failed(&"it is too large"));
            }
        }
        serde_json::from_slice(&bytes).map_err(|why| failed(&why))
    }
}

impl Keys {
    fn may_fetch(&self) -> bool {
        self.attempted.is_none_or(|at| at.elapsed() >= MIN_FETCH_INTERVAL)
    }
}

/// Returns the key with this id, or the only one.
fn find(set: &JwkSet, id: Option<&str>) -> Option<Jwk> {
    match (id, &*set.keys) {
        (Some(id), _) => set.find(id).cloned(),
        (None, [only]) => Some(only.clone()),
        (None, _) => None,
    }
}

/// Checks that third parties cannot tamper with the response of this address.
pub(super) fn check_url(text: &str) -> Result<(), ConfigError> {
    let url = reqwest::Url::parse(text).ok();
    let is_safe = url.is_some_and(|url| match url.scheme() {
        "https" => true,
        "http" => url.host_str().is_some_and(|host| {
            let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
            host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
        }),
        _ => false,
    });
    if is_safe {
        return Ok(());
    }
    let why = format!("`{text}` is no address with https, so the keys of tokens could be forged.");
    Err(ConfigError::new(why))
}

/// Returns the error for a token that is not accepted.
pub(in crate::access) fn invalid(why: &str) -> ApiError {
    let why = format!("The token is not accepted: {why}. Get a new one from its issuer.");
    ApiError::new(ErrorKind::Token, why)
}
