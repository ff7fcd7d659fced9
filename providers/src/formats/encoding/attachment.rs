//! Kinds of attachments, by media type: APIs have different fields for documents and images.

/// The file name of every document, which some APIs require.
pub(crate) const PDF_NAME: &str = "document.pdf";

/// The data of a [`Content::Image`](loopwright_core::message::Content::Image).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Attachment {
    Image,
    Pdf,
    /// Any other file, for which no format has a field.
    Other,
}

impl Attachment {
    /// Returns the kind of attachment with this media type.
    pub(crate) fn of(media_type: &str) -> Attachment {
        let media_type = media_type.trim().to_ascii_lowercase();
        match media_type.split(';').next() {
            Some("application/pdf") => Attachment::Pdf,
            Some(known) if known.starts_with("image/") => Attachment::Image,
            _ => Attachment::Other,
        }
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
            ("image/png", Attachment::Image),
            ("Image/SVG+xml", Attachment::Image),
            ("application/pdf", Attachment::Pdf),
            ("Application/PDF; version=2", Attachment::Pdf),
            ("text/plain", Attachment::Other),
            ("", Attachment::Other),
        ] {
            assert_eq!(Attachment::of(media_type), attachment, "{media_type}");
        }
    }
}
