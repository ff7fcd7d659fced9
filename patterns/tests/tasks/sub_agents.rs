//! Task 7, first form: three sub-agents are tools of the model. Their approvals are decided in the
//! session of the agent.

use crate::family::Family;

// [pattern]
use loopwright_core::model::ChatModel;
use loopwright_core::{AgentBuilder, GenericAgent};
use loopwright_patterns::PiPattern;

fn agent(model: impl ChatModel + 'static, family: &Family) -> AgentBuilder {
    GenericAgent::builder(model, PiPattern)
        // [essential]
        .child("alice", "Offers lamps.", family.child("alice"))
        .child("bob", "Offers lamps.", family.child("bob"))
        .child("carol", "Offers lamps.", family.child("carol"))
    // [/essential]
}
// [/pattern]

use loopwright_core::message::{ResultStatus, Usage};
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{Script, ScriptedModel};
use serde_json::json;

use crate::family::{NAMES, Offer, TASK, assert_survives_crashes, price, run_with_approvals};

/// Calls the sub-agents, then names the best offer.
fn reply(request: &ChatRequest) -> Script {
    let results = request.messages.iter().filter_map(|message| message.as_tool_result());
    let results: Vec<_> = results.collect();
    let script = if results.is_empty() {
        Script::calls(NAMES.map(|name| (name, name, json!({ "task": TASK }))))
    } else {
        let answered = results.iter().filter(|result| result.status == ResultStatus::Ok);
        let offers = answered.map(|result| result.output::<Offer>().unwrap());
        Script::text(&format!("{:?}", offers.min_by_key(|offer| offer.price)))
    };
    script.usage(Usage::new(100, 10))
}

fn build(family: &Family) -> AgentBuilder {
    agent(ScriptedModel::new([]).reply_with(reply), family)
}

#[tokio::test(start_paused = true)]
async fn each_approval_is_decided_at_the_root_while_others_wait_and_work() {
    let texts = run_with_approvals(build, 2).await;
    let best = Offer { agent: "bob".into(), price: price("bob") };
    assert_eq!((texts.len(), texts.last().unwrap()), (6, &format!("{:?}", Some(best))));
}

#[tokio::test(start_paused = true)]
async fn it_survives_a_crash_at_every_pair_of_cuts() {
    assert_survives_crashes(build).await;
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    crate::family::assert_is_recorded(build).await;
}
