//! Common set-up of the server's HTTP clients.

/// Installs the TLS provider, unless the program has installed one.
pub(crate) fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was faster.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
