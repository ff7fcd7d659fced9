//! Compaction: older turns are replaced by a summary before the conversation outgrows the window.
//!
//! `cargo run --example compaction`
//!
//! The log keeps every message. Only requests to the model contain the summary instead.

use std::error::Error;

use loopwright::memory::SummaryCompaction;
use loopwright::model::ModelInfo;
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{AgentEvent, GenericAgent};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new([])
        .default_reply(Script::text(&"It was a dark and stormy night. ".repeat(60)))
        .info(ModelInfo::new("test/small").with_context_window(4_000));
    let summaries =
        ScriptedModel::new([]).default_reply(Script::text("The user wants a novel, by chapters."));
    let agent = GenericAgent::builder(model.clone(), PiPattern)
        .model_named("summaries", summaries)
        .compaction(SummaryCompaction::new().model("summaries").at(0.7).keep_turns(1))
        .build()?;
    let handle = agent.session().await?;
    let mut events = handle.subscribe();
    for chapter in 1..=8 {
        handle.prompt(format!("Write chapter {chapter}.")).await?;
    }

    while let Some(event) = events.try_next() {
        if let AgentEvent::Compaction(compaction) = &event.event {
            let (before, after) = (compaction.tokens_before, compaction.tokens_after);
            println!(
                "{} messages became a summary: about {before} tokens before, {after} after",
                compaction.messages
            );
        }
    }
    let requests = model.requests();
    let last = requests.last().ok_or("there is no request")?;
    let in_log = handle.state().await?.messages.len();
    println!("the log has {in_log} messages, the last request {}", last.messages.len());
    for message in last.messages.iter().filter(|m| m.text().contains("by chapters")) {
        println!("the request has the summary: {}", message.text().contains("wants a novel"));
    }
    Ok(())
}
