//! [`Expected`]: the results of requests. What a server gets wrong in a part loses only that part.

use loopwright_core::excerpt;
use rmcp::model::{
    ClientRequest, ContentBlock, ListPromptsResult, ListResourcesResult, ListToolsResult,
    MetaObject, Prompt, PromptMessage, ReadResourceResult, Resource, ResourceContents, Tool,
};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The name in `_meta` of the items of a list that cannot be read.
const LEFT_OUT: &str = "loopwright/left_out";
/// The maximum length of the name of such an item, or of its reason.
const MAX_NAME_BYTES: usize = 200;
/// The maximum number of such items that are named.
const MAX_LEFT_OUT: usize = 100;
/// The maximum number of optional members that are tried in a value that cannot be read whole.
const MAX_MEMBERS: usize = 16;

/// The kind of result that a request awaits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Call,
    Tools,
    Resources,
    Contents,
    Prompts,
    Messages,
    /// A result that is not repaired.
    Other,
}

impl Expected {
    pub(super) fn of(request: &ClientRequest) -> Self {
        match request {
            ClientRequest::CallToolRequest(_) => Expected::Call,
            ClientRequest::ListToolsRequest(_) => Expected::Tools,
            ClientRequest::ListResourcesRequest(_) => Expected::Resources,
            ClientRequest::ReadResourceRequest(_) => Expected::Contents,
            ClientRequest::ListPromptsRequest(_) => Expected::Prompts,
            ClientRequest::GetPromptRequest(_) => Expected::Messages,
            _ => Expected::Other,
        }
    }

    /// Returns the result without what cannot be read in it.
    pub(super) fn repair(self, result: Value) -> Value {
        match self {
            Expected::Call => call_result(result),
            Expected::Tools => {
                list::<ListToolsResult, Tool>(result, "tools", &["name", "inputSchema"])
            }
            Expected::Resources => {
                list::<ListResourcesResult, Resource>(result, "resources", &["uri", "name"])
            }
            Expected::Contents => list::<ReadResourceResult, ResourceContents>(
                result,
                "contents",
                &["uri", "text", "blob"],
            ),
            Expected::Prompts => list::<ListPromptsResult, Prompt>(result, "prompts", &["name"]),
            Expected::Messages => {
                list::<Value, PromptMessage>(result, "messages", &["role", "content"])
            }
            Expected::Other => result,
        }
    }
}

/// Returns the result of a call with only the members of one. The others would let the SDK take it
/// for another result.
fn call_result(result: Value) -> Value {
    let mut members = match result {
        Value::Object(members) => members,
        Value::String(text) => return json!({ "content": [text_block(&text)] }),
        other => return other,
    };
    let kind = members.get("resultType").and_then(Value::as_str);
    let is_complete = kind.is_none_or(|kind| kind == "complete");
    let known = ["content", "structuredContent", "isError"];
    if !is_complete || !known.iter().any(|name| members.contains_key(*name)) {
        return Value::Object(members);
    }
    let blocks = match members.remove("content") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items.into_iter().map(block).collect(),
        Some(item) => vec![block(item)],
    };
    let mut result = Map::new();
    result.insert("content".into(), Value::Array(blocks));
    let structured = members.remove("structuredContent");
    result.extend(structured.map(|value| ("structuredContent".into(), value)));
    if let Some(is_error) = members.get("isError") {
        let is_error = is_error.as_bool().unwrap_or(*is_error == "true" || *is_error == 1);
        result.insert("isError".into(), is_error.into());
    }
    let meta = members.remove("_meta").filter(Value::is_object);
    result.extend(meta.map(|value| ("_meta".into(), value)));
    Value::Object(result)
}

/// Returns a block of content, or a text with what can be read of it.
fn block(item: Value) -> Value {
    if let Value::String(text) = &item {
        return text_block(text);
    }
    let nested = item["resource"]["text"].as_str().map(text_block);
    let kind = excerpt::bytes(item["type"].as_str().unwrap_or("unknown"), MAX_NAME_BYTES);
    let note = format!("[Content of type {kind}, which cannot be read, is left out.]");
    let essential = ["type", "text", "data", "mimeType", "resource", "uri", "name"];
    usable::<ContentBlock>(item, &essential).unwrap_or_else(|_| nested.unwrap_or(text_block(&note)))
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Returns a list without the items that cannot be read. They are named in `_meta`.
fn list<T: DeserializeOwned, I: DeserializeOwned>(
    mut result: Value,
    member: &str,
    essential: &[&str],
) -> Value {
    let Some(Value::Array(items)) = result.get_mut(member) else { return result };
    let items = std::mem::take(items);
    // Without the items, which can be many.
    let mut result = usable::<T>(result.clone(), &[member]).unwrap_or(result);
    if let Some(meta) = result.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.remove(LEFT_OUT); // this name is not the server's
    }
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for (at, item) in items.into_iter().enumerate() {
        let name = item["name"].as_str().or(item["uri"].as_str());
        let name = name.map_or_else(|| format!("number {}", at + 1), |name| format!("`{name}`"));
        match usable::<I>(item, essential) {
            Ok(item) => kept.push(item),
            Err(why) => left_out.push(named(&name, &why)),
        }
    }
    result[member] = Value::Array(kept);
    if !left_out.is_empty() {
        bound(&mut left_out);
        result["_meta"] = json!({ LEFT_OUT: left_out });
    }
    result
}

