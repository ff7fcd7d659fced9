//! Rewriting of call ids for servers that restrict them. The new id depends on the old id alone, so
//! calls and results stay paired.

use std::borrow::Cow;

/// The call ids that a server accepts. Other ids are rewritten deterministically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CallIds {
    /// All ids.
    #[default]
    Any,
    /// At most 40 letters, digits, `_` and `-`, as at OpenAI.
    UpTo40,
    /// At most 64 letters, digits, `_` and `-`, as at Anthropic.
    UpTo64,
    /// Exactly nine letters and digits, as at Mistral.
    Nine,
}

impl CallIds {
    /// Returns `id`, or its replacement if the server does not accept it.
    pub fn fit(self, id: &str) -> Cow<'_, str> {
        let legal = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
        let fits = match self {
            CallIds::Any => true,
            CallIds::UpTo40 => (1..=40).contains(&id.len()) && id.bytes().all(legal),
            CallIds::UpTo64 => (1..=64).contains(&id.len()) && id.bytes().all(legal),
            CallIds::Nine => id.len() == 9 && id.bytes().all(|c| c.is_ascii_alphanumeric()),
        };
        match self {
            _ if fits => Cow::Borrowed(id),
            CallIds::Nine => Cow::Owned(letters::<9>(hash(id))),
            _ => Cow::Owned(format!("call_{}", letters::<20>(hash(id)))),
        }
    }
}

/// Hashes an id with 128-bit FNV-1a, which is stable across machines and versions: sessions are
/// stored.
fn hash(id: &str) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    id.bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

/// Returns the lowest `N` digits of `hash` in base 36.
fn letters<const N: usize>(mut hash: u128) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let digit = |_| {
        let digit = DIGITS[(hash % 36) as usize];
        hash /= 36;
        char::from(digit)
    };
    (0..N).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_fits_stays_and_another_is_always_rewritten_alike() {
        let long = "fc_1|".repeat(20);
        assert_eq!(CallIds::Any.fit(&long), long);
        for (ids, max) in [(CallIds::UpTo40, 40), (CallIds::UpTo64, 64), (CallIds::Nine, 9)] {
            let fit = ids.fit(&long).into_owned();
            assert!(
                fit.len() <= max && fit.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_'),
                "{fit}"
            );
            assert_eq!(fit, ids.fit(&long));
            assert_eq!(fit, ids.fit(&fit), "what was rewritten fits");
            assert_ne!(fit, ids.fit(&long[1..]));
        }
        assert_eq!(CallIds::UpTo40.fit("call_abc"), "call_abc");
        assert_eq!(CallIds::Nine.fit("call_abc").len(), 9);
    }
}
