//! Rules of a Gemini request.

use serde_json::Value;

use super::Wrong;

const OPTIONAL: &[&str] = &[
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
    "cachedContent",
];
const CONFIG: &[&str] = &[
    "candidateCount",
    "maxOutputTokens",
    "responseJsonSchema",
    "responseMimeType",
    "responseModalities",
    "seed",
    "stopSequences",
    "temperature",
    "thinkingConfig",
    "topK",
    "topP",
];

/// Returns all violations in a body for this model.
pub(crate) fn check(body: &[u8], model: &str) -> Result<(), String> {
    super::check(body, |wrong, body| request(wrong, body, model))
}

fn request(wrong: &mut Wrong, body: &Value, model: &str) {
    let Some(fields) = wrong.object("the body", body, &["contents"], OPTIONAL) else {
        return;
    };
    if let Some(system) = fields.get("systemInstruction") {
        wrong.object("systemInstruction", system, &["parts"], &["role"]);
        wrong
            .list("systemInstruction", &system["parts"])
            .iter()
            .for_each(|part| wrong.text("systemInstruction", &part["text"]));
    }
    tools(wrong, body);
    if let Some(config) = fields.get("generationConfig") {
        generation(wrong, config, model, fields.contains_key("tools"));
    }
    contents(wrong, &body["contents"], newer(model));
}

/// Returns whether the model belongs to the third generation or a later one.
fn newer(model: &str) -> bool {
    model.contains("gemini-3") || model.contains("gemini-4")
}

fn tools(wrong: &mut Wrong, body: &Value) {
    let mut names = Vec::new();
    for tool in body["tools"].as_array().into_iter().flatten() {
        wrong.object(
            "a tool",
            tool,
            &[],
            &["functionDeclarations", "googleSearch", "codeExecution", "urlContext"],
        );
        for function in tool["functionDeclarations"].as_array().into_iter().flatten() {
            wrong.object(
                "a function",
                function,
                &["name", "description"],
                &["parameters", "parametersJsonSchema"],
            );
            wrong.word("a function's name", &function["name"], 64);
            let begins = function["name"]
                .as_str()
                .is_some_and(|name| !name.starts_with(|c: char| c.is_ascii_digit() || c == '-'));
            wrong.unless(begins, "a function's name", "does not begin with a letter");
            let both =
                !function["parameters"].is_null() && !function["parametersJsonSchema"].is_null();
            wrong.unless(!both, "a function", "has two schemas");
            if !function["parametersJsonSchema"].is_null() {
                wrong.arguments_schema("parametersJsonSchema", &function["parametersJsonSchema"]);
            }
            if let Some(open) = function["parameters"].as_object() {
                let known = open.keys().all(|key| {
                    matches!(key.as_str(), "type" | "properties" | "required" | "description")
                });
                wrong.unless(
                    known,
                    "parameters",
                    "has fields that this kind of schema does not know",
                );
            }
            names.push(function["name"].clone());
        }
    }
    wrong.different("tools", &names);
    let config = &body["toolConfig"]["functionCallingConfig"];
    if body.get("toolConfig").is_some() {
        wrong.object("toolConfig", &body["toolConfig"], &["functionCallingConfig"], &[]);
        wrong.object("functionCallingConfig", config, &["mode"], &["allowedFunctionNames"]);
        wrong.one_of("mode", &config["mode"], &["AUTO", "ANY", "NONE", "VALIDATED"]);
        for name in config["allowedFunctionNames"].as_array().into_iter().flatten() {
            wrong.unless(
                names.contains(name),
                "allowedFunctionNames",
                format!("names {name}, which is no function"),
            );
            wrong.unless(
                config["mode"] == "ANY",
                "allowedFunctionNames",
                "is there without the mode ANY",
            );
        }
        wrong.unless(!names.is_empty(), "toolConfig", "is there without functions");
    }
}

