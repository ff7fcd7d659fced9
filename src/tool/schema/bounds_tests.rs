//! Hostile and unusual schemas: bounded time and stack, and the same verdicts as without bounds.

use serde_json::{Map, Value, json};

use super::Schema;

fn compile(schema: &Value) -> Result<Schema, String> {
    Schema::compile(schema)
}

fn refusal(schema: &Value) -> String {
    compile(schema).err().unwrap_or_else(|| panic!("it compiles"))
}

/// Validates like a call, but without coercion.
fn verdict(schema: &Value, value: &Value) -> Result<(), String> {
    compile(schema).unwrap().validator.validate(value)
}

fn nested(levels: usize, inner: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(inner, |schema, _| wrap(schema))
}

/// Builds definitions, each made from a reference to the next one.
fn chain(length: usize, last: Value, wrap: impl Fn(Value) -> Value) -> Value {
    let mut definitions = Map::new();
    for at in 0..length {
        let next = json!({ "$ref": format!("#/$defs/d{}", at + 1) });
        definitions.insert(format!("d{at}"), wrap(next));
    }
    definitions.insert(format!("d{length}"), last);
    json!({ "$defs": definitions, "$ref": "#/$defs/d0" })
}

fn deep(levels: usize) -> Value {
    nested(levels, json!({}), |value| json!({ "a": value }))
}

/// C425: A schema that is nested too deep, or has too many parts or too large patterns, is refused
/// with the reason.
#[test]
fn too_much_of_a_schema_is_refused() {
    let patterns: Vec<Value> =
        (0..1_000).map(|at| json!({ "pattern": format!("(\\p{{L}}{{60}}){{3}}{at}") })).collect();
    let table = [
        (nested(130, json!({}), |s| json!({ "not": s })), "nested more than 128 levels"),
        (nested(100_000, json!({}), |s| Value::Array(vec![s])), "nested more than 128 levels"),
        (json!({ "enum": vec![0; 100_000] }), "more than 100000 values"),
        (json!({ "anyOf": vec![json!({}); 5_000] }), "more than 5000 subschemas"),
        (json!({ "anyOf": patterns }), "patterns are too large"),
        (json!({ "pattern": "((((a{999}){999}){999}){999}){999}" }), "patterns are too large"),
        (json!({ "$ref": "#/$defs/none" }), "leads nowhere"),
        (json!({ "$ref": "https://example.com/other" }), "leads nowhere"),
    ];
    for (schema, why) in table {
        let refusal = refusal(&schema);
        assert!(refusal.contains(why), "{why}: {refusal}");
        std::mem::forget(schema); // one is nested too deep to be dropped
    }
}

/// C425: Long chains of references and deep values neither overflow the stack of a thread nor are
/// refused.
#[test]
fn long_chains_have_a_stack() {
    let not = |next| nested(50, next, |s| json!({ "not": s }));
    let property = |next| nested(20, next, |s| json!({ "properties": { "a": s } }));
    let any = |next| nested(20, next, |s| json!({ "anyOf": [{ "type": "null" }, s] }));
    verdict(&chain(60, json!(true), not), &json!(1)).unwrap();
    verdict(&chain(4_000, json!(true), |next| next), &json!(1)).unwrap_err();
    verdict(&chain(3_000, json!(true), |next| next), &json!(1)).unwrap();
    let error = verdict(&chain(3, json!({ "maxProperties": 0 }), property), &deep(100));
    assert!(error.unwrap_err().contains("/a/a/a"));
    verdict(&chain(20, json!({ "type": "string" }), any), &json!(1)).unwrap_err();
    let list = json!({ "properties": { "a": { "$ref": "#" } }, "type": "object" });
    verdict(&list, &deep(120)).unwrap();
    let value = nested(120, json!(1), |value| json!({ "a": value }));
    assert!(verdict(&list, &value).unwrap_err().contains("/a/a"));
}

