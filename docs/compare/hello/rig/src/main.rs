//! Hello with a tool, with rig.
use rig::prelude::*;
use rig::providers::openai::OpenAI;
use rig::tool::ToolExecutionError;

/// Returns the weather in a city.
#[rig::rig_tool]
fn weather(
    /// The city.
    city: String,
) -> Result<String, ToolExecutionError> {
    Ok(format!("{city}: 21 °C, dry"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = OpenAI::from_env()?.completion("gpt-4o-mini");
    let agent = AgentBuilder::new(model).tool(Weather).build();
    println!("{}", agent.prompt("What is the weather in Oslo?").await?.output());
    Ok(())
}
