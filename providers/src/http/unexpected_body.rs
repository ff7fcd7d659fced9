//! Bodies that are neither a reply nor an error of the API: web pages and compressed data.

use hyper::header::{CONTENT_ENCODING, HeaderMap};

/// The first bytes of gzip data.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// A body that no decoder can read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum UnexpectedBody {
    /// A web page, for example of a login or of another server.
    Page,
    /// Data in this encoding, which no request asks for.
    Compressed(String),
}

impl UnexpectedBody {
    /// Recognises the body by the response headers.
    pub(crate) fn of_headers(headers: &HeaderMap) -> Option<UnexpectedBody> {
        let encoding = headers.get(CONTENT_ENCODING)?.to_str().ok()?.trim().to_lowercase();
        let is_plain = matches!(&*encoding, "" | "identity");
        (!is_plain).then(|| UnexpectedBody::Compressed(encoding.chars().take(20).collect()))
    }

    /// Recognises the body by its first bytes, which are not blank.
    ///
    /// The content type does not decide: some servers send event streams as `text/html`.
    pub(crate) fn of_start(start: &[u8]) -> Option<UnexpectedBody> {
        match start {
            [] => None,
            [b'<', ..] => Some(UnexpectedBody::Page),
            _ if start.starts_with(&GZIP[..start.len().min(2)]) => {
                Some(UnexpectedBody::Compressed("gzip".into()))
            }
            _ => None,
        }
    }
}

/// Returns the bytes after a byte-order mark and blanks at the start of a body.
pub(crate) fn without_blanks(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_page_and_compressed_data_are_recognised_by_their_first_bytes() {
        let of_start = |body: &[u8]| UnexpectedBody::of_start(without_blanks(body));
        let gzip = Some(UnexpectedBody::Compressed("gzip".into()));
        assert_eq!(of_start(b"\xef\xbb\xbf\n <!DOCTYPE html>"), Some(UnexpectedBody::Page));
        assert_eq!(of_start(b"\x1f\x8b\x08rest"), gzip);
        assert_eq!(of_start(b"\x1f"), gzip);
        for body in ["", "data: <p>", ": <", "{", "[", "event: x", "(", "id"] {
            assert_eq!(of_start(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn a_header_names_the_encoding() {
        let of = |value: &'static str| {
            let headers = [(CONTENT_ENCODING, HeaderValue::from_static(value))];
            UnexpectedBody::of_headers(&HeaderMap::from_iter(headers))
        };
        assert_eq!(of("br"), Some(UnexpectedBody::Compressed("br".into())));
        assert_eq!(
            [of("identity"), of(""), UnexpectedBody::of_headers(&HeaderMap::new())],
            [None, None, None]
        );
    }
}
