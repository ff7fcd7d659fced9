//! URIs of schemas, which are compared and never fetched.

use std::borrow::Cow;

/// Resolves a reference relative to a base, as RFC 3986, section 5.2 has it. The base may be
/// relative itself.
pub(super) fn resolve(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.into();
    }
    if scheme(reference).is_some() {
        return reference.into();
    }
    let scheme = scheme(base).unwrap_or_default();
    if reference.starts_with("//") {
        return format!("{scheme}{reference}");
    }
    let rest = &base[scheme.len()..];
    let authority = match rest.strip_prefix("//") {
        Some(after) => 2 + after.find('/').unwrap_or(after.len()),
        None => 0,
    };
    let (authority, path) = rest.split_at(authority);
    if reference.starts_with('/') {
        return format!("{scheme}{authority}{}", without_dots(reference));
    }
    let folder = path.rfind('/').map_or("", |at| &path[..=at]);
    let folder = if folder.is_empty() && !authority.is_empty() { "/" } else { folder };
    format!("{scheme}{authority}{}", without_dots(&format!("{folder}{reference}")))
}

/// Returns the scheme of a URI with its colon.
fn scheme(uri: &str) -> Option<&str> {
    let end = uri.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c))?;
    let begins = uri.starts_with(|c: char| c.is_ascii_alphabetic());
    (begins && uri[end..].starts_with(':')).then(|| &uri[..=end])
}

fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let last = path.rsplit('/').next().unwrap_or_default();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." if parts.len() > 1 => {
                parts.pop();
            }
            ".." => {}
            _ => parts.push(part),
        }
    }
    let end = if matches!(last, "." | "..") { "/" } else { "" };
    parts.join("/") + end
}

/// Decodes `%` and two digits to a byte. What is not UTF-8 then is replaced.
pub(super) fn percent_decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return text.into();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let hex = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match hex.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_relative_to_their_base() {
        let base = "http://a/b/c/d";
        for (reference, expected) in [
            ("", base),
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../../../g", "http://a/g"),
            ("urn:x", "urn:x"),
        ] {
            assert_eq!(resolve(base, reference), expected, "{reference}");
        }
        assert_eq!(resolve("", "T0"), "T0");
        assert_eq!(resolve("T0", "T1"), "T1");
        assert_eq!(resolve("http://a", "b"), "http://a/b");
    }

    #[test]
    fn percent_signs_that_mean_nothing_are_kept() {
        assert_eq!(percent_decoded("a%20b%zz%"), "a b%zz%");
        assert_eq!(percent_decoded("%C3%A9"), "é");
    }
}
