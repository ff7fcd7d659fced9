//! Rules of a Chat Completions request, for OpenAI and for servers that deviate.

use serde_json::Value;

use super::Wrong;
use super::models::openai;

/// A server with special rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    OpenAi,
    Mistral,
    DeepSeek,
    OpenRouter,
    Moonshot,
    Groq,
    Xai,
    Together,
    Ollama,
    /// Any other server.
    Compatible,
}

impl Server {
    /// Returns the server with this host or provider.
    pub(crate) fn of(name: &str) -> Server {
        match name {
            "openai" | "api.openai.com" | "azure" => Server::OpenAi,
            "mistral" | "api.mistral.ai" => Server::Mistral,
            "deepseek" | "api.deepseek.com" => Server::DeepSeek,
            "openrouter" | "openrouter.ai" => Server::OpenRouter,
            "moonshot" | "api.moonshot.ai" => Server::Moonshot,
            "groq" | "api.groq.com" => Server::Groq,
            "xai" | "api.x.ai" => Server::Xai,
            "together" | "api.together.xyz" => Server::Together,
            "ollama" => Server::Ollama,
            _ => Server::Compatible,
        }
    }

    /// Returns the values of `reasoning_effort` that the model accepts.
    fn efforts(self, model: &str) -> &'static [&'static str] {
        let is = |begin: &str| model.starts_with(begin);
        match self {
            Server::OpenAi => openai(model).efforts,
            Server::Mistral => &["none", "high"],
            Server::Groq if is("qwen/") => &["none", "default"],
            Server::Xai if is("grok-3-mini") => &["low", "high"],
            Server::Xai if is("grok-4.3") => &["none", "low", "medium", "high"],
            Server::Xai if is("grok-4.5") || is("grok-4.6") || is("grok-4.7") => {
                &["low", "medium", "high"]
            }
            Server::Xai | Server::DeepSeek => &[],
            Server::Moonshot if is("kimi-k3") => &["low", "high", "max"],
            Server::Moonshot => &[],
            Server::Ollama if is("gemma3") || is("llama3") => &["none"],
            Server::Groq | Server::Together => &["low", "medium", "high"],
            _ => &["none", "low", "medium", "high"],
        }
    }
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

/// Returns all violations in a body for this server.
pub(crate) fn check(body: &[u8], server: Server) -> Result<(), String> {
    super::check(body, |wrong, body| request(wrong, body, server))
}

fn request(wrong: &mut Wrong, body: &Value, server: Server) {
    let own: &[&str] = match server {
        Server::OpenAi => &["max_completion_tokens", "prompt_cache_key", "store"],
        Server::OpenRouter
            if body["model"].as_str().is_some_and(|model| model.starts_with("anthropic/")) =>
        {
            &["reasoning", "provider", "transforms", "cache_control"]
        }
        Server::OpenRouter => &["reasoning", "provider", "transforms"],
        Server::Together => &["reasoning"],
        Server::DeepSeek | Server::Moonshot => &["thinking"],
        _ => &[],
    };
    let optional = [OPTIONAL, own].concat();
    let Some(fields) = wrong.object("the body", body, &["model", "messages"], &optional) else {
        return;
    };
    wrong.text("model", &body["model"]);
    if let Some(temperature) = fields.get("temperature") {
        wrong.within("temperature", temperature, 0.0, 2.0);
    }
    for max in
        ["max_tokens", "max_completion_tokens"].into_iter().filter_map(|name| fields.get(name))
    {
        wrong.whole_number("max_tokens", max, 1);
    }
    let both = fields.contains_key("max_tokens") && fields.contains_key("max_completion_tokens");
    wrong.unless(!both, "max_tokens", "is there in two fields");
    if server == Server::Mistral {
        wrong.unless(
            !fields.contains_key("stream_options"),
            "stream_options",
            "is refused by Mistral",
        );
    }
    let model = body["model"].as_str().unwrap_or_default();
    if let Some(effort) = fields.get("reasoning_effort") {
        wrong.one_of("reasoning_effort", effort, server.efforts(model));
    }
    let tools_there = fields.contains_key("tools");
    if server == Server::OpenAi {
        let effort = body["reasoning_effort"].as_str().unwrap_or(openai(model).usual);
        let refused = effort != "none" && fields.contains_key("temperature");
        wrong.unless(!refused, "temperature", "is there though the model reasons");
        let refused = effort != "none" && tools_there && openai(model).none_beside_tools;
        wrong.unless(!refused, "tools", "are there though the model reasons");
    }
    let switch = &body["thinking"];
    if !switch.is_null() {
        wrong.object("thinking", switch, &["type"], &[]);
        wrong.one_of("thinking.type", &switch["type"], &["enabled", "disabled"]);
        wrong.unless(!model.starts_with("kimi-k3"), "thinking", "is unknown to this model");
    }
    let forced = !matches!(body["tool_choice"].as_str(), Some("auto" | "none"))
        && !body["tool_choice"].is_null();
    let thinks = server == Server::DeepSeek
        || model.starts_with("kimi-k2.5")
        || model.starts_with("kimi-k2.6");
    let refused = forced && thinks && switch["type"] != "disabled";
    wrong.unless(!refused, "tool_choice", "is forced though the model thinks");
    let fixed = server == Server::Moonshot
        && model.starts_with("kimi")
        && fields.contains_key("temperature");
    wrong.unless(!fixed, "temperature", "is fixed for this model");
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
    tools(wrong, body, server);
    messages(wrong, &body["messages"], server);
}

