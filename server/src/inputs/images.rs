//! Images in messages of the user.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use loopwright_core::media::{self, MediaError};
use loopwright_core::message::Content;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::ApiError;

/// Maximum number of images in a message. The limit on bodies bounds their total size.
const MAX_IMAGES: usize = 10;

/// An image of a message.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ImageBody {
    media_type: ImageType,
    /// The bytes in base64, at most 5 MiB of text, and at most 8,000 by 8,000 pixels.
    #[schemars(length(min = 1), extend("contentEncoding" = "base64"))]
    data: String,
}

/// The image types that models accept.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
enum ImageType {
    #[serde(rename = "image/png")]
    Png,
    #[serde(rename = "image/jpeg")]
    Jpeg,
    #[serde(rename = "image/gif")]
    Gif,
    #[serde(rename = "image/webp")]
    Webp,
}

impl ImageType {
    fn name(self) -> &'static str {
        match self {
            ImageType::Png => "image/png",
            ImageType::Jpeg => "image/jpeg",
            ImageType::Gif => "image/gif",
            ImageType::Webp => "image/webp",
        }
    }
}

/// Checks the images of a message and returns them as its content.
pub(crate) fn contents(images: Vec<ImageBody>) -> Result<Vec<Content>, ApiError> {
    if images.len() > MAX_IMAGES {
        return Err(too_many());
    }
    images.into_iter().enumerate().map(|(index, image)| image.content(index)).collect()
}

/// Checks the number of images in a message. Each image was checked when it was read.
pub(crate) fn check_number(content: &[Content]) -> Result<(), ApiError> {
    let images = content.iter().filter(|content| matches!(content, Content::Image { .. }));
    match images.count() > MAX_IMAGES {
        true => Err(too_many()),
        false => Ok(()),
    }
}

fn too_many() -> ApiError {
    let why = format!("A message has at most {MAX_IMAGES} images: send several messages.");
    ApiError::at("/images", why)
}

impl ImageBody {
    fn content(self, index: usize) -> Result<Content, ApiError> {
        let at = |field: &str, why: &str| ApiError::at(format!("/images/{index}/{field}"), why);
        let bytes = BASE64_STANDARD.decode(&self.data).map_err(|_| {
            at("data", "This is not base64, in its standard alphabet with padding.")
        })?;
        match media::check(&bytes) {
            Ok(kind) if kind == self.media_type.name() => Ok(Content::image(kind, self.data)),
            Ok(kind) if kind.starts_with("image/") => {
                Err(at("media_type", "The image is of another type than this."))
            }
            Ok(_) | Err(MediaError::UnknownType) => {
                Err(at("data", "This is no image of the types that models take."))
            }
            Err(why) => Err(at("data", &format!("The image cannot be used: {why}."))),
        }
    }
}
