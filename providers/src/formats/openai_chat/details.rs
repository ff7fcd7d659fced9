//! `reasoning_details`: signed or encrypted reasoning in OpenRouter's form, as received and sent
//! back.

use std::sync::Arc;

use serde_json::{Map, Value};

/// Prefix of a signature that consists of the list of details as JSON.
const MARK: &str = "reasoning_details:";

/// The details so far, with fragments joined.
#[derive(Debug, Default)]
pub(super) struct Details(Vec<Map<String, Value>>);

impl Details {
    /// Adds the details of one chunk. Their text does not become thinking, because the same servers
    /// also send `reasoning`.
    pub(super) fn add(&mut self, raw: &str) {
        for detail in serde_json::from_str::<Vec<Map<String, Value>>>(raw).unwrap_or_default() {
            match self.0.last_mut() {
                Some(last) if continues(last, &detail) => join(last, detail),
                _ => self.0.push(detail),
            }
        }
    }

    /// Takes all details as a signature. Returns `None` and keeps them if they contain only text.
    pub(super) fn take(&mut self) -> Option<Arc<str>> {
        let sealed = |detail: &Map<String, Value>| {
            ["signature", "data"].iter().any(|key| detail.contains_key(*key))
        };
        if !self.0.iter().any(sealed) {
            return None;
        }
        let list = serde_json::to_string(&std::mem::take(&mut self.0)).ok()?;
        Some(format!("{MARK}{list}").into())
    }
}

/// Returns the details in a signature.
pub(super) fn of_signature(signature: &str) -> Vec<Value> {
    signature
        .strip_prefix(MARK)
        .and_then(|list| serde_json::from_str(list).ok())
        .unwrap_or_default()
}

/// Returns whether a fragment continues the last detail. Encrypted details are never split.
fn continues(last: &Map<String, Value>, more: &Map<String, Value>) -> bool {
    fn given<'a>(detail: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
        detail.get(key).filter(|value| !value.is_null())
    }
    let agree = |key: &str| match (given(last, key), given(more, key)) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    let whole = |detail: &Map<String, Value>| detail.contains_key("data");
    let signed = given(last, "signature").is_some();
    last.get("type") == more.get("type")
        && agree("index")
        && agree("id")
        && !signed
        && !whole(last)
        && !whole(more)
}

fn join(last: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, value) in more {
        match (last.get_mut(&key), value) {
            (Some(Value::String(old)), Value::String(new)) if key == "text" || key == "summary" => {
                old.push_str(&new)
            }
            (Some(old), new) if !new.is_null() => *old = new,
            (None, new) => drop(last.insert(key, new)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fragments_of_one_detail_are_joined_and_encrypted_ones_stay_separate() {
        let mut details = Details::default();
        let mut add = |detail: Value| details.add(&json!([detail]).to_string());
        add(json!({"type": "reasoning.text", "text": "a", "index": 0, "signature": null}));
        add(json!({"type": "reasoning.text", "text": "b", "index": 0}));
        add(json!({"type": "reasoning.text", "signature": "s", "index": 0, "format": "x"}));
        add(json!({"type": "reasoning.text", "text": "c", "index": 1}));
        add(json!({"type": "reasoning.encrypted", "data": "d", "id": "1"}));
        add(json!({"type": "reasoning.encrypted", "data": "e", "id": "1"}));
        let signature = details.take().unwrap();
        let expected = json!([
            {"type": "reasoning.text", "text": "ab", "index": 0, "signature": "s", "format": "x"},
            {"type": "reasoning.text", "text": "c", "index": 1},
            {"type": "reasoning.encrypted", "data": "d", "id": "1"},
            {"type": "reasoning.encrypted", "data": "e", "id": "1"},
        ]);
        assert_eq!(json!(of_signature(&signature)), expected);
        assert_eq!(details.take(), None);
        assert_eq!(of_signature("of another provider"), Vec::<Value>::new());
    }

    #[test]
    fn text_alone_needs_no_details() {
        let mut details = Details::default();
        details.add(r#"[{"type":"reasoning.text","text":"a","index":0}]"#);
        assert_eq!(details.take(), None);
        details.add(r#"[{"type":"reasoning.encrypted","data":"d"}]"#);
        assert_eq!(
            of_signature(&details.take().unwrap()).len(),
            2,
            "what was only text is still there"
        );
        details.add("7");
        assert_eq!(details.take(), None);
    }
}
