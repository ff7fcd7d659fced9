//! A tool with state: a client of a (pretended) weather service with a cache, shared by all calls.
//!
//! `tool_with` clones its state into each call, so the state is an `Arc`. The arguments' type is
//! what the model is told and what calls are validated against.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use loopwright::patterns::GenericPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::tool::Effect;
use loopwright::{GenericAgent, RunContext, ToolError, tool_with};
use serde_json::json;

/// What would be an HTTP client.
#[derive(Default)]
struct WeatherClient {
    cache: Mutex<HashMap<String, i32>>,
    fetched: AtomicU32,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Weather {
    /// The city, such as `Rome`.
    city: String,
}

impl WeatherClient {
    async fn degrees(&self, city: &str) -> Result<i32, ToolError> {
        if let Some(known) = self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(city) {
            return Ok(*known);
        }
        self.fetched.fetch_add(1, Ordering::Relaxed);
        let degrees = match city {
            "Rome" => 30,
            "Oslo" => 12,
            _ => {
                return Err(ToolError::failed(format!(
                    "no station in `{city}`; there are Rome and Oslo"
                )));
            }
        };
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).insert(city.to_owned(), degrees);
        Ok(degrees)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Arc::new(WeatherClient::default());
    let weather = tool_with(
        client.clone(),
        "weather",
        "Tells the temperature in a city.",
        async |client: Arc<WeatherClient>, args: Weather, _cx| {
            Ok::<_, ToolError>(format!("{} °C in {}", client.degrees(&args.city).await?, args.city))
        },
    )
    .effect(Effect::ReadOnly); // so it runs without asking the user

    let ask = |id, city| (id, "weather", json!({"city": city}));
    let model = ScriptedModel::new([
        Script::calls([ask("a", "Rome"), ask("b", "Atlantis")]),
        Script::calls([ask("c", "Rome"), ask("d", "Oslo")]),
        Script::text("It is 18 degrees warmer in Rome than in Oslo."),
    ]);
    let agent = GenericAgent::builder(model, GenericPattern).tool(weather).build()?;
    let (handle, _events) = agent.run(RunContext::new()).await?;

    let outcome = handle.prompt("How much warmer is it in Rome than in Oslo?").await?;
    for result in handle.state().await?.messages.iter().filter_map(|m| m.as_tool_result()) {
        println!("{}: {:?}, {}", result.call, result.status, result.text());
    }
    println!("{}\n{} requests for 4 calls", outcome.text, client.fetched.load(Ordering::Relaxed));
    Ok(())
}
