//! Task 3: plan, execute, and plan again after each step. Another pattern executes the steps.

// [pattern]
use loopwright_core::message::UserMessage;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError, async_trait};
use loopwright_patterns::PiPattern;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Plan {
    steps: Vec<String>,
}

const PLAN: &str = "Which steps does the request need from here on? None, if it is done.";

struct PlanExecute;

#[async_trait]
impl BehaviorPattern for PlanExecute {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        // [essential]
        loop {
            if let Some(plan) = step.state::<Vec<String>>("plan") {
                let end = PiPattern.next_step(step).await?; // the first step of the plan
                if end != StepEnd::Done || plan.is_empty() || !step.is_answered() {
                    return Ok(end);
                }
            }
            let ask = Ask::detached().model("planner").key("plan").also(UserMessage::from(PLAN));
            let Plan { steps } = step.ask_for(ask).await?;
            if step.has_messages() {
                step.take_messages().await?;
                continue; // they may change the plan
            }
            let next = steps.first().map(|next| format!("Now do this step: {next}"));
            step.set_state("plan", &steps)?;
            step.remember(UserMessage::from(next.unwrap_or("Say what came of it.".into()))).await?;
        }
        // [/essential]
    }
}
// [/pattern]

use std::sync::Arc;

use loopwright_core::event::Decision;
use loopwright_core::message::MessageKind;
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{Harness, Script, ScriptedModel, ScriptedSession, TestTool};
use loopwright_core::tool::Effect;
use loopwright_core::{AgentBuilder, Message};
use serde_json::{Value, json};

use crate::kit::{assert_conforms, assert_survives_crashes, scenario, scenarios};

fn plan(steps: &[&str]) -> Script {
    Script::text(&json!({ "steps": steps }).to_string())
}

fn call(name: &str) -> Script {
    Script::calls([("c", name, json!({}))])
}

fn replies() -> [Script; 8] {
    [
        plan(&["look", "pay"]),
        call("look"),
        Script::text("It costs 5."),
        plan(&["pay twice"]),
        call("pay"),
        Script::text("Paid."),
        plan(&[]),
        Script::text("All is done."),
    ]
}

/// Returns a plan: first the last message of the user, then a second step, then none.
fn next_plan(request: &ChatRequest) -> Value {
    let texts: Vec<String> = request.messages.iter().map(user_text).collect();
    let own = [PLAN, "Now do", "Say what", "The answer is not valid JSON"];
    let is_of_pattern =
        |text: &String| text.is_empty() || own.iter().any(|own| text.starts_with(own));
    let last = texts.iter().rposition(|text| !is_of_pattern(text)).unwrap_or_default();
    match texts[last..].iter().filter(|text| text.starts_with("Now do")).count() {
        0 => json!({ "steps": [texts[last], "tidy up"] }),
        1 => json!({ "steps": ["tidy up"] }),
        _ => json!({ "steps": [] }),
    }
}

fn user_text(message: &Arc<Message>) -> String {
    if matches!(message.body, MessageKind::User(_)) { message.text() } else { String::new() }
}

#[tokio::test(start_paused = true)]
async fn it_plans_once_more_after_each_step() {
    let pay = TestTool::new("pay").effect(Effect::AtMostOnce);
    let [plan_1, look, costs, plan_2, call_pay, paid, plan_3, done] = replies();
    let planner = ScriptedModel::new([plan_1, plan_2, plan_3]);
    let options = |agent: AgentBuilder| {
        agent.model_named("planner", planner).tool(TestTool::new("look")).tool(pay.clone())
    };
    let replies = [look, costs, call_pay, paid, done];
    let harness = Harness::new(PlanExecute, replies, options).await;
    harness.handle.prompt("Buy it.").await.unwrap();
    harness.resolve(0, Decision::Approve).await.unwrap();
    harness.handle.wait_for_idle().await;
    let expected = [
        "U:Buy it.",
        "U:Now do this step: look",
        "A:[c]/ToolCalls",
        "R:c/Ok",
        "A:It costs 5./Stop",
        "U:Now do this step: pay twice",
        "A:[c_2]/ToolCalls",
        "R:c_2/Ok",
        "A:Paid./Stop",
        "U:Say what came of it.",
        "A:All is done./Stop",
    ];
    assert_eq!(harness.transcript().await, expected);
    assert_eq!(pay.ran(), 1);
    harness.check().await;
}

/// The plan of an aborted request is not the plan of the next one.
#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let own = scenario("a plan", next_plan).request("Please look.").request("Please pay.");
    let all = scenarios(next_plan).into_iter().chain([own]).collect();
    assert_conforms(|| PlanExecute, all).await;
    assert_survives_crashes(|| PlanExecute, ScriptedSession::new(replies()).request("Buy it."))
        .await;
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    crate::cassettes::assert_is_recorded(|| PlanExecute, replies(), &["Pay what I owe."]).await;
}
