//! Images and PDFs in messages of the user.

use loopwright_core::media;
use loopwright_core::message::Content;

/// Returns the content of a `data:` URL, which must contain an image or a PDF in base64.
///
/// ```
/// use loopwright_protocols::data_url;
///
/// assert!(data_url("data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACAQA7").is_ok());
/// assert!(data_url("https://example.com/cat.png").is_err());
/// ```
///
/// # Errors
/// Returns a sentence about what is wrong. Other URLs are refused, because the server opens no URL
/// that a client names.
pub fn data_url(url: &str) -> Result<Content, String> {
    let Some(rest) = url.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:")) else {
        return Err("Only `data:` URLs are read: send the file itself, in base64.".into());
    };
    match url[rest.len()..].split_once(";base64,") {
        Some((_, data)) => file(data),
        None => Err("Write the URL as `data:`, the media type, `;base64,` and the bytes.".into()),
    }
}

/// Returns an image or a PDF as content, from its bytes in base64. They decide about its media
/// type.
///
/// # Errors
/// Returns a sentence about what is wrong, as of [`media::MediaError`].
pub fn file(data: &str) -> Result<Content, String> {
    media::from_base64(data).map_err(|why| format!("The file cannot be used: {why}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIF: &str = "R0lGODlhAQABAAAAACwAAAAAAQABAAACAQA7";

    #[test]
    fn a_data_url_must_contain_a_file() {
        let content = data_url(&format!("data:image/gif;base64,{GIF}")).unwrap();
        assert_eq!(content, Content::image("image/gif", GIF));
        assert_eq!(data_url(&format!("DATA:image/jpg;name=a;base64,{GIF}")), Ok(content));
        assert!(data_url("data:application/pdf;base64,JVBERi0xLjc=").is_ok());
        for (url, why) in [
            (format!("data:image/gif,{GIF}"), "Write the URL"),
            ("data:image/gif;base64,?".into(), "not base64"),
            ("data:image/gif;base64,".into(), "neither"),
            ("data:image/gif;base64,R0lGODlh".into(), "damaged"),
            ("file:///etc/passwd".into(), "Only `data:` URLs"),
            ("ü".into(), "Only `data:` URLs"),
        ] {
            assert!(data_url(&url).unwrap_err().contains(why), "{why}");
        }
    }
}
