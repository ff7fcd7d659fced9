//! Patterns that plan, judge, and call tools from text.

use loopwright_core::model::ToolChoice;
use loopwright_core::session::Profile;
use loopwright_core::testing::{Harness, Script, ScriptedModel, TestTool};
use loopwright_patterns::{FirstCall, PiPattern, PlanExecute, ReAct, Reflect};
use serde_json::json;

use crate::kit::{assert_conforms, scenario, scenarios};
use crate::values::value;

#[tokio::test(start_paused = true)]
async fn the_judge_and_the_planner_have_their_own_profiles() {
    let verdict = json!({ "is_good": true, "reason": "" }).to_string();
    let plan = json!({ "steps": [] }).to_string();
    let (judge, planner) =
        (ScriptedModel::new([Script::text(&verdict)]), ScriptedModel::new([Script::text(&plan)]));
    let named = (judge.clone(), planner.clone());
    let pattern = PlanExecute::new(PiPattern).planner(Profile::new().model("planner"));
    let role = Profile::new().model("judge").system("You judge.");
    let pattern = Reflect::new("Be brief.", pattern).judge(role);
    let harness = Harness::new(pattern, [Script::text("Done.")], |agent| {
        agent.system("You work.").model_named("judge", named.0).model_named("planner", named.1)
    });
    let harness = harness.await;
    assert_eq!(harness.handle.prompt("Work.").await.unwrap().text, "Done.");
    assert_eq!(&*judge.requests()[0].system, "You judge.");
    assert_eq!(&*planner.requests()[0].system, "You work.");
    assert!(judge.requests()[0].messages.last().unwrap().text().ends_with("Be brief."));
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_sent_back_as_often_as_the_rounds_allow() {
    let verdict = json!({ "is_good": false, "reason": "It is too short." }).to_string();
    let replies = ["One.", &verdict, "Two.", &verdict, "Three."].map(Script::text);
    let pattern = Reflect::new("Be long.", PiPattern).rounds(2);
    let harness = Harness::new(pattern, replies, |agent| agent).await;
    assert_eq!(harness.handle.prompt("Write.").await.unwrap().text, "Three.");
    assert_eq!(harness.model.requests().len(), 5);
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_action_in_a_text_is_a_call_and_its_result_an_observation() {
    let replies = [
        "I look.\nAction: look\nAction Input: {\"city\": \"Oslo\"}",
        "Action: fly\nAction Input: nowhere",
        "Final Answer: rain",
    ];
    let options = |agent: loopwright_core::AgentBuilder| {
        agent.system("You help.").tool(TestTool::new("look").answers("rain"))
    };
    let harness = Harness::new(ReAct, replies.map(Script::text), options).await;
    assert_eq!(harness.handle.prompt("Weather?").await.unwrap().text, "Final Answer: rain");
    let transcript = harness.transcript().await;
    let calls: Vec<_> = transcript.iter().filter(|line| line.starts_with("R:")).collect();
    assert_eq!(calls, ["R:look/Ok"]);
    assert!(transcript.contains(&"U:Observation: There is no tool `fly`.".to_owned()));
    assert!(transcript.contains(&"U:Observation: rain".to_owned()), "{transcript:?}");
    let requests = harness.model.requests();
    assert!(requests[0].system.starts_with("You help.\n\nTo use a tool"));
    assert!(requests[0].system.contains("\nlook: "));
    assert!(requests.iter().all(|request| request.tools.iter().next().is_none()));
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn plans_and_judgements_conform() {
    let own = || scenario("two of them", value).request("Please look.").request("Please pay.");
    let all = || scenarios(value).into_iter().chain([own()]).collect();
    assert_conforms(|| PlanExecute::new(PiPattern), all()).await;
    assert_conforms(|| Reflect::new("Be long.", PiPattern), all()).await;
}

#[tokio::test(start_paused = true)]
async fn a_forced_first_call_conforms() {
    let required = || FirstCall::new(ToolChoice::Required, PiPattern);
    assert_conforms(required, scenarios(value)).await;
}
