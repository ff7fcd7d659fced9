//! Writing JSON piece by piece, as the encoders do.

use serde::Serialize;
use serde_json::value::RawValue;

/// A further field of the object that `body` is in.
pub(crate) fn field<T: Serialize + ?Sized>(body: &mut Vec<u8>, name: &str, value: &T) {
    body.push(b',');
    put(body, name);
    body.push(b':');
    put(body, value);
}

/// A value.
pub(crate) fn put<T: Serialize + ?Sized>(body: &mut Vec<u8>, value: &T) {
    if serde_json::to_writer(&mut *body, value).is_err() {
        body.extend_from_slice(b"null"); // cannot happen: our values have string keys, and memory does not fail
    }
}

/// A value as bytes of its own.
pub(crate) fn bytes<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// The JSON text of a call's arguments, or a piece of it: the string that it should be, or else the value itself.
pub(crate) fn json_text(raw: Option<&RawValue>) -> String {
    let raw = raw.map_or("", RawValue::get);
    match raw.as_bytes().first() {
        Some(b'"') if raw.contains('\\') => serde_json::from_str(raw).unwrap_or_default(),
        Some(b'"') => raw[1..raw.len() - 1].to_owned(),
        _ => raw.to_owned(),
    }
}

/// Whether this is the text of a whole JSON object, its strings included: one with a lone surrogate is none.
pub(crate) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<serde_json::Value>(text).is_ok()
}
