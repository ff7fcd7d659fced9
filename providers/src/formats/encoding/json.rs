//! Incremental writing of JSON for the encoders.

use loopwright_core::json::check_size;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Adds a field to the open object in `body`.
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

/// Returns a JSON number with the decimal digits of `number`, not of the nearest `f64`.
pub(crate) fn decimal(number: f32) -> Value {
    number.to_string().parse::<f64>().unwrap_or(number.into()).into()
}

/// Returns the JSON text of a call's arguments, or of a fragment: the content of a string, or else
/// the JSON value itself.
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

/// Returns whether `text` is one complete JSON object with valid strings. A lone surrogate is
/// invalid.
pub(crate) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && check_size(text).is_ok()
        && serde_json::from_str::<Value>(text).is_ok()
}

/// Replaces each escaped lone surrogate, which is invalid in a string, by a replacement character.
/// Some servers split text between surrogates. Returns `None` if there was none.
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
