//! Hello with a tool, with loopwright.
use loopwright::patterns::PiPattern;
use loopwright::{GenericAgent, tool};

/// Returns the weather in a city.
#[tool(read_only)]
fn weather(city: String) -> String {
    format!("{city}: 21 °C, dry")
}

#[loopwright::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = loopwright::model("openai/gpt-4o-mini")?;
    let agent = GenericAgent::builder(model, PiPattern).tool(weather()).build()?;
    println!("{}", agent.prompt("What is the weather in Oslo?").await?.text);
    Ok(())
}
