//! [`Location`]: the path and the lines that a URI names.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The place that a URI names: the path of a `file:` URL, since tools take paths, or another URI.
#[derive(Debug, PartialEq)]
pub(crate) struct Location<'u> {
    pub(crate) path: Cow<'u, str>,
    /// The lines that a fragment such as `#L10:20` names, as `10-20`.
    pub(crate) lines: Option<String>,
}

impl<'u> Location<'u> {
    /// Reads a URI.
    pub(crate) fn of(uri: &'u str) -> Self {
        let other = Location { path: uri.into(), lines: None };
        let (scheme, rest) = uri.split_once("://").unwrap_or_default();
        let path = rest.strip_prefix("localhost").unwrap_or(rest);
        if !scheme.eq_ignore_ascii_case("file") || !path.starts_with('/') {
            return other;
        }
        let fragment = path.rsplit_once('#');
        let (path, lines) = match fragment.and_then(|(path, lines)| Some((path, lines_of(lines)?)))
        {
            Some((path, lines)) => (path, Some(lines)),
            None => (path, None), // a client has not encoded a `#`
        };
        let has_drive = path.as_bytes().get(1).is_some_and(u8::is_ascii_alphabetic)
            && path.get(2..).is_some_and(|rest| rest.starts_with(':') || rest.starts_with("%3A"));
        let path = if has_drive { &path[1..] } else { path };
        match percent_decode_str(path).decode_utf8() {
            Ok(path) if !path.contains(char::is_control) => Location { path, lines },
            _ => other,
        }
    }
}

/// Reads a fragment that names lines: `L10`, `L10:20`, `L10-20` or `L10-L20`.
fn lines_of(fragment: &str) -> Option<String> {
    let fragment = fragment.strip_prefix('L')?;
    let (first, last) = fragment.split_once([':', '-']).unwrap_or((fragment, fragment));
    let first: u32 = first.parse().ok()?;
    let last: u32 = last.strip_prefix('L').unwrap_or(last).parse().ok()?;
    Some(if first == last { first.to_string() } else { format!("{first}-{last}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C453: A model reads the paths of files as tools take them.
    #[test]
    fn file_urls_are_paths() {
        for (uri, path, lines) in [
            ("file:///srv/my%20file%20%C3%BC.txt", "/srv/my file ü.txt", None),
            ("FILE://localhost/a", "/a", None),
            ("file:///C:/Users/a/x.txt", "C:/Users/a/x.txt", None),
            ("file:///c%3A/x.txt", "c:/x.txt", None),
            ("file:///a.rs#L10:20", "/a.rs", Some("10-20")),
            ("file:///a.rs#L10-L20", "/a.rs", Some("10-20")),
            ("file:///a.rs#L7", "/a.rs", Some("7")),
            ("file:///a#b.rs", "/a#b.rs", None),
            ("file:///a%23L7", "/a#L7", None),
            ("file:///100%.txt", "/100%.txt", None),
            ("file:///a%0Ab", "file:///a%0Ab", None),
            ("file:///a%FF", "file:///a%FF", None),
            ("file:///", "/", None),
            ("file://", "file://", None),
            ("file://server/share/a", "file://server/share/a", None),
            ("https://a.example/b%20c#L1", "https://a.example/b%20c#L1", None),
            ("/a%20b", "/a%20b", None),
        ] {
            let expected = Location { path: path.into(), lines: lines.map(String::from) };
            assert_eq!(Location::of(uri), expected);
        }
    }
}
