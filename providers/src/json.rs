//! Incremental writing of JSON for the encoders.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The fields of a body. A field of the user's options replaces ours of the same name, so that no
/// field is duplicated.
pub(crate) struct Fields<'a> {
    body: &'a mut Vec<u8>,
    options: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Adds fields to `body`, an object that is open and has a field already.
    pub(crate) fn new(body: &'a mut Vec<u8>, options: &'a Map<String, Value>) -> Self {
        Fields { body, options }
    }

    /// Adds a field, unless the user's options have it.
    pub(crate) fn add<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        if !self.options.contains_key(name) {
            field(self.body, name, value);
        }
    }

    /// Adds a list: our encoded elements, followed by those of the user's option of that name.
    pub(crate) fn add_list(&mut self, name: &str, ours: Option<Cow<'_, [u8]>>) {
        let ours = ours.as_deref().and_then(|list| list.strip_prefix(b"[")?.strip_suffix(b"]"));
        let more = match self.options.get(name) {
            Some(Value::Array(list)) => list.iter().map(bytes).collect(),
            Some(other) => vec![bytes(other)],
            None => Vec::new(),
        };
        let lists: Vec<&[u8]> = ours
            .into_iter()
            .chain(more.iter().map(Vec::as_slice))
            .filter(|l| !l.is_empty())
            .collect();
        if !lists.is_empty() {
            self.body.push(b',');
            put(self.body, name);
            self.body.extend_from_slice(b":[");
            self.body.extend_from_slice(&lists.join(&b','));
            self.body.push(b']');
        }
    }

    /// Adds the user's options, except these.
    pub(crate) fn add_options(&mut self, but: &[&str]) {
        for (name, value) in self.options.iter().filter(|(name, _)| !but.contains(&name.as_str())) {
            field(self.body, name, value);
        }
    }
}

/// Adds a field to the object that is open in `body`.
pub(crate) fn field<T: Serialize + ?Sized>(body: &mut Vec<u8>, name: &str, value: &T) {
    body.push(b',');
    put(body, name);
    body.push(b':');
    put(body, value);
}

/// Writes a value.
pub(crate) fn put<T: Serialize + ?Sized>(body: &mut Vec<u8>, value: &T) {
    if serde_json::to_writer(&mut *body, value).is_err() {
        // Cannot happen: all map keys are strings, and writing to memory does not fail.
        body.extend_from_slice(b"null");
    }
}

/// Returns a value as JSON bytes.
pub(crate) fn bytes<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// Returns the JSON text of a call's arguments or a fragment of it: the string, or else the JSON
/// value itself.
pub(crate) fn json_text(raw: Option<&RawValue>) -> String {
    let raw = raw.map_or("", RawValue::get);
    match raw.as_bytes().first() {
        Some(b'"') if !raw.contains('\\') => raw[1..raw.len() - 1].to_owned(),
        Some(b'"') => serde_json::from_str(raw)
            .or_else(|why| serde_json::from_str(&replace_lone_surrogates(raw).ok_or(why)?))
            .unwrap_or_default(),
        _ => raw.to_owned(),
    }
}

/// Returns whether `text` is one complete JSON object, including its strings: a lone surrogate is
/// invalid.
pub(crate) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<serde_json::Value>(text).is_ok()
}

/// Replaces each escaped lone surrogate, which is invalid in a string, by a replacement character:
/// some servers split text without regard to surrogate pairs. Returns `None` if there was none.
pub(crate) fn replace_lone_surrogates(json: &str) -> Option<String> {
    let mut out = String::new();
    let (mut rest, mut changed) = (json, false);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let length = match (surrogate(escape), escape.get(6..).and_then(surrogate)) {
            (Some(true), Some(false)) => 12,
            (Some(_), _) => {
                out.push_str("\\ufffd");
                changed = true;
                rest = &escape[6..];
                continue;
            }
            (None, _) => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    out.push_str(rest);
    changed.then_some(out)
}

/// Returns `Some(true)` if `text` starts with an escaped high surrogate, and `Some(false)` if it
/// starts with a low one.
fn surrogate(text: &str) -> Option<bool> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(true),
        0xdc00..=0xdfff => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_stay() {
        assert_eq!(replace_lone_surrogates(r#"{"a":"\ud83d\ude00 \\ud83d \n"}"#), None);
        assert_eq!(
            replace_lone_surrogates(r#"["\ud83d","\ude00"]"#).unwrap(),
            r#"["\ufffd","\ufffd"]"#
        );
        assert_eq!(
            replace_lone_surrogates(r#""\ud83d\ud83d\ude00""#).unwrap(),
            r#""\ufffd\ud83d\ude00""#
        );
        assert_eq!(replace_lone_surrogates(r#""\"#), None);
        let raw =
            serde_json::value::RawValue::from_string(r#""{\"a\":\"\ud83d\"}""#.into()).unwrap();
        assert_eq!(json_text(Some(&raw)), "{\"a\":\"\u{fffd}\"}");
    }
}
