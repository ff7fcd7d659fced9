//! Limits of JSON from models, clients and servers, to be checked before parsing. The length alone
//! does not bound the time and memory of parsing.

/// Maximum length of arguments and answers that are parsed: 4 MiB. Each pass over such a text takes
/// some milliseconds, and there are several.
const MAX_BYTES: usize = 4 << 20;
/// Maximum number of values in them. Parsing, cloning and dropping so many takes tens of
/// milliseconds; a string takes a hundredth of that per byte.
const MAX_VALUES: usize = 100_000;

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
    fn a_long_text_may_be_parsed_and_many_values_may_not() {
        let text = |bytes: usize| format!("\"{}\"", ",".repeat(bytes - 2));
        assert_eq!(check_size(&text(MAX_BYTES)), Ok(()));
        assert!(check_size(&text(MAX_BYTES + 1)).unwrap_err().contains("bytes"));
        let list = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
        assert_eq!(check_size(&list(MAX_VALUES)), Ok(()));
        assert!(check_size(&list(MAX_VALUES + 1)).unwrap_err().contains("values"));
    }
}
