//! What is kept as JSON: what is taken can be read back.

use loopwright_core::log::MemoryError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Levels of nested JSON that an append may have: far more than any value that a model wrote (a
/// parser takes 128), and few enough for the stack of a thread.
const DEPTH: usize = 256;

/// Items, or what is known of them, as JSON.
pub(crate) fn encode<T: Serialize + ?Sized>(what: &T) -> Result<String, MemoryError> {
    let failed =
        |why: String| MemoryError::Failed(format!("the items cannot be written as JSON: {why}"));
    let json = serde_json::to_string(what).map_err(|e| failed(e.to_string()))?;
    match depth(json.as_bytes()) {
        depth if depth > DEPTH => {
            Err(failed(format!("{depth} levels are nested, and at most {DEPTH} are kept")))
        }
        _ => Ok(json),
    }
}

/// What was written so.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    if depth(bytes) > DEPTH {
        return Err(format!("more than {DEPTH} levels are nested"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    json.disable_recursion_limit(); // ours is above
    let what = T::deserialize(&mut json).map_err(|e| e.to_string())?;
    json.end().map_err(|e| e.to_string())?;
    Ok(what)
}

/// How deep arrays and objects are nested, in text that may be no JSON.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loopwright_core::log::LogEntry;
    use serde_json::{Value, json};

    use super::*;

    fn nested(levels: usize) -> [LogEntry; 1] {
        let mut value = Value::Null;
        for level in 0..levels {
            value = if level % 2 == 0 { json!([value]) } else { json!({ "[\"\\": value }) };
        }
        [LogEntry::State { key: "deep".into(), value: Arc::new(value) }]
    }

    #[test]
    fn what_is_taken_is_given_back_and_what_is_too_deep_is_refused() {
        for levels in [0, 100, 127, 128, 200, DEPTH - 2] {
            let json = encode(&nested(levels)).unwrap();
            assert_eq!(depth(json.as_bytes()), levels + 2);
            assert_eq!(
                decode::<[LogEntry; 1]>(json.as_bytes()).unwrap(),
                nested(levels),
                "{levels} levels"
            );
        }
        let refused = encode(&nested(DEPTH - 1)).unwrap_err().to_string();
        assert!(refused.contains("257 levels"), "{refused}");
        let hostile = [vec![b'['; 1_000_000], vec![b']'; 1_000_000]].concat();
        assert!(decode::<Value>(&hostile).unwrap_err().contains("nested"));
    }
}
