//! What a Chat Completions request has to be, for OpenAI and for servers that differ from it.

use serde_json::Value;

use super::Wrong;

/// What one server demands in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    OpenAi,
    Mistral,
    DeepSeek,
    OpenRouter,
    /// Any other.
    Compatible,
}

const OPTIONAL: &[&str] = &[
    "frequency_penalty",
    "max_tokens",
    "n",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_p",
];

/// Everything that is wrong with a body for this server.
pub(crate) fn check(body: &[u8], server: Server) -> Result<(), String> {
    super::check(body, |wrong, body| request(wrong, body, server))
}

fn request(wrong: &mut Wrong, body: &Value, server: Server) {
    let own: &[&str] = match server {
        Server::OpenAi => &["max_completion_tokens", "prompt_cache_key", "store"],
        Server::OpenRouter => &["reasoning", "provider", "transforms"],
        Server::DeepSeek => &["thinking"],
        Server::Mistral | Server::Compatible => &[],
    };
    let optional = [OPTIONAL, own].concat();
    let Some(fields) = wrong.object("the body", body, &["model", "messages"], &optional) else { return };
    wrong.text("model", &body["model"]);
    if let Some(temperature) = fields.get("temperature") {
        wrong.within("temperature", temperature, 0.0, 2.0);
    }
    for most in ["max_tokens", "max_completion_tokens"].into_iter().filter_map(|name| fields.get(name)) {
        wrong.whole_number("max_tokens", most, 1);
    }
    let both = fields.contains_key("max_tokens") && fields.contains_key("max_completion_tokens");
    wrong.unless(!both, "max_tokens", "is there in two fields");
    if server == Server::Mistral {
        wrong.unless(!fields.contains_key("stream_options"), "stream_options", "is refused by Mistral");
    }
    if let Some(effort) = fields.get("reasoning_effort") {
        let known: &[&str] = match server {
            Server::OpenAi => &["none", "minimal", "low", "medium", "high", "xhigh"],
            Server::Mistral => &["none", "high"],
            _ => &["none", "low", "medium", "high"],
        };
        wrong.one_of("reasoning_effort", effort, known);
    }
    if let Some(key) = fields.get("prompt_cache_key") {
        wrong.unless(
            key.as_str().is_some_and(|key| (1..=64).contains(&key.len())),
            "prompt_cache_key",
            "has no legal length",
        );
    }
    if let Some(format) = fields.get("response_format") {
        response_format(wrong, format, server);
    }
    tools(wrong, body);
    messages(wrong, &body["messages"], server);
}

fn response_format(wrong: &mut Wrong, format: &Value, server: Server) {
    if format["type"] == "json_object" {
        wrong.object("response_format", format, &["type"], &[]);
        return;
    }
    wrong.object("response_format", format, &["type", "json_schema"], &[]);
    let kinds: &[&str] = if server == Server::DeepSeek { &["json_object"] } else { &["json_schema"] };
    wrong.one_of("response_format.type", &format["type"], kinds);
    wrong.object("json_schema", &format["json_schema"], &["name", "schema"], &["strict", "description"]);
    wrong.word("json_schema.name", &format["json_schema"]["name"], 64);
    wrong.unless(format["json_schema"]["schema"].is_object(), "json_schema", "has a schema that is no object");
}

fn tools(wrong: &mut Wrong, body: &Value) {
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    for tool in tools {
        wrong.object("a tool", tool, &["type", "function"], &[]);
        wrong.one_of("a tool's type", &tool["type"], &["function"]);
        let function = &tool["function"];
        wrong.object("a function", function, &["name", "parameters"], &["description", "strict"]);
        wrong.word("a function's name", &function["name"], 64);
        wrong.arguments_schema("parameters", &function["parameters"]);
    }
    wrong.different("tools", tools.iter().map(|tool| &tool["function"]["name"]));
    wrong.unless(body.get("tools").is_none() || !tools.is_empty(), "tools", "is an empty list");
    match &body["tool_choice"] {
        Value::Null => {}
        choice => {
            wrong.unless(!tools.is_empty(), "tool_choice", "is there without tools");
            match choice {
                Value::String(_) => wrong.one_of("tool_choice", choice, &["auto", "none", "required"]),
                _ => {
                    wrong.object("tool_choice", choice, &["type", "function"], &[]);
                    let known = tools.iter().any(|tool| tool["function"]["name"] == choice["function"]["name"]);
                    wrong.unless(known, "tool_choice", "names what is no function");
                }
            }
        }
    }
}

