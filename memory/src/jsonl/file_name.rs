//! The name of a session's file.

use loopwright_core::hex;
use sha2::{Digest, Sha256};

/// The suffix of a session's file.
pub(super) const SUFFIX: &str = ".jsonl";

/// Maximum length of a file's name without its suffix. File systems accept 255 bytes, which must
/// also hold this suffix and the suffix for torn lines.
const MAX_NAME_BYTES: usize = 200;

/// The bytes of the mark and the digest at the end of a shortened name.
const DIGEST_BYTES: usize = 33;

/// Returns the name of a session's file.
///
/// Lower-case letters, digits, `_`, `-` and `.` stay; every other byte becomes `%` and two digits.
/// Capital letters are encoded because some file systems ignore case. A long name is cut and ends
/// with the digest of the whole name, which the file's header has.
pub(super) fn file_name(session: &str) -> String {
    let mut name = String::new();
    let mut cut = 0;
    for byte in session.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(byte.into()),
            b'.' if !name.is_empty() => name.push('.'),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
        if name.len() <= MAX_NAME_BYTES - DIGEST_BYTES {
            cut = name.len();
        }
    }
    if name.len() > MAX_NAME_BYTES {
        name.truncate(cut);
        name.push('~');
        name += &hex::encode(&Sha256::digest(session)[..16]);
    }
    name + SUFFIX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_stay_and_other_names_are_distinguished() {
        for (session, file) in [
            ("report-2_1.old", "report-2_1.old.jsonl"),
            ("Report", "%52eport.jsonl"),
            (".hidden", "%2ehidden.jsonl"),
            ("..", "%2e..jsonl"),
            ("a/b%2f", "a%2fb%252f.jsonl"),
            ("é", "%c3%a9.jsonl"),
        ] {
            assert_eq!(file_name(session), file);
        }
        let long = |last: &str| file_name(&("/".repeat(99) + last));
        assert_ne!(long("a"), long("b"));
        for session in [&*"a".repeat(200), &*"a".repeat(201), &*"é".repeat(5000)] {
            let name = file_name(session);
            assert!(
                name.len() <= MAX_NAME_BYTES + SUFFIX.len()
                    && (name.contains('~') == (session.len() > 200)),
                "{name}"
            );
        }
    }
}
