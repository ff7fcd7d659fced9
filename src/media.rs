//! Images and PDFs for models: their types, limits and structure, by their bytes.
//!
//! Providers refuse a whole conversation for one file that they cannot read, so tools and servers
//! check files before those get into a session.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;

use crate::message::Content;

/// The maximum size of an image, in bytes: 5 MiB in base64, which is Anthropic's limit.
pub const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024 / 4 * 3;
/// The maximum size of a PDF, in bytes.
pub const MAX_PDF_BYTES: usize = 5 * 1024 * 1024;
/// The maximum width and height of an image, in pixels, which is Anthropic's limit.
pub const MAX_PIXELS: usize = 8_000;

/// Base64 with or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The reason why a model is not sent a file. It is a sentence about "it", the file, without a full
/// stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The text is not base64 in its standard alphabet.
    #[error("it is not base64, in its standard alphabet")]
    NotBase64,
    /// The bytes are neither an image of a known type nor a PDF.
    #[error("it is neither a PDF nor an image of the types PNG, JPEG, GIF, WebP")]
    UnknownType,
    /// The file has more bytes than are allowed.
    #[error("it is larger than {max} bytes: make it smaller")]
    TooLarge {
        /// [`MAX_IMAGE_BYTES`] or [`MAX_PDF_BYTES`].
        max: usize,
    },
    /// The image is wider or higher than [`MAX_PIXELS`].
    #[error(
        "it has {width} by {height} pixels, and models take {MAX_PIXELS} by {MAX_PIXELS}: make it \
         smaller"
    )]
    TooManyPixels {
        /// The width in pixels.
        width: usize,
        /// The height in pixels.
        height: usize,
    },
    /// The image has no dimensions or no end.
    #[error("it is damaged or incomplete")]
    Damaged,
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

/// Returns the media type of an image or a PDF that models take.
///
/// # Errors
///
/// Fails if the file is of another type or too large, or if an image is not whole.
pub fn check(bytes: &[u8]) -> Result<&'static str, MediaError> {
    let media_type = media_type_of(bytes).ok_or(MediaError::UnknownType)?;
    let is_pdf = media_type == "application/pdf";
    let max = if is_pdf { MAX_PDF_BYTES } else { MAX_IMAGE_BYTES };
    if bytes.len() > max {
        return Err(MediaError::TooLarge { max });
    }
    if is_pdf {
        return Ok(media_type);
    }
    let size = imagesize::blob_size(bytes).map_err(|_| MediaError::Damaged)?;
    let (width, height) = (size.width, size.height);
    if width.max(height) > MAX_PIXELS {
        return Err(MediaError::TooManyPixels { width, height });
    }
    let is_whole = match media_type {
        "image/png" => has_all_chunks(bytes),
        "image/jpeg" => has_end_of_scan(bytes),
        "image/gif" => bytes.iter().rfind(|byte| **byte != 0) == Some(&b';'),
        _ => has_all_of_riff(bytes),
    };
    if is_whole && width.min(height) > 0 { Ok(media_type) } else { Err(MediaError::Damaged) }
}

/// Returns whether the chunks of a PNG go to its end.
fn has_all_chunks(png: &[u8]) -> bool {
    let mut rest = png.get(8..).unwrap_or_default();
    while let [a, b, c, d, kind @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        // The type, the contents and a checksum.
        let Some(next) = length.checked_add(8).and_then(|length| kind.get(length..)) else {
            return false;
        };
        if kind.starts_with(b"IEND") {
            return true;
        }
        rest = next;
    }
    false
}

/// Returns whether a JPEG has an end after its segments. A preview in one of them has an end, too.
fn has_end_of_scan(jpeg: &[u8]) -> bool {
    let mut rest = jpeg.get(2..).unwrap_or_default();
    while let [0xff, kind, a, b, ..] = rest {
        let length = match kind {
            0xff => 1, // fills a gap
            _ => 2 + usize::from(u16::from_be_bytes([*a, *b])),
        };
        rest = rest.get(length..).unwrap_or_default();
        if *kind == 0xda {
            return rest.windows(2).any(|marker| marker == [0xff, 0xd9]);
        }
    }
    false
}

fn has_all_of_riff(webp: &[u8]) -> bool {
    let length = webp.get(4..8).and_then(|length| length.try_into().ok()).map(u32::from_le_bytes);
    length.is_some_and(|length| webp.len() - 8 >= length as usize)
}

