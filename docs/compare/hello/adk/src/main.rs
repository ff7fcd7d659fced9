//! Hello with a tool, with adk-rust.
use std::collections::HashMap;
use std::sync::Arc;

use adk_rust::prelude::*;
use adk_rust::session::{CreateRequest, SessionService};
use adk_tool::tool;
use futures::StreamExt;
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct City {
    /// The city.
    city: String,
}

/// Returns the weather in a city.
#[tool]
async fn weather(args: City) -> std::result::Result<Value, adk_tool::AdkError> {
    Ok(json!(format!("{}: 21 °C, dry", args.city)))
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let key = std::env::var("OPENAI_API_KEY")?;
    let model = OpenAIClient::new(OpenAIConfig::new(key, "gpt-4o-mini"))?;
    let agent =
        LlmAgentBuilder::new("assistant").model(Arc::new(model)).tool(Arc::new(Weather)).build()?;
    let sessions = Arc::new(InMemorySessionService::new());
    let session = CreateRequest {
        app_name: "hello".into(),
        user_id: "user".into(),
        session_id: Some("session".into()),
        state: HashMap::new(),
    };
    sessions.create(session).await?;
    let runner = Runner::builder()
        .app_name("hello")
        .agent(Arc::new(agent))
        .session_service(sessions)
        .build()?;
    let ask = Content::new("user").with_text("What is the weather in Oslo?");
    let mut events = runner.run_str("user", "session", ask).await?;
    while let Some(event) = events.next().await {
        for part in event?.llm_response.content.iter().flat_map(|content| &content.parts) {
            print!("{}", part.text().unwrap_or_default());
        }
    }
    Ok(())
}
