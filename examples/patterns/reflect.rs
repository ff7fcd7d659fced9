//! `Reflect` around `PlanExecute` around `PiPattern`: a judge checks the result of a plan.
//!
//! The planner divides the work, the writer does it, and the judge sends it back once. Each has its
//! own model. The patterns write the messages of the role `User` that the user did not write.

use std::error::Error;

use loopwright::GenericAgent;
use loopwright::patterns::{PiPattern, PlanExecute, Reflect};
use loopwright::session::Profile;
use loopwright::testing::{Script, ScriptedModel};

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let plans = [r#"{"steps": ["List the changes."]}"#, r#"{"steps": []}"#];
    let planner = ScriptedModel::new(plans.map(Script::text));
    let verdicts = [
        r#"{"is_good": false, "reason": "It does not say how to upgrade."}"#,
        r#"{"is_good": true, "reason": "It does."}"#,
    ];
    let judge = ScriptedModel::new(verdicts.map(Script::text));
    let writer = ScriptedModel::new([
        Script::text("Logins are faster. The old API is gone."),
        Script::text("2.0: faster logins, no old API."),
        Script::text("2.0: faster logins, no old API. To upgrade, call /v2 instead of /v1."),
    ]);

    let plan = PlanExecute::new(PiPattern).planner(Profile::new().model("planner"));
    let role = Profile::new().model("judge").system("You read release notes as a customer.");
    let pattern = Reflect::new("It says how to upgrade.", plan).judge(role).rounds(2);
    let agent = GenericAgent::builder(writer, pattern)
        .model_named("planner", planner)
        .model_named("judge", judge.clone())
        .build()?;
    let handle = agent.session().await?;
    let outcome = handle.prompt("Write the release notes of 2.0.").await?;

    for message in handle.state().await?.messages.iter() {
        println!("{:?}: {}", message.role(), message.text());
    }
    assert_eq!(judge.requests().len(), 2);
    assert!(outcome.text.ends_with("call /v2 instead of /v1."));
    Ok(())
}
