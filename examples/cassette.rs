//! A cassette: the work of an agent's models and tools is recorded once, and replayed without them.
//!
//! `cargo run --example cassette`
//!
//! A test with `Cassette::auto` records at its first run, with a key. From then on it needs neither
//! a key nor a network. If the agent deviates from the recording, the test fails with a diff, as
//! here after a change of the prompt.

use std::error::Error;
use std::path::Path;

use loopwright::patterns::PiPattern;
use loopwright::testing::{Cassette, Script, ScriptedModel};
use loopwright::{GenericAgent, tool};

/// Returns the weather.
#[tool(read_only)]
fn weather(city: &str) -> String {
    println!("the tool runs");
    format!("Rain in {city}.")
}

/// Asks an agent with this system prompt. The code is the same for recording and replay.
async fn ask(path: &Path, system: &str) -> Result<(), Box<dyn Error>> {
    let cassette = Cassette::auto(path)?;
    println!("{}", if cassette.is_recording() { "recording" } else { "replaying" });
    // Usually a provider's model. It is only built to record.
    let model = cassette.model(|| {
        let call = Script::calls([("w", "weather", serde_json::json!({"city": "Oslo"}))]);
        Ok::<_, Box<dyn Error>>(ScriptedModel::new([call, Script::text("Take an umbrella.")]))
    })?;
    let agent = GenericAgent::builder(model, PiPattern).system(system).tool(weather());
    let handle = cassette.agent(agent.build()?).session().await?;
    println!("{}", handle.prompt("Do I need an umbrella in Oslo?").await?.text);
    Ok(cassette.finish()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("umbrella.jsonl");
    ask(&path, "You look first.\nYou answer briefly.").await?;
    ask(&path, "You look first.\nYou answer briefly.").await?;
    if let Err(difference) = ask(&path, "You look first.\nYou answer at length.").await {
        println!("{difference}");
    }
    Ok(())
}
