//! Several models in one agent: a small one decides which one answers, by the kind of request.
//!
//! `cargo run --example several_models`
//!
//! `model_named` adds a model. Patterns, compaction and your own loop (`Ask::new().model("large")`)
//! refer to it by name. `patterns -- route` shows the same pattern with prompts for each role.

use std::error::Error;

use loopwright::GenericAgent;
use loopwright::model::ModelInfo;
use loopwright::patterns::{PiPattern, Route};
use loopwright::session::Profile;
use loopwright::testing::{Script, ScriptedModel};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let small = ScriptedModel::new([
        Script::text(r#"{"route": "simple"}"#),
        Script::text("It is 14:00."),
        Script::text(r#"{"route": "hard"}"#),
    ]);
    let large = ScriptedModel::new([Script::text("Suppose there were finitely many primes …")]);

    let pattern = Route::new(PiPattern)
        .to("simple", "Questions with a short answer.", Profile::new())
        .to("hard", "Questions that need thought.", Profile::new().model("large"));
    let agent = GenericAgent::builder(small.info(ModelInfo::new("local/small")), pattern)
        .model_named("large", large.info(ModelInfo::new("cloud/large")))
        .build()?;
    let handle = agent.session().await?;
    handle.prompt("What time is it?").await?;
    handle.prompt("Why are there infinitely many primes?").await?;
    let messages = handle.state().await?.messages;
    for reply in messages.iter().filter_map(|message| message.as_assistant()) {
        println!("{}: {}", reply.model, reply.text());
    }
    Ok(())
}
