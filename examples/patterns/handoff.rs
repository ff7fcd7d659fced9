//! `Handoff`: the model in one role hands the conversation over to another role.
//!
//! The desk finds out that a request is about a defect. It hands the request over to the
//! technician, a larger model. The technician keeps the conversation for the next request.

use std::error::Error;

use loopwright::GenericAgent;
use loopwright::patterns::{Handoff, PiPattern};
use loopwright::session::Profile;
use loopwright::testing::{Script, ScriptedModel};
use serde_json::json;

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let small = ScriptedModel::new([Script::new().say("One of our technicians takes over.").call(
        "a",
        "hand_over",
        &json!({"to": "technician"}).to_string(),
    )]);
    let large = ScriptedModel::new([
        Script::text("Does the lamp next to the plug blink?"),
        Script::text("Then the fuse is blown; I send you one."),
    ]);

    let desk = Profile::new().system("You are the desk. You know nothing about defects.");
    let technician = Profile::new().model("large").system("You repair coffee machines.");
    let pattern = Handoff::new(PiPattern).role("desk", "Orders and opening hours.", desk).role(
        "technician",
        "Defects.",
        technician,
    );
    let agent = GenericAgent::builder(small.clone(), pattern)
        .model_named("large", large.clone())
        .build()?;
    let handle = agent.session().await?;
    handle.prompt("My machine stays cold.").await?;
    let outcome = handle.prompt("Yes, it blinks.").await?;

    for message in handle.state().await?.messages.iter() {
        println!("{:?}: {}", message.role(), message.text());
    }
    let requests = large.requests();
    assert_eq!((small.requests().len(), requests.len()), (1, 2));
    assert!(requests.iter().all(|request| &*request.system == "You repair coffee machines."));
    assert_eq!(outcome.text, "Then the fuse is blown; I send you one.");
    Ok(())
}
