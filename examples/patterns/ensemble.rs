//! `Ensemble`: several models answer at the same time.
//!
//! For a label, the models vote. Free texts are never equal, so a judge writes the answer from all
//! of the proposals.

use std::error::Error;

use loopwright::patterns::Ensemble;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{AgentBuilder, GenericAgent};
use serde_json::json;

/// Returns a model with one answer.
fn model(answer: &str) -> ScriptedModel {
    ScriptedModel::new([Script::text(&json!({"answer": answer}).to_string())])
}

/// Returns an agent with three models. Its own model is not asked.
fn agent(pattern: Ensemble, answers: [&str; 3]) -> AgentBuilder {
    println!("proposed: {}", answers.join(", "));
    GenericAgent::builder(ScriptedModel::new([]), pattern)
        .model_named("large", model(answers[0]))
        .model_named("small", model(answers[1]))
        .model_named("local", model(answers[2]))
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let vote = Ensemble::new(["large", "small", "local"]);
    let agent_that_votes = agent(vote.clone(), ["spam", "ham", "Spam"]).build()?;
    let handle = agent_that_votes.session().await?;
    let outcome = handle.prompt("You have won! Spam or ham?").await?;
    println!("the vote: {}", outcome.text);
    assert_eq!(outcome.text, "spam");

    let judge = model("Common Grounds");
    let agent_with_judge = agent(vote.judge("judge"), ["Bean There", "The Coffee Shop", "Grounds"])
        .model_named("judge", judge.clone())
        .build()?;
    let handle = agent_with_judge.session().await?;
    let outcome = handle.prompt("A name for our café?").await?;
    println!("the judge: {}", outcome.text);
    let asked = judge.requests()[0].messages.last().map(|message| message.text());
    assert!(asked.is_some_and(|text| text.contains("The Coffee Shop")));
    assert_eq!(outcome.text, "Common Grounds");
    Ok(())
}
