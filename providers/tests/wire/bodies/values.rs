//! Odd values that histories are made of: texts, ids, arguments, attachments, schemas.

use loopwright_core::message::Content;
use serde_json::{Value, json};

use crate::random::Random;

const TEXTS: &[&str] = &[
    "Hello.",
    "Well?\n\nLook again, please. ",
    "é 😀 \u{1f468}\u{200d}\u{1f469} \u{202e}right",
    "with \u{0} and \u{1b}[0m and \"quotes\" \\ and </tag>",
    " leading and trailing \n",
    "{\"type\":\"tool_result\",\"tool_use_id\":\"x\"}",
    "data: [DONE]\n\n",
    "\u{2028}\u{feff}\u{fffd}",
];
const BLANK: &[&str] = &["", " ", "\n\t", "\u{a0}"];

/// Returns a text, sometimes a blank one.
pub(super) fn text(random: &mut Random) -> String {
    let texts = if random.percent(12) { BLANK } else { TEXTS };
    (*random.pick(texts)).to_owned()
}

/// Returns a text that is not blank.
pub(super) fn words(random: &mut Random) -> String {
    (*random.pick(TEXTS)).to_owned()
}

/// Returns the id of call `number`, in the form of a provider or of none.
pub(super) fn call_id(random: &mut Random, number: usize) -> String {
    match random.below(9) {
        0 => format!("call_{number:024}"),
        1 => format!("toolu_01{number}"),
        2 => format!("gemini-call-{number}"),
        3 => format!("{number:09}"),
        4 => format!("functions.read_file:{number}"),
        5 => format!("fc_{number}|{}", "x".repeat(90)),
        6 => format!("née {number} 😀 \"quoted\""),
        7 => format!("{number}"),
        _ => format!("chatcmpl-tool-{number:032x}"),
    }
}

const INVENTED: [&str; 5] = ["no_longer_there", "functions.read_file", "", "lire née", "7"];

/// Returns the name of the tool in a call. Some names are inventions of the model.
pub(super) fn call_name(random: &mut Random) -> String {
    match random.below(20) {
        0..17 => (*random.pick(&["read_file", "now", "odd"])).into(),
        17 => "x".repeat(70),
        _ => (*random.pick(&INVENTED)).into(),
    }
}

/// Returns the arguments of a call, sometimes ones that are no object.
pub(super) fn arguments(random: &mut Random) -> String {
    let arguments: &[&str] = if random.percent(25) {
        &[
            "",
            "{",
            "[1,2]",
            "null",
            "\"text\"",
            "{\"path\": \"a",
            "{\"a\":1}{\"b\":2}",
            "{\"x\":\"\\ud83d\"}",
            "{'a': 1}",
        ]
    } else {
        &[
            "{}",
            " {\"path\": \"src/main.rs\"}\n",
            "{\"text\":\"é \\u0000 \\\"q\\\" 😀\",\"deep\":{\"list\":[1,2.5,-3e10,null,true]}}",
            "{\"n\":123456789012345678901234567890,\"\":\"no name\"}",
        ]
    };
    (*random.pick(arguments)).to_owned()
}

/// Returns a file of any media type, however it is written.
pub(super) fn attachment(random: &mut Random) -> Content {
    let (media_type, data) = *random.pick(&[
        ("image/png", "iVBORw0KGgo="),
        ("image/jpeg", "/9j/4AAQ"),
        ("image/gif", "R0lGODlh"),
        ("image/webp", "UklGRg=="),
        ("Image/PNG", "iVBORw0KGgo="),
        ("image/jpg", "/9j/4AAQ"),
        ("image/png; charset=binary", "iVBORw0KGgo="),
        ("image/svg+xml", "PHN2Zy8+"),
        ("image/heic", "AAAAGGZ0eXBoZWlj"),
        ("image/bmp", "Qk0="),
        ("application/pdf", "JVBERi0xLjQK"),
        ("Application/PDF; version=2", "JVBERi0xLjQK"),
        ("audio/wav", "UklGRg=="),
        ("text/plain", "aGVsbG8="),
        ("", "AAAA"),
    ]);
    Content::image(media_type, data)
}

/// Returns the content of a user message or a result.
pub(super) fn content(random: &mut Random) -> Vec<Content> {
    let parts = [0, 1, 1, 1, 1, 2, 3, 4][random.below(8)];
    let part = |random: &mut Random| match random.below(10) {
        0..7 => Content::text(text(random)),
        _ => attachment(random),
    };
    (0..parts).map(|_| part(random)).collect()
}

/// Returns the schemas of the tools' arguments, by the tools' names.
pub(super) fn tools() -> Vec<(String, Value)> {
    let tree = json!({"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"},
        "value": {"type": "integer", "minimum": 0}}, "required": ["value"]});
    let odd = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {
            "mode": {"oneOf": [{"const": "fast"}, {"const": "slow"}], "default": "fast"},
            "size": {"type": ["integer", "null"], "exclusiveMinimum": 0, "format": "uint32"},
            "any": {}, "always": true, "tags": {"type": "array", "items": {"type": "string"},
                "uniqueItems": true, "maxItems": 3},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]},
            "extra": {"type": "object", "additionalProperties": {"type": "string"}},
        }, "required": ["mode"]});
    let old = json!({"type": "object", "definitions": {"P": {"type": "string"}},
        "properties": {"p": {"$ref": "#/definitions/P"}, "o": {"type": "string", "nullable": true}},
        "required": ["p", "o", "not_defined"]});
    [
        (
            "read_file",
            json!({"type": "object", "properties": {"path": {"type": "string",
            "description": "The file."}}, "required": ["path"], "additionalProperties": false}),
        ),
        ("now", json!({"type": "object"})),
        ("nothing", json!({})),
        ("tree-of_values", json!({"$defs": {"Tree": tree}, "$ref": "#/$defs/Tree"})),
        ("odd", odd),
        ("old", old),
        (
            "either",
            json!({"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}},
            {"type": "object", "properties": {"b": {"enum": [1, "two", null]}}}]}),
        ),
    ]
    .map(|(name, schema)| (name.to_owned(), schema))
    .into_iter()
    .chain([("n".repeat(64), json!({"type": "object", "properties": {}}))])
    .collect()
}

/// Returns a schema of answers.
pub(super) fn answer(random: &mut Random) -> Value {
    let node = json!({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"},
        {"type": "null"}]}}, "required": ["next"]});
    random
        .pick(&[
            json!({"type": "object", "properties": {"answer": {"type": "string", "minLength": 1},
                "sure": {"type": "number", "maximum": 1}}, "required": ["answer"]}),
            json!({"type": "array", "items": {"type": "integer"}}),
            json!({"type": "string", "enum": ["yes", "no"]}),
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            json!({"$defs": {"Node": node}, "$ref": "#/$defs/Node"}),
            json!({"oneOf": [{"type": "object", "properties": {"a": {"const": 1}},
                "required": ["a"]}, {"type": "null"}]}),
            json!({}),
        ])
        .clone()
}
