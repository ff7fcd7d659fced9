//! Rules of a Messages request.

use serde_json::Value;

use super::Wrong;
use super::models::{Claude, claude};

const OPTIONAL: &[&str] = &[
    "metadata",
    "output_config",
    "service_tier",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];

/// Returns all violations in a body.
pub(crate) fn check(body: &[u8]) -> Result<(), String> {
    super::check(body, request)
}

fn request(wrong: &mut Wrong, body: &Value) {
    let Some(fields) =
        wrong.object("the body", body, &["model", "max_tokens", "messages"], OPTIONAL)
    else {
        return;
    };
    wrong.text("model", &body["model"]);
    wrong.whole_number("max_tokens", &body["max_tokens"], 1);
    match &body["system"] {
        Value::Null => wrong.unless(!fields.contains_key("system"), "system", "is null"),
        Value::String(_) => wrong.text("system", &body["system"]),
        blocks => {
            wrong.list("system", blocks).iter().for_each(|block| text_block(wrong, "system", block))
        }
    }
    let model = claude(body["model"].as_str().unwrap_or_default());
    let thinks = thinking(wrong, body, &model);
    tools(wrong, body, thinks, &model);
    if fields.contains_key("temperature") {
        wrong.unless(model.temperature, "temperature", "is refused by this model");
        wrong.within("temperature", &body["temperature"], 0.0, 1.0);
        wrong.unless(
            !thinks || body["temperature"] == 1.0,
            "temperature",
            "is set though the model thinks",
        );
    }
    if let Some(config) = fields.get("output_config") {
        wrong.object("output_config", config, &[], &["effort", "format"]);
        if !config["effort"].is_null() {
            wrong.one_of(
                "output_config.effort",
                &config["effort"],
                &["low", "medium", "high", "xhigh", "max"],
            );
        }
        if !config["format"].is_null() {
            wrong.object("output_config.format", &config["format"], &["type", "schema"], &[]);
            wrong.one_of("output_config.format.type", &config["format"]["type"], &["json_schema"]);
            closed(wrong, "output_config.format.schema", &config["format"]["schema"]);
        }
    }
    messages(wrong, body, body["thinking"]["type"] == "enabled");
    let marks = body.to_string().matches("\"cache_control\":{").count();
    wrong.unless(marks <= 4, "cache_control", format!("is there {marks} times, more than 4"));
}

/// Checks the settings for thinking.
fn thinking(wrong: &mut Wrong, body: &Value, model: &Claude) -> bool {
    let thinking = &body["thinking"];
    if thinking.is_null() {
        return model.thinks;
    }
    wrong.one_of("thinking.type", &thinking["type"], model.thinking);
    match thinking["type"].as_str() {
        Some("disabled" | "between_tools") => {
            wrong.object("thinking", thinking, &["type"], &[]);
            let effort = body["output_config"]["effort"].as_str().unwrap_or_default();
            wrong.unless(
                !matches!(effort, "xhigh" | "max"),
                "thinking",
                "is off, with an effort above high",
            );
            return false;
        }
        Some("enabled") => {
            wrong.object("thinking", thinking, &["type", "budget_tokens"], &["display"]);
            wrong.whole_number("thinking.budget_tokens", &thinking["budget_tokens"], 1024);
            let below = thinking["budget_tokens"].as_u64() < body["max_tokens"].as_u64();
            wrong.unless(below, "thinking.budget_tokens", "is not below max_tokens");
        }
        Some("adaptive") => drop(wrong.object("thinking", thinking, &["type"], &["display"])),
        _ => wrong.at("thinking", "has no type that is known"),
    }
    true
}

fn tools(wrong: &mut Wrong, body: &Value, thinks: bool, model: &Claude) {
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let fields = ["description", "cache_control", "strict"];
    for tool in tools.iter().filter(|tool| tool["type"].is_null()) {
        wrong.object("a tool", tool, &["name", "input_schema"], &fields);
        wrong.word("a tool's name", &tool["name"], 64);
        wrong.arguments_schema("input_schema", &tool["input_schema"]);
        cache_control(wrong, "a tool", tool);
    }
    wrong.different("tools", tools.iter().map(|tool| &tool["name"]));
    let choice = &body["tool_choice"];
    if choice.is_null() {
        return;
    }
    wrong.unless(!tools.is_empty(), "tool_choice", "is there without tools");
    wrong.object("tool_choice", choice, &["type"], &["name", "disable_parallel_tool_use"]);
    wrong.one_of("tool_choice.type", &choice["type"], &["auto", "any", "tool", "none"]);
    if choice["type"] == "tool" {
        let known = tools.iter().any(|tool| tool["name"] == choice["name"]);
        wrong.unless(known, "tool_choice", format!("names {}, which is no tool", choice["name"]));
    }
    let forced = choice["type"] == "any" || choice["type"] == "tool";
    wrong.unless(!forced || model.forced, "tool_choice", "is forced, which this model refuses");
    wrong.unless(!(forced && thinks), "tool_choice", "is forced though the model thinks");
}