/// C426: A value whose validation would take too many steps is refused at once.
#[test]
fn validation_that_doubles_per_level_ends() {
    let next = json!({ "properties": { "a": { "$ref": "#/$defs/n" } } });
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let schema = json!({ "$defs": { "n": { keyword: [next, next] } }, "$ref": "#/$defs/n" });
        let _ = verdict(&schema, &deep(120));
    }
    // Results are remembered for arrays and objects, but not for other values.
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let twice = |next: Value| json!({ keyword: [next, next] });
        for last in [true, false] {
            let schema = chain(60, json!(last), twice);
            assert_eq!(verdict(&schema, &json!({})).is_ok(), last && keyword != "oneOf");
            let error = verdict(&schema, &json!(1)).map_or_else(|why| why, |()| "valid".into());
            let is_quick = error == "valid" || error.contains("1 is not allowed here");
            assert!(is_quick || error.contains("too many steps"), "{keyword}: {error}");
        }
    }
    let twice = |next: Value| json!({"allOf": [next, next], "unevaluatedProperties": false});
    let error = verdict(&chain(60, json!({}), twice), &json!({})).unwrap_err();
    assert!(error.contains("too many steps"), "{error}");
    let same = json!({ "enum": vec![vec![0; 300]; 300] });
    let error = verdict(&json!({ "items": same }), &json!(vec![vec![0; 300]; 300])).unwrap_err();
    assert!(error.contains("too many steps"), "{error}");
    let metaschema = json!({ "$ref": "https://json-schema.org/draft/2020-12/schema" });
    assert!(verdict(&metaschema, &json!({ "enum": vec![0; 10_000] })).is_err());
}

/// C426: A match that backtracks too often soon fails.
#[test]
fn patterns_that_backtrack_end() {
    let schema = json!({ "pattern": r"^(?=(a+)+$)(a|aa)+(?!b)c$" });
    assert!(verdict(&schema, &json!("a".repeat(60))).is_err());
    let schema = json!({ "items": schema });
    let error = verdict(&schema, &json!(vec!["a".repeat(60); 1_000])).unwrap_err();
    assert!(error.contains("too many steps"), "{error}");
    let regex = json!({"$schema": "http://json-schema.org/draft-07/schema#", "format": "regex"});
    verdict(&regex, &json!("(\\w{60}){1000}")).unwrap();
}

/// C425: A pattern that takes long to compile, or has constructs without bounds, is refused.
#[test]
fn hostile_patterns_are_refused() {
    let calls: String = (1..40).map(|at| format!(r"(\g{at}\g{at})")).collect();
    let forward: String = (2..7_000).map(|at| format!(r"(\g{at})")).collect();
    let table = [
        (format!("(?=x)(x){calls}"), "is not a regular expression"),
        (format!("(?=x){forward}(x)"), "is not a regular expression"),
        ("(?<=a{(?#)900000000}b?)c".into(), "is not a regular expression"),
        ("(?x)(?:a{999}){ 999 }".into(), "is not a regular expression"),
        (r"\d".repeat(30_000), "patterns are too large"),
        (format!("[{}]", "äö".repeat(50_000)), "patterns are too large"),
        ("(?i:[ -\u{10ffff}])".repeat(20), "patterns are too large"),
        ("(?=".repeat(20_000), "is not a regular expression"),
        ("[".repeat(50_000), "is not a regular expression"),
    ];
    for (pattern, why) in table {
        let refusal = refusal(&json!({ "pattern": pattern }));
        assert!(refusal.contains(why) && refusal.len() < 1_500, "{pattern:.40}: {refusal:.200}");
    }
    let many: Vec<Value> = (0..1_000).map(|at| json!({ "pattern": format!("{at}") })).collect();
    assert!(refusal(&json!({ "anyOf": many })).contains("patterns are too large"));
    for pattern in ["(?i)^abc$", r"^[\w.+-]+@[\w-]+\.[\w.]+$", r"^(?=.*\d)(?!.*\s).{8,64}$"] {
        verdict(&json!({ "pattern": pattern }), &json!("abc")).unwrap_or_default();
    }
}

