//! Safe conversions of a model's values to the types of a schema.

use serde_json::{Map, Value};

/// Depth at which a schema that refers to itself is no longer followed.
const MAX_DEPTH: usize = 64;
/// Maximum number of applications of a subschema to a value, list elements included. Schemas of
/// servers may refer to themselves several times on each level.
const MAX_STEPS: usize = 200_000;

/// Converts values whose meaning is certain: a string that contains the expected number, boolean,
/// array or object; `400.0` for an integer; `null` for an optional property. A single value is not
/// wrapped in an array.
///
/// Conversion stops when a hostile schema would take too long.
pub(crate) fn coerce(schema: &Value, value: &mut Value) {
    Coercion { root: schema, steps: 0 }.apply(schema, value, 0);
}

struct Coercion<'s> {
    root: &'s Value,
    steps: usize,
}

impl<'s> Coercion<'s> {
    /// Returns the rules of a schema, or `None` if it has none or the steps are used up.
    fn rules(&mut self, schema: &'s Value) -> Option<&'s Map<String, Value>> {
        if !self.spend(1) {
            return None;
        }
        let (schema, hops) = resolve(self.root, schema);
        self.spend(hops);
        schema.as_object()
    }

    /// Counts steps. Returns whether the limit still holds.
    fn spend(&mut self, steps: usize) -> bool {
        self.steps += steps;
        self.steps <= MAX_STEPS
    }

    fn apply(&mut self, schema: &'s Value, value: &mut Value, depth: usize) {
        let Some(rules) = self.rules(schema).filter(|_| depth <= MAX_DEPTH) else {
            return;
        };
        for part in list(rules, "allOf") {
            self.apply(part, value, depth + 1);
        }
        let wanted = self.types(rules, 0);
        if let Some(better) = convert(wanted, value) {
            *value = better;
        }
        let branches = list(rules, "anyOf").chain(list(rules, "oneOf"));
        match value {
            Value::Object(fields) => {
                for branch in branches {
                    if let Some(rules) = self.rules(branch)
                        && self.types(rules, 0).has(Types::OBJECT)
                    {
                        self.apply_to_fields(rules, fields, depth);
                    }
                }
                self.apply_to_fields(rules, fields, depth);
            }
            Value::Array(items) => {
                let of_branches = branches.filter_map(|b| resolve(self.root, b).0.get("items"));
                let schemas: Vec<_> = rules.get("items").into_iter().chain(of_branches).collect();
                for schema in schemas {
                    items.iter_mut().for_each(|item| self.apply(schema, item, depth + 1));
                }
            }
            _ => {}
        }
    }

    fn apply_to_fields(
        &mut self,
        rules: &'s Map<String, Value>,
        fields: &mut Map<String, Value>,
        depth: usize,
    ) {
        let properties = rules.get("properties").and_then(Value::as_object);
        let required = |name: &str| list(rules, "required").any(|r| r == name);
        let in_required = list(rules, "required").count();
        fields.retain(|name, value| {
            let Some(schema) = properties.and_then(|p| p.get(name)) else {
                return true;
            };
            if !value.is_null() || !self.spend(in_required) {
                return true;
            }
            required(name) || self.types_of(schema, 0).allows_null()
        });
        for (name, value) in fields.iter_mut() {
            let named = properties.and_then(|p| p.get(name));
            if let Some(schema) = named.or_else(|| rules.get("additionalProperties")) {
                self.apply(schema, value, depth + 1);
            }
        }
    }

    fn types_of(&mut self, schema: &'s Value, depth: usize) -> Types {
        self.rules(schema).map_or(Types(0), |rules| self.types(rules, depth))
    }

    fn types(&mut self, rules: &'s Map<String, Value>, depth: usize) -> Types {
        if !self.spend(list(rules, "type").count()) {
            return Types(0);
        }
        let mut bits = match rules.get("type") {
            Some(Value::String(name)) => Types::bit(name),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).map(Types::bit).fold(0, |a, b| a | b)
            }
            _ => 0,
        };
        let values = rules.get("const").into_iter().chain(list(rules, "enum"));
        if bits == 0 && self.spend(list(rules, "enum").count()) {
            bits = values.map(Types::of_value).fold(0, |a, b| a | b);
        }
        if bits == 0 && depth < 8 {
            let branches = list(rules, "anyOf").chain(list(rules, "oneOf"));
            bits = branches.map(|branch| self.types_of(branch, depth + 1).0).fold(0, |a, b| a | b);
        }
        Types(bits)
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
            // 2^53: a larger float does not identify an integer.
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

/// Follows references inside the schema. Also returns their number.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> (&'a Value, usize) {
    let mut schema = schema;
    for hops in 0..MAX_DEPTH {
        let Some(to) = schema.get("$ref").and_then(Value::as_str) else {
            return (schema, hops);
        };
        let Some(found) = to.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) else {
            return (schema, hops);
        };
        schema = found;
    }
    (schema, MAX_DEPTH)
}

/// The types that a schema allows, as bits; 0 if it names no type.
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
