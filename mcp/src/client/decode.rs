//! Conversion of a server's messages: a listed tool to a [`ToolSpec`], a result to a
//! [`ToolOutput`]. A server is not trusted: everything is bounded and checked.

use loopwright_core::media;
use loopwright_core::message::Content;
use loopwright_core::tool::{Effect, ToolSpec};
use loopwright_core::{ToolError, ToolOutput, excerpt};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, Tool};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::config::digest;

/// The maximum length of a tool's name.
const MAX_NAME_LENGTH: usize = 64;
/// The maximum length of a description for the model.
const MAX_DESCRIPTION_BYTES: usize = 8 << 10;
/// The maximum size of the schema of a tool's arguments.
const MAX_SCHEMA_BYTES: usize = 64 << 10;
/// The maximum number of images in a result.
const MAX_IMAGES: usize = 8;
/// The maximum size of structured content for front ends.
const MAX_DETAILS_BYTES: usize = 64 << 10;
/// The maximum length of an error's text, and of a line about a resource.
const MAX_LINE_BYTES: usize = 2 << 10;

/// Returns the specification of a tool of `server` from an item of `tools/list` (MCP, *Tools*).
///
/// The name is `server__tool`, made valid and cut to 64 characters. Annotations only decide how a
/// call is repeated after a crash, unless `trusted`: then a tool that claims to change nothing runs
/// without approval.
///
/// # Errors
///
/// Fails if the item is not a tool, or if its schema is too large or does not describe an object.
///
/// ```
/// use loopwright_mcp::tool_spec;
/// use serde_json::json;
///
/// let tool = json!({ "name": "echo", "inputSchema": { "type": "object" } });
/// assert_eq!(&*tool_spec("everything", &tool, false)?.name, "everything__echo");
/// # Ok::<_, String>(())
/// ```
pub fn tool_spec(server: &str, tool: &Value, trusted: bool) -> Result<ToolSpec, String> {
    let tool = Tool::deserialize(tool).map_err(|why| format!("it is not a tool: {why}"))?;
    let mut spec = spec_of(&tool, MAX_NAME_LENGTH - (server.len() + 2).min(32), trusted)?;
    let name = format!("{server}__{}", spec.name);
    spec.name = name.chars().take(MAX_NAME_LENGTH).collect::<String>().into();
    Ok(spec)
}

/// Returns the output of a call from the result of `tools/call` (MCP, *Tools*).
///
/// Text is for the model, as are images and PDFs whose content matches their media type. Structured
/// content is for front ends, and for the model if the result has no other content.
///
/// # Errors
///
/// Fails if the value is not a result. If the result is an error, fails with its text.
pub fn tool_output(result: &Value) -> Result<ToolOutput, ToolError> {
    match CallToolResult::deserialize(result) {
        Ok(result) => output_of(result),
        Err(why) => Err(ToolError::Failed(format!("The server's result is invalid: {why}."))),
    }
}

/// Returns the specification of a tool, with a name of at most `max_name` characters.
pub(super) fn spec_of(tool: &Tool, max_name: usize, trusted: bool) -> Result<ToolSpec, String> {
    let mut schema = Value::Object((*tool.input_schema).clone());
    match &schema["type"] {
        Value::Null => schema["type"] = json!("object"),
        Value::Array(kinds) if kinds.iter().any(|kind| kind == "object") => {
            schema["type"] = json!("object");
        }
        kind if kind == "object" => {}
        _ => return Err("the schema of its arguments is not one of an object".into()),
    }
    match &schema["properties"] {
        Value::Null | Value::Object(_) => {}
        Value::Array(none) if none.is_empty() => {}
        _ => return Err("the `properties` of its arguments are not an object".into()),
    }
    if schema.to_string().len() > MAX_SCHEMA_BYTES {
        return Err(format!("the schema of its arguments has more than {MAX_SCHEMA_BYTES} bytes"));
    }
    let name = legal_name(&tool.name, max_name);
    let description = tool.description.as_deref().unwrap_or_default();
    let description = excerpt::bytes(description, MAX_DESCRIPTION_BYTES);
    let annotations = tool.annotations.clone().unwrap_or_default();
    let is_read_only = annotations.read_only_hint == Some(true);
    let effect = match (is_read_only, annotations.is_idempotent()) {
        (true, _) if trusted => Effect::ReadOnly,
        // Claims do not affect approval: only read-only tools run without it by default.
        (true, _) | (_, true) => Effect::Idempotent,
        _ => Effect::AtMostOnce,
    };
    let mut spec = ToolSpec::with_schema(name, description, schema).effect(effect);
    if let Some(title) = tool.title.as_ref().or(annotations.title.as_ref()) {
        spec = spec.title(excerpt::bytes(title, 200));
    }
    Ok(if is_read_only { spec } else { spec.sequential() })
}

