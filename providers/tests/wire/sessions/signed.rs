//! Data of a recorded reply that must be sent back byte for byte, in the form that it has in a
//! request's JSON.

use serde_json::Value;
use serde_json::value::RawValue;

/// Returns all signed data, in order.
pub(super) fn signed(format: &str, reply: &str) -> Vec<String> {
    let payloads = reply.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    match format {
        "openai-responses" => payloads.filter_map(reasoning_item).collect(),
        _ => {
            let mut signatures = Vec::new();
            let payloads =
                payloads.filter_map(|payload| serde_json::from_str::<Value>(payload).ok());
            payloads.for_each(|payload| collect(&payload, &mut signatures));
            signatures.iter().map(|signature| Value::from(signature.as_str()).to_string()).collect()
        }
    }
}

/// Collects signatures and encrypted data at any depth.
fn collect(value: &Value, signatures: &mut Vec<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|item| collect(item, signatures)),
        Value::Object(fields) => {
            for (key, value) in fields {
                let seals = matches!(
                    key.as_str(),
                    "signature" | "thoughtSignature" | "data" | "encrypted_content"
                );
                match value {
                    Value::String(text) if seals && !text.is_empty() => {
                        signatures.push(text.clone())
                    }
                    value => collect(value, signatures),
                }
            }
        }
        _ => {}
    }
}

/// Returns a complete reasoning item, if it contains more than a summary.
fn reasoning_item(payload: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Event<'a> {
        #[serde(rename = "type")]
        kind: String,
        #[serde(borrow, default)]
        item: Option<&'a RawValue>,
    }
    let event: Event<'_> = serde_json::from_str(payload).ok()?;
    let raw = event.item.filter(|_| event.kind == "response.output_item.done")?.get();
    let item: Value = serde_json::from_str(raw).ok()?;
    let whole = item["encrypted_content"].is_string() || item["content"].is_array();
    (item["type"] == "reasoning" && whole).then(|| raw.to_owned())
}
