//! The fields of a request's body: the format's own, merged with the user's options.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use super::json::{bytes, field, put};

/// Pairs of fields of which a server accepts only one. The user's option removes our field.
const ALTERNATIVES: &[(&str, &str)] = &[
    ("max_tokens", "max_completion_tokens"),
    ("effort", "max_tokens"), // of `reasoning`, at OpenRouter
    ("thinkingBudget", "thinkingLevel"),
    ("responseJsonSchema", "responseSchema"),
];

/// Fields that name the kind of an object. Objects of two kinds have different fields.
const KINDS: &[&str] = &["type", "mode"];

/// JSON Schemas, which are only meaningful as a whole.
const SCHEMAS: &[&str] = &["schema", "responseJsonSchema", "responseSchema"];

/// The fields of a body.
///
/// An option is merged into our field of the same name, so setting a part of it keeps the rest.
/// Objects are merged field by field, at any depth, and lists are joined. Otherwise the option
/// replaces our field, also if both are objects of different [kinds](KINDS), or [schemas](SCHEMAS).
pub(crate) struct Fields<'a> {
    body: &'a mut Vec<u8>,
    options: &'a Map<String, Value>,
    /// The options that are already in the body.
    used: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Returns a writer to `body`, an open object that already has a field.
    pub(crate) fn new(body: &'a mut Vec<u8>, options: &'a Map<String, Value>) -> Self {
        Fields { body, options, used: Vec::new() }
    }

    /// Adds a field, merged with the option of the same name.
    pub(crate) fn add<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) {
        match self.options.get(name) {
            Some(own) if !self.used.contains(&name) => {
                let ours = serde_json::to_value(value).unwrap_or_default();
                field(self.body, name, &merged(ours, own));
                self.used.push(name);
            }
            None if has_alternative(self.options, name) => {}
            _ => field(self.body, name, value),
        }
    }

    /// Adds a list: our encoded elements, followed by the elements of the option of the same name.
    pub(crate) fn add_list(&mut self, name: &'static str, ours: Option<Cow<'_, [u8]>>) {
        let ours = ours.as_deref().and_then(|list| list.strip_prefix(b"[")?.strip_suffix(b"]"));
        let more = match self.options.get(name) {
            Some(Value::Array(list)) => list.iter().map(bytes).collect(),
            Some(other) => vec![bytes(other)],
            None => Vec::new(),
        };
        let lists: Vec<&[u8]> = ours
            .into_iter()
            .chain(more.iter().map(Vec::as_slice))
            .filter(|l| !l.is_empty())
            .collect();
        if !lists.is_empty() {
            self.body.push(b',');
            put(self.body, name);
            self.body.extend_from_slice(b":[");
            self.body.extend_from_slice(&lists.join(&b','));
            self.body.push(b']');
        }
        self.used.push(name);
    }

    /// Omits the option of that name.
    pub(crate) fn omit(&mut self, name: &'static str) {
        self.used.push(name);
    }

    /// Adds the remaining options.
    pub(crate) fn add_options(self) {
        let Fields { body, options, used } = self;
        for (name, value) in options.iter().filter(|(name, _)| !used.contains(&name.as_str())) {
            field(body, name, value);
        }
    }
}

fn merged(ours: Value, own: &Value) -> Value {
    match (ours, own) {
        (Value::Object(ours), Value::Object(own)) if !differ_in_kind(&ours, own) => {
            Value::Object(merged_objects(ours, own))
        }
        (Value::Array(mut ours), Value::Array(own)) => {
            for value in own {
                if !ours.contains(value) {
                    ours.push(value.clone());
                }
            }
            Value::Array(ours)
        }
        (_, own) => own.clone(),
    }
}

fn merged_objects(mut ours: Map<String, Value>, own: &Map<String, Value>) -> Map<String, Value> {
    ours.retain(|name, _| !has_alternative(own, name));
    for (name, value) in own {
        let value = match ours.remove(name) {
            Some(before) if !SCHEMAS.contains(&name.as_str()) => merged(before, value),
            _ => value.clone(),
        };
        ours.insert(name.clone(), value);
    }
    ours
}

/// Returns whether both objects name their kind, and the kinds differ.
fn differ_in_kind(ours: &Map<String, Value>, own: &Map<String, Value>) -> bool {
    KINDS.iter().any(|kind| match (ours.get(*kind), own.get(*kind)) {
        (Some(ours), Some(own)) => ours != own,
        _ => false,
    })
}

/// Returns whether the options contain a field that excludes ours.
fn has_alternative(own: &Map<String, Value>, ours: &str) -> bool {
    let excludes = |one: &str, other: &str| one == ours && own.contains_key(other);
    !own.contains_key(ours)
        && ALTERNATIVES.iter().any(|(one, other)| excludes(one, other) || excludes(other, one))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_option_changes_only_what_it_names() {
        for (ours, own, sent) in [
            (json!({"a": 1, "b": {"c": 2}}), json!({"b": {"d": 3}}), {
                json!({"a": 1, "b": {"c": 2, "d": 3}})
            }),
            (json!({"a": 1}), json!({"a": null}), json!({"a": null})),
            (json!(["a", "b"]), json!(["b", "c"]), json!(["a", "b", "c"])),
            (json!("a"), json!({"b": 1}), json!({"b": 1})),
            (json!(["a"]), json!("b"), json!("b")),
        ] {
            assert_eq!(merged(ours, &own), sent, "{own}");
        }
    }

    #[test]
    fn objects_of_another_kind_and_schemas_are_replaced_whole() {
        for (ours, own) in [
            (json!({"type": "enabled", "budget": 1}), json!({"type": "disabled"})),
            (json!({"mode": "ANY", "names": ["f"]}), json!({"mode": "AUTO"})),
            (json!({"schema": {"a": 1}}), json!({"schema": {"b": 2}})),
            (json!({"responseJsonSchema": {"a": 1}}), json!({"responseSchema": {"b": 2}})),
            (json!({"thinkingLevel": "low"}), json!({"thinkingBudget": 9})),
            (json!({"effort": "low"}), json!({"max_tokens": 9})),
        ] {
            assert_eq!(merged(ours, &own), own);
        }
    }

    #[test]
    fn no_field_is_sent_twice_nor_beside_its_alternative() {
        let options = json!({"a": 1, "l": [2], "max_completion_tokens": 3, "gone": 4, "z": 5});
        let mut body = b"{\"first\":0".to_vec();
        let mut fields = Fields::new(&mut body, options.as_object().unwrap());
        fields.add("a", &9);
        fields.add_list("l", Some(b"[1]".as_slice().into()));
        fields.add("max_tokens", &9);
        fields.omit("gone");
        fields.omit("z");
        fields.add("z", &9);
        fields.add_options();
        let sent = r#"{"first":0,"a":1,"l":[1,2],"z":9,"max_completion_tokens":3"#;
        assert_eq!(String::from_utf8(body).unwrap(), sent);
    }
}
