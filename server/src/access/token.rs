//! [`TokenDigest`]: the only form in which the server keeps a token.

use sha2::{Digest, Sha256};

/// The SHA-256 digest of a token. All digests have the same length, and a client cannot guess a
/// token byte by byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenDigest([u8; 32]);

impl TokenDigest {
    pub(crate) fn of(token: &str) -> Self {
        TokenDigest(Sha256::digest(token.as_bytes()).into())
    }

    /// Parses a digest of 64 hexadecimal digits.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let mut digest = [0; 32];
        if text.len() != 2 * digest.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, at) in digest.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
        }
        Some(TokenDigest(digest))
    }

    /// Compares in constant time.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        let bytes = self.0.iter().zip(other.0);
        let difference = bytes.fold(0, |difference, (a, b)| difference | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}