fn generation(wrong: &mut Wrong, config: &Value, model: &str, tools: bool) {
    let Some(fields) = wrong.object("generationConfig", config, &[], CONFIG) else {
        return;
    };
    if let Some(max) = fields.get("maxOutputTokens") {
        wrong.whole_number("maxOutputTokens", max, 1);
    }
    if let Some(temperature) = fields.get("temperature") {
        wrong.within("temperature", temperature, 0.0, 2.0);
    }
    if fields.contains_key("responseJsonSchema") {
        wrong.unless(
            config["responseMimeType"] == "application/json",
            "responseJsonSchema",
            "is there without JSON's media type",
        );
        wrong.unless(!tools || newer(model), "responseJsonSchema", "is there beside tools");
    }
    if let Some(thinking) = fields.get("thinkingConfig") {
        wrong.object(
            "thinkingConfig",
            thinking,
            &[],
            &["thinkingBudget", "thinkingLevel", "includeThoughts"],
        );
        if !thinking["thinkingLevel"].is_null() {
            wrong.one_of(
                "thinkingLevel",
                &thinking["thinkingLevel"],
                &["minimal", "low", "medium", "high"],
            );
            wrong.unless(newer(model), "thinkingLevel", format!("is not known to {model}"));
        }
        let both = !thinking["thinkingLevel"].is_null() && !thinking["thinkingBudget"].is_null();
        wrong.unless(!both, "thinkingConfig", "has a level and a budget");
        if !thinking["thinkingBudget"].is_null() {
            wrong.within("thinkingBudget", &thinking["thinkingBudget"], 0.0, 32_768.0);
        }
    }
}

fn contents(wrong: &mut Wrong, contents: &Value, signed: bool) {
    let (mut open, mut ids) = (Vec::new(), Vec::new());
    let list = wrong.list("contents", contents);
    for (at, content) in list.iter().enumerate() {
        let path = format!("contents[{at}]");
        wrong.object(&path, content, &["role", "parts"], &[]);
        let role = if at % 2 == 0 { "user" } else { "model" };
        wrong.unless(
            content["role"] == role,
            &path,
            format!("is of the {}, where the roles alternate", content["role"]),
        );
        let parts = wrong.list(&path, &content["parts"]);
        parts.iter().for_each(|value| part(wrong, &path, value, role));
        let of = |kind: &str| -> Vec<Value> {
            let named = parts.iter().filter_map(|part| part.get(kind));
            named.map(|one| serde_json::json!([one["name"], one["id"]])).collect()
        };
        if role == "user" {
            wrong.answered(&path, &std::mem::take(&mut open), &of("functionResponse"));
        } else {
            open = of("functionCall");
            ids.extend(open.iter().map(|call| call[1].clone()).filter(|id| !id.is_null()));
            let first = parts.iter().find(|part| part.get("functionCall").is_some());
            let bare = first.is_some_and(|call| call["thoughtSignature"].is_null());
            wrong.unless(!(signed && bare), &path, "has a first call without a thoughtSignature");
        }
    }
    wrong.different("contents", &ids);
    let last = list.last().map_or(&Value::Null, |last| &last["role"]);
    wrong.unless(last == "user", "contents", "end with the model, so there is nothing to answer");
}

fn part(wrong: &mut Wrong, path: &str, part: &Value, role: &str) {
    const KINDS: [&str; 4] = ["text", "inlineData", "functionCall", "functionResponse"];
    wrong.object(
        path,
        part,
        &[],
        &["text", "inlineData", "functionCall", "functionResponse", "thought", "thoughtSignature"],
    );
    let kinds: Vec<&str> = KINDS.into_iter().filter(|kind| part.get(*kind).is_some()).collect();
    let [kind] = kinds[..] else {
        return wrong.at(path, format!("has a part of {} kinds", kinds.len()));
    };
    if let Some(signature) = part.get("thoughtSignature") {
        wrong.unless(role == "model", path, "has a signature of the user's");
        let placeholder = signature == "skip_thought_signature_validator";
        if !placeholder {
            wrong.base64(path, signature);
        }
    }
    let says = match kind {
        "functionCall" => "model",
        "functionResponse" | "inlineData" => "user",
        _ => role,
    };
    wrong.unless(role == says, path, format!("has a {kind} of the {role}'s"));
    let value = &part[kind];
    match kind {
        "text" if part.get("thoughtSignature").is_some() => {
            wrong.unless(value.is_string(), path, "has no text")
        }
        "text" => wrong.text(path, value),
        "inlineData" => image(wrong, path, value),
        "functionCall" => {
            wrong.object(path, value, &["name", "args"], &["id"]);
            wrong.unless(value["args"].is_object(), path, "has args that are no object");
            named(wrong, path, value);
        }
        _ => {
            wrong.object(path, value, &["name", "response"], &["id", "parts"]);
            wrong.unless(value["response"].is_object(), path, "has a response that is no object");
            named(wrong, path, value);
            for inner in value["parts"].as_array().into_iter().flatten() {
                wrong.object(path, inner, &["inlineData"], &[]);
                image(wrong, path, &inner["inlineData"]);
            }
        }
    }
}

fn named(wrong: &mut Wrong, path: &str, call: &Value) {
    wrong.word(path, &call["name"], 64);
    if !call["id"].is_null() {
        wrong.word(path, &call["id"], 64);
    }
}

