//! The provider of cryptography for TLS.

/// Installs a provider of cryptography for TLS, unless the program has installed one.
pub(super) fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was faster.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
