//! An agent with a model of the crate genai, which has many providers.
//!
//! `cargo run` starts its own server and asks that, so it needs no key.
//! `cargo run -- claude-sonnet-4-5` asks the provider of that model, with the key in its
//! environment variable.

use std::error::Error;

use genai::Client;
use genai_model::GenaiModel;
use genai_model::mock::Mock;
use loopwright::patterns::PiPattern;
use loopwright::{GenericAgent, tool};

/// Returns the weather.
#[tool(read_only)]
fn weather(city: &str) -> String {
    format!("sunny in {city}")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Without the default features of genai, the program chooses the crypto provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let model = match std::env::args().nth(1) {
        Some(name) => GenaiModel::new(Client::builder().build()?, name),
        None => GenaiModel::new(Mock::start().await?.1, "mock"),
    };
    let agent = GenericAgent::builder(model, PiPattern)
        .system("You look up the weather.")
        .tool(weather())
        .build()?;
    let handle = agent.session().await?;
    let outcome = handle.prompt("What is the weather in Rome?").await?;
    println!("{} ({:?}, {} tokens)", outcome.text, outcome.end, outcome.usage.total());
    if let Some(error) = outcome.error {
        println!("{error}");
    }
    Ok(())
}
