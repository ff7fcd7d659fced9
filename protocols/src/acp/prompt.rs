//! The content of a prompt.

use loopwright_core::message::{Content, UserMessage};
use serde::Deserialize;

use crate::DecodeError;

/// A block of content.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum ContentBlock {
    Text { text: String },
    Image { data: String, mime_type: String },
    Audio {},
    ResourceLink { name: String, uri: String },
    Resource { resource: Resource },
}

/// The contents of an embedded resource: a text, or bytes in base64.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resource {
    uri: String,
    text: Option<String>,
    blob: Option<String>,
    mime_type: Option<String>,
}

/// Converts the blocks of a prompt to a message. Links and embedded texts become text: the model
/// sees the address, and the contents in tags.
pub(super) fn user_message(blocks: Vec<ContentBlock>) -> Result<UserMessage, DecodeError> {
    if blocks.is_empty() {
        return Err(DecodeError::at("/params/prompt", "the prompt is empty"));
    }
    let contents = blocks.into_iter().enumerate().map(|(at, block)| {
        content(block).map_err(|why| DecodeError::at(format!("/params/prompt/{at}"), why))
    });
    let mut merged: Vec<Content> = Vec::new();
    for content in contents {
        match (merged.last_mut(), content?) {
            (Some(Content::Text { text }), Content::Text { text: more }) => text.push_str(&more),
            (_, content) => merged.push(content),
        }
    }
    Ok(UserMessage::new(merged))
}

fn content(block: ContentBlock) -> Result<Content, &'static str> {
    match block {
        ContentBlock::Text { text } => Ok(Content::text(text)),
        ContentBlock::Image { data, mime_type } => Ok(Content::image(mime_type, data)),
        ContentBlock::Audio {} => Err("audio is not supported: send text"),
        ContentBlock::ResourceLink { name, uri } => {
            Ok(Content::text(format!("[{name}]({})", path_of(&uri))))
        }
        ContentBlock::Resource { resource } => {
            let Resource { uri, text, blob, mime_type } = resource;
            match (text, blob, mime_type) {
                (Some(text), _, _) => {
                    let uri = path_of(&uri);
                    Ok(Content::text(format!("\n<context uri=\"{uri}\">\n{text}\n</context>\n")))
                }
                (None, Some(data), Some(mime_type))
                    if mime_type.starts_with("image/") || mime_type == "application/pdf" =>
                {
                    Ok(Content::image(mime_type, data))
                }
                (None, Some(_), _) => Err("only images, PDFs and texts can be embedded"),
                (None, None, _) => Err("the resource has neither `text` nor `blob`"),
            }
        }
    }
}

/// Returns the path of a `file:` URL, since tools take paths. Returns other URLs unchanged.
fn path_of(uri: &str) -> &str {
    uri.strip_prefix("file://").unwrap_or(uri)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(blocks: serde_json::Value) -> Result<UserMessage, DecodeError> {
        user_message(serde_json::from_value(blocks).unwrap())
    }

    #[test]
    fn text_links_and_embedded_texts_are_one_text() {
        let message = read(json!([
            { "type": "text", "text": "Explain " },
            { "type": "resource_link", "name": "a.rs", "uri": "file:///srv/a.rs" },
            { "type": "resource", "resource": { "uri": "https://a.example/b", "text": "b" } },
            { "type": "image", "data": "aGk=", "mimeType": "image/png" },
            { "type": "resource", "resource":
                { "uri": "file:///c.pdf", "blob": "aGk=", "mimeType": "application/pdf" } },
        ]));
        let text = "Explain [a.rs](/srv/a.rs)\n<context uri=\"https://a.example/b\">\nb\n\
                    </context>\n";
        let expected = vec![
            Content::text(text),
            Content::image("image/png", "aGk="),
            Content::image("application/pdf", "aGk="),
        ];
        assert_eq!(message.unwrap().content, expected);
    }

    #[test]
    fn what_a_model_cannot_take_is_refused_where_it_is() {
        let resource = json!({ "uri": "file:///a", "blob": "aGk=", "mimeType": "audio/wav" });
        for (blocks, path, why) in [
            (json!([]), "/params/prompt", "empty"),
            (
                json!([{ "type": "text", "text": "a" }, { "type": "audio" }]),
                "/params/prompt/1",
                "audio",
            ),
            (json!([{ "type": "resource", "resource": resource }]), "/params/prompt/0", "PDFs"),
            (
                json!([{ "type": "resource", "resource": { "uri": "x" } }]),
                "/params/prompt/0",
                "neither",
            ),
        ] {
            let error = read(blocks).unwrap_err();
            assert!(error.path == path && error.message.contains(why), "{error}");
        }
    }
}
