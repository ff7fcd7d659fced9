//! Recorded sessions, parsed from the requests of the recording client.

use serde_json::Value;

use super::transcript::{answers, text_of};
use crate::recordings::shared;
use crate::rules::openai_chat::Server;

/// A recorded session.
pub(super) struct Session {
    pub(super) name: String,
    pub(super) format: String,
    pub(super) provider: String,
    /// The model's name in the requests.
    pub(super) model: String,
    pub(super) turns: Vec<Turn>,
}

/// One request and its reply.
pub(super) struct Turn {
    pub(super) request: Value,
    pub(super) reply: String,
    pub(super) expected: Value,
}

/// Returns all sessions, sorted by name. Panics if there are none.
pub(super) fn sessions() -> Vec<Session> {
    let folder = shared("wire/sessions");
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let mut folders: Vec<_> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    assert!(!folders.is_empty(), "there is no session in {}", folder.display());
    folders.iter().map(|folder| Session::read(folder)).collect()
}

impl Session {
    fn read(folder: &std::path::Path) -> Session {
        let text = |name: String| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
        };
        let json = |name: String| -> Value {
            serde_json::from_str(&text(name.clone())).unwrap_or_else(|why| panic!("{name}: {why}"))
        };
        let about = json("session.json".into());
        let turns = about["turns"].as_array().unwrap().iter().enumerate().map(|(at, turn)| Turn {
            request: json(format!("turn{}.request.json", at + 1)),
            reply: text(format!("turn{}.sse", at + 1)),
            expected: turn["expected"].clone(),
        });
        let turns: Vec<Turn> = turns.collect();
        let word = |key: &str| about[key].as_str().unwrap().to_owned();
        Session {
            name: word("name"),
            format: word("format"),
            provider: word("provider"),
            model: turns[0].request["model"].as_str().map_or_else(|| word("model"), str::to_owned),
            turns,
        }
    }

    fn first(&self) -> &Value {
        &self.turns[0].request
    }

    /// Returns the host of the provider's server.
    pub(super) fn host(&self) -> &'static str {
        match self.provider.as_str() {
            "openai" => "api.openai.com",
            "mistral" => "api.mistral.ai",
            "deepseek" => "api.deepseek.com",
            "openrouter" => "openrouter.ai",
            _ => "",
        }
    }

    /// Returns the server, for its rules of Chat Completions.
    pub(super) fn server(&self) -> Server {
        Server::of(&self.provider)
    }

    pub(super) fn system(&self) -> String {
        let first = self.first();
        match self.format.as_str() {
            "anthropic" => text_of(&first["system"]),
            "gemini" => text_of(&first["systemInstruction"]["parts"]),
            "openai-chat" if first["messages"][0]["role"] == "system" => {
                text_of(&first["messages"][0]["content"])
            }
            "openai-responses" => text_of(&first["instructions"]),
            _ => String::new(),
        }
    }

    pub(super) fn max_tokens(&self) -> Option<u32> {
        self.first()["max_tokens"].as_u64().map(|tokens| u32::try_from(tokens).unwrap())
    }

    pub(super) fn temperature(&self) -> Option<f32> {
        self.first()["temperature"].as_f64().map(|temperature| temperature as f32)
    }

    pub(super) fn thinks(&self) -> bool {
        !self.first()["reasoning"].is_null()
    }

    /// Returns the output schema.
    pub(super) fn output(&self) -> Option<Value> {
        self.first()["output_format"].get("schema").cloned()
    }

    /// Returns the user's messages, from the end of requests that do not end with results.
    pub(super) fn prompts(&self) -> Vec<String> {
        let ends = self.turns.iter().map(|turn| answers(&self.format, &turn.request));
        ends.filter(|(results, _)| results.is_empty()).map(|(_, text)| text).collect()
    }

    /// Returns the results of the tools, in the order of the calls.
    pub(super) fn results(&self) -> Vec<String> {
        self.turns.iter().flat_map(|turn| answers(&self.format, &turn.request).0).collect()
    }

    /// Returns the name, description and schema of each tool.
    pub(super) fn tools(&self) -> Vec<(String, String, Value)> {
        let tools = self.first()["tools"].as_array().unwrap();
        let tools: Vec<&Value> = match self.format.as_str() {
            "gemini" => tools
                .iter()
                .flat_map(|tool| tool["functionDeclarations"].as_array().unwrap())
                .collect(),
            "openai-chat" => tools.iter().map(|tool| &tool["function"]).collect(),
            _ => tools.iter().collect(),
        };
        let schemas = ["parameters", "input_schema", "parameters_json_schema"];
        let tools = tools.into_iter().map(|tool| {
            let word = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
            let schema = schemas.iter().find_map(|key| tool.get(*key)).unwrap();
            (word("name"), word("description"), in_lower_case(schema))
        });
        tools.collect()
    }
}

/// Converts a schema's types to lower case. Gemini's own schemas have capitals.
fn in_lower_case(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match value {
                Value::String(kind) if key == "type" => (key.clone(), kind.to_lowercase().into()),
                value => (key.clone(), in_lower_case(value)),
            })
            .collect(),
        other => other.clone(),
    }
}