/// C426: Texts, names, constants and evaluated parts count as steps: none of these takes minutes.
#[test]
fn hostile_values_are_counted() {
    let times = |count: usize, part: Value| json!({ "allOf": vec![part; count] });
    let long = "x".repeat(1 << 20);
    let binary: String = (0..10_000).map(|at| if at * at % 7 < 3 { 'a' } else { 'b' }).collect();
    let mut seen = chain(500, json!({ "contains": true }), |next| json!({ "anyOf": [next] }));
    seen["unevaluatedItems"] = json!(false);
    let table = [
        (json!({ "pattern": "a[ab]{20000}[^ab]" }), json!(binary)),
        (json!({ "pattern": "(?:(?=a*)a)*" }), json!("a".repeat(200_000))),
        (json!({ "pattern": "(?=a*b)a" }), json!("a".repeat(1 << 20))),
        (times(4_900, json!({ "uniqueItems": true })), json!([long])),
        (times(2_400, json!({ "propertyNames": true })), json!({ &*long: 1 })),
        (times(4_900, json!({ "maxItems": 0 })), json!([long])),
        (times(10, json!({ "enum": [format!("{long}y")] })), json!(format!("{long}z"))),
        (seen, json!(vec![0; 90_000])),
        (
            json!({ "items": { "multipleOf": 1.234_567_890_123_456_7e-300 } }),
            json!(vec![1e308; 9_000]),
        ),
        (
            json!({ "required": (0..90_000).map(|at| format!("n{at}")).collect::<Vec<_>>() }),
            json!({}),
        ),
    ];
    for (schema, value) in table {
        let error = verdict(&schema, &value).err().unwrap_or_default();
        assert!(error.len() < 5_000, "{}", error.len());
    }
    let bit = |set: bool| if set { Value::Null } else { Value::Bool(false) };
    let bits = |number: u32| (0..13).map(|at| bit(number >> at & 1 == 1)).collect::<Value>();
    let same: Vec<Value> = (0..4_000).map(bits).collect();
    verdict(&json!({ "uniqueItems": true }), &json!(same)).unwrap();
    let large: Vec<u64> = (0..2_000).map(|at| u64::MAX - at).collect();
    verdict(&json!({ "uniqueItems": true }), &json!(large)).unwrap();
}

/// C447: References, and keywords that only some drafts have.
#[test]
fn drafts_differ() {
    let unknown = chain(40, json!({ "type": "string" }), |next| next);
    let unknown = json!({ "x": unknown["$defs"], "$ref": "#/x/d0" }).to_string();
    let unknown: Value = serde_json::from_str(&unknown.replace("#/$defs/", "#/x/")).unwrap();
    verdict(&unknown, &json!("a")).unwrap();
    verdict(&unknown, &json!(1)).unwrap_err();
    let seven = "http://json-schema.org/draft-07/schema#";
    let named = json!({ "$schema": seven, "definitions": { "n": { "type": "string" } },
        "properties": { "a": { "properties": { "id": { "$ref": "#/definitions/n" } } } } });
    verdict(&named, &json!({ "a": { "id": "x" } })).unwrap();
    let id =
        json!({ "$defs": { "n": {} }, "properties": { "a": { "id": "x", "$ref": "#/$defs/n" } } });
    verdict(&id, &json!({ "a": 1 })).unwrap();
    let contains = |draft: &str| {
        json!({ "$schema": format!("https://json-schema.org/draft/{draft}/schema"),
            "contains": { "type": "string" }, "unevaluatedItems": false })
    };
    verdict(&contains("2020-12"), &json!(["a"])).unwrap();
    verdict(&contains("2019-09"), &json!(["a"])).unwrap_err();
    let part = json!({ "$ref": format!("{seven}/definitions/nonNegativeInteger") });
    assert!(refusal(&part).contains("leads nowhere"));
    let metaschema = json!({ "$ref": seven });
    verdict(&metaschema, &json!({ "$ref": "other.json" })).unwrap();
}

/// A path is shortened only if it is long.
#[test]
fn long_paths_show_their_end() {
    let schema = json!({ "additionalProperties": { "$ref": "#" }, "maxProperties": 1 });
    let wrong = json!({ "x": 1, "y": 2 });
    let path = |levels| {
        let value = nested(levels, wrong.clone(), |value| json!({ "a": value }));
        let error = verdict(&schema, &value).unwrap_err();
        error.lines().nth(1).unwrap().split(':').next().unwrap().to_owned()
    };
    assert_eq!(path(20), format!("- {}", "/a".repeat(20)));
    assert_eq!(path(21), format!("- /…{}", "/a".repeat(20)));
}

