//! The file of a session.

use sha2::{Digest, Sha256};

/// How the name of a session's file ends.
pub(super) const SUFFIX: &str = ".jsonl";

/// Bytes of a file's name before its suffix. File systems take 255, and a suffix of a side file
/// comes after.
const LONGEST: usize = 200;

/// The name of a session's file: its own, where it is plain, else with `%` and two digits for each
/// other byte. Capital letters count as others, since to some file systems they are small ones.
/// What is long is cut, and the digest of the whole tells it from others; the header has the whole.
pub(super) fn file_name(session: &str) -> String {
    let mut name = String::new();
    let mut cut = 0;
    for byte in session.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(byte.into()),
            b'.' if !name.is_empty() => name.push('.'),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
        if name.len() <= LONGEST - 33 {
            cut = name.len();
        }
    }
    if name.len() > LONGEST {
        name.truncate(cut);
        name.push('~');
        name.extend(
            Sha256::digest(session.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")),
        );
    }
    name + SUFFIX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_stay_and_others_are_told_apart() {
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
                name.len() <= LONGEST + SUFFIX.len()
                    && (name.contains('~') == (session.len() > 200)),
                "{name}"
            );
        }
    }
}
