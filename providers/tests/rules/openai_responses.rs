//! Rules of a Responses request.

use serde_json::Value;

use super::Wrong;
use super::models::openai;

const OPTIONAL: &[&str] = &[
    "include",
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "reasoning",
    "service_tier",
    "store",
    "stream",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
    "truncation",
];

/// Returns all violations in a body.
pub(crate) fn check(body: &[u8]) -> Result<(), String> {
    super::check(body, request)
}

fn request(wrong: &mut Wrong, body: &Value) {
    let Some(fields) = wrong.object("the body", body, &["model", "input"], OPTIONAL) else {
        return;
    };
    wrong.text("model", &body["model"]);
    wrong.unless(
        body["store"] == false,
        "store",
        "is not false, so the server would keep the conversation",
    );
    if let Some(instructions) = fields.get("instructions") {
        wrong.text("instructions", instructions);
    }
    if let Some(max) = fields.get("max_output_tokens") {
        wrong.whole_number("max_output_tokens", max, 16);
    }
    let model = openai(body["model"].as_str().unwrap_or_default());
    if let Some(temperature) = fields.get("temperature") {
        wrong.within("temperature", temperature, 0.0, 2.0);
        let effort = body["reasoning"]["effort"].as_str().unwrap_or(model.usual);
        wrong.unless(effort == "none", "temperature", "is there though the model reasons");
    }
    if let Some(key) = fields.get("prompt_cache_key") {
        wrong.unless(
            key.as_str().is_some_and(|key| (1..=64).contains(&key.len())),
            "prompt_cache_key",
            "has no legal length",
        );
    }
    if let Some(reasoning) = fields.get("reasoning") {
        wrong.object("reasoning", reasoning, &["effort"], &["summary"]);
        wrong.one_of("reasoning.effort", &reasoning["effort"], model.efforts);
    }
    for wanted in body["include"].as_array().into_iter().flatten() {
        wrong.one_of("include", wanted, &["reasoning.encrypted_content"]);
    }
    if let Some(text) = fields.get("text") {
        wrong.object("text", text, &["format"], &["verbosity"]);
        wrong.object("text.format", &text["format"], &["type", "name", "schema"], &["strict"]);
        wrong.one_of("text.format.type", &text["format"]["type"], &["json_schema"]);
        wrong.word("text.format.name", &text["format"]["name"], 64);
        wrong.object_schema("text.format.schema", &text["format"]["schema"]);
    }
    tools(wrong, body);
    input(wrong, &body["input"]);
}

fn tools(wrong: &mut Wrong, body: &Value) {
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    for tool in tools.iter().filter(|tool| tool["type"] == "function") {
        wrong.object("a tool", tool, &["type", "name", "parameters", "strict"], &["description"]);
        wrong.word("a tool's name", &tool["name"], 64);
        wrong.arguments_schema("parameters", &tool["parameters"]);
        if tool["strict"] != false {
            // Strict by default.
            super::strict::parameters(wrong, "parameters", &tool["parameters"]);
        }
    }
    wrong.different("tools", tools.iter().map(|tool| &tool["name"]).filter(|name| !name.is_null()));
    match &body["tool_choice"] {
        Value::Null => {}
        choice => {
            wrong.unless(!tools.is_empty(), "tool_choice", "is there without tools");
            match choice {
                Value::String(_) => {
                    wrong.one_of("tool_choice", choice, &["auto", "none", "required"])
                }
                _ => {
                    wrong.object("tool_choice", choice, &["type", "name"], &[]);
                    let known = tools.iter().any(|tool| tool["name"] == choice["name"]);
                    wrong.unless(known, "tool_choice", "names what is no tool");
                }
            }
        }
    }
}

