//! Safe conversions of what a model wrote into what a schema asks for.

use serde_json::{Map, Value};

/// The depth at which a schema that refers to itself is no longer followed.
const MAX_DEPTH: usize = 64;

/// Converts what certainly means another value: a string where a number, boolean, array or object
/// is expected and the string contains one; `400.0` where an integer is expected; `null` for an
/// optional property. A single value is not wrapped in an array.
pub(crate) fn coerce(schema: &Value, value: &mut Value) {
    coerce_at(schema, schema, value, 0);
}

fn coerce_at(root: &Value, schema: &Value, value: &mut Value, depth: usize) {
    let Some(rules) = resolve(root, schema).as_object() else {
        return;
    };
    if depth > MAX_DEPTH {
        return;
    }
    for part in list(rules, "allOf") {
        coerce_at(root, part, value, depth + 1);
    }
    let wanted = Types::of(root, rules, 0);
    if let Some(better) = convert(wanted, value) {
        *value = better;
    }
    match value {
        Value::Object(fields) => {
            for branch in list(rules, "anyOf")
                .chain(list(rules, "oneOf"))
                .filter(|b| Types::of_schema(root, b, 0).has(Types::OBJECT))
            {
                if let Some(rules) = resolve(root, branch).as_object() {
                    coerce_fields(root, rules, fields, depth);
                }
            }
            coerce_fields(root, rules, fields, depth);
        }
        Value::Array(items) => {
            let branches = list(rules, "anyOf")
                .chain(list(rules, "oneOf"))
                .filter_map(|b| resolve(root, b).get("items"));
            for schema in rules.get("items").into_iter().chain(branches) {
                items.iter_mut().for_each(|item| coerce_at(root, schema, item, depth + 1));
            }
        }
        _ => {}
    }
}

fn coerce_fields(
    root: &Value,
    rules: &Map<String, Value>,
    fields: &mut Map<String, Value>,
    depth: usize,
) {
    let properties = rules.get("properties").and_then(Value::as_object);
    let required = |name: &str| list(rules, "required").any(|r| r == name);
    fields.retain(|name, value| {
        let Some(schema) = properties.and_then(|p| p.get(name)) else {
            return true;
        };
        !(value.is_null() && !required(name) && !Types::of_schema(root, schema, 0).allows_null())
    });
    for (name, value) in fields.iter_mut() {
        let named = properties.and_then(|p| p.get(name));
        if let Some(schema) = named.or_else(|| rules.get("additionalProperties")) {
            coerce_at(root, schema, value, depth + 1);
        }
    }
}

fn convert(wanted: Types, value: &Value) -> Option<Value> {
    match value {
        Value::String(text) if !wanted.is_empty() && !wanted.has(Types::STRING) => {
            let read: Value = serde_json::from_str(text.trim()).ok()?;
            let fits = match &read {
                Value::Number(n) => {
                    wanted.has(Types::NUMBER) || wanted.has(Types::INTEGER) && is_integral(n)
                }
                Value::Bool(_) => wanted.has(Types::BOOLEAN),
                Value::Array(_) => wanted.has(Types::ARRAY),
                Value::Object(_) => wanted.has(Types::OBJECT),
                _ => false,
            };
            fits.then(|| convert(wanted, &read).unwrap_or(read))
        }
        Value::Number(n)
            if n.is_f64()
                && wanted.has(Types::INTEGER)
                && !wanted.has(Types::NUMBER)
                && is_integral(n) =>
        {
            let float = n.as_f64()?;
            // 2^53: beyond it a float does not say which integer is meant.
            (float.abs() <= 9_007_199_254_740_992.0).then(|| Value::from(float as i64))
        }
        _ => None,
    }
}

fn is_integral(n: &serde_json::Number) -> bool {
    !n.is_f64() || n.as_f64().is_some_and(|f| f.fract() == 0.0)
}

fn list<'a>(rules: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a Value> {
    rules.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Follows a reference inside the schema.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..MAX_DEPTH {
        let Some(to) = schema.get("$ref").and_then(Value::as_str) else {
            break;
        };
        let Some(found) = to.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) else {
            break;
        };
        schema = found;
    }
    schema
}

/// The types that a schema allows, as bits; none if it does not say.
#[derive(Clone, Copy)]
struct Types(u8);

impl Types {
    const STRING: u8 = 1;
    const NUMBER: u8 = 2;
    const INTEGER: u8 = 4;
    const BOOLEAN: u8 = 8;
    const ARRAY: u8 = 16;
    const OBJECT: u8 = 32;
    const NULL: u8 = 64;

    fn has(self, kind: u8) -> bool {
        self.0 & kind != 0
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn allows_null(self) -> bool {
        self.is_empty() || self.has(Self::NULL)
    }

    fn of_schema(root: &Value, schema: &Value, depth: usize) -> Types {
        resolve(root, schema).as_object().map_or(Types(0), |rules| Self::of(root, rules, depth))
    }

    fn of(root: &Value, rules: &Map<String, Value>, depth: usize) -> Types {
        let mut bits = match rules.get("type") {
            Some(Value::String(name)) => Self::bit(name),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).map(Self::bit).fold(0, |a, b| a | b)
            }
            _ => 0,
        };
        let values = rules.get("const").into_iter().chain(list(rules, "enum"));
        if bits == 0 {
            bits = values.map(Self::of_value).fold(0, |a, b| a | b);
        }
        if bits == 0 && depth < 8 {
            let branches = list(rules, "anyOf").chain(list(rules, "oneOf"));
            bits = branches
                .map(|branch| Self::of_schema(root, branch, depth + 1).0)
                .fold(0, |a, b| a | b);
        }
        Types(bits)
    }

    fn bit(name: &str) -> u8 {
        match name {
            "string" => Self::STRING,
            "number" => Self::NUMBER,
            "integer" => Self::INTEGER,
            "boolean" => Self::BOOLEAN,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            "null" => Self::NULL,
            _ => 0,
        }
    }

    fn of_value(value: &Value) -> u8 {
        match value {
            Value::String(_) => Self::STRING,
            Value::Number(n) if n.is_f64() => Self::NUMBER,
            Value::Number(_) => Self::INTEGER,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
            Value::Null => Self::NULL,
        }
    }
}