fn image(wrong: &mut Wrong, path: &str, image: &Value) {
    wrong.object(path, image, &["mimeType", "data"], &[]);
    let other = ["application/pdf", "audio/wav", "image/heic"];
    if !other.iter().any(|other| image["mimeType"] == *other) {
        wrong.media_type(path, &image["mimeType"]);
    }
    wrong.base64(path, &image["data"]);
}

#[test]
fn malformed_requests_are_refused() {
    use super::{drop_field, refuses};
    let schema = serde_json::json!({"type": "object", "properties": {}});
    let good = serde_json::json!({
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png",
            "data": "AAAA"}}]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": true, "thoughtSignature": "AAAA"},
                {"functionCall": {"name": "f", "id": "1", "args": {}}, "thoughtSignature": "BBBB"},
                {"functionCall": {"name": "f", "id": "2", "args": {}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "f", "id": "1", "response": {"output": "x"}}},
                {"functionResponse": {"name": "f", "id": "2", "response": {"output": "y"}}},
            ]},
        ],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{"name": "f", "description": "",
        "parametersJsonSchema": schema}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        "generationConfig": {"maxOutputTokens": 9, "temperature": 0.5,
        "thinkingConfig": {"thinkingLevel": "low"}},
    });
    refuses(
        |body| check(body, "gemini-3-pro"),
        &good,
        &[
            ("has no `contents`", |b| drop_field(b, "contents")),
            ("unknown field `model`", |b| b["model"] = "m".into()),
            ("unknown field `top_p`", |b| b["generationConfig"]["top_p"] = 1.into()),
            ("roles alternate", |b| b["contents"][1]["role"] = "assistant".into()),
            ("roles alternate", |b| drop(b["contents"].as_array_mut().unwrap().remove(0))),
            ("nothing to answer", |b| drop(b["contents"].as_array_mut().unwrap().pop())),
            ("is no text, or blank", |b| b["contents"][0]["parts"][0]["text"] = "".into()),
            ("an empty one", |b| b["contents"][0]["parts"] = Value::Array(vec![])),
            ("of 2 kinds", |b| b["contents"][0]["parts"][1]["text"] = "x".into()),
            ("is no base64", |b| b["contents"][0]["parts"][1]["inlineData"]["data"] = "!".into()),
            ("args that are no object", |b| {
                b["contents"][1]["parts"][1]["functionCall"]["args"] = "{}".into()
            }),
            ("without a thoughtSignature", |b| {
                drop_field(&mut b["contents"][1]["parts"][1], "thoughtSignature")
            }),
            ("is no base64", |b| {
                b["contents"][1]["parts"][1]["thoughtSignature"] = "made up".into()
            }),
            ("and what follows answers", |b| {
                b["contents"][2]["parts"].as_array_mut().unwrap().swap(0, 1)
            }),
            ("and what follows answers", |b| {
                drop(b["contents"][2]["parts"].as_array_mut().unwrap().pop())
            }),
            ("and what follows answers", |b| {
                b["contents"][2]["parts"][0]["functionResponse"]["name"] = "g".into()
            }),
            ("twice", |b| b["contents"][1]["parts"][2]["functionCall"]["id"] = "1".into()),
            ("no object", |b| {
                b["contents"][2]["parts"][0]["functionResponse"]["response"] = "x".into()
            }),
            ("no word of", |b| b["contents"][1]["parts"][1]["functionCall"]["id"] = "a b".into()),
            ("which is no function", |b| {
                b["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"][0] = "g".into()
            }),
            ("without the mode ANY", |b| {
                b["toolConfig"]["functionCallingConfig"]["mode"] = "AUTO".into()
            }),
            ("has no `properties`", |b| {
                drop_field(
                    &mut b["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"],
                    "properties",
                );
            }),
            ("begin with a letter", |b| {
                b["tools"][0]["functionDeclarations"][0]["name"] = "1f".into()
            }),
            ("two schemas", |b| {
                b["tools"][0]["functionDeclarations"][0]["parameters"] = serde_json::json!({})
            }),
            ("without JSON's media type", |b| {
                b["generationConfig"]["responseJsonSchema"] = serde_json::json!({})
            }),
            ("a level and a budget", |b| {
                b["generationConfig"]["thinkingConfig"]["thinkingBudget"] = 5.into()
            }),
            ("none of [\"minimal\"", |b| {
                b["generationConfig"]["thinkingConfig"]["thinkingLevel"] = "max".into()
            }),
        ],
    );
}
