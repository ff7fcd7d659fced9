//! The HTTP clients of a worker.

use std::time::Duration;

use reqwest::ClientBuilder;

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Configures a client. Installs a provider of cryptography for TLS, unless the program has
/// installed one: without it, no client can be built.
pub(crate) fn builder() -> ClientBuilder {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was faster.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    // A proxy for other machines is none for those of the cluster.
    reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).no_proxy()
}