fn messages(wrong: &mut Wrong, messages: &Value, server: Server) {
    let messages = wrong.list("messages", messages);
    let mut ids = Vec::new();
    let mut rest = messages.iter().enumerate().peekable();
    while let Some((at, message)) = rest.next() {
        let place = format!("messages[{at}]");
        match message["role"].as_str().unwrap_or_default() {
            "system" | "developer" => {
                wrong.object(&place, message, &["role", "content"], &[]);
                wrong.unless(at == 0, &place, "is a system prompt that is not the first message");
                wrong.text(&place, &message["content"]);
            }
            "user" => {
                wrong.object(&place, message, &["role", "content"], &[]);
                content(wrong, &place, &message["content"]);
            }
            "assistant" => {
                let calls = assistant(wrong, &place, message, server);
                let mut results = Vec::new();
                while let Some((at, result)) = rest.next_if(|(_, message)| message["role"] == "tool") {
                    let place = format!("messages[{at}]");
                    wrong.object(&place, result, &["role", "tool_call_id", "content"], &[]);
                    wrong.text(&place, &result["content"]);
                    results.push(result["tool_call_id"].clone());
                }
                wrong.answered(&place, &calls, &results);
                let user_next =
                    !results.is_empty() && rest.peek().is_some_and(|(_, message)| message["role"] == "user");
                let refused = user_next && server == Server::Mistral;
                wrong.unless(!refused, &place, "is followed by results and the user at once, which Mistral refuses");
                ids.extend(calls);
            }
            "tool" => wrong.at(&place, "is a result that follows no call"),
            role => wrong.at(&place, format!("has the unknown role {role}")),
        }
    }
    wrong.different("messages", &ids);
    let last = messages.last().map_or(&Value::Null, |last| &last["role"]);
    wrong.unless(last == "user" || last == "tool", "messages", "end with the assistant, so there is nothing to answer");
}

/// The ids of its calls.
fn assistant(wrong: &mut Wrong, place: &str, message: &Value, server: Server) -> Vec<Value> {
    let own: &[&str] = match server {
        Server::OpenRouter => &["reasoning", "reasoning_details"],
        Server::DeepSeek => &["reasoning_content"],
        _ => &[],
    };
    let optional = [&["content", "tool_calls"], own].concat();
    wrong.object(place, message, &["role"], &optional);
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    wrong.unless(message.get("tool_calls").is_none() || !calls.is_empty(), place, "has an empty list of calls");
    match &message["content"] {
        Value::Null => wrong.unless(!calls.is_empty(), place, "says nothing and calls nothing"),
        said => wrong.unless(said.as_str().is_some_and(|text| !text.is_empty()), place, format!("says {said}")),
    }
    for detail in message["reasoning_details"].as_array().into_iter().flatten() {
        let known = ["reasoning.text", "reasoning.summary", "reasoning.encrypted"];
        wrong.one_of("a reasoning detail's type", &detail["type"], &known);
    }
    for call in calls {
        wrong.object(place, call, &["id", "type", "function"], &[]);
        wrong.object(place, &call["function"], &["name", "arguments"], &[]);
        wrong.one_of(place, &call["type"], &["function"]);
        wrong.word(place, &call["function"]["name"], 64);
        wrong.object_text(place, &call["function"]["arguments"]);
        match (server, call["id"].as_str().unwrap_or_default()) {
            (Server::OpenAi, _) => wrong.word(place, &call["id"], 40),
            (Server::Mistral, id) => {
                let nine = id.len() == 9 && id.bytes().all(|c| c.is_ascii_alphanumeric());
                wrong.unless(nine, place, format!("has the id {id:?}, which is not nine letters and digits"));
            }
            (_, id) => wrong.unless(!id.is_empty(), place, "has a call without an id"),
        }
    }
    calls.iter().map(|call| call["id"].clone()).collect()
}

fn content(wrong: &mut Wrong, place: &str, content: &Value) {
    if content.is_string() {
        return wrong.text(place, content);
    }
    for part in wrong.list(place, content) {
        match part["type"].as_str() {
            Some("text") => {
                wrong.object(place, part, &["type", "text"], &[]);
                wrong.text(place, &part["text"]);
            }
            Some("image_url") => {
                wrong.object(place, part, &["type", "image_url"], &[]);
                wrong.object(place, &part["image_url"], &["url"], &["detail"]);
                wrong.data_url(place, &part["image_url"]["url"]);
            }
            _ => wrong.at(place, "has a part of an unknown type"),
        }
    }
}

#[cfg(test)]
fn good() -> Value {
    let function = |name: &str| serde_json::json!({"name": name, "arguments": "{\"a\":1}"});
    let schema = serde_json::json!({"type": "object", "properties": {"a": {}}, "required": ["a"]});
    serde_json::json!({
        "model": "m", "stream": true, "max_completion_tokens": 9, "temperature": 0.5, "reasoning_effort": "low",
        "tools": [{"type": "function", "function": {"name": "f", "description": "", "parameters": schema}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "Out", "schema": {}}},
        "prompt_cache_key": "s",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [
                {"type": "text", "text": "hi"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "abcdefgh1", "type": "function", "function": function("f")},
                {"id": "abcdefgh2", "type": "function", "function": function("f")},
            ]},
            {"role": "tool", "tool_call_id": "abcdefgh1", "content": "1"},
            {"role": "tool", "tool_call_id": "abcdefgh2", "content": "2"},
        ],
    })
}

