//! Paths, numbers, quoted strings and `key=value` pairs of a prompt, and arguments built from them.

use std::sync::Arc;

use loopwright_core::tool::ToolSpec;
use serde_json::{Map, Value, json};

/// A call from a rule.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    pub(super) tool: Arc<str>,
    pub(super) arguments: Value,
}

/// A parsed prompt.
pub(super) struct Words<'p> {
    pub(super) prompt: &'p str,
    /// The words, without surrounding quotes and punctuation.
    pub(super) words: Vec<&'p str>,
    /// The quoted strings.
    pub(super) quoted: Vec<&'p str>,
    /// The numbers, in order.
    pub(super) numbers: Vec<f64>,
    /// The words that look like paths.
    pub(super) paths: Vec<&'p str>,
}

/// Words with a full stop or a slash that are not paths.
const NO_PATHS: &[&str] = &["e.g", "i.e", "and/or", "a.m", "p.m"];
/// From this depth on, only required properties are filled. Beyond `MAX_DEPTH` none are, because a
/// type may contain itself.
const OPTIONAL_DEPTH: u32 = 4;
const MAX_DEPTH: u32 = 8;
const PUNCTUATION: &[char] =
    &[',', ';', ':', '!', '?', '(', ')', '[', ']', '"', '\'', '`', '“', '”', '«', '»'];

impl<'p> Words<'p> {
    pub(super) fn of(prompt: &'p str) -> Self {
        let bare = |word: &'p str| {
            word.trim_matches(PUNCTUATION).trim_end_matches('.').trim_matches(PUNCTUATION)
        };
        let words: Vec<&str> =
            prompt.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect();
        let numbers = words
            .iter()
            .filter_map(|word| word.parse().ok())
            .filter(|n: &f64| n.is_finite())
            .collect();
        let mut paths: Vec<&str> = words.iter().copied().filter(|word| is_path(word)).collect();
        let mut seen = std::collections::HashSet::new();
        paths.retain(|path| seen.insert(*path));
        Words { prompt, quoted: quoted(prompt), numbers, paths, words }
    }

    /// Returns whether the prompt contains one of these words, ignoring case.
    pub(super) fn has(&self, any: &[&str]) -> bool {
        self.words.iter().any(|word| any.iter().any(|sign| word.eq_ignore_ascii_case(sign)))
    }

    /// Returns the value of `key=value` or `key: value`.
    pub(super) fn value(&self, key: &str) -> Option<&'p str> {
        value_in(self.prompt, key)
    }

    /// Returns a call of `tool` with its required arguments taken from the prompt.
    pub(super) fn call(&self, tool: &ToolSpec) -> Call {
        let mut filler = Filler::new(self);
        filler.is_call = true;
        let schema = &tool.schema;
        let required =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut arguments: Map<String, Value> = required
            .map(|key| (key.to_owned(), filler.fill(key, &schema["properties"][key], schema)))
            .collect();
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            if !arguments.contains_key(key) && self.value(key).is_some() {
                arguments.insert(key.clone(), filler.fill(key, property, schema));
            }
        }
        Call { tool: tool.name.clone(), arguments: Value::Object(arguments) }
    }
}

/// A filler of schemas with values from a prompt. It uses each value once, in order.
pub(super) struct Filler<'w, 'p> {
    words: &'w Words<'p>,
    /// Lines of the form `key = value`, which are searched in addition to the prompt.
    pub(super) facts: &'w str,
    quoted: std::slice::Iter<'w, &'p str>,
    numbers: std::slice::Iter<'w, f64>,
    paths: std::slice::Iter<'w, &'p str>,
    /// `true` if the value is for the arguments of a call.
    is_call: bool,
    depth: u32,
}

impl<'w, 'p> Filler<'w, 'p> {
    pub(super) fn new(words: &'w Words<'p>) -> Self {
        let (quoted, numbers, paths) =
            (words.quoted.iter(), words.numbers.iter(), words.paths.iter());
        Filler { words, facts: "", quoted, numbers, paths, is_call: false, depth: 0 }
    }

    /// Returns a value for the property `key` that matches `schema`, if the schema is simple.
    /// References are resolved in `root`.
    pub(super) fn fill(&mut self, key: &str, schema: &Value, root: &Value) -> Value {
        if self.depth > MAX_DEPTH {
            return Value::Null; // a recursive type
        }
        self.depth += 1;
        let value = self.fill_once(key, schema, root);
        self.depth -= 1;
        value
    }

