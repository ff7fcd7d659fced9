//! The contents of a request in any format: one line per text, call and result.

use serde_json::Value;

/// Returns the lines of a conversation, without blank texts.
pub(super) fn transcript(format: &str, request: &Value) -> Vec<String> {
    let lines = match format {
        "anthropic" => messages(request).iter().flat_map(anthropic).collect::<Vec<_>>(),
        "gemini" => request["contents"].as_array().into_iter().flatten().flat_map(gemini).collect(),
        "openai-chat" => messages(request).iter().flat_map(chat).collect(),
        _ => request["input"].as_array().into_iter().flatten().flat_map(item).collect(),
    };
    lines
        .into_iter()
        .filter(|(_, text)| !text.trim().is_empty())
        .map(|(who, text)| format!("{who}: {text}"))
        .collect()
}

/// Returns the results and the text at the end of a request.
pub(super) fn answers(format: &str, request: &Value) -> (Vec<String>, String) {
    let lines = transcript(format, request);
    let results = lines.iter().rev().map_while(|line| line.strip_prefix("result: "));
    let mut results: Vec<String> = results.map(str::to_owned).collect();
    results.reverse();
    let text = lines.last().and_then(|line| line.strip_prefix("user: ")).unwrap_or_default();
    (results, text.to_owned())
}

/// Returns the text of a string, or the joined text of parts.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

type Line = (String, String);

fn messages(request: &Value) -> &[Value] {
    request["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn line(who: &Value, text: String) -> Line {
    (who.as_str().unwrap_or_default().to_owned(), text)
}

/// Returns a call, with its arguments as a value, because clients format them differently.
fn call(name: &Value, arguments: &Value) -> Line {
    let arguments = match arguments {
        Value::String(text) => serde_json::from_str(text).unwrap_or(Value::Null),
        value => value.clone(),
    };
    line(&"call".into(), format!("{name} {arguments}"))
}

fn result(text: String) -> Line {
    line(&"result".into(), text)
}

fn anthropic(message: &Value) -> Vec<Line> {
    match &message["content"] {
        Value::Array(blocks) => blocks
            .iter()
            .map(|block| match block["type"].as_str() {
                Some("tool_use") => call(&block["name"], &block["input"]),
                Some("tool_result") => result(text_of(&block["content"])),
                _ => line(&message["role"], block["text"].as_str().unwrap_or_default().to_owned()),
            })
            .collect(),
        content => vec![line(&message["role"], text_of(content))],
    }
}

fn gemini(content: &Value) -> Vec<Line> {
    let parts = content["parts"].as_array().into_iter().flatten();
    let lines =
        parts.map(|part| match (&part["functionCall"], &part["functionResponse"]["response"]) {
            (Value::Object(function), _) => call(&function["name"], &function["args"]),
            (_, Value::Object(response)) => result(
                response.values().next().and_then(Value::as_str).unwrap_or_default().to_owned(),
            ),
            _ => line(&content["role"], text_of(&part["text"])),
        });
    lines.collect()
}

fn chat(message: &Value) -> Vec<Line> {
    let text = text_of(&message["content"]);
    let text = if message["role"] == "tool" { result(text) } else { line(&message["role"], text) };
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls = calls.map(|one| call(&one["function"]["name"], &one["function"]["arguments"]));
    std::iter::once(text).chain(calls).collect()
}

fn item(item: &Value) -> Option<Line> {
    match item["type"].as_str() {
        Some("function_call") => Some(call(&item["name"], &item["arguments"])),
        Some("function_call_output") => Some(result(text_of(&item["output"]))),
        Some("reasoning") => None,
        _ => Some(line(&item["role"], text_of(&item["content"]))),
    }
}
