//! [`media`]: images and PDFs in messages of the user.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use loopwright_core::message::Content;

/// The maximum size of an image or a PDF.
const MAX_BYTES: usize = 5 * 1024 * 1024;

/// Returns the content of a `data:` URL, which must contain an image or a PDF in base64.
///
/// ```
/// use loopwright_protocols::data_url;
///
/// assert!(data_url("data:image/gif;base64,R0lGODlhAQABAAAAACw=").is_ok());
/// assert!(data_url("https://example.com/cat.png").is_err());
/// ```
///
/// # Errors
/// Returns a sentence about what is wrong. Other URLs are refused, because the server opens no URL
/// that a client names.
pub fn data_url(url: &str) -> Result<Content, &'static str> {
    let Some(rest) = url.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:")) else {
        return Err("Only `data:` URLs are read: send the file itself, in base64.");
    };
    match url[rest.len()..].split_once(',').map(|(kind, data)| (kind.rsplit_once(';'), data)) {
        Some((Some((media_type, "base64")), data)) => media(media_type, data),
        _ => Err("Write the URL as `data:`, the media type, `;base64,` and the bytes."),
    }
}

/// Returns an image or a PDF as content, from its media type and its bytes in base64.
///
/// # Errors
/// Returns a sentence about what is wrong: an unsupported type, bytes of another type, invalid
/// base64 or too much data.
pub fn media(media_type: &str, data: &str) -> Result<Content, &'static str> {
    let too_large = "The file is larger than 5 MiB: make it smaller.";
    if data.len() / 4 * 3 > MAX_BYTES + 3 {
        return Err(too_large);
    }
    let bytes = BASE64_STANDARD
        .decode(data)
        .map_err(|_| "The file is not base64, in its standard alphabet with padding.")?;
    match media_type_of(&bytes) {
        _ if bytes.len() > MAX_BYTES => Err(too_large),
        Some(kind) if kind == media_type => Ok(Content::image(media_type, data)),
        Some(_) => Err("The file is of another type than its media type says."),
        None => Err("The file is neither a PDF nor an image of the types PNG, JPEG, GIF, WebP."),
    }
}

/// Returns the media type of an image or a PDF, by its first bytes.
pub fn media_type_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'%', b'P', b'D', b'F', b'-', ..] => Some("application/pdf"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_url_must_contain_what_it_says() {
        let gif = BASE64_STANDARD.encode(b"GIF89a;");
        let content = data_url(&format!("data:image/gif;base64,{gif}")).unwrap();
        assert_eq!(content, Content::image("image/gif", &*gif));
        let pdf = BASE64_STANDARD.encode(b"%PDF-1.7");
        assert!(data_url(&format!("DATA:application/pdf;base64,{pdf}")).is_ok());
        let large = BASE64_STANDARD.encode([b"GIF89a".as_slice(), &vec![0; MAX_BYTES]].concat());
        for (url, why) in [
            (format!("data:image/png;base64,{gif}"), "another type"),
            (format!("data:image/gif,{gif}"), "Write the URL"),
            ("data:image/gif;base64,?".into(), "not base64"),
            ("data:image/gif;base64,".into(), "neither"),
            ("file:///etc/passwd".into(), "Only `data:` URLs"),
            ("ü".into(), "Only `data:` URLs"),
            (format!("data:image/gif;base64,{large}"), "larger than 5 MiB"),
        ] {
            assert!(data_url(&url).unwrap_err().contains(why), "{why}");
        }
    }
}
