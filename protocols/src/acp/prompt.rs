//! The content of a prompt.

use loopwright_core::message::{Content, UserMessage};
use serde::Deserialize;

use crate::DecodeError;
use crate::location::Location;
use crate::media::file;

/// A block of content.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum ContentBlock {
    Text { text: String },
    Image { data: String },
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

fn content(block: ContentBlock) -> Result<Content, String> {
    match block {
        ContentBlock::Text { text } => Ok(Content::text(text)),
        ContentBlock::Image { data } => file(&data),
        ContentBlock::Audio {} => Err("audio is not supported: send text".into()),
        ContentBlock::ResourceLink { name, uri } => {
            let Location { path, lines } = Location::of(&uri);
            let lines = lines.map(|lines| format!(" (lines {lines})")).unwrap_or_default();
            Ok(Content::text(format!("[{name}]({path}){lines}")))
        }
        ContentBlock::Resource { resource } => {
            let Resource { uri, text, blob } = resource;
            match (text, blob) {
                (Some(text), _) => {
                    let Location { path, lines } = Location::of(&uri);
                    let path = path.replace('"', "&quot;");
                    let lines =
                        lines.map(|lines| format!(" lines=\"{lines}\"")).unwrap_or_default();
                    let start = format!("<context uri=\"{path}\"{lines}>");
                    Ok(Content::text(format!("\n{start}\n{text}\n</context>\n")))
                }
                (None, Some(data)) => file(&data),
                (None, None) => Err("the resource has neither `text` nor `blob`".into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const GIF: &str = "R0lGODlhAQABAAAAACwAAAAAAQABAAACAQA7";

    fn read(blocks: serde_json::Value) -> Result<UserMessage, DecodeError> {
        user_message(serde_json::from_value(blocks).unwrap())
    }

    #[test]
    fn text_links_and_embedded_texts_are_one_text() {
        let message = read(json!([
            { "type": "text", "text": "Explain " },
            { "type": "resource_link", "name": "a.rs", "uri": "file:///srv/a.rs" },
            { "type": "resource", "resource": { "uri": "https://a.example/b", "text": "b" } },
            { "type": "image", "data": GIF, "mimeType": "image/gif" },
            { "type": "resource", "resource":
                { "uri": "file:///c.pdf", "blob": "JVBERi0xLjc=", "mimeType": "application/pdf" } },
        ]));
        let text = "Explain [a.rs](/srv/a.rs)\n<context uri=\"https://a.example/b\">\nb\n\
                    </context>\n";
        let expected = vec![
            Content::text(text),
            Content::image("image/gif", GIF),
            Content::image("application/pdf", "JVBERi0xLjc="),
        ];
        assert_eq!(message.unwrap().content, expected);
    }

    #[test]
    fn links_and_contexts_name_lines() {
        let text = |block| read(json!([block])).unwrap().text();
        let link = json!({ "type": "resource_link", "name": "a", "uri": "file:///a%20b#L1:2" });
        assert_eq!(text(link), "[a](/a b) (lines 1-2)");
        let embedded = json!({ "uri": "file:///a%22#L3", "text": "x" });
        let embedded = text(json!({ "type": "resource", "resource": embedded }));
        assert_eq!(embedded, "\n<context uri=\"/a&quot;\" lines=\"3\">\nx\n</context>\n");
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
            (json!([{ "type": "resource", "resource": resource }]), "/params/prompt/0", "PDF"),
            (
                json!([{ "type": "image", "data": "PHN2Zy8+", "mimeType": "image/svg+xml" }]),
                "/params/prompt/0",
                "neither a PDF nor an image",
            ),
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
