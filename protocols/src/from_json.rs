//! [`from_json`]: deserialises a value, with the position of errors in the body.

use loopwright_core::json::replace_lone_surrogates;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::{Path, Segment};

use crate::error::DecodeError;

/// The maximum length of a key in the path of an error, in characters.
const MAX_KEY_CHARS: usize = 100;

/// The pattern, for JSON Schemas, of a text that is not blank after Rust's trimming. Unlike Rust's
/// white space, `\s` of JSON Schema lacks U+0085 and has U+FEFF.
pub const NOT_BLANK: &str = r"[^\s\u0085]|\ufeff";

/// The greatest whole number that all JSON parsers read exactly: 2^53 - 1.
pub const MAX_WHOLE: u64 = (1 << 53) - 1;

/// Deserialises a value from JSON. `path` is the position of that JSON in the body, as a JSON
/// Pointer. Escaped lone surrogates, which JavaScript writes for half an emoji, become U+FFFD.
///
/// ```
/// use loopwright_protocols::from_json;
///
/// let error = from_json::<Vec<u32>>(br#"[1, "two"]"#, "/numbers").unwrap_err();
/// assert_eq!(error.path, "/numbers/1");
/// ```
///
/// # Errors
/// Returns the position of the error, and what is expected there. The message does not repeat the
/// value, which may be a secret.
pub fn from_json<T: DeserializeOwned>(json: &[u8], path: &str) -> Result<T, DecodeError> {
    let text = std::str::from_utf8(json)
        .map_err(|_| DecodeError::at(path, "The body is not valid UTF-8."))?;
    let repaired = replace_lone_surrogates(text);
    let text = repaired.as_deref().unwrap_or(text);
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|why| {
        let at = format!("{path}{}", pointer(why.path()));
        match why.inner().is_data() {
            true => DecodeError::at(at, without_value(&why.inner().to_string())),
            false => DecodeError::at(at, "The body is not valid JSON, or nested too deep."),
        }
    })?;
    json.end().map_err(|_| {
        DecodeError::at(path, "There is more text after the JSON value of the body.")
    })?;
    Ok(value)
}

/// Returns the path as a JSON Pointer.
fn pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                pointer.push_str(&pointer_to(key));
            }
            Segment::Unknown => {}
        }
    }
    pointer
}

/// Returns the JSON Pointer to a key of an object. A long key is cut.
pub fn pointer_to(key: &str) -> String {
    let escaped = key.replace('~', "~0").replace('/', "~1");
    std::iter::once('/').chain(escaped.chars().take(MAX_KEY_CHARS)).collect()
}

/// Returns serde's message without the invalid value.
fn without_value(why: &str) -> String {
    let why = why.split(" at line ").next().unwrap_or(why);
    match (why.strip_prefix("missing field "), why.rsplit_once(", expected ")) {
        (Some(field), _) => format!("The field {field} is missing."),
        (None, Some((_, expected))) => format!("This is not what is expected here: {expected}."),
        (None, None) if why.starts_with("duplicate field") => "A field is given twice.".into(),
        (None, None) => "This value is not valid here.".into(),
    }
}

/// Deserialises a whole number. It may be written as `8.0`, which is the same number in JSON.
///
/// # Errors
/// Fails if the number is not whole, negative, or larger than [`u32::MAX`].
pub fn whole_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    Ok(whole_up_to(u32::MAX.into(), from)?.and_then(|whole| whole.try_into().ok()))
}

/// Deserialises a whole number that may be large, such as a time. It may be written as `8.0`.
///
/// # Errors
/// Fails if the number is not whole, negative, or larger than [`MAX_WHOLE`].
pub fn large_whole_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    whole_up_to(MAX_WHOLE, from)
}

fn whole_up_to<'de, D: Deserializer<'de>>(max: u64, from: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<f64>::deserialize(from)? else { return Ok(None) };
    match number as u64 {
        whole if whole as f64 == number && whole <= max => Ok(Some(whole)),
        _ => Err(D::Error::custom(format!("not whole, expected a whole number, at most {max}"))),
    }
}

/// Deserialises `null` as the default value.
///
/// # Errors
/// Fails if the value is neither `null` nor a `T`.
pub fn or_default<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_may_be_written_with_a_point() {
        let read = |text: &str| whole_number(&mut serde_json::Deserializer::from_str(text));
        for (text, number) in
            [("8", Some(8)), ("8.0", Some(8)), ("4294967295", Some(u32::MAX)), ("null", None)]
        {
            assert_eq!(read(text).unwrap(), number, "{text}");
        }
        for text in ["8.5", "-1", "4294967296", "1e300", "true", "\"8\""] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_large_whole_number_is_a_number_that_every_parser_reads() {
        let read = |text: &str| large_whole_number(&mut serde_json::Deserializer::from_str(text));
        assert_eq!(read("null").unwrap(), None);
        assert_eq!(read("9007199254740991").unwrap(), Some(MAX_WHOLE));
        assert_eq!(read("7.0").unwrap(), Some(7));
        for text in ["9007199254740992", "1e30", "-1", "0.5", "\"7\""] {
            let why = read(text).unwrap_err().to_string();
            assert!(text.starts_with('"') || why.contains("at most 9007199254740991"), "{why}");
        }
    }
}
