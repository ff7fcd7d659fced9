//! The content of a prompt.

use std::borrow::Cow;

use loopwright_core::message::{Content, UserMessage};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::DecodeError;
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

/// The place that a URI names: the path of a `file:` URL, since tools take paths, or another URI.
#[derive(Debug, PartialEq)]
struct Location<'u> {
    path: Cow<'u, str>,
    /// The lines that a fragment such as `#L10:20` names, as `10-20`.
    lines: Option<String>,
}

impl<'u> Location<'u> {
    fn of(uri: &'u str) -> Self {
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
