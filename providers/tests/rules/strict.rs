//! Rules of the schema of a strict tool: "Supported schemas" in OpenAI's guide to structured
//! outputs, and in Azure's guide, which supports fewer keywords.

use serde_json::Value;

use super::Wrong;

const WORDS: &[&str] = &[
    "$defs",
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "description",
    "enum",
    "items",
    "properties",
    "required",
    "type",
];
const TYPES: &[&str] = &["string", "number", "integer", "boolean", "object", "array", "null"];

/// Counts of the limited parts of a schema.
#[derive(Default)]
struct Counted {
    properties: usize,
    values: usize,
    letters: usize,
}

/// Checks the schema of a strict tool's arguments.
pub(super) fn parameters(wrong: &mut Wrong, path: &str, root: &Value) {
    let path = &format!("{path}, which are strict,");
    wrong.unless(root["type"] == "object" && root.get("anyOf").is_none(), path, "are no object");
    let mut counted = Counted::default();
    schema(wrong, path, root, 0, &mut counted);
    wrong.unless(counted.properties <= 5_000, path, "have more than 5000 properties");
    wrong.unless(counted.values <= 1_000, path, "have more than 1000 values");
    wrong.unless(counted.letters <= 120_000, path, "have more than 120000 letters");
}

fn schema(wrong: &mut Wrong, path: &str, schema: &Value, depth: usize, counted: &mut Counted) {
    let Some(fields) = schema.as_object() else {
        return wrong.at(path, format!("have a schema that is none: {schema}"));
    };
    for word in fields.keys().filter(|word| !WORDS.contains(&word.as_str())) {
        wrong.at(path, format!("have the word `{word}`"));
    }
    if fields.contains_key("$ref") {
        wrong.unless(fields.len() == 1, path, "have words beside a reference");
        return;
    }
    for one in schema["$defs"].as_object().into_iter().flat_map(|all| all.values()) {
        self::schema(wrong, path, one, depth, counted);
    }
    if let Some(branches) = fields.get("anyOf") {
        let branches = wrong.list(path, branches);
        branches.iter().for_each(|one| self::schema(wrong, path, one, depth, counted));
        let first =
            |one: &Value| one["properties"].as_object().and_then(|all| all.keys().next().cloned());
        wrong.different(
            path,
            &branches.iter().filter_map(first).map(Value::String).collect::<Vec<_>>(),
        );
        return;
    }
    let types: Vec<&Value> =
        schema["type"].as_array().map_or(vec![&schema["type"]], |types| types.iter().collect());
    for one in &types {
        wrong.one_of(path, one, TYPES);
    }
    let is = |kind: &str| types.iter().any(|one| *one == kind);
    if let Some(values) = fields.get("enum") {
        let values = wrong.list(path, values);
        wrong.different(path, values);
        counted.values += values.len();
        for value in values {
            counted.letters += value.as_str().map_or(0, str::len);
            let fits = match value {
                Value::String(_) => is("string"),
                Value::Number(number) => is("number") || is("integer") && !number.is_f64(),
                Value::Bool(_) => is("boolean"),
                Value::Null => is("null"),
                _ => false,
            };
            wrong.unless(fits, path, format!("have the value {value}, which is not of its type"));
        }
    }
    wrong.unless(
        depth < 10 || !(is("object") || is("array")),
        path,
        "are more than 10 levels deep",
    );
    if is("array") {
        self::schema(wrong, path, &schema["items"], depth + 1, counted);
    }
    if is("object") {
        wrong.unless(schema["additionalProperties"] == false, path, "leave things open");
        let properties = schema["properties"].as_object();
        wrong.unless(properties.is_some(), path, "have an object without `properties`");
        let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        wrong.different(path, required);
        for (name, one) in properties.into_iter().flatten() {
            wrong.unless(
                required.iter().any(|it| it == name),
                path,
                format!("leave `{name}` open"),
            );
            counted.properties += 1;
            counted.letters += name.len();
            self::schema(wrong, path, one, depth + 1, counted);
        }
        wrong.unless(
            required.len() == properties.map_or(0, |all| all.len()),
            path,
            "require what is no property",
        );
    }
}

#[test]
fn what_is_not_strict_is_refused() {
    use serde_json::json;

    use super::{drop_field, refuses};
    let check =
        |body: &[u8]| super::check(body, |wrong, body| parameters(wrong, "parameters", body));
    let good = json!({
        "type": "object", "additionalProperties": false, "required": ["list", "text"],
        "properties": {
            "text": {"type": ["string", "null"], "description": "What."},
            "list": {"type": "array", "items": {"anyOf": [
                {"type": "string", "enum": ["a", "b"]}, {"type": "null"},
                {"type": "object", "properties": {}, "required": [], "additionalProperties": false},
            ]}},
        },
    });
    refuses(
        check,
        &good,
        &[
            ("are no object", |b| *b = json!({"anyOf": [b.take()]})),
            ("the word `oneOf`", |b| b["oneOf"] = json!([])),
            ("the word `minimum`", |b| b["properties"]["text"]["minimum"] = 1.into()),
            ("leave things open", |b| drop_field(b, "additionalProperties")),
            ("leave `text` open", |b| b["required"] = json!(["list"])),
            ("no property", |b| b["required"] = json!(["list", "text", "more"])),
            ("twice", |b| b["required"] = json!(["list", "text", "text"])),
            ("none of", |b| drop_field(&mut b["properties"]["text"], "type")),
            ("a schema that is none", |b| drop_field(&mut b["properties"]["list"], "items")),
            ("beside a reference", |b| b["properties"]["text"]["$ref"] = "#/$defs/A".into()),
            ("not of its type", |b| {
                b["properties"]["list"]["items"]["anyOf"][0]["enum"][0] = 1.into()
            }),
            ("leave things open", |b| {
                drop_field(
                    &mut b["properties"]["list"]["items"]["anyOf"][2],
                    "additionalProperties",
                )
            }),
            ("without `properties`", |b| {
                drop_field(&mut b["properties"]["list"]["items"]["anyOf"][2], "properties")
            }),
            ("10 levels", |b| {
                let list = |inner, _| json!({"type": "array", "items": inner});
                b["properties"]["list"] = (0..10).fold(json!({"type": "string"}), list);
            }),
            ("1000 values", |b| {
                b["properties"]["text"]["enum"] =
                    (0..1_001).map(|at| json!(at.to_string())).collect();
            }),
            ("120000 letters", |b| b["properties"]["text"]["enum"] = json!(["x".repeat(120_001)])),
            ("5000 properties", |b| {
                let names: Vec<String> = (0..5_001).map(|at| format!("p{at}")).collect();
                b["properties"] = names
                    .iter()
                    .map(|name| (name.clone(), json!({"type": "string"})))
                    .collect::<serde_json::Map<_, _>>()
                    .into();
                b["required"] = names.into();
            }),
        ],
    );
}