/// Returns an image or a PDF as content, from its bytes in base64, with or without padding, line
/// ends or `data:…;base64,` before it. Its bytes decide about its media type.
///
/// # Errors
///
/// Fails if the text is not base64, or if [`check`] fails.
pub fn from_base64(data: &str) -> Result<Content, MediaError> {
    let inner = match data.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:")) {
        Some(_) => data.split_once(";base64,").map_or(data, |(_, inner)| inner),
        None => data,
    };
    let blanks = inner.bytes().filter(u8::is_ascii_whitespace).count();
    if (inner.len() - blanks) / 4 * 3 > MAX_PDF_BYTES + 3 {
        return Err(MediaError::TooLarge { max: MAX_PDF_BYTES });
    }
    let bytes = if blanks == 0 {
        LENIENT.decode(inner)
    } else {
        let text: Vec<u8> = inner.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        LENIENT.decode(text)
    };
    let bytes = bytes.map_err(|_| MediaError::NotBase64)?;
    Ok(Content::image(check(&bytes)?, BASE64_STANDARD.encode(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9\
                       awAAAABJRU5ErkJggg==";
    const GIF: &str = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";

    fn bytes(data: &str) -> Vec<u8> {
        BASE64_STANDARD.decode(data).unwrap()
    }

    fn jpeg(width: u16, height: u16) -> Vec<u8> {
        let [height, width] = [height.to_be_bytes(), width.to_be_bytes()];
        let frame = [&[0xff, 0xd8, 0xff, 0xc0, 0, 11, 8], &height[..], &width, &[1, 1, 0x11, 0]];
        [&frame.concat()[..], &[0xff, 0xda, 0, 2, 7, 0xff, 0xd9]].concat()
    }

    fn webp() -> Vec<u8> {
        let image =
            [b"VP8 ", &[10, 0, 0, 0][..], &[0x30, 1, 0, 0x9d, 1, 0x2a, 1, 0, 1, 0]].concat();
        [b"RIFF", &(image.len() as u32 + 4).to_le_bytes()[..], b"WEBP", &image].concat()
    }

    /// C455: An image for a model is whole, of a known type, and not too large.
    #[test]
    fn the_bytes_decide_what_a_file_is() {
        for (file, media_type) in [
            (bytes(PNG), "image/png"),
            (bytes(GIF), "image/gif"),
            ([&*bytes(GIF), &[0, 0]].concat(), "image/gif"),
            (jpeg(8_000, 1), "image/jpeg"),
            (webp(), "image/webp"),
            (b"%PDF-1.7".to_vec(), "application/pdf"),
        ] {
            assert_eq!(check(&file), Ok(media_type));
            if media_type != "application/pdf" {
                let half = &file[..file.len() / 2];
                assert_eq!(check(half), Err(MediaError::Damaged), "{media_type}");
                let start = check(&file[..12]);
                assert_eq!(start, Err(MediaError::Damaged), "{media_type}");
            }
        }
        assert_eq!(check(b"<svg/>"), Err(MediaError::UnknownType));
        assert_eq!(check(b""), Err(MediaError::UnknownType));
    }

    #[test]
    fn the_limits_are_those_of_providers() {
        let wide = MediaError::TooManyPixels { width: 9_000, height: 10 };
        assert_eq!(check(&jpeg(9_000, 10)), Err(wide));
        assert_eq!(check(&jpeg(0, 10)), Err(MediaError::Damaged));
        let padded = |file: Vec<u8>, bytes: usize| [file, vec![0; bytes]].concat();
        assert_eq!(check(&padded(bytes(GIF), MAX_IMAGE_BYTES - 50)), Ok("image/gif"));
        let large = Err(MediaError::TooLarge { max: MAX_IMAGE_BYTES });
        assert_eq!(check(&padded(bytes(GIF), MAX_IMAGE_BYTES)), large);
        let pdf = padded(b"%PDF-1.7".to_vec(), MAX_PDF_BYTES);
        let large = Err(MediaError::TooLarge { max: MAX_PDF_BYTES });
        assert_eq!(check(&pdf), large);
        assert_eq!(from_base64(&BASE64_STANDARD.encode(&pdf)).map(drop), large.map(drop));
    }

    #[test]
    fn base64_may_be_written_in_other_ways() {
        let content = Content::image("image/png", PNG);
        for data in [
            PNG.to_owned(),
            PNG.trim_end_matches('=').to_owned(),
            PNG.replace("AAAA", "AA\r\nAA"),
            format!("data:image/jpg;base64,{PNG}"),
            format!("DATA:;base64,{PNG}\n"),
        ] {
            assert_eq!(from_base64(&data), Ok(content.clone()));
        }
        for wrong in ["?", "data:image/png,x", "ü"] {
            assert_eq!(from_base64(wrong), Err(MediaError::NotBase64));
        }
        assert_eq!(from_base64(""), Err(MediaError::UnknownType));
    }
}
