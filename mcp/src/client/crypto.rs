//! The provider of cryptography for TLS.

/// Installs a provider of cryptography for TLS, unless the program has installed one.
pub(super) fn install_crypto_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default(); // unless there is one
}
