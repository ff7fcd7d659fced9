//! Conversion of a tool's schema to the subset of OpenAI's strict mode, in which a grammar forces
//! the arguments to match it.
//!
//! Every property is required. An optional one may be null instead, which the engine treats as
//! absent. A schema that a server might refuse has no strict form. The limits are the lowest known
//! ones: Azure's, and OpenAI's at launch.

use serde_json::{Map, Value, json};

use super::schema::UNCHECKED;

/// The maximum nesting depth of objects, arrays and choices.
const MAX_DEPTH: usize = 5;
/// The maximum number of schemas in a schema, including properties.
const MAX_SCHEMAS: usize = 100;
/// The maximum number of values in all `enum`s of a schema.
const MAX_ENUM_VALUES: usize = 500;
/// The maximum total length of all names and `enum` values.
const MAX_NAME_BYTES: usize = 15_000;
/// The maximum length of a chain of references.
const MAX_REFERENCE_HOPS: usize = 8;

/// Keywords that do not constrain a value. References are replaced by their targets.
const ANNOTATIONS: &[&str] = &["$defs", "$schema", "definitions", "description", "title"];

/// Returns the strict form of a tool's schema, or `None` if it has none.
pub(crate) fn strict_parameters(schema: &Value) -> Option<Value> {
    let mut budget = Budget {
        root: schema,
        schemas: MAX_SCHEMAS,
        values: MAX_ENUM_VALUES,
        letters: MAX_NAME_BYTES,
    };
    budget.schema(schema, 0).filter(|strict| strict["type"] == "object")
}

/// The remaining limits while a schema is converted.
struct Budget<'a> {
    root: &'a Value,
    schemas: usize,
    values: usize,
    letters: usize,
}

impl<'a> Budget<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Option<Value> {
        spend(&mut self.schemas, 1)?;
        let (fields, own_description) = self.resolve(schema)?;
        let mut strict =
            match ["anyOf", "oneOf"].into_iter().find_map(|word| Some((word, fields.get(word)?))) {
                Some((word, branches)) => {
                    only(fields, &[word])?;
                    self.choice(branches, depth)?
                }
                None => self.typed(fields, depth)?,
            };
        let description = description(fields, own_description)?;
        if !description.is_empty() {
            strict.as_object_mut()?.insert("description".into(), description.into());
        }
        Some(strict)
    }

    /// Follows references. Returns the target and the first description on the way.
    fn resolve(&self, schema: &'a Value) -> Option<(&'a Map<String, Value>, Option<&'a Value>)> {
        let (mut fields, mut own_description) = (schema.as_object()?, None);
        for _ in 0..MAX_REFERENCE_HOPS {
            own_description = own_description.or(fields.get("description"));
            let Some(reference) = fields.get("$ref") else {
                return Some((fields, own_description));
            };
            only(fields, &["$ref"])?;
            fields = self.root.pointer(reference.as_str()?.strip_prefix('#')?)?.as_object()?;
        }
        None
    }

    /// Converts a choice. At most one branch may be an object or an array, because objects in a
    /// choice must not start with the same property.
    fn choice(&mut self, branches: &'a Value, depth: usize) -> Option<Value> {
        let depth = nested(depth)?;
        let branches: Vec<Value> = branches
            .as_array()?
            .iter()
            .map(|branch| self.schema(branch, depth))
            .collect::<Option<_>>()?;
        let composite = branches.iter().filter(|branch| !is_plain(branch)).count();
        (!branches.is_empty() && composite <= 1).then(|| json!({"anyOf": branches}))
    }

    fn typed(&mut self, fields: &'a Map<String, Value>, depth: usize) -> Option<Value> {
        let (kind, nullable) = match fields.get("type")? {
            Value::String(kind) => (kind.as_str(), false),
            Value::Array(kinds) => match kinds.as_slice() {
                [one, null] | [null, one] if null == "null" => (one.as_str()?, true),
                _ => return None,
            },
            _ => return None,
        };
        let strict = match kind {
            "object" => self.object(fields, nested(depth)?)?,
            "array" => {
                checked(fields, &["type", "items"])?;
                json!({"type": "array", "items": self.schema(fields.get("items")?,
                    nested(depth)?)?})
            }
            "string" | "number" | "integer" | "boolean" => self.plain(fields, kind, nullable)?,
            "null" if !nullable => {
                checked(fields, &["type"])?;
                json!({"type": "null"})
            }
            _ => return None,
        };
        if nullable { or_null(strict) } else { Some(strict) }
    }

    fn object(&mut self, fields: &'a Map<String, Value>, depth: usize) -> Option<Value> {
        checked(fields, &["type", "properties", "required", "additionalProperties"])?;
        let closed = match fields.get("additionalProperties") {
            None => false,
            Some(Value::Bool(false)) => true,
            Some(_) => return None,
        };
        let properties = match fields.get("properties") {
            Some(properties) => Some(properties.as_object()?),
            None if closed => None,
            None => return None, // accepts any object
        };
        let required: Vec<&str> = match fields.get("required") {
            Some(names) => names.as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?,
            None => Vec::new(),
        };
        let mut strict = Map::new();
        for (name, schema) in properties.into_iter().flatten() {
            let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
            if name.is_empty() || name.len() > 64 || !name.bytes().all(legal) {
                return None;
            }
            spend(&mut self.letters, name.len())?;
            let schema = self.schema(schema, depth)?;
            let optional = !required.contains(&name.as_str()) && !takes_null(&schema);
            strict.insert(name.clone(), if optional { or_null(schema)? } else { schema });
        }
        if !required.iter().all(|name| strict.contains_key(*name)) {
            return None;
        }
        let names: Vec<String> = strict.keys().cloned().collect();
        Some(json!({"type": "object", "properties": strict, "required": names,
                "additionalProperties": false}))
    }

    /// Converts a string, number or boolean, which may be restricted to some values. The caller
    /// adds null.
    fn plain(
        &mut self,
        fields: &'a Map<String, Value>,
        kind: &str,
        nullable: bool,
    ) -> Option<Value> {
        checked(fields, &["type", "enum", "const"])?;
        let values = match (fields.get("enum"), fields.get("const")) {
            (None, None) => return Some(json!({"type": kind})),
            (Some(values), None) => values.as_array()?.as_slice(),
            (None, Some(value)) => std::slice::from_ref(value),
            _ => return None,
        };
        spend(&mut self.values, values.len())?;
        let mut strict: Vec<&Value> = Vec::new();
        for value in values.iter().filter(|value| !nullable || !value.is_null()) {
            let fits = match (kind, value) {
                ("string", Value::String(text)) => {
                    spend(&mut self.letters, text.len())?;
                    !text.contains(|c: char| c.is_control() || c == '"' || c == '\\')
                }
                ("number", value) => value.is_number(),
                ("integer", value) => value.is_i64(),
                ("boolean", value) => value.is_boolean(),
                _ => false,
            };
            if !fits || strict.contains(&value) {
                return None;
            }
            strict.push(value);
        }
        // If null is one of the types, it must appear once among the values.
        let nulls = values.len() - strict.len();
        (!strict.is_empty() && nulls == usize::from(nullable))
            .then(|| json!({"type": kind, "enum": strict}))
    }
}

