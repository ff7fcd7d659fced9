//! [`AgentCard`]: the abilities and the URL of an agent.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// The media types of the files in a message.
const INPUT_MODES: [&str; 5] = ["text/plain", "image/png", "image/jpeg", "image/gif", "image/webp"];

/// The card of an agent: its abilities, and its URL.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct AgentCard(Value);

/// Builds the card of the agent at this URL. If `has_users` is true, its clients need a token.
pub fn agent_card(name: &str, url: &str, version: &str, has_users: bool) -> AgentCard {
    let description = format!("The agent `{name}`. It can use tools to answer.");
    let mut card = json!({
        "name": name, "description": description, "version": version,
        "supportedInterfaces": [
            { "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
        ],
        "capabilities": { "streaming": true, "pushNotifications": false },
        "defaultInputModes": INPUT_MODES,
        "defaultOutputModes": ["text/plain"],
        "skills": [{ "id": name, "name": name, "description": description, "tags": ["agent"] }],
    });
    if has_users {
        let scheme = json!({ "httpAuthSecurityScheme": { "scheme": "Bearer" } });
        card["securitySchemes"] = json!({ "token": scheme });
        card["securityRequirements"] = json!([{ "schemes": { "token": { "list": [] } } }]);
    }
    AgentCard(card)
}