/// C426: The lists of a schema count as steps, also during coercion.
#[test]
fn long_lists_are_not_searched_for_each_value() {
    let names: Vec<String> = (0..20_000).map(|at| format!("n{at}")).collect();
    let nulls: Map<String, Value> = (0..100).map(|at| (format!("p{at}"), Value::Null)).collect();
    let properties: Map<String, Value> =
        (0..100).map(|at| (format!("p{at}"), json!({ "type": "string" }))).collect();
    let rows = json!({ "items": { "properties": properties, "required": names } });
    let mut value = json!(vec![Value::Object(nulls); 2_000]);
    assert!(compile(&rows).unwrap().check(&mut value).is_err());
    let choices = json!({ "items": { "enum": names } });
    assert!(compile(&choices).unwrap().check(&mut json!(vec!["x"; 100_000])).is_err());
    let long = json!("x".repeat(1 << 20));
    let lengths = json!({ "allOf": vec![json!({ "minLength": 1 }); 2_000] });
    assert!(verdict(&lengths, &long).unwrap_err().contains("too many steps"));
    let error = verdict(&json!({ "type": "integer" }), &long).unwrap_err();
    assert!(error.len() < 2_000, "{}", error.len());
    let names = json!({ "patternProperties": { "^(?=(a+)+$)b": {}, "^(?!a)c": {} } });
    let wide: Map<String, Value> = (0..5_000).map(|at| (format!("a{at}"), json!(1))).collect();
    assert!(verdict(&names, &Value::Object(wide)).unwrap_err().contains("too many steps"));
}

/// C426: Ordinary schemas of other tools, with all kinds of references, keep their verdicts.
#[test]
fn ordinary_schemas_are_not_affected() {
    let operand = json!({ "$ref": "#/$defs/expression" });
    let operation = |name: &str| {
        json!({ "type": "object", "required": ["op", "left", "right"],
            "properties": { "op": { "const": name }, "left": operand, "right": operand } })
    };
    let names = ["add", "sub", "mul", "div", "pow", "mod", "min", "max", "and", "or"];
    let branches = names.map(operation).into_iter().chain([json!({ "type": "number" })]);
    let expression = json!({ "$defs": { "expression": { "oneOf": branches.collect::<Vec<_>>() } },
        "type": "object", "properties": { "expression": operand } });
    let tree = nested(8, json!(1), |leaf| json!({ "op": "or", "left": leaf, "right": leaf }));
    verdict(&expression, &json!({ "expression": tree })).unwrap();
    let wrong = json!({ "expression": { "op": "or", "left": 1, "right": "x" } });
    assert!(verdict(&expression, &wrong).unwrap_err().contains("/expression"));

    let typebox = json!({ "$id": "T0", "type": "object", "required": ["nodes"], "properties": {
        "nodes": { "type": "array", "items": { "$ref": "T0" } } } });
    let typebox = json!({ "type": "object", "properties": { "tree": typebox } });
    verdict(&typebox, &json!({ "tree": { "nodes": [{ "nodes": [] }] } })).unwrap();
    verdict(&typebox, &json!({ "tree": { "nodes": [{}] } })).unwrap_err();

    let anchored = json!({ "$defs": { "a b": { "$anchor": "node", "type": "string" } },
        "prefixItems": [{ "$ref": "#node" }, { "$ref": "#/$defs/a%20b" }] });
    verdict(&anchored, &json!(["x", "y"])).unwrap();
    verdict(&anchored, &json!(["x", 1])).unwrap_err();

    let closed = json!({ "allOf": [{ "properties": { "a": {} } }], "properties": { "b": {} },
        "unevaluatedProperties": false });
    verdict(&closed, &json!({ "a": 1, "b": 2 })).unwrap();
    assert!(verdict(&closed, &json!({ "c": 1 })).is_err());

    let metaschema = json!({ "$ref": "https://json-schema.org/draft/2020-12/schema" });
    verdict(&metaschema, &json!({ "type": "object" })).unwrap();
    verdict(&metaschema, &json!({ "type": 7 })).unwrap_err();
    let rows: Vec<Value> = (0..5_000).map(|n| json!({ "id": n, "name": "x" })).collect();
    let row = json!({ "type": "object", "required": ["id"], "properties": {
        "id": { "type": "integer" }, "name": { "type": "string", "maxLength": 9 } } });
    verdict(&json!({ "items": row }), &json!(rows)).unwrap();
}
