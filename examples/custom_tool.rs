//! A tool with state: a client of a (pretend) weather service, with a cache that all calls share.
//!
//! `cargo run --example custom_tool`
//!
//! `tool_with` clones the state into each call, so the state is an `Arc`. The type of the arguments
//! defines the schema that the model gets, and that validates each call.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use loopwright::patterns::GenericPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::tool::Effect;
use loopwright::{GenericAgent, ToolError, tool_with};
use serde_json::json;

/// A stand-in for an HTTP client.
#[derive(Default)]
struct WeatherClient {
    /// Degrees by city; `None` for a city that the service does not know.
    cache: Mutex<HashMap<String, Option<i32>>>,
}

impl WeatherClient {
    async fn degrees(&self, city: &str) -> Result<i32, ToolError> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let degrees = *cache.entry(city.to_owned()).or_insert_with(|| match city {
            "Rome" => Some(30),
            "Oslo" => Some(12),
            _ => None,
        });
        degrees.ok_or_else(|| {
            ToolError::failed(format!("no station in `{city}`; there are Rome and Oslo"))
        })
    }

    fn requests(&self) -> usize {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Weather {
    /// The city, such as `Rome`.
    city: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Arc::new(WeatherClient::default());
    let weather = tool_with(
        client.clone(),
        "weather",
        "Returns the temperature in a city.",
        async |client: Arc<WeatherClient>, args: Weather, _cx| {
            Ok::<_, ToolError>(format!("{} °C in {}", client.degrees(&args.city).await?, args.city))
        },
    )
    .effect(Effect::ReadOnly); // read-only calls need no approval

    let call = |id, city| (id, "weather", json!({"city": city}));
    let model = ScriptedModel::new([
        Script::calls([call("a", "Rome"), call("b", "Atlantis")]),
        Script::calls([call("c", "Rome"), call("d", "Oslo")]),
        Script::text("It is 18 degrees warmer in Rome than in Oslo."),
    ]);
    let agent = GenericAgent::builder(model, GenericPattern).tool(weather).build()?;
    let handle = agent.session().await?;

    let outcome = handle.prompt("How much warmer is it in Rome than in Oslo?").await?;
    for result in handle.state().await?.messages.iter().filter_map(|m| m.as_tool_result()) {
        println!("{}: {:?}, {}", result.call, result.status, result.text());
    }
    println!("{}\n{} requests for 4 calls", outcome.text, client.requests());
    Ok(())
}
