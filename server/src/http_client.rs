//! Common set-up of the server's HTTP clients.

/// Installs the TLS provider, unless the program has installed one.
pub(crate) fn install_crypto_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default(); // unless there is one
}