fn response_format(wrong: &mut Wrong, format: &Value, server: Server) {
    if format["type"] == "json_object" {
        wrong.object("response_format", format, &["type"], &[]);
        return;
    }
    wrong.object("response_format", format, &["type", "json_schema"], &[]);
    let kinds: &[&str] = if matches!(server, Server::DeepSeek | Server::Moonshot) {
        &["json_object"]
    } else {
        &["json_schema"]
    };
    wrong.one_of("response_format.type", &format["type"], kinds);
    wrong.object(
        "json_schema",
        &format["json_schema"],
        &["name", "schema"],
        &["strict", "description"],
    );
    wrong.word("json_schema.name", &format["json_schema"]["name"], 64);
    wrong.object_schema("json_schema.schema", &format["json_schema"]["schema"]);
}

fn tools(wrong: &mut Wrong, body: &Value, server: Server) {
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    for tool in tools {
        wrong.object("a tool", tool, &["type", "function"], &[]);
        wrong.one_of("a tool's type", &tool["type"], &["function"]);
        let function = &tool["function"];
        // Other servers may accept it; their rules are unknown.
        let own: &[&str] =
            if server == Server::OpenAi { &["description", "strict"] } else { &["description"] };
        wrong.object("a function", function, &["name", "parameters"], own);
        wrong.word("a function's name", &function["name"], 64);
        wrong.arguments_schema("parameters", &function["parameters"]);
        if function["strict"] == true {
            super::strict::parameters(wrong, "parameters", &function["parameters"]);
        }
    }
    wrong.different("tools", tools.iter().map(|tool| &tool["function"]["name"]));
    wrong.unless(body.get("tools").is_none() || !tools.is_empty(), "tools", "is an empty list");
    match &body["tool_choice"] {
        Value::Null => {}
        choice => {
            wrong.unless(!tools.is_empty(), "tool_choice", "is there without tools");
            match choice {
                Value::String(_) => {
                    wrong.one_of("tool_choice", choice, &["auto", "none", "required"])
                }
                _ => {
                    wrong.object("tool_choice", choice, &["type", "function"], &[]);
                    let known = tools
                        .iter()
                        .any(|tool| tool["function"]["name"] == choice["function"]["name"]);
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
        let path = format!("messages[{at}]");
        match message["role"].as_str().unwrap_or_default() {
            "system" | "developer" => {
                wrong.object(&path, message, &["role", "content"], &[]);
                wrong.unless(at == 0, &path, "is a system prompt that is not the first message");
                wrong.text(&path, &message["content"]);
            }
            "user" => {
                wrong.object(&path, message, &["role", "content"], &[]);
                content(wrong, &path, &message["content"]);
            }
            "assistant" => {
                let calls = assistant(wrong, &path, message, server);
                let mut results = Vec::new();
                while let Some((at, result)) =
                    rest.next_if(|(_, message)| message["role"] == "tool")
                {
                    let path = format!("messages[{at}]");
                    wrong.object(&path, result, &["role", "tool_call_id", "content"], &[]);
                    wrong.text(&path, &result["content"]);
                    results.push(result["tool_call_id"].clone());
                }
                wrong.answered(&path, &calls, &results);
                let user_next = !results.is_empty()
                    && rest.peek().is_some_and(|(_, message)| message["role"] == "user");
                let refused = user_next && server == Server::Mistral;
                wrong.unless(
                    !refused,
                    &path,
                    "is followed by results and the user at once, which Mistral refuses",
                );
                ids.extend(calls);
            }
            "tool" => wrong.at(&path, "is a result that follows no call"),
            role => wrong.at(&path, format!("has the unknown role {role}")),
        }
    }
    wrong.different("messages", &ids);
    let last = messages.last().map_or(&Value::Null, |last| &last["role"]);
    wrong.unless(
        last == "user" || last == "tool",
        "messages",
        "end with the assistant, so there is nothing to answer",
    );
}

/// Checks an assistant message and returns the ids of its calls.
fn assistant(wrong: &mut Wrong, path: &str, message: &Value, server: Server) -> Vec<Value> {
    let own: &[&str] = match server {
        Server::OpenRouter => &["reasoning", "reasoning_details"],
        Server::DeepSeek | Server::Moonshot => &["reasoning_content"],
        Server::OpenAi | Server::Mistral => &[],
        _ => &["reasoning_content", "reasoning"],
    };
    let optional = [&["content", "tool_calls"], own].concat();
    wrong.object(path, message, &["role"], &optional);
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    wrong.unless(
        message.get("tool_calls").is_none() || !calls.is_empty(),
        path,
        "has an empty list of calls",
    );
    match &message["content"] {
        Value::Null => wrong.unless(!calls.is_empty(), path, "says nothing and calls nothing"),
        Value::Array(parts) if server == Server::Mistral => {
            for part in parts {
                let field = if part["type"] == "thinking" { "thinking" } else { "text" };
                wrong.object(path, part, &["type", field], &[]);
            }
        }
        reply => wrong.unless(
            reply.as_str().is_some_and(|text| !text.is_empty()),
            path,
            format!("says {reply}"),
        ),
    }
    for detail in message["reasoning_details"].as_array().into_iter().flatten() {
        let known = ["reasoning.text", "reasoning.summary", "reasoning.encrypted"];
        wrong.one_of("a reasoning detail's type", &detail["type"], &known);
    }
    for call in calls {
        wrong.object(path, call, &["id", "type", "function"], &[]);
        wrong.object(path, &call["function"], &["name", "arguments"], &[]);
        wrong.one_of(path, &call["type"], &["function"]);
        wrong.word(path, &call["function"]["name"], 64);
        wrong.object_text(path, &call["function"]["arguments"]);
        match (server, call["id"].as_str().unwrap_or_default()) {
            (Server::OpenAi, _) => wrong.word(path, &call["id"], 40),
            (Server::Mistral, id) => {
                let nine = id.len() == 9 && id.bytes().all(|c| c.is_ascii_alphanumeric());
                wrong.unless(
                    nine,
                    path,
                    format!("has the id {id:?}, which is not nine letters and digits"),
                );
            }
            (_, id) => wrong.unless(!id.is_empty(), path, "has a call without an id"),
        }
    }
    calls.iter().map(|call| call["id"].clone()).collect()
}

fn content(wrong: &mut Wrong, path: &str, content: &Value) {
    if content.is_string() {
        return wrong.text(path, content);
    }
    for part in wrong.list(path, content) {
        match part["type"].as_str() {
            Some("text") => {
                wrong.object(path, part, &["type", "text"], &[]);
                wrong.text(path, &part["text"]);
            }
            Some("image_url") => {
                wrong.object(path, part, &["type", "image_url"], &[]);
                wrong.object(path, &part["image_url"], &["url"], &["detail"]);
                wrong.data_url(path, &part["image_url"]["url"]);
            }
            Some("file") => {
                wrong.object(path, part, &["type", "file"], &[]);
                wrong.object(path, &part["file"], &["filename", "file_data"], &[]);
                wrong.text(path, &part["file"]["filename"]);
                wrong.pdf_url(path, &part["file"]["file_data"]);
            }
            _ => wrong.at(path, "has a part of an unknown type"),
        }
    }
}

#[cfg(test)]
#[path = "openai_chat_tests.rs"]
mod tests;