/// Returns a digest of the whole definition of a tool.
pub(super) fn definition_of(tool: &Tool) -> String {
    digest(&serde_json::to_string(tool).unwrap_or_default())
}

/// Returns the output of a call, from its result.
pub(super) fn output_of(result: CallToolResult) -> Result<ToolOutput, ToolError> {
    let structured = result.structured_content;
    let details = structured.filter(|value| value.to_string().len() <= MAX_DETAILS_BYTES);
    let mut content = contents(result.content);
    if result.is_error == Some(true) {
        let why = match text_of(&content) {
            text if text.is_empty() => "The tool failed without saying why.".to_owned(),
            text => text,
        };
        return Err(match details {
            Some(details) => ToolError::FailedWith { why, details },
            None => ToolError::Failed(why),
        });
    }
    if content.is_empty() {
        let text = details.as_ref().map(Value::to_string);
        content.push(Content::text(text.unwrap_or_else(|| "The result is empty.".into())));
    }
    let mut output = ToolOutput::default();
    output.content = content;
    Ok(match details {
        Some(details) => output.details(details),
        None => output,
    })
}

fn text_of(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|item| match item {
        Content::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Converts blocks of content for a model.
pub(super) fn contents(blocks: Vec<ContentBlock>) -> Vec<Content> {
    let mut images = 0;
    blocks.into_iter().map(|block| content(block, &mut images)).collect()
}

fn content(block: ContentBlock, images: &mut usize) -> Content {
    match block {
        ContentBlock::Text(text) => Content::text(text.text),
        ContentBlock::Image(image) => file(image.mime_type, image.data, images),
        ContentBlock::Audio(audio) => {
            let bytes = audio.data.len() / 4 * 3;
            let kind = excerpt::bytes(&audio.mime_type, 100);
            Content::text(format!("[Audio of about {bytes} bytes, {kind}, which is left out.]"))
        }
        ContentBlock::Resource(resource) => resource_content(resource.resource, images),
        ContentBlock::ResourceLink(link) => {
            let about = link.description.unwrap_or_default();
            let line = format!("[Resource {}: {} {about}", link.uri, link.name);
            Content::text(format!("{}]", excerpt::bytes(line.trim_end(), MAX_LINE_BYTES)))
        }
        _ => Content::text("[Content of a kind that is not known.]"),
    }
}

/// Converts the contents of a resource for a model.
pub(super) fn resource_content(resource: ResourceContents, images: &mut usize) -> Content {
    match resource {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            Content::text(format!("[Resource {}]\n{text}", excerpt::bytes(&uri, MAX_LINE_BYTES)))
        }
        ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
            file(mime_type.unwrap_or_else(|| "application/octet-stream".into()), blob, images)
        }
        _ => Content::text("[A resource of a kind that is not known.]"),
    }
}

/// Returns an image or a PDF, or a text with the reason why it is left out. A provider would refuse
/// the whole conversation for an invalid image.
fn file(media_type: String, data: String, images: &mut usize) -> Content {
    let left_out = |why: &str| {
        Content::text(format!(
            "[A file of type {} is left out: {why}.]",
            excerpt::bytes(&media_type, 100)
        ))
    };
    match media::from_base64(&data) {
        Ok(_) if *images >= MAX_IMAGES => {
            left_out(&format!("there are more than {MAX_IMAGES} images"))
        }
        Ok(content) => {
            *images += 1;
            content
        }
        Err(why) => left_out(&why.to_string()),
    }
}

/// Returns a name that every provider accepts. A changed name ends with a digest, so that different
/// names stay different.
pub(super) fn legal_name(name: &str, max: usize) -> String {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= max && name.chars().all(is_legal) {
        return name.to_owned();
    }
    let end: String = digest(name).chars().take(8).collect();
    let legal = name.chars().map(|c| if is_legal(c) { c } else { '_' });
    let start: String = legal.take(max.saturating_sub(end.len() + 1)).collect();
    format!("{start}_{end}")
}

#[cfg(test)]
mod tests;
