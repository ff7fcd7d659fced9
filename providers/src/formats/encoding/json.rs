//! Incremental writing of JSON for the encoders.

use loopwright_core::json::{check_size, replace_lone_surrogates};
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

/// Escapes a text like a JSON string, without the quotes.
pub(crate) fn escaped(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or("").to_owned()
}

/// Returns whether `text` is one complete JSON object with valid strings. A lone surrogate is
/// invalid.
pub(crate) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && check_size(text).is_ok()
        && serde_json::from_str::<Value>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_surrogate_in_arguments_is_replaced() {
        let raw =
            serde_json::value::RawValue::from_string(r#""{\"a\":\"\ud83d\"}""#.into()).unwrap();
        assert_eq!(json_text(Some(&raw)), "{\"a\":\"\u{fffd}\"}");
    }
}
