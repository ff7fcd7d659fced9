//! [`Authorization`]: what lets the user authorize an HTTP server (MCP, *Authorization*).

pub(super) mod authorize;
pub(crate) mod credentials;
mod flow;
mod visits;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use self::credentials::{Credentials, OfServer};
use self::flow::{Next, authorized_client};
use super::config::{Endpoint, ServerConfig};
use super::handler::Handler;
use super::http_client::{HttpClient, OpenError, Service};

/// The authorization of a server by its user.
#[derive(Default)]
pub(super) struct Authorization {
    pub(super) credentials: Option<Arc<Credentials>>,
    /// `true` if the server has refused a request without authorization.
    is_needed: AtomicBool,
    /// The authorization that awaits the user.
    flow: Mutex<Option<Next>>,
}

/// Access to the stored tokens of a server, if there is a store.
pub(super) type Tokens = Option<OfServer>;

impl Authorization {
    pub(super) fn tokens(&self, config: &ServerConfig) -> Tokens {
        let key = format!("{} {}", config.name(), config.describe());
        Some(OfServer { credentials: self.credentials.clone()?, key })
    }

    pub(super) fn set_needed(&self, is_needed: bool) {
        self.is_needed.store(is_needed, Ordering::Relaxed);
    }
}

/// Connects to a server, with its tokens if there are any.
pub(super) async fn connect(
    endpoint: &Endpoint,
    tokens: Tokens,
    client: HttpClient,
    handler: Handler,
) -> Result<Service, OpenError> {
    let how = "set its headers, or call its tool `authorize`";
    let authorized = authorized_client(&endpoint.url, tokens, client.client.clone()).await;
    match authorized.map_err(|why| OpenError::unauthorized(&endpoint.url, &why))? {
        Some(authorized) => client.with(authorized).serve(&endpoint.url, handler, how).await,
        None => client.serve(&endpoint.url, handler, how).await,
    }
}
