//! Python values as the JSON of a call's arguments.

use monty_types::MontyObject;
use serde_json::{Map, Number, Value};

/// The maximum depth of an argument.
const MAX_DEPTH: usize = 64;

/// Returns the arguments of a call. The error is the message of an exception.
pub(super) fn arguments_of(
    function: &str,
    args: &[MontyObject],
    kwargs: &[(MontyObject, MontyObject)],
) -> Result<Map<String, Value>, String> {
    if !args.is_empty() {
        return Err(format!("{function}() takes keyword arguments only"));
    }
    object(kwargs.iter().map(|(key, value)| (key, value)), 0)
        .map_err(|why| format!("{function}() cannot be called with these arguments: {why}"))
}

fn object<'a>(
    pairs: impl Iterator<Item = (&'a MontyObject, &'a MontyObject)>,
    depth: usize,
) -> Result<Map<String, Value>, String> {
    pairs
        .map(|(key, value)| match key {
            MontyObject::String(key) => Ok((key.clone(), json(value, depth + 1)?)),
            key => Err(format!("a key of a dict must be a str, not {}", key.type_name())),
        })
        .collect()
}

fn json(value: &MontyObject, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err("they are nested too deep".to_owned());
    }
    let array = |items: &[MontyObject]| {
        let items: Result<_, String> = items.iter().map(|item| json(item, depth + 1)).collect();
        items.map(Value::Array)
    };
    match value {
        MontyObject::None => Ok(Value::Null),
        MontyObject::Bool(value) => Ok(Value::Bool(*value)),
        MontyObject::Int(value) => Ok(Value::Number((*value).into())),
        MontyObject::Float(value) => match Number::from_f64(*value) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(format!("{value} is not JSON")),
        },
        MontyObject::String(text) => Ok(Value::String(text.clone())),
        MontyObject::List(items)
        | MontyObject::Tuple(items)
        | MontyObject::Set(items)
        | MontyObject::FrozenSet(items)
        | MontyObject::NamedTuple { values: items, .. } => array(items),
        MontyObject::Dict(pairs) => {
            object(pairs.into_iter().map(|(key, value)| (key, value)), depth).map(Value::Object)
        }
        MontyObject::BigInt(_) => Err("an int is too large".to_owned()),
        value => Err(format!("a {} is not JSON", value.type_name())),
    }
}