fn messages(wrong: &mut Wrong, body: &Value, by_budget: bool) {
    let messages = wrong.list("messages", &body["messages"]);
    let (mut ids, mut open) = (Vec::new(), Vec::new());
    for (at, message) in messages.iter().enumerate() {
        let path = format!("messages[{at}]");
        wrong.object(&path, message, &["role", "content"], &[]);
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        wrong.unless(
            message["role"] == role,
            &path,
            format!("is of the {}, where the roles alternate", message["role"]),
        );
        let text;
        let blocks = match &message["content"] {
            Value::String(string) => {
                text = [serde_json::json!({"type": "text", "text": string})];
                &text[..]
            }
            blocks => wrong.list(&path, blocks),
        };
        blocks.iter().for_each(|block| {
            content_block(wrong, &format!("{path}.{}", block["type"]), block, role)
        });
        let of = |kind: &str, id: &str| -> Vec<Value> {
            blocks
                .iter()
                .filter(|block| block["type"] == kind)
                .map(|block| block[id].clone())
                .collect()
        };
        if role == "user" {
            let results = of("tool_result", "tool_use_id");
            let first = blocks.iter().take_while(|block| block["type"] == "tool_result").count();
            wrong.unless(first == results.len(), &path, "has something before a tool_result");
            wrong.answered(&path, &std::mem::take(&mut open), &results);
        } else {
            open = of("tool_use", "id");
            ids.extend(open.iter().cloned());
        }
    }
    wrong.different("messages", &ids);
    let last = messages.last().map_or(&Value::Null, |last| last);
    let paused = last["content"]
        .as_array()
        .is_some_and(|blocks| blocks.iter().any(|b| b["type"] == "server_tool_use"));
    wrong.unless(
        last["role"] == "user" || paused,
        "messages",
        "end with the assistant, so there is nothing to answer",
    );
    if by_budget && !open_turn_begins_with_a_thought(messages) {
        wrong.at(
            "messages",
            "continue a turn that does not start with thinking, though thinking is enabled",
        );
    }
}

/// Returns whether the turn of calls and results at the end starts with thinking. Returns `true` if
/// there is no such turn.
fn open_turn_begins_with_a_thought(messages: &[Value]) -> bool {
    let answers = |message: &Value| message["content"][0]["type"] == "tool_result";
    let mut first = None;
    for pair in messages.rchunks(2) {
        match pair {
            [assistant, results] if answers(results) => first = Some(assistant),
            _ => break,
        }
    }
    first.is_none_or(|assistant| {
        assistant["content"][0]["type"].as_str().is_some_and(|kind| kind.contains("thinking"))
    })
}

fn content_block(wrong: &mut Wrong, path: &str, block: &Value, role: &str) {
    let kind = block["type"].as_str().unwrap_or_default();
    let says = match kind {
        "image" | "document" | "tool_result" => "user",
        "thinking" | "redacted_thinking" | "tool_use" | "server_tool_use" => "assistant",
        _ => role,
    };
    wrong.unless(role == says, path, format!("is said by the {role}"));
    match kind {
        "text" => text_block(wrong, path, block),
        "image" => {
            wrong.object(path, block, &["type", "source"], &["cache_control"]);
            wrong.object(path, &block["source"], &["type", "media_type", "data"], &[]);
            wrong.media_type(path, &block["source"]["media_type"]);
            wrong.base64(path, &block["source"]["data"]);
            cache_control(wrong, path, block);
        }
        "document" => {
            wrong.object(path, block, &["type", "source"], &["cache_control"]);
            wrong.object(path, &block["source"], &["type", "media_type", "data"], &[]);
            wrong.one_of(path, &block["source"]["media_type"], &["application/pdf"]);
            wrong.base64(path, &block["source"]["data"]);
            cache_control(wrong, path, block);
        }
        "tool_use" => {
            wrong.object(path, block, &["type", "id", "name", "input"], &["cache_control"]);
            wrong.word(path, &block["id"], 64);
            wrong.word(path, &block["name"], 64);
            wrong.unless(block["input"].is_object(), path, "has an input that is no object");
        }
        "tool_result" => {
            wrong.object(
                path,
                block,
                &["type", "tool_use_id", "content"],
                &["is_error", "cache_control"],
            );
            let content = wrong.list(path, &block["content"]);
            let legal = |part: &Value| {
                ["text", "image", "document"].iter().any(|kind| part["type"] == *kind)
            };
            wrong.unless(content.iter().all(legal), path, "holds what is neither text nor image");
            content.iter().for_each(|part| content_block(wrong, path, part, "user"));
            cache_control(wrong, path, block);
        }
        "thinking" => {
            wrong.object(path, block, &["type", "thinking", "signature"], &[]);
            wrong.unless(block["thinking"].is_string(), path, "has no text");
            wrong.text(path, &block["signature"]);
        }
        "redacted_thinking" => {
            wrong.object(path, block, &["type", "data"], &[]);
            wrong.text(path, &block["data"]);
        }
        "server_tool_use" | "web_search_tool_result" => wrong.text(path, &block["type"]),
        _ => wrong.at(path, "is of an unknown type"),
    }
}

