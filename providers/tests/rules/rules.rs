//! Strict checkers of requests, one per API. They check the documented requirements, and others
//! that the server enforces.
//!
//! Tests show that each checker refuses malformed requests.

pub(crate) mod anthropic;
pub(crate) mod gemini;
mod json;
mod models;
pub(crate) mod openai_chat;
pub(crate) mod openai_responses;
mod strict;

use std::collections::BTreeSet;

use base64::Engine;
use serde_json::{Map, Value};

/// The violations found so far.
#[derive(Default)]
pub(crate) struct Wrong(Vec<String>);

/// Checks a body with these rules and returns all violations.
pub(crate) fn check(body: &[u8], rules: impl FnOnce(&mut Wrong, &Value)) -> Result<(), String> {
    let mut wrong = Wrong::default();
    match json::without_doubles(body) {
        Ok(body) => rules(&mut wrong, &body),
        Err(why) => wrong.at("the body", why),
    }
    if wrong.0.is_empty() { Ok(()) } else { Err(wrong.0.join("\n")) }
}

impl Wrong {
    fn at(&mut self, path: &str, why: impl std::fmt::Display) {
        self.0.push(format!("{path} {why}"));
    }

    fn unless(&mut self, holds: bool, path: &str, why: impl std::fmt::Display) {
        if !holds {
            self.at(path, why);
        }
    }

