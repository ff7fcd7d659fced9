//! Kinds of attachments, by media type: APIs have different fields for documents and images.

/// The file name of every document, which some APIs require.
pub(crate) const PDF_NAME: &str = "document.pdf";

/// The types of images that servers take.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The data of a [`Content::Image`](loopwright_core::message::Content::Image).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Attachment {
    /// An image of this type, which servers take.
    Image(&'static str),
    Pdf,
    /// Any other file, for which most formats have no field.
    Other,
}

impl Attachment {
    /// Returns the kind of attachment with this media type.
    pub(crate) fn of(media_type: &str) -> Attachment {
        let usual = usual(media_type);
        match IMAGES.into_iter().find(|image| *image == usual) {
            Some(image) => Attachment::Image(image),
            None if usual == "application/pdf" => Attachment::Pdf,
            None => Attachment::Other,
        }
    }
}

/// Returns the usual spelling of a media type, without its parameters.
pub(crate) fn usual(media_type: &str) -> String {
    let name = media_type.split(';').next().unwrap_or_default();
    match name.trim().to_ascii_lowercase().as_str() {
        "image/jpg" => "image/jpeg".into(),
        usual => usual.into(),
    }
}

/// Returns the text that replaces an attachment which cannot be sent, for the model to read.
pub(crate) fn instead_of(media_type: &str) -> String {
    format!("[An attachment of the type {media_type} is missing here: it cannot be sent.]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_tells_what_an_attachment_is() {
        for (media_type, attachment) in [
            ("image/png", Attachment::Image("image/png")),
            (" Image/JPG ;q=1", Attachment::Image("image/jpeg")),
            ("Image/SVG+xml", Attachment::Other),
            ("application/pdf", Attachment::Pdf),
            ("Application/PDF; version=2", Attachment::Pdf),
            ("text/plain", Attachment::Other),
            ("", Attachment::Other),
        ] {
            assert_eq!(Attachment::of(media_type), attachment, "{media_type}");
        }
    }
}