fn input(wrong: &mut Wrong, input: &Value) {
    let items = wrong.list("input", input);
    let (mut ids, mut open) = (Vec::new(), Vec::new());
    for (at, item) in items.iter().enumerate() {
        let path = format!("input[{at}]");
        let kind = item["type"].as_str().unwrap_or_default();
        // Calls of a batch are consecutive, possibly with reasoning between them. Their results
        // follow.
        let results_begin = kind == "function_call_output"
            && (at == 0 || items[at - 1]["type"] != "function_call_output");
        if results_begin {
            let after =
                items[at..].iter().take_while(|item| item["type"] == "function_call_output");
            let results: Vec<Value> = after.map(|item| item["call_id"].clone()).collect();
            wrong.answered(&path, &std::mem::take(&mut open), &results);
        }
        match kind {
            "message" => message(wrong, &path, item),
            "reasoning" => {
                wrong.object(
                    &path,
                    item,
                    &["type", "id", "summary"],
                    &["encrypted_content", "content", "status"],
                );
                wrong.unless(item["summary"].is_array(), &path, "has a summary that is no list");
                let sealed = item["encrypted_content"].is_string() || item["content"].is_array();
                wrong.unless(
                    sealed,
                    &path,
                    "is reasoning of which nothing is there, and nothing is stored",
                );
                let followed = items.get(at + 1).is_some_and(|next| {
                    next["type"] == "function_call"
                        || next["type"] == "reasoning"
                        || next["role"] == "assistant"
                });
                wrong.unless(followed, &path, "is reasoning without the item that followed it");
            }
            "function_call" => {
                wrong.object(
                    &path,
                    item,
                    &["type", "call_id", "name", "arguments"],
                    &["id", "status"],
                );
                wrong.word(&path, &item["call_id"], 64);
                wrong.word(&path, &item["name"], 64);
                wrong.object_text(&path, &item["arguments"]);
                open.push(item["call_id"].clone());
                ids.push(item["call_id"].clone());
            }
            "function_call_output" => {
                wrong.object(&path, item, &["type", "call_id", "output"], &[]);
                match &item["output"] {
                    text @ Value::String(_) => wrong.text(&path, text),
                    parts => {
                        wrong.list(&path, parts).iter().for_each(|one| part(wrong, &path, one))
                    }
                }
            }
            _ => wrong.at(&path, format!("is of the unknown type {}", item["type"])),
        }
        let user = kind == "message" && item["role"] == "user";
        wrong.unless(
            open.is_empty() || !user,
            &path,
            format!("comes before the results of {open:?}"),
        );
    }
    wrong.unless(open.is_empty(), "input", format!("has calls without a result: {open:?}"));
    wrong.different("input", &ids);
    let last = items.last().unwrap_or(&Value::Null);
    let asks = last["role"] == "user" || last["type"] == "function_call_output";
    wrong.unless(asks, "input", "ends with the model, so there is nothing to answer");
}

fn message(wrong: &mut Wrong, path: &str, item: &Value) {
    wrong.object(path, item, &["type", "role", "content"], &["phase"]);
    wrong.one_of(path, &item["role"], &["user", "assistant"]);
    if !item["phase"].is_null() {
        wrong.one_of(path, &item["phase"], &["commentary", "final_answer"]);
        wrong.unless(item["role"] == "assistant", path, "has a phase though it is the user's");
    }
    if item["role"] == "assistant" {
        return wrong.text(path, &item["content"]);
    }
    wrong.list(path, &item["content"]).iter().for_each(|one| part(wrong, path, one));
}

fn part(wrong: &mut Wrong, path: &str, part: &Value) {
    match part["type"].as_str() {
        Some("input_image") => {
            wrong.object(path, part, &["type", "image_url", "detail"], &[]);
            wrong.data_url(path, &part["image_url"]);
        }
        Some("input_file") => {
            wrong.object(path, part, &["type", "filename", "file_data"], &[]);
            wrong.text(path, &part["filename"]);
            wrong.pdf_url(path, &part["file_data"]);
        }
        kind => {
            wrong.object(path, part, &["type", "text"], &[]);
            wrong.unless(kind == Some("input_text"), path, format!("has a part of type {kind:?}"));
            wrong.text(path, &part["text"]);
        }
    }
}

