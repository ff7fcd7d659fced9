//! Tests of the rules of Chat Completions.

use serde_json::{Value, json};

use super::*;

fn good() -> Value {
    let function = |name: &str| json!({"name": name, "arguments": "{\"a\":1}"});
    let schema = json!({"type": "object", "properties": {"a": {}}, "required": ["a"]});
    json!({
        "model": "m", "stream": true, "max_completion_tokens": 9, "reasoning_effort": "low",
        "tools": [{"type": "function", "function": {"name": "f", "description": "",
        "parameters": schema}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "json_schema",
            "json_schema": {"name": "Out", "schema": {"type": "object"}}},
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
    use super::super::{drop_field, refuses};
    refuses(
        |body| check(body, Server::OpenAi),
        &good(),
        &[
            ("has no `messages`", |b| drop_field(b, "messages")),
            ("unknown field `thinking`", |b| b["thinking"] = 1.into()),
            ("two fields", |b| b["max_tokens"] = 9.into()),
            ("not between 0 and 2", |b| b["temperature"] = 3.into()),
            ("though the model reasons", |b| b["temperature"] = 1.into()),
            ("none of [\"none\"", |b| b["reasoning_effort"] = "max".into()),
            ("no legal length", |b| b["prompt_cache_key"] = "k".repeat(65).into()),
            ("has no `schema`", |b| drop_field(&mut b["response_format"]["json_schema"], "schema")),
            ("`anyOf` at its root", |b| {
                b["response_format"]["json_schema"]["schema"]["anyOf"] = json!([]);
            }),
            ("no word of", |b| b["response_format"]["json_schema"]["name"] = "a b".into()),
            ("no word of", |b| b["tools"][0]["function"]["name"] = "a.b".into()),
            ("leave things open", |b| b["tools"][0]["function"]["strict"] = true.into()),
            ("no schema of an object", |b| {
                b["tools"][0]["function"]["parameters"]["type"] = Value::Null
            }),
            ("names what is no function", |b| b["tool_choice"]["function"]["name"] = "g".into()),
            ("without tools", |b| drop_field(b, "tools")),
            ("an empty list", |b| b["tools"] = Value::Array(vec![])),
            ("not the first message", |b| b["messages"].as_array_mut().unwrap().swap(0, 1)),
            ("unknown role", |b| b["messages"][1]["role"] = "human".into()),
            ("is no text, or blank", |b| b["messages"][1]["content"][0]["text"] = "".into()),
            ("is no data URL", |b| {
                b["messages"][1]["content"][1]["image_url"]["url"] = "file:x".into()
            }),
            ("unknown type", |b| b["messages"][1]["content"][0]["type"] = "input_text".into()),
            ("unknown field `reasoning_content`", |b| {
                b["messages"][2]["reasoning_content"] = "hm".into()
            }),
            ("says \"\"", |b| b["messages"][2]["content"] = "".into()),
            ("says nothing and calls nothing", |b| drop_field(&mut b["messages"][2], "tool_calls")),
            ("follows no call", |b| drop(b["messages"].as_array_mut().unwrap().remove(2))),
            ("is no JSON object", |b| {
                b["messages"][2]["tool_calls"][0]["function"]["arguments"] = "{\"a\":".into()
            }),
            ("is no JSON object", |b| {
                b["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!({})
            }),
            ("no word of at most 40", |b| {
                b["messages"][2]["tool_calls"][0]["id"] = "x".repeat(41).into()
            }),
            ("and what follows answers", |b| drop(b["messages"].as_array_mut().unwrap().pop())),
            ("and what follows answers", |b| b["messages"].as_array_mut().unwrap().swap(3, 4)),
            ("twice", |b| {
                b["messages"][2]["tool_calls"][1]["id"] = "abcdefgh1".into();
                b["messages"][4]["tool_call_id"] = "abcdefgh1".into();
            }),
            ("nothing to answer", |b| {
                b["messages"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"role": "assistant", "content": "x"}));
            }),
        ],
    );
}

#[test]
fn a_server_has_rules_of_its_own() {
    let checked = |server, change: fn(&mut Value)| {
        let mut body = good();
        for name in ["max_completion_tokens", "prompt_cache_key", "reasoning_effort", "tool_choice"]
        {
            super::super::drop_field(&mut body, name);
        }
        body["response_format"] = json!({"type": "json_object"});
        change(&mut body);
        check(&serde_json::to_vec(&body).unwrap(), server)
    };
    for server in [Server::Mistral, Server::DeepSeek, Server::OpenRouter, Server::Compatible] {
        checked(server, |b| b["tool_choice"] = "auto".into()).unwrap();
    }
    let thought: fn(&mut Value) = |b| b["messages"][2]["reasoning_content"] = "hm".into();
    let id: fn(&mut Value) = |b| {
        b["messages"][2]["tool_calls"][0]["id"] = "call_1".into();
        b["messages"][3]["tool_call_id"] = "call_1".into();
    };
    let steer: super::super::Change = |b| {
        b["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": "no, stop"}));
    };
    let cases: [(Server, super::super::Change, bool); 11] = [
        (Server::DeepSeek, thought, true),
        (Server::Compatible, thought, true),
        (Server::Mistral, thought, false),
        (Server::Mistral, id, false),
        (Server::Mistral, steer, false),
        (Server::OpenRouter, steer, true),
        (Server::Compatible, id, true),
        (Server::Compatible, |b| b["tools"][0]["function"]["strict"] = false.into(), false),
        (Server::Mistral, |b| b["stream_options"] = json!({"include_usage": true}), false),
        (Server::DeepSeek, |b| b["response_format"] = good()["response_format"].clone(), false),
        (
            Server::OpenRouter,
            |b| b["messages"][2]["reasoning_details"] = json!([{"type": "other"}]),
            false,
        ),
    ];
    for (at, (server, change, taken)) in cases.into_iter().enumerate() {
        assert_eq!(checked(server, change).is_ok(), taken, "case {at}, {server:?}");
    }
}

