//! Events as JSON Lines, for a front end in another process or another language.
//!
//! `cargo run --example json_events`
//!
//! `Envelope` also implements `Deserialize`, and `schemars::schema_for!(Envelope)` returns its
//! schema.

use std::error::Error;

use loopwright::event::Envelope;
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel, TestClock};
use loopwright::{GenericAgent, RunContext};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new([Script::text("Nine.")]);
    let agent = GenericAgent::builder(model, PiPattern)
        .environment(TestClock::default()) // the same times in each run of the example
        .build()?;
    let (handle, _events) = agent.run(RunContext::new().session("planets")).await?;

    let mut run = handle.prompt_stream("How many planets are there?").await?;
    while let Some(event) = run.next().await {
        let line = serde_json::to_string(&*event)?;
        println!("{line}");
        let read: Envelope = serde_json::from_str(&line)?;
        assert_eq!(read, *event);
    }
    Ok(())
}
