//! JSON texts from models, clients and servers: limits to be checked before parsing, because the
//! length alone does not bound the time and memory of parsing, and what parsing would lose.

use serde_json::Value;

use crate::excerpt;

/// Maximum length of arguments and answers that are parsed: 4 MiB. Each pass over such a text takes
/// some milliseconds, and there are several.
const MAX_BYTES: usize = 4 << 20;
/// Maximum number of values in them. Parsing, cloning and dropping so many takes tens of
/// milliseconds; a string takes a hundredth of that per byte.
const MAX_VALUES: usize = 100_000;
/// Maximum length of a number that an error quotes, in characters.
const MAX_NUMBER_CHARS: usize = 100;

/// Checks that arguments or an answer can be parsed without occupying a worker of the runtime for
/// long: they have at most 4 MiB and 100,000 values.
///
/// # Errors
///
/// Fails with a text that names the exceeded limit.
pub fn check_size(text: &str) -> Result<(), String> {
    let length = text.len();
    if length > MAX_BYTES {
        return Err(format!("{length} bytes, of which at most {MAX_BYTES} are allowed"));
    }
    if has_more_values(text.as_bytes(), MAX_VALUES) {
        return Err(format!("more than {MAX_VALUES} values"));
    }
    Ok(())
}

/// Parses a text from outside that [`check_size`] allows. No number is rounded.
///
/// # Errors
///
/// Fails with a sentence without its subject, such as `is not valid JSON (…)`.
pub fn read(text: &str) -> Result<Value, String> {
    check_size(text).map_err(|much| format!("is too large: {much}"))?;
    if let Some(number) = rounded_integer(text) {
        let number = excerpt::chars(number, MAX_NUMBER_CHARS);
        return Err(format!(
            "has the number {number}, of which not all digits can be kept: write it as a string, \
             or with an exponent if its last digits do not matter"
        ));
    }
    serde_json::from_str(text).map_err(|error| format!("is not valid JSON ({error})"))
}

