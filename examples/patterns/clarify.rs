//! `Clarify`: the agent asks the user back before it books anything.
//!
//! A small model decides what is unclear. The first question is answered at once. The second is
//! answered after the session is opened again, as another process could do days later.

use std::error::Error;

use loopwright::event::{Decision, Provided, RunStatus};
use loopwright::log::InMemoryStore;
use loopwright::patterns::{Clarify, PiPattern};
use loopwright::session::Profile;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{AgentHandle, GenericAgent};

/// Answers the pending question. Waits until the agent needs the next answer or is done.
async fn answer(handle: &AgentHandle, answer: &str) -> Result<(), Box<dyn Error>> {
    let action = handle.pending().await?.remove(0);
    let question = action.question().ok_or("the action is not a question")?;
    let decision = Decision::Provide(Provided::Input(answer.into()));
    handle.resolve(&action, decision).await?;
    println!("{} {answer}", question.question);
    handle.wait_for_idle().await;
    Ok(())
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let checks = [
        r#"{"question": "For how many people?", "options": []}"#,
        r#"{"question": "Where?", "options": ["inside", "on the terrace"]}"#,
        r#"{"question": null, "options": []}"#,
    ];
    let checker = ScriptedModel::new(checks.map(Script::text));
    let model = ScriptedModel::new([Script::text("A table for two on the terrace is booked.")]);
    let pattern = Clarify::new(PiPattern).checker(Profile::new().model("checker"));
    let agent = GenericAgent::builder(model, pattern).model_named("checker", checker).build()?;
    let store = InMemoryStore::new();

    let handle = agent.open(&store, "table").await?;
    let outcome = handle.prompt("Book a table for tonight.").await?;
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    answer(&handle, "two").await?;
    handle.close().await;

    let handle = agent.open(&store, "table").await?;
    assert!(answer(&handle, "in the kitchen").await.is_err()); // it is not one of the options
    answer(&handle, "on the terrace").await?;
    let messages = handle.state().await?.messages;
    let last = messages.last().map(|message| message.text()).unwrap_or_default();
    println!("{last}");
    assert_eq!(last, "A table for two on the terrace is booked.");
    Ok(())
}
