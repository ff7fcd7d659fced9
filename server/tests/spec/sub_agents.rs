//! Sub-agents over HTTP.

use loopwright_core::GenericAgent;
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{Gate, Script, ScriptedModel, TestTool};
use loopwright_core::tool::Effect;
use loopwright_patterns::PiPattern;
use loopwright_tools::Workspace;
use serde_json::{Value, json};

use crate::api::{Api, Frame, numbered};

/// Returns an agent that pays once, after an approval, and then replies.
fn payer() -> GenericAgent {
    let replies = |request: &ChatRequest| match request.messages.last().unwrap().as_tool_result() {
        None => Script::calls([("p", "pay", json!({ "amount": 3 }))]),
        Some(result) => Script::text(&format!("{:?}", result.status)),
    };
    let model = ScriptedModel::new([]).reply_with(replies);
    let pay = TestTool::new("pay").answers("paid").effect(Effect::AtMostOnce);
    GenericAgent::builder(model, PiPattern).tool(pay).build().unwrap()
}

/// Returns an agent that calls these sub-agents at once.
fn calls(agents: impl IntoIterator<Item = (&'static str, GenericAgent)>) -> GenericAgent {
    let agents: Vec<_> = agents.into_iter().collect();
    let task = json!({ "task": "Do your part." });
    let call = |(name, _): &(&'static str, GenericAgent)| (&name[..1], *name, task.clone());
    let replies = [Script::calls(agents.iter().map(call)), Script::text("All is done.")];
    let builder = GenericAgent::builder(ScriptedModel::new(replies), PiPattern);
    let add = |builder: loopwright_core::AgentBuilder, (name, agent)| {
        builder.child(name, "Does its part.", agent)
    };
    agents.into_iter().fold(builder, add).build().unwrap()
}

async fn approve(api: &Api, session: &str, call: &str) -> (u16, Value) {
    let actions = api.get(&format!("/api/sessions/{session}/actions")).await;
    let action = actions["actions"].as_array().unwrap().iter().find(|a| a["call"] == *call);
    let digest = action.map_or(json!("none"), |action| action["digest"].clone());
    let body = json!({ "digest": digest, "decision": "approve" });
    api.post(&format!("/api/sessions/{session}/actions/{call}"), body).await
}

/// C172: The actions of sub-agents are listed with their path, and are decided at the root.
#[tokio::test(start_paused = true)]
async fn actions_of_sub_agents_are_decided_over_http() {
    let api = Api::running(calls([("alice", payer()), ("bob", payer())]));
    let id = api.session(json!({})).await;
    api.say(&id, "Let them pay.").await;
    let frames = api.run(&id, None).await;
    let asked: Vec<&Frame> = frames.iter().filter(|f| f.event == "external_action").collect();
    let shown: Vec<_> = asked.iter().map(|f| (&f.data["call"], &f.data["path"])).collect();
    let expected = [(json!("a~p"), json!(["alice"])), (json!("b~p"), json!(["bob"]))];
    assert_eq!(shown, expected.iter().map(|(call, path)| (call, path)).collect::<Vec<_>>());
    let listed = api.get("/api/actions").await;
    assert_eq!(listed["actions"][1]["path"], json!(["bob"]), "{listed}");

    let mut last = frames.iter().rev().find_map(|frame| frame.id);
    for call in ["b~p", "a~p"] {
        let (status, accepted) = approve(&api, &id, call).await;
        assert_eq!(status, 200, "{accepted}");
        last = api.run(&id, last).await.iter().rev().find_map(|frame| frame.id);
    }
    let late = approve(&api, &id, "a~p").await;
    assert_eq!((late.0, &late.1["error"]["kind"]), (409, &json!("conflict")), "{}", late.1);
    let messages = api.get(&format!("/api/sessions/{id}/messages")).await;
    let details = &messages["messages"][2]["details"];
    let session = details["session"].as_str().unwrap();
    assert_eq!((session, &details["end"]), (&*format!("{id}/m2.1"), &json!("done")));
    assert_eq!(messages["messages"][4]["parts"][0]["text"], "All is done.");
    let unknown = approve(&api, &id, "x~p").await;
    assert_eq!(unknown.0, 404, "{}", unknown.1);
    let document = api.get("/api/openapi.json").await;
    let path = &document["components"]["schemas"]["PendingAction"]["properties"]["path"];
    let description = path["description"].as_str().unwrap();
    assert!(description.starts_with("The names of the sub-agents"), "{description}");
}

/// C297: The change of a sub-agent's pending call can be seen before the decision, in the directory
/// where the sub-agent works.
#[tokio::test]
async fn a_change_of_a_sub_agent_has_a_preview() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "nine\n").unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    let writes = |content: &str| json!({ "path": "a.txt", "content": content });
    let replies = [Script::calls([("w", "write_file", writes("ten\n"))]), Script::text("Done.")];
    let writer = GenericAgent::builder(ScriptedModel::new(replies), PiPattern)
        .tool(loopwright_tools::write_file(workspace))
        .child("alice", "Pays.", payer());
    let api = Api::running(calls([("editor", writer.build().unwrap()), ("bob", payer())]));
    let id = api.session(json!({})).await;
    api.say(&id, "Let them work.").await;
    api.run(&id, None).await;
    let preview = async |call: &str| {
        api.get(&format!("/api/sessions/{id}/actions/{call}/preview")).await["diff"].clone()
    };
    let diff = "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-nine\n+ten\n";
    assert_eq!(preview("e~w").await, json!(diff));
    assert_eq!(preview("b~p").await, Value::Null);
    let text = std::fs::read_to_string(folder.path().join("a.txt")).unwrap();
    assert_eq!(text, "nine\n", "a preview changes nothing");
}

