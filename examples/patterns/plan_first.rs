//! `PlanFirst`: nothing is deleted before the user has accepted a plan.
//!
//! While the agent plans, it has only the read-only tools. The user declines the first plan with a
//! reason, and accepts the second after the session is opened again, as another process could do.

use std::error::Error;

use loopwright::GenericAgent;
use loopwright::event::{Decision, Provided, RunStatus};
use loopwright::log::InMemoryStore;
use loopwright::patterns::{PiPattern, PlanFirst};
use loopwright::testing::{Script, ScriptedModel, TestTool};
use loopwright::tool::Effect;

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let list = TestTool::new("list_files").answers("invoice.pdf, film.iso");
    let delete = TestTool::new("delete_file").effect(Effect::AtMostOnce);
    let model = ScriptedModel::new([
        Script::new().say("I look first.").call("a", "list_files", "{}"),
        Script::text("1. Delete invoice.pdf. 2. Delete film.iso."),
        Script::text("1. Delete film.iso."),
        Script::new().say("I delete it.").call("b", "delete_file", "{}"),
        Script::text("film.iso is deleted."),
    ]);
    let agent = GenericAgent::builder(model, PlanFirst::new(PiPattern))
        .tool(list)
        .tool(delete.clone())
        .approve(["delete_file"]) // otherwise the call would need an approval besides the plan
        .build()?;
    let store = InMemoryStore::new();

    let handle = agent.open(&store, "tidy").await?;
    let outcome = handle.prompt("Tidy up my downloads.").await?;
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    let action = handle.pending().await?.remove(0);
    handle.deny(&action, "Keep the invoice.").await?;
    handle.wait_for_idle().await;
    assert_eq!(delete.ran(), 0);
    handle.close().await;

    let handle = agent.open(&store, "tidy").await?;
    let action = handle.pending().await?.remove(0);
    println!("{}", action.question().ok_or("the action is not a question")?.question);
    let yes = Decision::Provide(Provided::Input("yes".into()));
    handle.resolve(&action, yes).await?;
    handle.wait_for_idle().await;

    let messages = handle.state().await?.messages;
    for message in messages.iter().filter(|message| !message.text().is_empty()) {
        println!("{:?}: {}", message.role(), message.text());
    }
    assert_eq!(delete.ran(), 1);
    assert!(messages.last().is_some_and(|message| message.text() == "film.iso is deleted."));
    Ok(())
}