fn text_block(wrong: &mut Wrong, path: &str, block: &Value) {
    wrong.object(path, block, &["type", "text"], &["cache_control", "citations"]);
    wrong.text(path, &block["text"]);
    cache_control(wrong, path, block);
}

fn cache_control(wrong: &mut Wrong, path: &str, block: &Value) {
    if !block["cache_control"].is_null() {
        wrong.object(path, &block["cache_control"], &["type"], &["ttl"]);
        wrong.one_of(path, &block["cache_control"]["type"], &["ephemeral"]);
    }
}

/// Checks a schema that a grammar must express.
fn closed(wrong: &mut Wrong, path: &str, schema: &Value) {
    if schema["type"] == "object" || !schema["properties"].is_null() {
        wrong.unless(
            schema["additionalProperties"] == false,
            path,
            "does not set additionalProperties to false",
        );
    }
    for name in
        ["minimum", "maximum", "minLength", "maxLength", "pattern", "oneOf", "not", "multipleOf"]
    {
        wrong.unless(schema[name].is_null(), path, format!("has `{name}`, which is not supported"));
    }
    let inner = ["properties", "$defs"].into_iter().filter_map(|key| schema[key].as_object());
    inner.flatten().for_each(|(_, schema)| closed(wrong, path, schema));
    let items = schema.get("items").into_iter();
    items
        .chain(schema["anyOf"].as_array().into_iter().flatten())
        .for_each(|schema| closed(wrong, path, schema));
}

