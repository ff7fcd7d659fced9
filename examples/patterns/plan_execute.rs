//! `PlanExecute`: a strong model plans, a cheaper one does the steps.
//!
//! After each step, the planner plans the remaining steps again, with the result of the step. Here
//! the first result makes a step unnecessary: the ferry does not run.

use std::error::Error;

use loopwright::GenericAgent;
use loopwright::patterns::{PiPattern, PlanExecute};
use loopwright::session::Profile;
use loopwright::testing::{Script, ScriptedModel};

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let plans = [
        r#"{"steps": ["Check the ferry.", "Book a cabin.", "Check the train."]}"#,
        r#"{"steps": ["Check the train."]}"#,
        r#"{"steps": []}"#,
    ];
    let planner = ScriptedModel::new(plans.map(Script::text));
    let worker = ScriptedModel::new([
        Script::text("The ferry does not run in winter."),
        Script::text("The train takes nine hours."),
        Script::text("Take the train, which takes nine hours."),
    ]);
    let pattern = PlanExecute::new(PiPattern).planner(Profile::new().model("planner"));
    let agent =
        GenericAgent::builder(worker, pattern).model_named("planner", planner.clone()).build()?;
    let handle = agent.session().await?;
    let outcome = handle.prompt("How do I get from Oslo to Copenhagen?").await?;

    let messages = handle.state().await?.messages;
    for message in messages.iter() {
        println!("{:?}: {}", message.role(), message.text());
    }
    assert_eq!(planner.requests().len(), 3);
    assert!(!messages.iter().any(|message| message.text().contains("cabin")));
    assert_eq!(outcome.text, "Take the train, which takes nine hours.");
    Ok(())
}
