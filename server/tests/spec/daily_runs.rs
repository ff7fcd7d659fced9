//! The daily budget: it bounds each model request, not only the start of runs.

use std::sync::Arc;

use loopwright_core::limits::Budget;
use loopwright_core::log::InMemoryStore;
use loopwright_core::message::Usage;
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{Gate, Script, ScriptedModel, TestTool};
use loopwright_core::tool::Effect;
use loopwright_core::{AgentBuilder, GenericAgent, SessionStore};
use loopwright_memory::{Jsonl, Sqlite};
use loopwright_patterns::PiPattern;
use loopwright_server::Server;
use serde_json::{Value, json};

use crate::api::Api;

/// The tokens of a request, and of a day.
const EACH: u64 = 120;
const LIMIT: u64 = 1_000;

/// The number of requests after which the day is used up. The last one exceeds it.
const REQUESTS: usize = 9;

fn used() -> Usage {
    let mut usage = Usage::default();
    (usage.input, usage.output) = (EACH - 20, 20);
    usage
}

/// Replies with six calls, one after the other, and then ends.
fn six_calls(request: &ChatRequest) -> Script {
    let results = request.messages.iter().filter(|m| m.as_tool_result().is_some()).count();
    let call = || Script::calls([("c", "look", json!({}))]);
    if results < 6 { call().usage(used()) } else { Script::text("Done.").usage(used()) }
}

