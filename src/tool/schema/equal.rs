//! Equality of values, whose numbers are equal if they have the same value.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use serde_json::Value;

use super::number;

/// Returns whether two values are equal. Numbers are equal if they have the same value.
pub(super) fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => number::compare(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let is_same = |(name, value)| b.get(name).is_some_and(|other| is_equal(value, other));
            a.len() == b.len() && a.iter().all(is_same)
        }
        _ => a == b,
    }
}

/// Returns whether no two items are equal.
pub(super) fn are_unique(items: &[Value]) -> bool {
    let state = RandomState::new();
    let mut known: HashMap<u64, Vec<&Value>> = HashMap::with_capacity(items.len());
    items.iter().all(|item| {
        let mut hasher = state.build_hasher();
        hash(item, &mut hasher);
        let same = known.entry(hasher.finish()).or_default();
        let is_new = !same.iter().any(|other| is_equal(other, item));
        same.push(item);
        is_new
    })
}

/// Hashes a value such that equal values have equal hashes.
fn hash(value: &Value, hasher: &mut impl Hasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Null => {}
        Value::Bool(value) => value.hash(hasher),
        Value::Number(number) => match number::whole(number) {
            Some(whole) => whole.hash(hasher),
            None => number.as_f64().unwrap_or_default().to_bits().hash(hasher),
        },
        Value::String(text) => text.hash(hasher),
        Value::Array(items) => {
            items.len().hash(hasher);
            items.iter().for_each(|item| hash(item, hasher));
        }
        Value::Object(fields) => {
            fields.len().hash(hasher);
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            for (name, value) in fields {
                name.hash(hasher);
                hash(value, hasher);
            }
        }
    }
}
