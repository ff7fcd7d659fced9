//! HTTP clients of a worker.

use std::time::Duration;

use reqwest::ClientBuilder;

/// Timeout for a server to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns a builder of a client. Installs a crypto provider for TLS, unless the program has
/// installed one: without it, no client can be built.
pub(crate) fn builder() -> ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default(); // unless there is one
    // Workers are reached directly, without the system's proxy.
    reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).no_proxy()
}
