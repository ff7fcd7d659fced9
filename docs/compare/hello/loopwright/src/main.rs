//! Hello with a tool, with loopwright.
use loopwright::patterns::PiPattern;
use loopwright::tool::Effect;
use loopwright::{GenericAgent, RunContext, ToolError, tool_fn};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct City {
    /// The city.
    city: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let weather = tool_fn("weather", "Returns the weather in a city.", async |args: City, _cx| {
        Ok::<_, ToolError>(format!("{}: 21 °C, dry", args.city))
    });
    let model = loopwright::providers::resolve("openai/gpt-4o-mini", None)?;
    let agent =
        GenericAgent::builder(model, PiPattern).tool(weather.effect(Effect::ReadOnly)).build()?;
    let (handle, _events) = agent.run(RunContext::new()).await?;
    println!("{}", handle.prompt("What is the weather in Oslo?").await?.text);
    Ok(())
}
