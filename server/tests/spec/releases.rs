//! Two servers on one store: requests that need a session that the other server has open.

use std::sync::Arc;

use loopwright_core::compaction::{
    CompactionContext, CompactionPlan, CompactionPolicy, Replacement,
};
use loopwright_core::testing::{Gate, Script, ScriptedModel};
use loopwright_core::{AgentBuilder, GenericAgent, SessionStore};
use loopwright_host::{AgentRejection, AgentSetup};
use loopwright_memory::{Jsonl, Sqlite};
use loopwright_patterns::PiPattern;
use loopwright_server::Server;
use serde_json::{Value, json};

use crate::api::Api;

type Store = Arc<dyn SessionStore>;

/// Opens each store on disk twice, as two processes do.
fn opened_twice() -> [(tempfile::TempDir, [Store; 2]); 2] {
    let (files, file) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let jsonl = [0; 2].map(|_| Arc::new(Jsonl::open(files.path()).unwrap()) as Store);
    let path = file.path().join("sessions.db");
    let sqlite = [0; 2].map(|_| Arc::new(Sqlite::open(&path).unwrap()) as Store);
    [(files, jsonl), (file, sqlite)]
}

async fn patch(api: &Api, session: &str, body: Value) -> (u16, Value) {
    api.call("PATCH", &format!("/api/sessions/{session}"), Some(body)).await
}

async fn name(api: &Api, session: &str) -> Value {
    api.get(&format!("/api/sessions/{session}")).await["session"]["settings"]["name"].clone()
}

fn assert_run_in_progress((status, refused): (u16, Value)) {
    assert_eq!((status, &refused["error"]["kind"]), (409, &json!("run_in_progress")), "{refused}");
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.starts_with("A run is in progress in this session"), "{why}");
}

/// C247 C270: Settings are changed through any server. A server that has the session open and idle
/// releases it, its readers stay, and no input is lost. During a run the answer is the same as for
/// a session that is open here.
#[tokio::test]
async fn settings_of_a_session_that_another_server_has_open_are_changed() {
    for (_folder, [first, second]) in opened_twice() {
        let gate = Gate::new();
        let replies = [Script::text("one"), Script::text("two").gate(&gate)];
        let (one, two) = (Api::over(first, replies), Api::over(second, [Script::text("three")]));
        let id = one.session(json!({ "name": "Sheep" })).await;
        let mut reader = one.events(&id, None).await;
        one.say(&id, "go").await;
        reader.until("agent_end").await;
        let (status, changed) = patch(&two, &id, json!({ "name": "Goats" })).await;
        assert_eq!((status, &changed["session"]["settings"]["name"]), (200, &json!("Goats")));
        assert_eq!(
            (name(&one, &id).await, name(&two, &id).await),
            (json!("Goats"), json!("Goats"))
        );
        one.say(&id, "through the first").await; // it is open in the second
        let run = reader.until("agent_end").await;
        assert_eq!(run.last().unwrap().data["text"], "three");

        let (status, changed) = patch(&one, &id, json!({ "name": "Hens" })).await;
        assert_eq!(status, 200, "{changed}");
        two.say(&id, "wait").await;
        reader.until("turn_start").await;
        assert_run_in_progress(patch(&two, &id, json!({ "name": "Ducks" })).await);
        assert_run_in_progress(two.call("DELETE", &format!("/api/sessions/{id}"), None).await);
        gate.open();
        reader.until("agent_end").await;
        let messages = two.get(&format!("/api/sessions/{id}/messages")).await;
        assert_eq!(messages["messages"].as_array().unwrap().len(), 6, "{messages}");
        assert_eq!(name(&two, &id).await, "Hens");
    }
}

/// C270: A session is deleted through any server while another one has it open and idle. Its
/// readers there end.
#[tokio::test]
async fn a_session_that_another_server_has_open_is_deleted() {
    for (_folder, [first, second]) in opened_twice() {
        let (one, two) = (Api::over(first, [Script::text("one")]), Api::over(second, []));
        let id = one.session(json!({})).await;
        let mut reader = one.events(&id, None).await;
        one.say(&id, "go").await;
        reader.until("agent_end").await;
        let path = format!("/api/sessions/{id}");
        let deleted = two.call("DELETE", &path, None).await;
        assert_eq!(deleted.0, 204, "{deleted:?}");
        while reader.next().await.is_some() {}
        for api in [&one, &two] {
            assert_eq!(api.call("GET", &path, None).await.0, 404);
        }
    }
}

/// A compaction that keeps only the first and the last message.
struct KeepTwo;

