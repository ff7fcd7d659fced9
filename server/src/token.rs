//! [`TokenDigest`]: the server's token, as far as it is kept.

use sha2::{Digest, Sha256};

/// The SHA-256 digest of a token. Digests have one length, and a client cannot approach one byte by
/// byte.
#[derive(Clone, Copy)]
pub(crate) struct TokenDigest([u8; 32]);

impl TokenDigest {
    pub(crate) fn of(token: &str) -> Self {
        TokenDigest(Sha256::digest(token.as_bytes()).into())
    }

    /// Compares in constant time.
    pub(crate) fn matches(&self, token: &str) -> bool {
        let other = Self::of(token);
        let bytes = self.0.iter().zip(other.0);
        let difference = bytes.fold(0, |difference, (a, b)| difference | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}