#[test]
fn malformed_requests_are_refused() {
    use super::{drop_field, refuses};
    let good = serde_json::json!({
        "model": "m", "max_tokens": 4096, "stream": true, "thinking": {"type": "enabled",
        "budget_tokens": 1024},
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "f", "description": "", "input_schema": {"type": "object",
        "properties": {"a": {}}, "required": ["a"]}}],
        "tool_choice": {"type": "auto"},
        "output_config": {"format": {"type": "json_schema",
            "schema": {"type": "object", "properties": {"a": {"type": "string"}},
            "additionalProperties": false}}},
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "hi"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                "data": "AAAA"}},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": "s"},
                {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                {"type": "tool_use", "id": "b", "name": "f", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text",
                "text": "1"}]},
                {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text",
                "text": "2"}], "is_error": true},
                {"type": "text", "text": "go on"},
            ]},
        ],
    });
    refuses(
        check,
        &good,
        &[
            ("has no `max_tokens`", |b| drop_field(b, "max_tokens")),
            ("unknown field `n`", |b| b["n"] = 1.into()),
            ("unknown field `id`", |b| b["messages"][0]["id"] = 1.into()),
            ("roles alternate", |b| b["messages"][0]["role"] = "system".into()),
            ("roles alternate", |b| drop(b["messages"].as_array_mut().unwrap().remove(0))),
            ("nothing to answer", |b| drop(b["messages"].as_array_mut().unwrap().pop())),
            ("is no text, or blank", |b| b["messages"][0]["content"][0]["text"] = " ".into()),
            ("is no list, or an empty one", |b| b["messages"][0]["content"] = Value::Array(vec![])),
            ("none of [\"image/png\"", |b| {
                b["messages"][0]["content"][1]["source"]["media_type"] = "image/tiff".into()
            }),
            ("is no base64", |b| b["messages"][0]["content"][1]["source"]["data"] = "?".into()),
            ("no word of", |b| b["messages"][1]["content"][1]["id"] = "a|b".into()),
            ("no word of", |b| b["messages"][1]["content"][1]["id"] = "a".repeat(65).into()),
            ("no object", |b| b["messages"][1]["content"][1]["input"] = "{}".into()),
            ("has \"b\" twice", |b| b["messages"][1]["content"][1]["id"] = "b".into()),
            ("and what follows answers", |b| {
                b["messages"][2]["content"][0]["tool_use_id"] = "c".into()
            }),
            ("and what follows answers", |b| {
                drop(b["messages"][2]["content"].as_array_mut().unwrap().remove(1))
            }),
            ("and what follows answers", |b| {
                b["messages"][2]["content"].as_array_mut().unwrap().swap(0, 1)
            }),
            ("something before a tool_result", |b| {
                b["messages"][2]["content"].as_array_mut().unwrap().rotate_right(1)
            }),
            ("is no text, or blank", |b| b["messages"][1]["content"][0]["signature"] = "".into()),
            ("has no `signature`", |b| {
                drop_field(&mut b["messages"][1]["content"][0], "signature")
            }),
            ("does not start with thinking", |b| {
                b["messages"][1]["content"].as_array_mut().unwrap().rotate_left(1)
            }),
            ("is said by the user", |b| b["messages"][0]["content"][0]["type"] = "thinking".into()),
            ("unknown type", |b| b["messages"][0]["content"][0]["type"] = "input_text".into()),
            ("forced though the model thinks", |b| b["tool_choice"]["type"] = "any".into()),
            ("which is no tool", |b| {
                b["tool_choice"] = serde_json::json!({"type": "tool", "name": "g"})
            }),
            ("without tools", |b| drop_field(b, "tools")),
            ("no schema of an object", |b| b["tools"][0]["input_schema"]["type"] = "string".into()),
            ("has no `properties`", |b| {
                drop_field(&mut b["tools"][0]["input_schema"], "properties")
            }),
            ("which is no property", |b| b["tools"][0]["input_schema"]["required"][0] = "z".into()),
            ("has \"f\" twice", |b| b["tools"] = serde_json::json!([b["tools"][0], b["tools"][0]])),
            ("not below max_tokens", |b| b["max_tokens"] = 1024.into()),
            ("no whole number from 1024", |b| b["thinking"]["budget_tokens"] = 1000.into()),
            ("though the model thinks", |b| b["temperature"] = 0.5.into()),
            ("not between 0 and 1", |b| b["temperature"] = 1.5.into()),
            ("additionalProperties", |b| {
                drop_field(&mut b["output_config"]["format"]["schema"], "additionalProperties")
            }),
            ("not supported", |b| {
                b["output_config"]["format"]["schema"]["properties"]["a"]["minLength"] = 1.into()
            }),
            ("more than 4", |b| {
                let block = b["system"][0].clone();
                b["system"] = vec![block; 5].into();
            }),
        ],
    );
}

#[test]
fn a_model_has_rules_of_its_own() {
    let body = |model: &str, more: Value| {
        let mut body = serde_json::json!({
            "model": model, "max_tokens": 4096, "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}],
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        check(&serde_json::to_vec(&body).unwrap()).is_ok()
    };
    let thinking = |kind: &str| serde_json::json!({"thinking": {"type": kind}});
    let budget = || serde_json::json!({"thinking": {"type": "enabled", "budget_tokens": 1024}});
    let forced = || serde_json::json!({"tool_choice": {"type": "any"}});
    let forced_off =
        || serde_json::json!({"tool_choice": {"type": "any"}, "thinking": {"type": "disabled"}});
    let warm = || serde_json::json!({"temperature": 0.5});
    for (model, more, taken) in [
        ("claude-sonnet-4-5", forced(), true),
        ("claude-sonnet-4-5", budget(), true),
        ("claude-sonnet-4-6", budget(), false),
        ("claude-sonnet-4-6", warm(), true),
        ("claude-opus-4-7", warm(), false),
        ("claude-opus-5", thinking("disabled"), true),
        ("claude-opus-5", forced(), false),
        ("claude-haiku-5-5", forced_off(), true),
        ("claude-sonnet-5-5", thinking("disabled"), false),
        ("claude-sonnet-5-5", thinking("between_tools"), true),
        ("claude-sonnet-5-5", forced(), false),
        ("claude-opus-5-5", thinking("disabled"), false),
        ("claude-opus-5-5", thinking("adaptive"), true),
        ("claude-fable-5", forced(), true),
        ("claude-fable-5-1", forced(), false),
    ] {
        assert_eq!(body(model, more.clone()), taken, "{model} {more}");
    }
}