impl CompactionPolicy for KeepTwo {
    fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
        let is_asked =
            !matches!(context.why, loopwright_core::compaction::CompactionCause::Threshold);
        let end = context.messages.len().checked_sub(1)?;
        (is_asked && end > 2).then(|| CompactionPlan::new(1..end))
    }

    fn finish(
        &self,
        _: &CompactionContext<'_>,
        _: &CompactionPlan,
        _: Option<&str>,
    ) -> Replacement {
        Replacement::new("(left out)")
    }
}

/// C271: A compaction reaches the session where it is open, and returns the replaced messages, even
/// for a copy of the request. An owner's refusal is returned with its reason.
#[tokio::test]
async fn a_session_that_another_server_has_open_is_compacted() {
    for (_folder, stores) in opened_twice() {
        let serve = |store: Store, compacts: bool| {
            let agent = move |_: &AgentSetup| -> Result<AgentBuilder, AgentRejection> {
                let model = ScriptedModel::new([]).default_reply(Script::text("Nine."));
                let builder = GenericAgent::builder(model, PiPattern);
                Ok(if compacts { builder.compaction(KeepTwo) } else { builder })
            };
            let server = Server::builder(store.clone()).agent("agent", agent).build().unwrap();
            Api::serving(store, server)
        };
        let [first, second] = stores;
        let (one, two) = (serve(first, true), serve(second, false));
        let id = one.session(json!({})).await;
        let compact = format!("/api/sessions/{id}/compact");
        let mut reader = one.events(&id, None).await;
        for text in ["one", "two"] {
            one.say(&id, text).await;
            reader.until("agent_end").await;
        }
        let body = json!({ "instructions": "briefly", "id": "c" });
        let done = two.post(&compact, body.clone()).await;
        assert_eq!((done.0, &done.1["compactions"][0]["messages"]), (200, &json!(2)), "{done:?}");
        assert_eq!(two.post(&compact, body.clone()).await, done);
        assert_eq!(one.post(&compact, body).await, done);
        assert_eq!(one.post(&compact, json!({})).await, (200, json!({ "compactions": [] })));

        let id = two.session(json!({})).await;
        let _reader = two.events(&id, None).await;
        let (status, refused) = one.post(&format!("/api/sessions/{id}/compact"), json!({})).await;
        let why = refused["error"]["message"].as_str().unwrap();
        assert_eq!((status, why.contains("does not compact")), (409, true), "{why}");
    }
}

/// C272: A steer for a sub-agent reaches it where the session is open, once. It is refused there if
/// no sub-agent works for the call.
#[tokio::test]
async fn a_sub_agent_of_a_session_that_another_server_has_open_is_steered() {
    for (_folder, [first, second]) in opened_twice() {
        let gate = Gate::new();
        let replies = [Script::text("One.").gate(&gate), Script::text("Two.")];
        let dora = GenericAgent::builder(ScriptedModel::new(replies), PiPattern).build().unwrap();
        let calls = Script::calls([("d", "dora", json!({ "task": "Wait." }))]);
        let model = ScriptedModel::new([calls, Script::text("Done.")]);
        let agent = GenericAgent::builder(model, PiPattern).child("dora", "Waits.", dora);
        let agent = agent.build().unwrap();
        let [one, two] = [first, second].map(|store| {
            let server = Server::builder(store.clone()).agent("agent", agent.clone());
            Api::serving(store, server.build().unwrap())
        });
        let id = one.session(json!({})).await;
        let mut reader = one.events(&id, None).await;
        let steer = format!("/api/sessions/{id}/steer");
        let body = |id: &str| json!({ "message": "Also this.", "call": "d", "id": id });
        let (status, refused) = two.post(&steer, body("early")).await;
        let why = refused["error"]["message"].as_str().unwrap();
        assert!(status == 409 && why.starts_with("No sub-agent works for the call `d`"), "{why}");
        one.say(&id, "Go.").await;
        reader.until("tool_execution_update").await;
        for api in [&two, &two, &one] {
            let accepted = api.post(&steer, body("s")).await;
            assert_eq!(accepted, (202, json!({ "input": "s" })));
        }
        gate.open();
        reader.until("agent_end").await;
        // Its log has the steer, although it no longer works.
        assert_eq!(one.post(&steer, body("s")).await.0, 202);
        let messages = two.get(&format!("/api/sessions/{id}%2Fm2.1/messages")).await;
        assert_eq!(messages["messages"].as_array().unwrap().len(), 4, "{messages}");
    }
}