#[test]
fn a_model_has_rules_of_its_own() {
    let checked = |server: &str, model: &str, more: &Value| {
        let function = json!({"name": "f", "parameters": {"type": "object", "properties": {}}});
        let mut body = json!({"model": model, "messages": [{"role": "user", "content": "hi"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        if body["tools"] == true {
            body["tools"] = json!([{"type": "function", "function": function}]);
        }
        check(&serde_json::to_vec(&body).unwrap(), Server::of(server)).is_ok()
    };
    for (server, model, more, taken) in [
        ("openai", "gpt-5.1", json!({"temperature": 0.5}), true),
        ("openai", "gpt-5.1", json!({"temperature": 0.5, "reasoning_effort": "low"}), false),
        ("openai", "gpt-5.6-luna", json!({"tools": true}), false),
        ("openai", "gpt-5.6-luna", json!({"tools": true, "reasoning_effort": "none"}), true),
        ("openai", "gpt-5.4", json!({"tools": true, "reasoning_effort": "low"}), false),
        ("openai", "gpt-5.4", json!({"tools": true}), true),
        ("deepseek", "deepseek-flash", json!({"tools": true, "tool_choice": "required"}), false),
        (
            "deepseek",
            "deepseek-flash",
            json!({"tools": true, "tool_choice": "required", "thinking": {"type": "disabled"}}),
            true,
        ),
        ("groq", "qwen/qwen3.8-27b", json!({"reasoning_effort": "low"}), false),
        ("groq", "qwen/qwen3.8-27b", json!({"reasoning_effort": "default"}), true),
        ("xai", "grok-4.3", json!({"reasoning_effort": "none"}), true),
        ("xai", "grok-4.5", json!({"reasoning_effort": "none"}), false),
        ("xai", "grok-4.20", json!({"reasoning_effort": "low"}), false),
        ("ollama", "qwen3:8b", json!({"reasoning_effort": "none"}), true),
        ("ollama", "gemma3:4b", json!({"reasoning_effort": "low"}), false),
        ("moonshot", "kimi-k3", json!({"thinking": {"type": "disabled"}}), false),
        (
            "openrouter",
            "anthropic/claude-opus-5.5",
            json!({"cache_control": {"type": "ephemeral"}}),
            true,
        ),
        ("openrouter", "openai/gpt-6-luna", json!({"cache_control": {"type": "ephemeral"}}), false),
    ] {
        assert_eq!(checked(server, model, &more), taken, "{server} {model} {more}");
    }
}
