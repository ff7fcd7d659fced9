//! Structured output: the answer of a run is a Rust value. An answer that does not match its schema
//! is sent back to the model.
//!
//! `cargo run --example structured_output`
//!
//! `extract` is the same in one line, without tools and without a session.

use std::error::Error;

use loopwright::GenericAgent;
use loopwright::limits::Budget;
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code, reason = "the example prints the fields")]
struct Invoice {
    number: String,
    /// The amount in cents.
    cents: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new([
        Script::text(r#"{"number": "R-17", "cents": "forty"}"#),
        Script::text(r#"{"number": "R-17", "cents": 4000}"#),
    ]);
    let agent = GenericAgent::builder(model.clone(), PiPattern)
        .output::<Invoice>()
        .limits(Budget::default().turns(5))
        .build()?;
    let handle = agent.session().await?;
    let outcome = handle.prompt("Invoice R-17 is over forty euros.").await?;

    let invoice: Invoice = outcome.output().ok_or("there is no invoice")?;
    println!("{invoice:?}");
    let second = &model.requests()[1];
    println!("sent back: {}", second.messages.last().map(|m| m.text()).unwrap_or_default());
    Ok(())
}
