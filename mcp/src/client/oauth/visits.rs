//! [`Visits`]: restricts where the requests of an authorization go.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwright_core::net::is_public;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};

use crate::client::crypto::install_crypto_provider;

/// The timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a response.
const MAX_DOCUMENT_BYTES: usize = 1 << 20;

/// An HTTP client for authorization requests. It sends them to the server, and to origins that the
/// server names and the user allows. It follows no redirects.
///
/// Other origins must use https and be public. A server that is itself configured at a loopback or
/// private address may name addresses of the same kind, and loopback ones without https.
#[derive(Clone)]
pub(super) struct Visits {
    client: reqwest::Client,
    scope: Arc<Scope>,
    allowed: BTreeSet<String>,
    /// The origin that the server named last and the user has not allowed yet.
    named: Arc<Mutex<Option<String>>>,
}

/// The addresses that a server may name.
struct Scope {
    server: Url,
    /// The address of the server, if it is configured as a non-public one.
    own: Option<IpAddr>,
}

/// The reason why a request was not sent.
#[derive(Debug)]
struct Refused(&'static str, String);

impl Visits {
    /// Returns the client for the server at this URL. The error is a sentence without a full stop.
    pub(super) fn new(server: &str, allowed: BTreeSet<String>) -> Result<Self, String> {
        let server = Url::parse(server).map_err(|why| why.to_string())?;
        let own = literal(&server).filter(|ip| !is_public(*ip));
        let scope = Arc::new(Scope { server, own });
        install_crypto_provider();
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(Policy::none())
            .no_proxy() // it would resolve names itself
            .dns_resolver(Arc::new(Resolver(scope.clone())))
            .build();
        let client = client.map_err(|why| why.to_string())?;
        Ok(Visits { client, scope, allowed, named: Arc::default() })
    }

    /// Takes the origin that was not visited because the user has not been asked about it.
    pub(super) fn take_named(&self) -> Option<String> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the origin of a URL that the server names, or `None` if it is the server's own or
    /// already allowed.
    ///
    /// # Errors
    /// Fails if no request may be sent there.
    pub(super) fn other_origin(&self, address: &str) -> Result<Option<String>, String> {
        let url = Url::parse(address).map_err(|why| why.to_string())?;
        self.scope.check(&url).map_err(|why| why.to_string())?;
        let origin = url.origin();
        let name = origin.ascii_serialization();
        let is_known = origin == self.scope.server.origin() || self.allowed.contains(&name);
        Ok((!is_known).then_some(name))
    }
}

impl Scope {
    /// Checks a URL that the server names, without resolving its host.
    fn check(&self, url: &Url) -> Result<(), Refused> {
        let refused = |why| Err(Refused(why, url.origin().ascii_serialization()));
        if url.origin() == self.server.origin() {
            return Ok(());
        }
        let is_local = |ip: &IpAddr| ip.is_loopback();
        let is_plain_allowed = url.scheme() == "http"
            && literal(url).as_ref().is_some_and(is_local)
            && self.own.as_ref().is_some_and(is_local);
        if url.scheme() != "https" && !is_plain_allowed {
            return refused("has no https");
        }
        match literal(url) {
            Some(ip) if !self.allows(ip) => refused("is an address of a private network"),
            _ => Ok(()),
        }
    }

    fn allows(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        is_public(ip)
            || self.own.is_some_and(|own| match own.is_loopback() {
                true => ip.is_loopback(),
                false => is_private(own) && is_private(ip),
            })
    }
}

/// A resolver that only returns allowed addresses, so that the checked address is the connected
/// one.
struct Resolver(Arc<Scope>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let scope = self.0.clone();
        Box::pin(async move {
            // The user has chosen the server, whatever its address.
            let is_own = scope.server.host_str() == Some(name.as_str());
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> =
                found.filter(|address| is_own || scope.allows(address.ip())).collect();
            match allowed.is_empty() {
                true => Err(Refused("has no public address", name.as_str().to_owned()).into()),
                false => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

impl OAuthHttpClient for Visits {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = reqwest::Request::try_from(request.request)?;
            if let Some(origin) = self.other_origin(request.url().as_str())? {
                *self.named.lock().unwrap_or_else(PoisonError::into_inner) = Some(origin.clone());
                return Err(Refused("was not allowed by the user", origin).into());
            }
            let mut response = self.client.execute(request).await?;
            let mut answer = http::Response::builder().status(response.status());
            for (name, value) in response.headers() {
                answer = answer.header(name, value);
            }
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await? {
                body.extend_from_slice(&chunk);
                if body.len() > MAX_DOCUMENT_BYTES {
                    return Err(
                        format!("a document is larger than {MAX_DOCUMENT_BYTES} bytes").into()
                    );
                }
            }
            Ok(answer.body(body)?)
        })
    }
}

/// Returns the IP address in a URL. `localhost` counts as 127.0.0.1.
fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?.trim_matches(['[', ']']).trim_end_matches('.');
    if host == "localhost" || host.ends_with(".localhost") {
        return Some(IpAddr::from([127, 0, 0, 1]));
    }
    host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

/// Returns whether an address belongs to a private network. Link-local addresses, which cloud
/// services use, do not.
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private(),
        IpAddr::V6(ip) => ip.is_unique_local(),
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`, which the server names, {}", self.1, self.0)
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    /// C423: A server names only public https addresses, or addresses of its own kind.
    #[test]
    fn what_a_server_names_is_checked_as_an_address() {
        for (server, address, is_allowed) in [
            ("https://mcp.example/mcp", "https://auth.example/token", true),
            ("https://mcp.example/mcp", "https://1.1.1.1/", true),
            ("https://mcp.example/mcp", "http://auth.example/", false),
            ("https://mcp.example/mcp", "javascript:alert(1)", false),
            ("https://mcp.example/mcp", "file:///etc/passwd", false),
            ("https://mcp.example/mcp", "https://127.0.0.1/", false),
            ("https://mcp.example/mcp", "https://2130706433/", false),
            ("https://mcp.example/mcp", "https://localhost/", false),
            ("https://mcp.example/mcp", "https://a.localhost./", false),
            ("https://mcp.example/mcp", "https://[::1]/", false),
            ("https://mcp.example/mcp", "https://[::ffff:10.0.0.1]/", false),
            ("https://mcp.example/mcp", "https://169.254.169.254/", false),
            ("https://mcp.example/mcp", "https://10.0.0.1/", false),
            ("http://mcp.corp/mcp", "http://mcp.corp/token", true),
            ("http://127.0.0.1:9/mcp", "http://127.0.0.1:10/", true),
            ("http://localhost:9/mcp", "http://[::1]:10/", true),
            ("http://127.0.0.1:9/mcp", "https://10.0.0.1/", false),
            ("http://127.0.0.1:9/mcp", "http://169.254.169.254/", false),
            ("https://10.0.0.1/mcp", "https://10.0.0.2/", true),
            ("https://10.0.0.1/mcp", "http://10.0.0.2/", false),
            ("https://10.0.0.1/mcp", "https://127.0.0.1/", false),
            ("https://10.0.0.1/mcp", "https://169.254.169.254/", false),
            ("https://169.254.1.1/mcp", "https://169.254.169.254/", false),
        ] {
            let visits = Visits::new(server, BTreeSet::new()).unwrap();
            let checked = visits.other_origin(address);
            assert_eq!(checked.is_ok(), is_allowed, "{server} names {address}: {checked:?}");
        }
    }
}
