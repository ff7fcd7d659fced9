//! [`JwtUsers`]: callers whom an OpenID Connect provider knows.

use std::time::Duration;

use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use loopwright_core::agent::Principal;
use reqwest::redirect::Policy;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::caller::Caller;
use crate::error::{ApiError, ConfigError, ErrorKind};
use crate::http_client::install_crypto_provider;

/// The algorithms of signatures. Those with a shared secret are not among them.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// When keys are fetched again, so that one that was withdrawn is not accepted for ever.
const MAX_KEYS_AGE: Duration = Duration::from_secs(60 * 60);
/// How soon keys are fetched again for a token whose key is unknown.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(10);
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of a document of the issuer.
const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;
/// By how much clocks may differ, in seconds.
const LEEWAY_SECONDS: u64 = 30;

/// Accepts the tokens (JWT, RFC 7519) of an issuer, such as an OpenID Connect provider: the claim
/// `sub` is the caller's [`Principal`].
///
/// A token must be signed with one of the issuer's keys (RS, PS, ES or EdDSA, never a shared
/// secret), name the issuer (`iss`) and the audience (`aud`), and have an expiry (`exp`). A stream
/// that is open when the token expires stays open.
///
/// ```
/// use loopwright_server::JwtUsers;
///
/// let users = JwtUsers::new("https://id.example.org", "loopwright").roles_claim("realm.roles");
/// # let _ = users;
/// ```
#[derive(Debug, Clone)]
pub struct JwtUsers {
    issuer: String,
    audience: String,
    keys_url: Option<String>,
    roles_claim: String,
}

impl JwtUsers {
    /// Accepts the tokens of this issuer for this audience. The address of the issuer's keys is
    /// taken from its document `/.well-known/openid-configuration`, at the first token.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>) -> Self {
        JwtUsers {
            issuer: issuer.into(),
            audience: audience.into(),
            keys_url: None,
            roles_claim: "roles".into(),
        }
    }

    /// Sets the address of the issuer's keys (a JWK set, RFC 7517).
    pub fn keys_url(mut self, url: impl Into<String>) -> Self {
        self.keys_url = Some(url.into());
        self
    }

    /// Sets the claim with the caller's roles, an array or a text with spaces between them; dots
    /// separate the names of objects. Defaults to `roles`.
    pub fn roles_claim(mut self, claim: impl Into<String>) -> Self {
        self.roles_claim = claim.into();
        self
    }
}

/// Checks tokens, with the issuer's keys.
pub(crate) struct JwtVerifier {
    users: JwtUsers,
    client: reqwest::Client,
    keys: Mutex<Keys>,
}

#[derive(Default)]
struct Keys {
    set: Option<JwkSet>,
    /// The last attempt to fetch them.
    fetched: Option<Instant>,
}

/// The part of the issuer's document that is used.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl JwtVerifier {
    pub(crate) fn new(users: JwtUsers) -> Result<Self, ConfigError> {
        for url in [Some(&users.issuer), users.keys_url.as_ref()].into_iter().flatten() {
            check_url(url)?;
        }
        install_crypto_provider();
        let client = reqwest::Client::builder().redirect(Policy::none()).timeout(FETCH_TIMEOUT);
        let client = client.build().map_err(|why| {
            ConfigError(format!("The keys of `{}` cannot be fetched: {why}.", users.issuer).into())
        })?;
        Ok(JwtVerifier { users, client, keys: Mutex::default() })
    }

    /// Returns the caller that a token names.
    pub(crate) async fn caller(&self, token: &str) -> Result<Caller, ApiError> {
        let header = decode_header(token).map_err(|_| invalid("it is no JWT"))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(invalid("its signature has an algorithm that is not accepted"));
        }
        let key = self.key(header.kid.as_deref()).await?;
        let own = key.common.key_algorithm.map(|algorithm| algorithm.to_string());
        if own.is_some_and(|own| own != format!("{:?}", header.alg)) {
            return Err(invalid("its signature has another algorithm than the key"));
        }
        let key = DecodingKey::from_jwk(&key).map_err(|_| invalid("its key cannot be used"))?;
        let mut rules = Validation::new(header.alg);
        rules.leeway = LEEWAY_SECONDS;
        rules.validate_nbf = true;
        rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        rules.set_issuer(&[&self.users.issuer]);
        rules.set_audience(&[&self.users.audience]);
        let claims = decode::<Map<String, Value>>(token, &key, &rules);
        let claims = claims.map_err(|why| invalid(&why.to_string()))?.claims;
        let name = claims.get("sub").and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| invalid("it names nobody"))?;
        let caller = Caller::new(Principal::new(name));
        Ok(roles(&claims, &self.users.roles_claim).into_iter().fold(caller, Caller::role))
    }

    /// Returns the key with this id, or the only one.
    async fn key(&self, id: Option<&str>) -> Result<Jwk, ApiError> {
        let find = |set: &JwkSet| match (id, &*set.keys) {
            (Some(id), _) => set.find(id).cloned(),
            (None, [only]) => Some(only.clone()),
            (None, _) => None,
        };
        let mut keys = self.keys.lock().await;
        let age = keys.fetched.map(|at| at.elapsed());
        let known = keys.set.as_ref().and_then(find);
        if known.is_some() && age.is_some_and(|age| age < MAX_KEYS_AGE) {
            return known.ok_or_else(unknown_key);
        }
        if age.is_none_or(|age| age >= MIN_FETCH_INTERVAL) {
            keys.fetched = Some(Instant::now());
            match self.fetch().await {
                Ok(set) => keys.set = Some(set),
                Err(why) => {
                    let issuer = &self.users.issuer;
                    tracing::warn!(issuer, why, "the keys of the issuer of tokens are missing");
                }
            }
        }
        match &keys.set {
            Some(set) => find(set).ok_or_else(unknown_key),
            None => {
                let why = "The token cannot be checked now, as its issuer does not answer: try \
                           again later.";
                Err(ApiError::new(ErrorKind::Internal, why)
                    .with_status(axum::http::StatusCode::SERVICE_UNAVAILABLE))
            }
        }
    }

    async fn fetch(&self) -> Result<JwkSet, String> {
        let url = match &self.users.keys_url {
            Some(url) => url.clone(),
            None => {
                let issuer = self.users.issuer.trim_end_matches('/');
                let url = format!("{issuer}/.well-known/openid-configuration");
                let document: Discovery = self.document(&url).await?;
                if document.issuer != self.users.issuer {
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

/// Checks that others cannot replace what comes from this address.
fn check_url(text: &str) -> Result<(), ConfigError> {
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
    Err(ConfigError(why.into()))
}

fn invalid(why: &str) -> ApiError {
    let why = format!("The token is not accepted: {why}. Get a new one from its issuer.");
    ApiError::new(ErrorKind::Token, why)
}

fn unknown_key() -> ApiError {
    invalid("its issuer does not have the key that it is signed with")
}

/// Returns the roles in a claim.
fn roles(claims: &Map<String, Value>, claim: &str) -> Vec<String> {
    let mut names = claim.split('.');
    let first = names.next().and_then(|name| claims.get(name));
    let value = names.try_fold(first, |value, name| value.map(|value| value.get(name)));
    match value.flatten() {
        Some(Value::Array(roles)) => {
            roles.iter().filter_map(|role| role.as_str().map(str::to_owned)).collect()
        }
        Some(Value::String(roles)) => roles.split_whitespace().map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}