/// C172: The session of a sub-agent can be read. Inputs and its deletion are refused with the name
/// of the root, even while it works.
#[tokio::test(start_paused = true)]
async fn the_session_of_a_sub_agent_is_read_only() {
    let gate = Gate::new();
    let model = ScriptedModel::new([Script::text("At last.").gate(&gate)]);
    let dora = GenericAgent::builder(model, PiPattern).build().unwrap();
    let api = Api::running(calls([("alice", payer()), ("dora", dora)]));
    let id = api.session(json!({})).await;
    api.say(&id, "Go.").await;
    api.events(&id, None).await.until("external_action").await;
    for (name, task) in [("m2.1", 2), ("m2.2", 1)] {
        let child = format!("/api/sessions/{id}%2F{name}");
        let messages = api.get(&format!("{child}/messages")).await;
        assert_eq!(messages["messages"].as_array().unwrap().len(), task, "{messages}");
        let info = api.get(&child).await;
        assert_eq!(info["session"]["sub_agent_of"]["root"], json!(id), "{info}");
        let message = json!({ "message": "Stop." });
        let approve = json!({ "digest": "d", "decision": "approve" });
        for (method, path, body) in [
            ("POST", "/prompt", message.clone()),
            ("POST", "/steer", message.clone()),
            ("POST", "/follow-up", message),
            ("POST", "/abort", json!({})),
            ("POST", "/continue", json!({})),
            ("POST", "/signal", json!({ "key": "k" })),
            ("POST", "/actions/p", approve),
            ("DELETE", "", json!({})),
        ] {
            let (status, refused) = api.call(method, &format!("{child}{path}"), Some(body)).await;
            let why = refused["error"]["message"].as_str().unwrap();
            assert_eq!(status, 409, "{path}: {why}");
            assert!(why.contains(&format!("belongs to a sub-agent: open `{id}` instead")), "{why}");
        }
    }
    let listed = api.get("/api/sessions").await;
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
    gate.open();
    assert_eq!(approve(&api, &id, "a~p").await.0, 200);
    api.events(&id, None).await.until("agent_end").await;
}

