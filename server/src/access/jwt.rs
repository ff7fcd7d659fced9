//! [`JwtUsers`]: callers known to an OpenID Connect provider.

mod keys;

use jsonwebtoken::jwk::{CommonParameters, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use loopwright_core::Principal;
use loopwright_host::ConfigError;
use serde_json::{Map, Value};

pub(super) use self::keys::invalid;
use self::keys::{IssuerKeys, check_url};
use super::caller::Caller;
use crate::error::ApiError;

/// The accepted signature algorithms. Algorithms with a shared secret are excluded.
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
/// The tolerated difference between clocks, in seconds.
const LEEWAY_SECONDS: u64 = 30;

/// The users of a token issuer, such as an OpenID Connect provider. The server accepts its tokens
/// (JWT, RFC 7519), and the claim `sub` is the caller's [`Principal`].
///
/// A token must be signed with one of the issuer's keys (RS, PS, ES or EdDSA, never a shared
/// secret), name the issuer (`iss`) and the audience (`aud`), and have an expiry (`exp`). A stream
/// that is open when the token expires stays open.
///
/// A token that names a [user](crate::ServerBuilder::user) of the server, in whatever case, is
/// refused, since both would be one principal. Names with invisible characters or variants of other
/// characters are refused too. `Ann` and `ann` are two people of the issuer.
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
    /// Accepts the tokens of this issuer for this audience. At the first token, the server takes
    /// the address of the issuer's keys from `/.well-known/openid-configuration`.
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

    /// Sets the claim with the caller's roles, an array or a text with spaces between them. Dots
    /// separate the names of nested objects. Defaults to `roles`.
    pub fn roles_claim(mut self, claim: impl Into<String>) -> Self {
        self.roles_claim = claim.into();
        self
    }
}

/// A verifier of tokens, with the issuer's keys.
pub(crate) struct JwtVerifier {
    users: JwtUsers,
    keys: IssuerKeys,
}

impl JwtVerifier {
    pub(crate) fn new(users: JwtUsers) -> Result<Self, ConfigError> {
        for url in [Some(&users.issuer), users.keys_url.as_ref()].into_iter().flatten() {
            check_url(url)?;
        }
        let keys = IssuerKeys::new(users.issuer.clone(), users.keys_url.clone())?;
        Ok(JwtVerifier { users, keys })
    }

    /// Returns the caller that a token names.
    pub(crate) async fn caller(&self, token: &str) -> Result<Caller, ApiError> {
        let header = decode_header(token).map_err(|_| invalid("it is no JWT"))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(invalid("its signature has an algorithm that is not accepted"));
        }
        if header.crit.is_some() {
            return Err(invalid("its header has `crit`, and no extension is known here"));
        }
        let key = self.keys.key(header.kid.as_deref()).await?;
        if !is_for_signatures(&key.common) {
            return Err(invalid("its key is not one for signatures"));
        }
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
        let name = claims.get("sub").and_then(Value::as_str);
        let name = name.ok_or_else(|| invalid("it names nobody"))?;
        let caller = Caller::new(Principal::new(name));
        Ok(roles(&claims, &self.users.roles_claim).into_iter().fold(caller, Caller::role))
    }
}

/// Returns whether a key may verify signatures (RFC 7517, `use` and `key_ops`).
fn is_for_signatures(key: &CommonParameters) -> bool {
    key.public_key_use.as_ref().is_none_or(|usage| *usage == PublicKeyUse::Signature)
        && key.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify))
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
