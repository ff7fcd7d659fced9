//! Safe conversions of a model's values to the types of a schema.

use serde_json::{Map, Value};

use crate::json::{self, text_weight, weight};
use crate::json_schema::target;

/// Depth at which a schema that refers to itself is no longer followed.
const MAX_DEPTH: usize = 64;
/// Maximum number of applications of a subschema to a value, list elements included. Schemas of
/// servers may refer to themselves several times on each level.
const MAX_STEPS: usize = 200_000;

/// Returns whether a value is valid under a subschema of the schema, or `None` if that cannot be
/// found out.
pub(crate) type Fits<'f> = &'f mut dyn FnMut(&Value, &Value) -> Option<bool>;

/// Converts values whose meaning is certain: a string that contains the expected number, boolean,
/// array or object; `400.0` for an integer; `null` for an optional property. A single value is not
/// wrapped in an array, and a number is not rounded.
///
/// Of several branches, only one is followed: the first that accepts the value, else the first that
/// accepts it after its conversion, else the only one for values of its type, so that errors are
/// about that one. If nothing can be validated, only the last of these is known.
///
/// Conversion stops when a hostile schema would take too long.
pub(crate) fn coerce(schema: &Value, value: &mut Value, fits: Fits<'_>) {
    Coercion { root: schema, steps: 0, fits }.apply(schema, value, 0);
}

struct Coercion<'s, 'f> {
    root: &'s Value,
    steps: usize,
    fits: Fits<'f>,
}

impl<'s> Coercion<'s, '_> {
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
        let wanted = self.own_types(rules);
        if self.spend(value.as_str().map_or(0, text_weight))
            && let Some(better) = convert(wanted, value)
        {
            *value = better;
        }
        match value {
            Value::Object(fields) => self.apply_to_fields(rules, fields, depth),
            Value::Array(items) => {
                let is_tuple = rules.get("items").is_some_and(Value::is_array);
                let (first, rest) =
                    if is_tuple { ("items", "additionalItems") } else { ("prefixItems", "items") };
                let rest = std::iter::repeat(rules.get(rest)).map_while(|rest| rest);
                for (item, schema) in items.iter_mut().zip(list(rules, first).chain(rest)) {
                    self.apply(schema, item, depth + 1);
                }
            }
            _ => {}
        }
        for word in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = rules.get(word) {
                self.apply_branch(branches, value, depth + 1);
            }
        }
    }

    /// Applies the branch that the value is meant for, if that is certain.
    fn apply_branch(&mut self, branches: &'s [Value], value: &mut Value, depth: usize) {
        for branch in branches {
            if self.spend(1) && (self.fits)(branch, value) == Some(true) {
                return self.apply(branch, value, depth);
            }
        }
        let (mut only, mut candidates) = (None, 0);
        for branch in branches {
            if !self.spend(weight(value)) {
                return;
            }
            let mut converted = value.clone();
            self.apply(branch, &mut converted, depth);
            if (self.fits)(branch, &converted) == Some(true) {
                *value = converted;
                return;
            }
            if converted != *value || self.types_of(branch, depth).admit(value) {
                candidates += 1;
                only = (candidates == 1).then_some(converted);
            }
        }
        if let Some(only) = only {
            *value = only;
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
            required(name) || self.allows_null(schema)
        });
        // Which names a pattern has is found out by validation only.
        let others =
            rules.get("additionalProperties").filter(|_| !rules.contains_key("patternProperties"));
        for (name, value) in fields.iter_mut() {
            if let Some(schema) = properties.and_then(|p| p.get(name)).or(others) {
                self.apply(schema, value, depth + 1);
            }
        }
    }

    fn allows_null(&mut self, schema: &'s Value) -> bool {
        let fits = (self.fits)(schema, &Value::Null);
        fits.unwrap_or_else(|| self.types_of(schema, 0).admit(&Value::Null))
    }

    /// Returns the types that a schema allows, also in its branches.
    fn types_of(&mut self, schema: &'s Value, depth: usize) -> Types {
        let Some(rules) = self.rules(schema).filter(|_| depth < MAX_DEPTH) else {
            return Types(0);
        };
        let own = self.own_types(rules);
        if !own.is_empty() {
            return own;
        }
        let mut all = 0;
        for branch in list(rules, "anyOf").chain(list(rules, "oneOf")) {
            match self.types_of(branch, depth + 8).0 {
                0 => return Types(0),
                types => all |= types,
            }
        }
        Types(all)
    }

    /// Returns the types that a schema names itself.
    fn own_types(&mut self, rules: &'s Map<String, Value>) -> Types {
        if !self.spend(list(rules, "type").count() + list(rules, "enum").count()) {
            return Types(0);
        }
        let named = match rules.get("type") {
            Some(Value::String(name)) => Types::bit(name),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).map(Types::bit).fold(0, |a, b| a | b)
            }
            _ => 0,
        };
        if named != 0 {
            return Types(named);
        }
        let values = rules.get("const").into_iter().chain(list(rules, "enum"));
        Types(values.map(Types::of_value).fold(0, |a, b| a | b))
    }
}

fn convert(wanted: Types, value: &Value) -> Option<Value> {
    match value {
        Value::String(text) if !wanted.is_empty() && !wanted.has(Types::STRING) => {
            let read = json::read(text.trim()).ok()?;
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
        let reference = schema.get("$ref");
        let Some(found) = reference.and_then(|reference| target(root, reference)) else {
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

    /// Returns whether a value may be of these types.
    fn admit(self, value: &Value) -> bool {
        let types = match value {
            Value::Number(_) => Self::NUMBER | Self::INTEGER,
            _ => Self::of_value(value),
        };
        self.is_empty() || self.has(types)
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