fn serving(
    store: Arc<dyn SessionStore>,
    model: &ScriptedModel,
    set: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Api {
    let look = TestTool::new("look").effect(Effect::ReadOnly);
    let builder = GenericAgent::builder(model.clone(), PiPattern).tool(look);
    let server = Server::builder(store.clone())
        .agent("agent", set(builder).build().unwrap())
        .daily_budget(Budget::default().tokens(LIMIT))
        .max_runs(100, 100);
    Api::serving(store, server.build().unwrap())
}

/// Returns the outcome of a session's last run.
async fn end_of(client: &Api, id: &str) -> Value {
    client.run(id, None).await.pop().unwrap().data
}

/// C410: Thirty sessions that are prompted at once use no more than the day allows, except for the
/// last request, with each store. Then prompts are refused.
#[tokio::test]
async fn parallel_runs_share_the_day() {
    let folder = tempfile::tempdir().unwrap();
    let stores: [Arc<dyn SessionStore>; 3] = [
        Arc::new(InMemoryStore::new()),
        Arc::new(Sqlite::open(folder.path().join("sessions.db")).unwrap()),
        Arc::new(Jsonl::open(folder.path().join("sessions")).unwrap()),
    ];
    for store in stores {
        let model = ScriptedModel::new([]).reply_with(six_calls);
        let api = serving(store, &model, |agent| agent);
        let ann = api.as_user("ann");
        let mut ids = Vec::new();
        for _ in 0..30 {
            ids.push(ann.session(json!({})).await);
        }
        let prompt = json!({ "message": "Look." });
        let prompts = ids.iter().map(|id| {
            let (ann, prompt) = (ann.clone(), prompt.clone());
            async move { ann.post(&format!("/api/sessions/{id}/prompt"), prompt).await.0 }
        });
        let statuses = futures::future::join_all(prompts).await;
        for (id, status) in ids.iter().zip(statuses) {
            if status == 202 {
                let end = end_of(&ann, id).await;
                assert_eq!(end["limit"], "shared", "{end}");
                let error = end["error"].as_str().unwrap();
                assert!(error.starts_with("the daily budget of `ann` is used up: 1080 of"));
            }
        }
        assert_eq!(model.requests().len(), REQUESTS);
        let refused = ann.post(&format!("/api/sessions/{}/prompt", ids[0]), prompt.clone()).await;
        assert_eq!(refused.0, 429, "{refused:?}");
        let bob = api.as_user("bob");
        let id = bob.session(json!({})).await;
        bob.say(&id, "Look.").await;
        assert_eq!(end_of(&bob, &id).await["end"], "done", "bob has a day of his own");
    }
}

/// C411: Queued follow-ups and an approval make no request when the day is used up.
#[tokio::test]
async fn a_run_in_progress_ends_with_the_day() {
    let gate = Gate::new();
    let model = ScriptedModel::new([Script::new().gate(&gate).say("First.").usage(used())]);
    let model = model.default_reply(Script::text("More.").usage(used()));
    let api = serving(Arc::new(InMemoryStore::new()), &model, |agent| agent);
    let ann = api.as_user("ann");
    let id = ann.session(json!({})).await;
    ann.say(&id, "Go.").await;
    for n in 0..120 {
        let more = json!({ "message": n.to_string() });
        let sent = ann.post(&format!("/api/sessions/{id}/follow-up"), more).await;
        assert_eq!(sent.0, 202, "{sent:?}");
    }
    gate.open();
    assert_eq!(end_of(&ann, &id).await["limit"], "shared");
    assert_eq!(model.requests().len(), REQUESTS);

    let pay = TestTool::new("pay").effect(Effect::AtMostOnce);
    let model = ScriptedModel::new([Script::calls([("p", "pay", json!({}))]).usage(used())]);
    let model = model.reply_with(six_calls);
    let api = serving(Arc::new(InMemoryStore::new()), &model, |agent| agent.tool(pay.clone()));
    let bob = api.as_user("bob");
    let waiting = bob.session(json!({})).await;
    bob.say(&waiting, "Pay.").await;
    let last = bob.run(&waiting, None).await.pop().unwrap().id;
    for _ in 0..2 {
        let other = bob.session(json!({})).await;
        bob.say(&other, "Look.").await;
        bob.run(&other, None).await;
    }
    assert_eq!(model.requests().len(), REQUESTS);
    let actions = bob.get(&format!("/api/sessions/{waiting}/actions")).await;
    let action = &actions["actions"][0];
    let path = format!("/api/sessions/{waiting}/actions/p");
    let decision = json!({ "digest": action["digest"], "decision": "approve" });
    assert_eq!(bob.post(&path, decision).await.0, 200, "decisions are accepted");
    let end = bob.run(&waiting, last).await.pop().unwrap().data;
    assert_eq!(end["limit"], "shared", "{end}");
    assert_eq!((pay.ran(), model.requests().len()), (1, REQUESTS));
}

/// C412: Sub-agents count while they work, and requests without a session count while they run.
#[tokio::test]
async fn sub_agents_and_chats_share_the_day() {
    let helper = ScriptedModel::new([]).reply_with(six_calls);
    let look = TestTool::new("look").effect(Effect::ReadOnly);
    let child = GenericAgent::builder(helper.clone(), PiPattern).tool(look).build().unwrap();
    let task = json!({ "task": "Look." });
    let both = Script::calls([("a", "helper", task.clone()), ("b", "helper", task)]);
    let model = ScriptedModel::new([both.usage(used())]);
    let model = model.default_reply(Script::text("Done.").usage(used()));
    let api = serving(Arc::new(InMemoryStore::new()), &model, |agent| {
        agent.child("helper", "Looks.", child)
    });
    let ann = api.as_user("ann");
    let id = ann.session(json!({})).await;
    ann.say(&id, "Go.").await;
    assert_eq!(end_of(&ann, &id).await["limit"], "shared");
    assert_eq!((model.requests().len(), helper.requests().len()), (1, REQUESTS - 1));

    let model = ScriptedModel::new([]).reply_with(six_calls);
    let api = serving(Arc::new(InMemoryStore::new()), &model, |agent| agent);
    let bob = api.as_user("bob");
    let chats = (0..10).map(|_| {
        let chat = json!({ "message": "Look.", "workDir": ".", "approve": ["look"] });
        let bob = bob.clone();
        async move { bob.post("/api/agent-chat", chat).await.0 }
    });
    futures::future::join_all(chats).await;
    assert_eq!(model.requests().len(), REQUESTS);
}
