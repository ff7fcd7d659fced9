//! What stands for `oauth` in builds without it: nobody can authorize a server.

use super::config::{Endpoint, ServerConfig};
use super::handler::Handler;
use super::http_client::{HttpClient, OpenError, Service};

#[derive(Default)]
pub(super) struct Authorization {}

pub(super) struct Tokens;

impl Authorization {
    pub(super) fn tokens(&self, _: &ServerConfig) -> Tokens {
        Tokens
    }

    pub(super) fn set_needed(&self, _: bool) {}
}

pub(super) async fn connect(
    endpoint: &Endpoint,
    _: Tokens,
    client: HttpClient,
    handler: Handler,
) -> Result<Service, OpenError> {
    let how = "set its headers; logging in needs the feature `oauth`, which is not built in";
    client.serve(&endpoint.url, handler, how).await
}