    /// Checks an object that has exactly these fields.
    fn object<'a>(
        &mut self,
        path: &str,
        value: &'a Value,
        required: &[&str],
        optional: &[&str],
    ) -> Option<&'a Map<String, Value>> {
        let Some(object) = value.as_object() else {
            self.at(path, format!("is no object: {value}"));
            return None;
        };
        for name in required.iter().filter(|name| !object.contains_key(**name)) {
            self.at(path, format!("has no `{name}`"));
        }
        for name in object
            .keys()
            .filter(|name| !required.contains(&name.as_str()) && !optional.contains(&name.as_str()))
        {
            self.at(path, format!("has an unknown field `{name}`"));
        }
        Some(object)
    }

    /// Checks a non-empty list.
    fn list<'a>(&mut self, path: &str, value: &'a Value) -> &'a [Value] {
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        self.unless(!list.is_empty(), path, format!("is no list, or an empty one: {value}"));
        list
    }

    /// Checks a non-blank text.
    fn text(&mut self, path: &str, value: &Value) {
        self.unless(
            value.as_str().is_some_and(|text| !text.trim().is_empty()),
            path,
            format!("is no text, or blank: {value}"),
        );
    }

    fn one_of(&mut self, path: &str, value: &Value, known: &[&str]) {
        self.unless(
            value.as_str().is_some_and(|text| known.contains(&text)),
            path,
            format!("is {value}, none of {known:?}"),
        );
    }

    fn within(&mut self, path: &str, value: &Value, least: f64, max: f64) {
        let inside = value.as_f64().is_some_and(|number| (least..=max).contains(&number));
        self.unless(inside, path, format!("is {value}, not between {least} and {max}"));
    }

    fn whole_number(&mut self, path: &str, value: &Value, least: u64) {
        self.unless(
            value.as_u64().is_some_and(|n| n >= least),
            path,
            format!("is {value}, no whole number from {least}"),
        );
    }

    /// Checks a text of at most `max` letters, digits, `_` and `-`.
    fn word(&mut self, path: &str, value: &Value, max: usize) {
        let legal = |word: &str| {
            (1..=max).contains(&word.len())
                && word.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-')
        };
        self.unless(
            value.as_str().is_some_and(legal),
            path,
            format!("is {value}: no word of at most {max} letters"),
        );
    }

    /// Checks base64 in either alphabet.
    fn base64(&mut self, path: &str, value: &Value) {
        use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
        let text = value.as_str().unwrap_or_default();
        let legal = BASE64_STANDARD.decode(text).is_ok() || BASE64_URL_SAFE.decode(text).is_ok();
        self.unless(legal && !text.is_empty(), path, format!("is no base64: {value}"));
    }

    fn media_type(&mut self, path: &str, value: &Value) {
        self.one_of(path, value, &["image/png", "image/jpeg", "image/gif", "image/webp"]);
    }

    /// Checks a PDF as a `data:` URL.
    fn pdf_url(&mut self, path: &str, value: &Value) {
        let url = value.as_str().and_then(|url| url.strip_prefix("data:application/pdf;base64,"));
        self.unless(url.is_some(), path, format!("is no data URL of a PDF: {value}"));
        self.base64(path, &url.unwrap_or_default().into());
    }

    /// Checks an image as a `data:` URL.
    fn data_url(&mut self, path: &str, value: &Value) {
        let parts =
            value.as_str().and_then(|url| url.strip_prefix("data:")?.split_once(";base64,"));
        let Some((media_type, data)) = parts else {
            return self.at(path, format!("is no data URL: {value}"));
        };
        self.media_type(path, &media_type.into());
        self.base64(path, &data.into());
    }

    /// Checks the root of a schema: an object without branches, in JSON Schema 2020-12.
    fn object_schema(&mut self, path: &str, schema: &Value) {
        self.unless(schema["type"] == "object", path, "is no schema of an object");
        for word in ["$ref", "allOf", "anyOf", "enum", "not", "oneOf"] {
            self.unless(schema.get(word).is_none(), path, format!("has `{word}` at its root"));
        }
        self.subschema(path, schema);
    }

    fn subschema(&mut self, path: &str, schema: &Value) {
        let fields = schema.as_object().into_iter().flatten();
        for (word, value) in
            fields.filter(|(word, _)| !matches!(word.as_str(), "const" | "default"))
        {
            self.unless(!value.is_null(), path, format!("has `{word}`, which is null"));
        }
        self.unless(!schema["items"].is_array(), path, "has `items`, which is a list");
        self.unless(!schema["exclusiveMinimum"].is_boolean(), path, "has a bound that is a flag");
        for word in ["$defs", "definitions", "properties"] {
            let map = schema.get(word).map(|map| (map, map.as_object()));
            self.unless(
                map.is_none_or(|(_, map)| map.is_some()),
                path,
                format!("has `{word}`, which is no object"),
            );
            for schema in map.and_then(|(_, map)| map).into_iter().flat_map(Map::values) {
                self.subschema(path, schema);
            }
        }
    }

    /// Checks the schema of a tool's arguments: an object whose required properties are defined.
    fn arguments_schema(&mut self, path: &str, schema: &Value) {
        self.object_schema(path, schema);
        let properties = schema["properties"].as_object();
        self.unless(properties.is_some(), path, "has no `properties`");
        for name in schema["required"].as_array().into_iter().flatten() {
            let known = name
                .as_str()
                .is_some_and(|name| properties.is_some_and(|all| all.contains_key(name)));
            self.unless(known, path, format!("requires {name}, which is no property"));
        }
    }

    /// Checks the text of a JSON object.
    fn object_text(&mut self, path: &str, value: &Value) {
        let text = value.as_str().unwrap_or_default();
        let object = serde_json::from_str::<Map<String, Value>>(text).is_ok();
        self.unless(object, path, format!("is no JSON object in a string: {value}"));
    }

    /// Checks that all names differ.
    fn different<'a>(&mut self, path: &str, names: impl IntoIterator<Item = &'a Value>) {
        let mut seen = BTreeSet::new();
        for name in names {
            self.unless(seen.insert(name.to_string()), path, format!("has {name} twice"));
        }
    }

    /// Checks that the results after a reply have the same ids as its calls, in the same order.
    fn answered(&mut self, path: &str, calls: &[Value], results: &[Value]) {
        let ids =
            |list: &[Value]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        self.unless(
            calls == results,
            path,
            format!("calls [{}], and what follows answers [{}]", ids(calls), ids(results)),
        );
    }
}

/// A change that makes a valid body invalid.
#[cfg(test)]
type Change = fn(&mut Value);

/// Checks that the valid body passes, and that each change is refused for the given reason.
#[cfg(test)]
fn refuses(check: impl Fn(&[u8]) -> Result<(), String>, good: &Value, changes: &[(&str, Change)]) {
    let bytes = |body: &Value| serde_json::to_vec(body).unwrap();
    check(&bytes(good)).unwrap();
    for (reason, change) in changes {
        let mut body = good.clone();
        change(&mut body);
        assert_ne!(body, *good, "{reason}: nothing was changed");
        let refused =
            check(&bytes(&body)).err().unwrap_or_else(|| panic!("not refused: {reason}\n{body}"));
        assert!(refused.contains(reason), "refused, but not because `{reason}`:\n{refused}");
    }
}

/// Removes a field.
#[cfg(test)]
fn drop_field(value: &mut Value, name: &str) {
    value.as_object_mut().unwrap().remove(name);
}
