//! Hello with a tool, with everruns.
use everruns::{Agent, Engine, OpenAI};

/// Returns the weather in a city.
#[everruns::tool]
async fn weather(city: String) -> Result<String, String> {
    Ok(format!("{city}: 21 °C, dry"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agent = Agent::builder()
        .provider(OpenAI::from_env()?)
        .model("gpt-4o-mini")
        .tool(weather())
        .build()?;
    let session = Engine::new().create(agent);
    println!("{}", session.send_and_wait("What is the weather in Oslo?").await?.response);
    Ok(())
}