#[test]
fn malformed_requests_are_refused() {
    use super::{drop_field, refuses};
    refuses(
        |body| check(body, Server::OpenAi),
        &good(),
        &[
            ("has no `messages`", |b| drop_field(b, "messages")),
            ("unknown field `thinking`", |b| b["thinking"] = 1.into()),
            ("two fields", |b| b["max_tokens"] = 9.into()),
            ("not between 0 and 2", |b| b["temperature"] = 3.into()),
            ("none of [\"none\"", |b| b["reasoning_effort"] = "max".into()),
            ("no legal length", |b| b["prompt_cache_key"] = "k".repeat(65).into()),
            ("has no `schema`", |b| drop_field(&mut b["response_format"]["json_schema"], "schema")),
            ("no word of", |b| b["response_format"]["json_schema"]["name"] = "a b".into()),
            ("no word of", |b| b["tools"][0]["function"]["name"] = "a.b".into()),
            ("no schema of an object", |b| b["tools"][0]["function"]["parameters"]["type"] = Value::Null),
            ("names what is no function", |b| b["tool_choice"]["function"]["name"] = "g".into()),
            ("without tools", |b| drop_field(b, "tools")),
            ("an empty list", |b| b["tools"] = Value::Array(vec![])),
            ("not the first message", |b| b["messages"].as_array_mut().unwrap().swap(0, 1)),
            ("unknown role", |b| b["messages"][1]["role"] = "human".into()),
            ("is no text, or blank", |b| b["messages"][1]["content"][0]["text"] = "".into()),
            ("is no data URL", |b| b["messages"][1]["content"][1]["image_url"]["url"] = "file:x".into()),
            ("unknown type", |b| b["messages"][1]["content"][0]["type"] = "input_text".into()),
            ("unknown field `reasoning_content`", |b| b["messages"][2]["reasoning_content"] = "hm".into()),
            ("says \"\"", |b| b["messages"][2]["content"] = "".into()),
            ("says nothing and calls nothing", |b| drop_field(&mut b["messages"][2], "tool_calls")),
            ("follows no call", |b| drop(b["messages"].as_array_mut().unwrap().remove(2))),
            ("is no JSON object", |b| b["messages"][2]["tool_calls"][0]["function"]["arguments"] = "{\"a\":".into()),
            ("is no JSON object", |b| {
                b["messages"][2]["tool_calls"][0]["function"]["arguments"] = serde_json::json!({})
            }),
            ("no word of at most 40", |b| b["messages"][2]["tool_calls"][0]["id"] = "x".repeat(41).into()),
            ("and what follows answers", |b| drop(b["messages"].as_array_mut().unwrap().pop())),
            ("and what follows answers", |b| b["messages"].as_array_mut().unwrap().swap(3, 4)),
            ("twice", |b| {
                b["messages"][2]["tool_calls"][1]["id"] = "abcdefgh1".into();
                b["messages"][4]["tool_call_id"] = "abcdefgh1".into();
            }),
            ("nothing to answer", |b| {
                b["messages"].as_array_mut().unwrap().push(serde_json::json!({"role": "assistant", "content": "x"}));
            }),
        ],
    );
}

#[test]
fn a_server_has_rules_of_its_own() {
    let checked = |server, change: fn(&mut Value)| {
        let mut body = good();
        for name in ["max_completion_tokens", "prompt_cache_key", "reasoning_effort"] {
            super::drop_field(&mut body, name);
        }
        body["response_format"] = serde_json::json!({"type": "json_object"});
        change(&mut body);
        check(&serde_json::to_vec(&body).unwrap(), server)
    };
    for server in [Server::Mistral, Server::DeepSeek, Server::OpenRouter, Server::Compatible] {
        checked(server, |_| {}).unwrap();
    }
    let thought: fn(&mut Value) = |b| b["messages"][2]["reasoning_content"] = "hm".into();
    let id: fn(&mut Value) = |b| {
        b["messages"][2]["tool_calls"][0]["id"] = "call_1".into();
        b["messages"][3]["tool_call_id"] = "call_1".into();
    };
    let steer: super::Change = |b| {
        b["messages"].as_array_mut().unwrap().push(serde_json::json!({"role": "user", "content": "no, stop"}));
    };
    let cases: [(Server, super::Change, bool); 9] = [
        (Server::DeepSeek, thought, true),
        (Server::Compatible, thought, false),
        (Server::Mistral, id, false),
        (Server::Mistral, steer, false),
        (Server::OpenRouter, steer, true),
        (Server::Compatible, id, true),
        (Server::Mistral, |b| b["stream_options"] = serde_json::json!({"include_usage": true}), false),
        (Server::DeepSeek, |b| b["response_format"] = good()["response_format"].clone(), false),
        (Server::OpenRouter, |b| b["messages"][2]["reasoning_details"] = serde_json::json!([{"type": "other"}]), false),
    ];
    for (at, (server, change, taken)) in cases.into_iter().enumerate() {
        assert_eq!(checked(server, change).is_ok(), taken, "case {at}, {server:?}");
    }
}