/// C172: A stream of the tree has the events of sub-agents too. They have no `id`, so a reader that
/// reconnects names an event of the root.
#[tokio::test(start_paused = true)]
async fn the_events_of_sub_agents_are_streamed_without_an_id() {
    let api = Api::running(calls([("alice", payer()), ("bob", payer())]));
    let id = api.session(json!({})).await;
    let mut tree = api.tree(&id, 0).await;
    api.say(&id, "Let them pay.").await;
    let is_of_root = |frame: &Frame| frame.data["session_id"] == id;
    let mut frames = Vec::new();
    while !frames.last().is_some_and(|f: &Frame| is_of_root(f) && f.event == "agent_end") {
        frames.push(tree.next().await.unwrap());
    }
    let (root, inner): (Vec<Frame>, Vec<Frame>) = frames.into_iter().partition(is_of_root);
    assert!(inner.iter().all(|frame| frame.id.is_none()), "{inner:?}");
    let parents: Vec<_> = inner.iter().map(|frame| &frame.data["parent"]["call"]).collect();
    assert!(parents.contains(&&json!("a")) && parents.contains(&&json!("b")), "{parents:?}");
    assert!(inner.iter().any(|frame| frame.event == "message_end"));
    let plain = api.run(&id, None).await;
    let seen = |frames: &[Frame]| -> Vec<_> {
        numbered(frames).iter().map(|frame| (frame.id, frame.event.clone())).collect()
    };
    assert_eq!(seen(&root), seen(&plain));

    // A reader that reconnects continues after the last event of the root, with all of the tree.
    let last = root.iter().rev().find_map(|frame| frame.id).unwrap();
    let mut tree = api.tree(&id, last).await;
    assert_eq!(approve(&api, &id, "b~p").await.0, 200);
    let rest = tree.until("tool_execution_end").await;
    let ids: Vec<u64> = rest.iter().filter_map(|frame| frame.id).collect();
    assert_eq!(ids, (last + 1..=last + ids.len() as u64).collect::<Vec<_>>());
    assert!(rest.iter().any(|frame| frame.data["parent"]["call"] == "b"), "{rest:?}");
    let wrong = api.call("GET", &format!("/api/sessions/{id}/events?tree=perhaps"), None).await;
    assert_eq!(wrong.0, 400, "{}", wrong.1);
}

/// C172: A working sub-agent is steered by its call. A steer for any other call is refused.
#[tokio::test(start_paused = true)]
async fn a_sub_agent_is_steered_over_http() {
    let gate = Gate::new();
    let model = ScriptedModel::new([Script::text("One.").gate(&gate), Script::text("Two.")]);
    let dora = GenericAgent::builder(model, PiPattern).build().unwrap();
    let api = Api::running(calls([("dora", dora)]));
    let id = api.session(json!({})).await;
    let steer = format!("/api/sessions/{id}/steer");
    let body = json!({ "message": "Also this.", "call": "d", "id": "mine" });
    let early = json!({ "message": "Also this.", "call": "d", "id": "early" });
    let (status, refused) = api.post(&steer, early).await;
    assert_eq!(status, 409, "{refused}");
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.starts_with("No sub-agent works for the call `d`"), "{why}");
    api.say(&id, "Go.").await;
    api.events(&id, None).await.until("tool_execution_update").await;
    for _ in 0..2 {
        let (status, accepted) = api.post(&steer, body.clone()).await;
        assert_eq!((status, accepted), (202, json!({ "input": "mine" })));
    }
    gate.open();
    api.events(&id, None).await.until("agent_end").await;
    let messages = api.get(&format!("/api/sessions/{id}%2Fm2.1/messages")).await;
    let texts: Vec<&Value> = messages["messages"].as_array().unwrap().iter().collect();
    assert_eq!(texts.len(), 4, "{messages}");
    assert_eq!(texts[2]["content"][0]["text"], "Also this.");
}