/// Returns whether a JSON text has more than `max` values. Counts separators in one pass, without
/// allocating, so an empty list or object counts as two. The text need not be valid.
///
/// ```
/// use loopwright_core::json::has_more_values;
///
/// assert!(has_more_values(b"[0,0,0,0]", 4) && !has_more_values(b"[0,0,0,0]", 5));
/// ```
pub fn has_more_values(text: &[u8], max: usize) -> bool {
    if text.len() <= max {
        return false; // each takes a byte at least
    }
    let (mut values, mut in_string, mut is_escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values > max
}

/// Replaces each escaped lone surrogate, which is invalid in a string, by a replacement character.
/// Some servers split text between surrogates. Returns `None` if there was none. The text need not
/// be valid.
///
/// ```
/// use loopwright_core::json::replace_lone_surrogates;
///
/// assert_eq!(replace_lone_surrogates(r#"["\ud83d"]"#).as_deref(), Some(r#"["\ufffd"]"#));
/// assert_eq!(replace_lone_surrogates(r#"["\ud83d\ude00"]"#), None);
/// ```
pub fn replace_lone_surrogates(json: &str) -> Option<String> {
    let mut out = String::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(next) = json[at..].find('\\') {
        at += next;
        let escape = &json[at..];
        match (surrogate(escape), escape.get(6..).and_then(surrogate)) {
            (Some(true), Some(false)) => at += 12,
            (Some(_), _) => {
                out.push_str(&json[copied..at]);
                out.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            (None, _) => at += 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&json[copied..]);
    Some(out)
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

/// Returns a member of the object that starts a text, even if the rest cannot be parsed.
///
/// ```
/// use loopwright_core::json::member;
///
/// assert_eq!(member(r#"{"params":{"id":1},"id":2,"method":"#, "id"), Some(2.into()));
/// ```
pub fn member(json: &str, name: &str) -> Option<Value> {
    let (mut depth, mut rest) = (0_usize, json);
    while let Some(at) = rest.find(['"', '{', '[', '}', ']']) {
        let (token, after) = rest[at..].split_at(1);
        rest = after;
        match token {
            "\"" => {
                let (string, after) = rest.split_at(end_of_string(rest)?);
                rest = &after[1..];
                let value = rest.trim_start().strip_prefix(':');
                if let (1, Some(value)) = (depth, value.filter(|_| string == name)) {
                    let mut values = serde_json::Deserializer::from_str(value).into_iter();
                    return values.next()?.ok();
                }
            }
            "{" | "[" => depth += 1,
            _ => depth = depth.checked_sub(1)?,
        }
    }
    None
}

/// Returns the length of a string up to its closing quote.
fn end_of_string(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

/// Returns the steps of reading a text.
pub(crate) fn text_weight(text: &str) -> usize {
    1 + text.len() / 64
}

/// Returns the steps of reading a value, with the values and the names in it.
pub(crate) fn weight(value: &Value) -> usize {
    let (mut open, mut weight) = (vec![value], 0);
    while let Some(value) = open.pop() {
        weight += value.as_str().map_or(1, text_weight);
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => {
                weight += fields.keys().map(|name| name.len() / 64).sum::<usize>();
                open.extend(fields.values());
            }
            _ => {}
        }
    }
    weight
}

/// Returns the first whole number in a JSON text that parsing would round, because it has more
/// digits than a float. The text need not be valid.
///
/// ```
/// use loopwright_core::json::rounded_integer;
///
/// assert_eq!(rounded_integer("[1, 12345678901234567890123]"), Some("12345678901234567890123"));
/// assert_eq!(rounded_integer(r#"[1e30, 0.123456789012345678, "12345678901234567890123"]"#), None);
/// ```
pub fn rounded_integer(text: &str) -> Option<&str> {
    let (mut in_string, mut is_escaped, mut start) = (false, false, None);
    for (at, byte) in text.bytes().enumerate().chain([(text.len(), b' ')]) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-' => {
                start.get_or_insert(at);
                continue;
            }
            _ => {}
        }
        if let Some(number) = start.take().map(|start| &text[start..at])
            && is_rounded(number)
        {
            return Some(number);
        }
    }
    None
}

fn is_rounded(number: &str) -> bool {
    // Shorter ones fit into 64 bits.
    let is_long_integer = number.len() > 18
        && number.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    is_long_integer
        && number.parse::<u64>().is_err()
        && number.parse::<i64>().is_err()
        && number.parse::<f64>().is_ok_and(|float| format!("{float:.0}") != number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, values) in
            [("[1,2,3]", 4), (r#"{"a":[],"b":{"c":"x"}}"#, 5), (r#"["a,[{\",","\\",1]"#, 4)]
        {
            let padded = text.to_owned() + &" ".repeat(10);
            assert!(has_more_values(padded.as_bytes(), values - 1), "{text}");
            assert!(!has_more_values(padded.as_bytes(), values), "{text}");
        }
    }

    #[test]
    fn whole_numbers_that_a_float_holds_are_not_rounded() {
        for kept in ["18446744073709551615", "-9223372036854775808", "100000000000000000000", "-0"]
        {
            assert_eq!(rounded_integer(kept), None, "{kept}");
        }
        for lost in ["18446744073709551617", "-9223372036854775809", "100000000000000000001"] {
            assert_eq!(rounded_integer(lost), Some(lost));
            assert_eq!(rounded_integer(&format!(r#"{{"a\"": "1", "b":[ {lost}]}}"#)), Some(lost));
        }
        let digits = "9".repeat(400);
        assert_eq!(rounded_integer(&digits), Some(&*digits));
    }

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
    }

    #[test]
    fn a_member_is_found_in_a_text_that_cannot_be_parsed() {
        for (text, id) in [
            (r#"{"id":1,"#, 1.into()),
            (r#"{"a":{"id":2,"b":["id"]},"c":"\\\"id","id" : "x","d":NaN"#, Value::from("x")),
            (r#"{"a":NaN,"id":null}"#, Value::Null),
        ] {
            assert_eq!(member(text, "id"), Some(id), "{text}");
        }
        for none in ["", "{", r#"{"a":{"id":1}"#, r#"}{"id":1}"#, r#"{"id":NaN}"#] {
            assert_eq!(member(none, "id"), None, "{none}");
        }
    }

    #[test]
    fn a_long_text_may_be_parsed_and_many_values_may_not() {
        let text = |bytes: usize| format!("\"{}\"", ",".repeat(bytes - 2));
        assert_eq!(check_size(&text(MAX_BYTES)), Ok(()));
        assert!(check_size(&text(MAX_BYTES + 1)).unwrap_err().contains("bytes"));
        let list = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
        assert_eq!(check_size(&list(MAX_VALUES)), Ok(()));
        assert!(check_size(&list(MAX_VALUES + 1)).unwrap_err().contains("values"));
    }
}
