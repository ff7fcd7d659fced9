//! URIs of schemas, which are compared and never fetched.

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
}