fn spend(budget: &mut usize, amount: usize) -> Option<()> {
    *budget = budget.checked_sub(amount)?;
    Some(())
}

fn nested(depth: usize) -> Option<usize> {
    (depth < MAX_DEPTH).then_some(depth + 1)
}

/// Returns `None` if there is a keyword other than `known` and the annotations.
fn only(fields: &Map<String, Value>, known: &[&str]) -> Option<()> {
    let known = |key: &String| known.contains(&key.as_str()) || ANNOTATIONS.contains(&key.as_str());
    fields.keys().all(known).then_some(())
}

/// Returns `None` if there is a keyword other than `known`, the annotations and the constraints
/// that the engine checks.
fn checked(fields: &Map<String, Value>, known: &[&str]) -> Option<()> {
    only(fields, &[known, UNCHECKED].concat())
}

/// Returns the description with the constraints added as text, because not every server accepts the
/// keywords.
fn description(fields: &Map<String, Value>, own_description: Option<&Value>) -> Option<String> {
    let own_description = own_description.map_or(Some(""), Value::as_str)?;
    let constraints =
        fields.iter().filter(|(key, _)| UNCHECKED.contains(&key.as_str()) && *key != "$schema");
    let constraints: Vec<String> =
        constraints.map(|(key, value)| format!("{key}: {value}")).collect();
    if constraints.is_empty() {
        return Some(own_description.to_owned());
    }
    Some(format!("{own_description} ({})", constraints.join(", ")).trim_start().to_owned())
}

fn is_plain(strict: &Value) -> bool {
    let composite = |kind: &Value| kind == "object" || kind == "array";
    strict.get("type").is_some_and(|kind| !composite(kind))
}

fn takes_null(strict: &Value) -> bool {
    let kind = &strict["type"];
    let branches = strict["anyOf"].as_array().into_iter().flatten();
    kind == "null"
        || kind.as_array().is_some_and(|kinds| kinds.contains(&"null".into()))
        || branches.into_iter().any(takes_null)
}

/// Returns a schema that also accepts null. The description moves to the outer schema.
fn or_null(mut strict: Value) -> Option<Value> {
    let null_schema = json!({"type": "null"});
    let fields = strict.as_object_mut()?;
    if let Some(Value::Array(branches)) = fields.get_mut("anyOf") {
        branches.push(null_schema);
        return Some(strict);
    }
    let kind = fields.get("type")?.clone();
    if kind != "object" && kind != "array" && !fields.contains_key("enum") {
        fields.insert("type".into(), json!([kind, "null"]));
        return Some(strict);
    }
    let description = fields.remove("description");
    let mut nullable = json!({"anyOf": [strict, null_schema]});
    if let Some(description) = description {
        nullable.as_object_mut()?.insert("description".into(), description);
    }
    Some(nullable)
}

#[cfg(test)]
mod tests;