#[test]
fn malformed_requests_are_refused() {
    use super::{drop_field, refuses};
    let call = |id: &str| {
        serde_json::json!({"type": "function_call", "call_id": id,
        "name": "f", "arguments": "{}"})
    };
    let output = |id: &str| {
        serde_json::json!({"type": "function_call_output", "call_id": id,
        "output": "x"})
    };
    let good = serde_json::json!({
        "model": "m", "store": false, "stream": true, "max_output_tokens": 16,
        "reasoning": {"effort": "low", "summary": "auto"},
        "tools": [{"type": "function", "name": "f", "strict": false,
        "parameters": {"type": "object", "properties": {"a": {}}}}],
        "tool_choice": {"type": "function", "name": "f"},
        "include": ["reasoning.encrypted_content"],
        "text": {"format": {"type": "json_schema", "name": "Out", "schema": {"type": "object"}}},
        "prompt_cache_key": "s",
        "input": [
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "hi"}, {"type": "input_image",
                "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
            ]},
            {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"},
            {"type": "message", "role": "assistant", "content": "I look."},
            call("a"), call("b"), output("a"), output("b"),
        ],
    });
    refuses(
        check,
        &good,
        &[
            ("has no `input`", |b| drop_field(b, "input")),
            ("unknown field `messages`", |b| b["messages"] = 1.into()),
            ("is not false", |b| b["store"] = true.into()),
            ("no whole number from 16", |b| b["max_output_tokens"] = 15.into()),
            ("none of [\"none\"", |b| b["reasoning"]["effort"] = "max".into()),
            ("none of", |b| b["include"][0] = "everything".into()),
            ("has no `name`", |b| drop_field(&mut b["text"]["format"], "name")),
            ("no legal length", |b| b["prompt_cache_key"] = "".into()),
            ("leave things open", |b| b["tools"][0]["strict"] = true.into()),
            ("has no `properties`", |b| drop_field(&mut b["tools"][0]["parameters"], "properties")),
            ("names what is no tool", |b| b["tool_choice"]["name"] = "g".into()),
            ("without tools", |b| drop_field(b, "tools")),
            ("is no text, or blank", |b| b["input"][0]["content"][0]["text"] = "".into()),
            ("part of type", |b| b["input"][0]["content"][0]["type"] = "output_text".into()),
            ("is no text, or blank", |b| b["input"][2]["content"] = serde_json::json!([])),
            ("has no `detail`", |b| drop_field(&mut b["input"][0]["content"][1], "detail")),
            ("is no data URL", |b| b["input"][0]["content"][1]["image_url"] = "x".into()),
            ("nothing is stored", |b| drop_field(&mut b["input"][1], "encrypted_content")),
            ("without the item that followed it", |b| {
                b["input"].as_array_mut().unwrap().swap(0, 1)
            }),
            ("is no JSON object", |b| b["input"][3]["arguments"] = "".into()),
            ("no word of", |b| b["input"][3]["call_id"] = "a|b".into()),
            ("twice", |b| b["input"][4]["call_id"] = "a".into()),
            ("and what follows answers", |b| b["input"].as_array_mut().unwrap().swap(5, 6)),
            ("and what follows answers", |b| drop(b["input"].as_array_mut().unwrap().pop())),
            ("and what follows answers", |b| drop(b["input"].as_array_mut().unwrap().remove(3))),
            ("nothing to answer", |b| {
                let reply = b["input"][2].clone();
                b["input"].as_array_mut().unwrap().push(reply);
            }),
            ("unknown type", |b| b["input"][3]["type"] = "tool_call".into()),
        ],
    );
}

#[test]
fn a_model_has_rules_of_its_own() {
    let checked = |model: &str, effort: Option<&str>, temperature: bool| {
        let mut body = serde_json::json!({"model": model, "store": false, "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        ]});
        if let Some(effort) = effort {
            body["reasoning"] = serde_json::json!({"effort": effort});
        }
        if temperature {
            body["temperature"] = 0.5.into();
        }
        check(&serde_json::to_vec(&body).unwrap()).is_ok()
    };
    for (model, effort, temperature, taken) in [
        ("gpt-4.1", None, true, true),
        ("gpt-4.1", Some("low"), false, false),
        ("gpt-5.1", None, true, true),
        ("gpt-5.1", Some("low"), true, false),
        ("gpt-5.1", Some("xhigh"), false, false),
        ("gpt-5.6-sol", None, true, false),
        ("gpt-5.6-sol", Some("none"), true, true),
        ("gpt-6-astra", Some("none"), false, false),
        ("gpt-6-astra", None, true, false),
        ("gpt-5.4-pro", Some("low"), false, false),
        ("gpt-5.4-pro", Some("medium"), false, true),
        ("gpt-5.2-chat-latest", Some("high"), false, false),
        ("o3", Some("minimal"), false, false),
    ] {
        assert_eq!(checked(model, effort, temperature), taken, "{model} {effort:?} {temperature}");
    }
}