    fn fill_once(&mut self, key: &str, schema: &Value, root: &Value) -> Value {
        if let Some(fixed) = schema.get("const") {
            return fixed.clone();
        }
        if let Some(default) = schema.get("default")
            && self.named(key).is_none()
        {
            return default.clone();
        }
        if let Some(pointer) = schema["$ref"].as_str().and_then(|to| to.strip_prefix('#')) {
            return self.fill(key, root.pointer(pointer).unwrap_or(&Value::Null), root);
        }
        if let Some(choices) = choices(schema) {
            return self.choice(key, &choices);
        }
        if let Some(any) = ["anyOf", "oneOf", "allOf"].iter().find_map(|of| schema[of].as_array()) {
            let null = any.iter().find(|of| of["type"] == "null" && self.depth > OPTIONAL_DEPTH);
            return null.or(any.first()).map_or(Value::Null, |of| self.fill(key, of, root));
        }
        let kind =
            schema["type"].as_array().and_then(|kinds| kinds.first()).unwrap_or(&schema["type"]);
        match kind.as_str().unwrap_or("string") {
            "object" => {
                let required = |key: &String| {
                    schema["required"].as_array().is_some_and(|all| all.iter().any(|r| r == key))
                };
                let fields = schema["properties"].as_object().into_iter().flatten();
                let fields = fields
                    .filter(|(key, _)| self.depth <= OPTIONAL_DEPTH || required(key))
                    .collect::<Vec<_>>();
                fields
                    .into_iter()
                    .map(|(key, field)| (key.clone(), self.fill(key, field, root)))
                    .collect()
            }
            "array" => match schema["items"]["type"].as_str() {
                Some("integer" | "number") => self.numbers.by_ref().map(|n| number(*n)).collect(),
                Some("string") if self.quoted.len() > 1 => self.quoted.by_ref().copied().collect(),
                _ => json!([]),
            },
            "integer" => number(self.number(key, schema).trunc()),
            "number" => number(self.number(key, schema)),
            "boolean" => json!(self.named(key) == Some("true")),
            "null" => Value::Null,
            _ => json!(self.string(key)),
        }
    }

    /// Returns the choice that the prompt names, else the first. A call keeps an invalid choice, so
    /// that the check of the arguments reports the allowed ones.
    fn choice(&self, key: &str, choices: &[&Value]) -> Value {
        let text =
            |choice: &Value| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned);
        if let Some(named) = self.named(key) {
            let named_choice = choices.iter().find(|c| text(c).eq_ignore_ascii_case(named));
            match named_choice {
                Some(choice) => return (*choice).clone(),
                None if self.is_call => return json!(named),
                None => {}
            }
        }
        let in_prompt = |choice: &&&Value| choice.as_str().is_some_and(|c| self.words.has(&[c]));
        let choice = choices.iter().find(in_prompt).or(choices.first());
        choice.map(|choice| (*choice).clone()).unwrap_or_default()
    }

    fn named(&self, key: &str) -> Option<&'w str> {
        self.words.value(key).or_else(|| value_in(self.facts, key))
    }

    fn number(&mut self, key: &str, schema: &Value) -> f64 {
        let named = self.named(key).and_then(|value| value.parse().ok());
        named.or_else(|| self.numbers.next().copied()).or(schema["minimum"].as_f64()).unwrap_or(0.0)
    }

    fn string(&mut self, key: &str) -> &'w str {
        if let Some(value) = self.named(key) {
            return value;
        }
        if ["path", "file", "dir"].iter().any(|sign| key.contains(sign)) {
            return self.paths.next().copied().unwrap_or(".");
        }
        let name = |word: &&&str| word.starts_with(char::is_uppercase);
        let quoted = self.quoted.next().copied();
        quoted
            .or_else(|| self.words.words.iter().skip(1).find(name).copied())
            .unwrap_or(self.words.prompt)
    }
}

/// Returns the values of an `enum`, or of alternatives with one value each, the form of types with
/// documented variants.
fn choices(schema: &Value) -> Option<Vec<&Value>> {
    if let Some(values) = schema["enum"].as_array() {
        return Some(values.iter().collect());
    }
    let alternatives = ["oneOf", "anyOf"].iter().find_map(|of| schema[of].as_array())?;
    let mut values = Vec::new();
    for alternative in alternatives {
        match (alternative.get("const"), alternative["enum"].as_array()) {
            (Some(value), _) => values.push(value),
            (None, Some(more)) => values.extend(more),
            (None, None) => return None,
        }
    }
    Some(values)
}

/// Returns a number as JSON; integers have no decimal point.
fn number(n: f64) -> Value {
    if n.fract() == 0.0 && n.abs() < 1e15 { json!(n as i64) } else { json!(n) }
}

fn is_path(word: &str) -> bool {
    let extension = word.rsplit_once('.').is_some_and(|(_, after)| {
        (1..=10).contains(&after.len()) && after.chars().all(|c| c.is_ascii_alphanumeric())
    });
    (extension || word.contains('/') || word == ".")
        && (word == "." || word.contains(char::is_alphabetic))
        && !word.contains("://")
        && !word.contains('=')
        && !NO_PATHS.contains(&word.to_lowercase().as_str())
}

fn quoted(prompt: &str) -> Vec<&str> {
    let mut quotations = Vec::new();
    for quote in ['"', '`', '\''] {
        let mut rest = prompt;
        // An apostrophe within a word does not start a quotation.
        while let Some(at) = rest.find(quote) {
            let after = &rest[at + 1..];
            let within = rest[..at].ends_with(char::is_alphanumeric);
            match after.find(quote) {
                Some(end) if !within => {
                    quotations.push(&after[..end]);
                    rest = &after[end + 1..];
                }
                _ => rest = after,
            }
        }
    }
    quotations
}

fn value_in<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    for (at, _) in text.match_indices(key) {
        let begins = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-');
        let after = text[at + key.len()..].trim_start_matches(['"', '`']).trim_start_matches(' ');
        let Some(value) = after.strip_prefix(['=', ':']).filter(|_| begins) else {
            continue;
        };
        let value = value.trim_start_matches(' ');
        let value = match value.chars().next() {
            Some(quote @ ('"' | '\'' | '`')) => value[1..].split(quote).next(),
            _ => value.split([' ', ',', ';', '\n']).next(),
        };
        return value.filter(|value| !value.is_empty());
    }
    None
}
