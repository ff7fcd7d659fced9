//! Arguments of a call that arrive in fragments, each with a JSON path.

use loopwright_core::json;
use serde_json::{Map, Value};

use super::wire::PartialArg;

/// The maximum depth of arguments.
const MAX_DEPTH: usize = 64;

/// The arguments received so far.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    value: Value,
    /// `true` if a fragment had an invalid path or value, so the arguments are incomplete.
    broken: bool,
}

/// One step of a path.
#[derive(Debug, PartialEq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Arguments {
    /// Inserts a fragment at its path. Appends it if there already is a string.
    pub(super) fn put(&mut self, fragment: &PartialArg<'_>) {
        let Some(steps) = steps(&fragment.json_path.0) else {
            return self.broken = true;
        };
        let Some(slot) = steps.into_iter().try_fold(&mut self.value, descend) else {
            return self.broken = true;
        };
        match (value(fragment), slot) {
            (Some(Value::String(more)), Value::String(text)) => text.push_str(&more),
            (Some(value), slot) => *slot = value,
            (None, _) => self.broken = true,
        }
    }

    /// Returns the JSON text. Broken arguments become invalid JSON, so that the call does not run.
    pub(super) fn into_text(self) -> String {
        match self.value {
            _ if self.broken => String::from("{\"…"),
            Value::Null => String::from("{}"),
            value => value.to_string(),
        }
    }
}

/// Returns the value of a fragment, or `null` without one.
fn value(fragment: &PartialArg<'_>) -> Option<Value> {
    match (&fragment.string_value, fragment.number_value.or(fragment.bool_value)) {
        (Some(text), _) => Some(text.0.as_ref().into()),
        (None, Some(raw)) => {
            let value: Value = json::read(raw.get()).ok()?; // a number that is rounded is broken
            (value.is_number() || value.is_boolean()).then_some(value)
        }
        (None, None) => Some(Value::Null),
    }
}

/// Returns the value that a step leads to, creating it if necessary. Lists grow by one element at a
/// time, so no path makes them huge.
fn descend(value: &mut Value, step: Step) -> Option<&mut Value> {
    match step {
        Step::Key(key) => {
            if value.is_null() {
                *value = Value::Object(Map::new());
            }
            Some(value.as_object_mut()?.entry(key).or_insert(Value::Null))
        }
        Step::Index(at) => {
            if value.is_null() {
                *value = Value::Array(Vec::new());
            }
            let list = value.as_array_mut()?;
            if at == list.len() {
                list.push(Value::Null);
            }
            list.get_mut(at)
        }
    }
}

/// Parses a path such as `$.orders[0].name` or `$['a.b']`.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, after) = if let Some(inside) = rest.strip_prefix('[') {
            match inside.chars().next()? {
                quote @ ('"' | '\'') => quoted(&inside[1..], quote)?,
                _ => {
                    let (number, after) = inside.split_once(']')?;
                    (Step::Index(number.trim().parse().ok()?), after)
                }
            }
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let (name, after) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
            (Step::Key(name.to_owned()), after)
        };
        steps.push(step);
        rest = after;
        if steps.len() > MAX_DEPTH {
            return None;
        }
    }
    (!steps.is_empty()).then_some(steps)
}

/// Parses a quoted key. Returns the rest after its bracket.
fn quoted(text: &str, quote: char) -> Option<(Step, &str)> {
    let (mut key, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => key.push(chars.next()?.1),
            c if c == quote => return Some((Step::Key(key), text[at + 1..].strip_prefix(']')?)),
            c => key.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(fragments: &[&str]) -> String {
        let mut arguments = Arguments::default();
        for fragment in fragments {
            arguments.put(&serde_json::from_str(fragment).unwrap());
        }
        arguments.into_text()
    }

    #[test]
    fn fragments_are_stored_at_their_paths() {
        let fragments = [
            r#"{"jsonPath":"$.list[0].name","stringValue":"a"}"#,
            r#"{"jsonPath":"$.list[0].name","stringValue":"b"}"#,
            r#"{"jsonPath":"$.list[1]","numberValue":3}"#,
            r#"{"jsonPath":"$['x.y\\']']","numberValue":0.5}"#,
            r#"{"jsonPath":"$.yes","boolValue":true}"#,
            r#"{"jsonPath":"$.no","nullValue":"NULL_VALUE"}"#,
        ];
        let whole = r#"{"list":[{"name":"ab"},3],"no":null,"x.y']":0.5,"yes":true}"#;
        assert_eq!(put(&fragments), whole);
        assert_eq!(put(&[]), "{}");
    }

    #[test]
    fn a_fragment_without_a_valid_path_invalidates_the_arguments() {
        let deep = format!(r#"{{"jsonPath":"${}","stringValue":""}}"#, "[0]".repeat(1 << 20));
        for fragment in [
            r#"{"jsonPath":"$.a[4000000000]","stringValue":"x"}"#,
            r#"{"jsonPath":"$.a[x]","stringValue":"x"}"#,
            r#"{"jsonPath":"$['a","stringValue":"x"}"#,
            r#"{"stringValue":"x"}"#,
            &deep,
        ] {
            assert!(serde_json::from_str::<Value>(&put(&[fragment])).is_err(), "{fragment:.60}");
        }
    }
}
