//! Encrypted connections.

use std::path::Path;
use std::sync::Arc;

use loopwright_core::error::Failure;
use loopwright_core::log::MemoryError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Returns the TLS connector. With [`SslMode::Require`] the server's certificate is checked against
/// the certificates in the file `roots`, or else the system's.
pub(super) fn connector(
    mode: SslMode,
    roots: Option<&Path>,
) -> Result<MakeRustlsConnect, MemoryError> {
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(rustls::crypto::ring::default_provider()));
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(MemoryError::failed)?;
    let config = match (mode, roots) {
        (SslMode::Require, None) => {
            builder.with_platform_verifier().map_err(MemoryError::failed)?.with_no_client_auth()
        }
        (SslMode::Require, Some(file)) => {
            builder.with_root_certificates(read(file)?).with_no_client_auth()
        }
        _ => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
            .with_no_client_auth(),
    };
    Ok(MakeRustlsConnect::new(config))
}

/// Reads a PEM file of root certificates.
fn read(file: &Path) -> Result<RootCertStore, MemoryError> {
    let failed = |why: String| {
        let why = format!("the root certificates in {} cannot be read: {why}", file.display());
        MemoryError::Failed(Failure::new(why))
    };
    let mut store = RootCertStore::empty();
    let read = CertificateDer::pem_file_iter(file).map_err(|error| failed(error.to_string()))?;
    for certificate in read {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        store.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    if store.is_empty() { Err(failed("there are none".into())) } else { Ok(store) }
}

/// A verifier that accepts every certificate, for `sslmode=prefer`, which would also accept a
/// server without encryption.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