/// Returns the line about an item that is left out.
pub(super) fn named(name: &str, why: &str) -> String {
    let cut = |text: &str| excerpt::bytes(text, MAX_NAME_BYTES);
    format!("{}: {}", cut(name), cut(why))
}

/// Cuts a list of such lines.
pub(super) fn bound(left_out: &mut Vec<String>) {
    let more = left_out.len().saturating_sub(MAX_LEFT_OUT);
    if more > 0 {
        left_out.truncate(MAX_LEFT_OUT);
        left_out.push(format!("{more} more"));
    }
}

/// Returns the items that were left out of a list: the name of each, and the reason.
pub(super) fn left_out(meta: Option<MetaObject>) -> Vec<String> {
    let names = meta.and_then(|mut meta| meta.0.remove(LEFT_OUT));
    names.and_then(|names| Vec::deserialize(names).ok()).unwrap_or_default()
}

/// Returns the value without the members that cannot be read. The error says why it cannot be read
/// even with the essential members alone.
fn usable<T: DeserializeOwned>(value: Value, essential: &[&str]) -> Result<Value, String> {
    let Err(why) = T::deserialize(&value) else { return Ok(value) };
    let Value::Object(members) = value else { return Err(why.to_string()) };
    let (mut usable, others): (Map<_, _>, Map<_, _>) =
        members.into_iter().partition(|(name, _)| essential.contains(&name.as_str()));
    T::deserialize(&usable).map_err(|why| why.to_string())?;
    // The others are tried with little, since the essential members can be large.
    let mut tried = usable.clone();
    for (name, value) in &mut tried {
        match value {
            Value::String(text) if text.len() > MAX_NAME_BYTES => text.clear(),
            Value::Object(members) if name == "inputSchema" => members.clear(),
            _ => {}
        }
    }
    for (name, member) in others.into_iter().take(MAX_MEMBERS) {
        tried.insert(name.clone(), member);
        let is_readable = T::deserialize(&tried).is_ok();
        usable.extend(tried.remove_entry(&name).filter(|_| is_readable));
    }
    Ok(Value::Object(usable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_that_cannot_be_read_is_left_out_of_its_list() {
        let message = json!({ "role": "user", "content": { "type": "text", "text": "b" } });
        for (expected, list, kept) in [
            (
                Expected::Resources,
                json!({ "resources": [{ "uri": "a" }, { "uri": "b", "name": "b", "size": "x" }] }),
                json!([{ "uri": "b", "name": "b" }]),
            ),
            (
                Expected::Contents,
                json!({ "contents": [{ "text": "a" }, { "uri": "b", "blob": "", "mimeType": 7 }] }),
                json!([{ "uri": "b", "blob": "" }]),
            ),
            (
                Expected::Prompts,
                json!({ "prompts": [{}, { "name": "b", "arguments": 7 }] }),
                json!([{ "name": "b" }]),
            ),
            (Expected::Messages, json!({ "messages": [7, message] }), json!([message])),
        ] {
            let mut repaired = expected.repair(list);
            assert_eq!(repaired["_meta"][LEFT_OUT].as_array().map(Vec::len), Some(1), "{repaired}");
            let lists = repaired.as_object_mut().unwrap();
            lists.remove("_meta");
            assert_eq!(lists.values().collect::<Vec<_>>(), [&kept]);
        }
    }

    #[test]
    fn what_is_valid_is_kept() {
        let tools = json!({
            "tools": [{ "name": "a", "inputSchema": { "type": "object" }, "other": 1 }],
            "nextCursor": "n",
            "_meta": { "a": 1 },
            "other": 2,
        });
        assert_eq!(Expected::Tools.repair(tools.clone()), tools);
        let cursor = json!({ "tools": [], "nextCursor": 7, "ttlMs": 5 });
        assert_eq!(Expected::Tools.repair(cursor), json!({ "tools": [], "ttlMs": 5 }));
        for kept in [
            json!({ "content": [], "structuredContent": null, "isError": false, "_meta": {} }),
            json!({ "resultType": "input_required", "inputRequests": {} }),
            json!({ "tools": 7 }),
            json!(7),
        ] {
            assert_eq!(Expected::Call.repair(kept.clone()), kept);
            assert_eq!(Expected::Tools.repair(kept.clone()), kept);
        }
    }
}
