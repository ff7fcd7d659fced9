//! The stages of a pattern's work over HTTP.

use std::sync::Arc;

use loopwright_core::log::InMemoryStore;
use loopwright_core::session::Call;
use loopwright_core::testing::{Script, ScriptedModel, TestTool};
use loopwright_core::tool::{Approval, Effect};
use loopwright_core::{GenericAgent, SessionStore};
use loopwright_patterns::{Branches, Graph, Next, PiPattern};
use loopwright_server::Server;
use serde_json::{Value, json};

use crate::api::Api;

/// Returns an agent that makes two calls at once, of which one needs approval.
fn agent() -> GenericAgent {
    let call = |tool| Call::new(tool, json!({}));
    let branches = Branches::new(move |_, (): &()| ["look", "pay"].map(call).into());
    let graph = Graph::<()>::new("do")
        .branches("do", branches, |(), _| Ok(None))
        .leads_to("do", [Next::To("answer")])
        .pattern("answer", PiPattern);
    let pay = TestTool::new("pay").spec(|spec| spec.approval(Approval::Always));
    let look = TestTool::new("look").effect(Effect::ReadOnly);
    let model = ScriptedModel::new([Script::text("Done.")]);
    GenericAgent::builder(model, graph).tool(look).tool(pay).build().unwrap()
}

/// C543: The status of a session has the stages, with the counts of their branches, wherever the
/// session is open, and its events have them.
#[tokio::test(start_paused = true)]
async fn the_stages_are_part_of_the_status_of_a_session() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let server = || Server::builder(store.clone()).agent("worker", agent()).build().unwrap();
    let api = Api::serving(store.clone(), server());
    let id = api.session(json!({})).await;
    let path = format!("/api/sessions/{id}");
    assert_eq!(api.get(&path).await["stages"], json!([]));
    api.say(&id, "Pay.").await;
    let frames = api.run(&id, None).await;
    let names = |stages: &Value| {
        let stages = stages.as_array().unwrap().iter();
        stages.map(|stage| stage["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for api in [api.clone(), Api::serving(store.clone(), server())] {
        let status = api.get(&path).await;
        let [stage] = &status["stages"].as_array().unwrap()[..] else { panic!("{status}") };
        assert_eq!((&stage["name"], &stage["until"]), (&json!("do"), &Value::Null));
        assert!(stage["since"].as_u64().is_some(), "{stage}");
        let expected = json!({ "key": "graph/do/1/", "of": 2, "done": 1, "waiting": 1 });
        assert_eq!(stage["branches"], expected);
        let is_stages = |data: &Value| data["type"] == "custom" && data["kind"] == "stages";
        let last = frames.iter().rfind(|frame| is_stages(&frame.data)).unwrap();
        assert_eq!(last.data["data"], status["stages"]);
    }
    let action = api.get(&format!("{path}/actions")).await["actions"][0].clone();
    let decide = format!("{path}/actions/{}", action["call"].as_str().unwrap());
    let (status, answer) =
        api.post(&decide, json!({ "digest": action["digest"], "decision": "approve" })).await;
    assert_eq!(status, 200, "{answer}");
    api.run(&id, frames.last().unwrap().id).await;
    let stages = api.get(&path).await["stages"].clone();
    assert_eq!(names(&stages), ["do", "answer"]);
    assert_eq!(stages[0]["branches"]["done"], 2);
    assert!(stages[1]["until"].as_u64().is_some(), "{stages}");
}
