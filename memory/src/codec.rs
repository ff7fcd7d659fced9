//! JSON encoding with a limit on nesting, so that everything that is written can be read back.

use loopwright_core::error::Failure;
use loopwright_core::log::MemoryError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum nesting of JSON in an append, in levels.
///
/// Far more than models write (parsers accept 128), and few enough for the stack of a thread.
const MAX_DEPTH: usize = 256;

/// Encodes log entries, or information about a session, as JSON.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<String, MemoryError> {
    let failed =
        |why: &str| Failure::new(format!("the log entries cannot be written as JSON: {why}"));
    let json = serde_json::to_string(value)
        .map_err(|e| MemoryError::Failed(failed(&e.to_string()).with_source(e)))?;
    let depth = depth(json.as_bytes());
    if depth > MAX_DEPTH {
        let why = format!("values are nested {depth} levels deep, and the limit is {MAX_DEPTH}");
        return Err(MemoryError::Failed(failed(&why)));
    }
    Ok(json)
}

/// Decodes a value that [`encode`] wrote.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    if depth(bytes) > MAX_DEPTH {
        return Err(format!("values are nested more than {MAX_DEPTH} levels deep"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    json.disable_recursion_limit(); // the check above replaces it
    let value = T::deserialize(&mut json).map_err(|e| e.to_string())?;
    json.end().map_err(|e| e.to_string())?;
    Ok(value)
}

/// Returns the nesting depth of arrays and objects in text that may not be JSON.
fn depth(json: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut max_depth = 0;
    let mut in_string = false;
    let mut escaped = false;
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                max_depth = max_depth.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    max_depth
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loopwright_core::log::{LogEntry, StateScope};
    use serde_json::{Value, json};

    use super::*;

    fn nested(levels: usize) -> [LogEntry; 1] {
        let mut value = Value::Null;
        for level in 0..levels {
            value = if level % 2 == 0 { json!([value]) } else { json!({ "[\"\\": value }) };
        }
        [LogEntry::State { scope: StateScope::Session, key: "deep".into(), value: Arc::new(value) }]
    }

    #[test]
    fn what_is_accepted_is_read_back_and_what_is_too_deep_is_refused() {
        for levels in [0, 100, 127, 128, 200, MAX_DEPTH - 2] {
            let json = encode(&nested(levels)).unwrap();
            assert_eq!(depth(json.as_bytes()), levels + 2);
            assert_eq!(
                decode::<[LogEntry; 1]>(json.as_bytes()).unwrap(),
                nested(levels),
                "{levels} levels"
            );
        }
        let refused = encode(&nested(MAX_DEPTH - 1)).unwrap_err().to_string();
        assert!(refused.contains("257 levels"), "{refused}");
        let hostile = [vec![b'['; 1_000_000], vec![b']'; 1_000_000]].concat();
        assert!(decode::<Value>(&hostile).unwrap_err().contains("nested"));
    }
}
