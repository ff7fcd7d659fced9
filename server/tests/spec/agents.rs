//! Several agents of one server, and the settings that sessions are stored with.

use std::sync::{Arc, Mutex};

use loopwright_core::log::{InMemoryStore, LogEntry};
use loopwright_core::model::ModelError;
use loopwright_core::testing::{Script, ScriptedModel, TestTool};
use loopwright_core::tool::Effect;
use loopwright_core::{AgentBuilder, ChatModel, GenericAgent, RunContext, SessionStore};
use loopwright_host::{
    AgentRejection, AgentSetup, LlmConfig, Models, OperatorRules, SessionSettings,
};
use loopwright_memory::Sqlite;
use loopwright_patterns::PiPattern;
use loopwright_server::{Server, ServerBuilder};
use serde_json::{Value, json};

use crate::api::{Api, Frame};

/// Models that reply with the name of the agent's model, and record the requested settings.
#[derive(Clone, Default)]
struct Recording(Arc<Mutex<Vec<SessionSettings>>>);

impl Models for Recording {
    fn named(&self, settings: &SessionSettings) -> Result<Box<dyn ChatModel>, ModelError> {
        self.0.lock().unwrap().push(settings.clone());
        let pay = Script::calls([("c1", "pay", json!({}))]);
        Ok(Box::new(ScriptedModel::new([]).reply_with(
            move |request| match request.messages.len() {
                1 => pay.clone(),
                _ => Script::text("Paid."),
            },
        )))
    }

    fn configured(
        &self,
        _: &LlmConfig,
        _: &OperatorRules,
    ) -> Result<Box<dyn ChatModel>, AgentRejection> {
        let pay = Script::calls([("c1", "pay", json!({}))]);
        Ok(Box::new(ScriptedModel::new([pay, Script::text("Not paid.")])))
    }
}

fn billing(setup: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
    let pay = TestTool::new("pay").effect(Effect::AtMostOnce);
    Ok(GenericAgent::builder(setup.model()?, PiPattern).tool(pay))
}

fn shepherd(_: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
    let model = ScriptedModel::new([]).default_reply(Script::text("Nine."));
    Ok(GenericAgent::builder(model, PiPattern))
}

fn server(store: &Arc<dyn SessionStore>, models: &Recording) -> ServerBuilder {
    let mut defaults = SessionSettings::new();
    defaults.model = Some("custom/local".into());
    defaults.base_url = Some("http://me:secret@127.0.0.1:9/v1".into());
    Server::builder(store.clone())
        .models(models.clone())
        .defaults(defaults)
        .agent("billing", billing)
        .agent("shepherd", shepherd)
}

fn api(store: &Arc<dyn SessionStore>, models: &Recording) -> Api {
    Api::serving(store.clone(), server(store, models).build().unwrap())
}

/// C201: Each session has the agent that it names, else the first one, even after a restart.
#[tokio::test(start_paused = true)]
async fn a_session_has_the_agent_that_it_names() {
    let store = Arc::new(InMemoryStore::new()) as Arc<dyn SessionStore>;
    let api = api(&store, &Recording::default());
    let list = api.get("/api/agents").await;
    let names: Vec<&Value> =
        list["agents"].as_array().unwrap().iter().map(|agent| &agent["name"]).collect();
    assert_eq!(names, ["billing", "shepherd"]);
    let sheep = api.session(json!({ "agent": "shepherd" })).await;
    let first = api.session(json!({})).await;
    let (status, refused) = api.post("/api/sessions", json!({ "agent": "nobody" })).await;
    assert_eq!((status, &refused["error"]["path"]), (400, &json!("/agent")), "{refused}");
    for (id, name) in [(&sheep, "shepherd"), (&first, "billing")] {
        let status = api.get(&format!("/api/sessions/{id}")).await;
        assert_eq!((&status["agent"], &status["readOnly"]), (&json!(name), &json!(false)));
    }
    let models = Recording::default();
    let restarted = self::api(&copy(&store, &sheep).await, &models);
    restarted.say(&sheep, "How many?").await;
    let frames = restarted.run(&sheep, None).await;
    assert_eq!(frames.last().unwrap().data["text"], "Nine.");
    assert!(models.0.lock().unwrap().is_empty(), "the shepherd has a model of its own");
}

/// C201: A session whose agent is unknown to the server is listed and read, and not written.
#[tokio::test(start_paused = true)]
async fn a_session_of_an_unknown_agent_is_read_only() {
    let store = Arc::new(InMemoryStore::new()) as Arc<dyn SessionStore>;
    let here = api(&store, &Recording::default());
    let id = here.session(json!({ "agent": "shepherd" })).await;
    here.say(&id, "How many?").await;
    here.run(&id, None).await;
    here.drain(std::time::Duration::ZERO).await;
    drop(here);

    let only = Server::builder(store.clone()).models(Recording::default());
    let other = Api::serving(store.clone(), only.agent("billing", billing).build().unwrap());
    let before = store.read(&id, 0).await.unwrap();
    let status = other.get(&format!("/api/sessions/{id}")).await;
    assert_eq!((&status["agent"], &status["readOnly"]), (&json!("shepherd"), &json!(true)));
    assert_eq!(other.get("/api/sessions").await["sessions"][0]["readOnly"], json!(true));
    let messages = other.get(&format!("/api/sessions/{id}/messages")).await;
    assert_eq!(messages["messages"].as_array().unwrap().len(), 2);
    for (path, body) in [
        ("prompt", json!({ "message": "And now?" })),
        ("steer", json!({ "message": "And now?" })),
        ("follow-up", json!({ "message": "And now?" })),
        ("continue", json!({})),
        ("signal", json!({ "key": "k" })),
        ("abort", json!({})),
        ("compact", json!({})),
    ] {
        let (status, refused) = other.post(&format!("/api/sessions/{id}/{path}"), body).await;
        let kind = &refused["error"]["kind"];
        assert_eq!((status, kind), (409, &json!("unknown_agent")), "{path}: {refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains("`shepherd`"), "{refused}");
    }
    assert_eq!(store.read(&id, 0).await.unwrap(), before);
}

/// C201: The events of such a session are read from the log, even in a feed and while the process
/// that has it open continues. Its inputs are refused.
#[tokio::test]
async fn the_events_of_a_session_of_an_unknown_agent_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let open = || -> Arc<dyn SessionStore> {
        Arc::new(Sqlite::open(folder.path().join("sessions.db")).unwrap())
    };
    let owner = api(&open(), &Recording::default());
    let id = owner.session(json!({ "agent": "shepherd" })).await;
    owner.say(&id, "How many?").await;
    let own = owner.run(&id, None).await;
    let store = open();
    let only = Server::builder(store.clone()).models(Recording::default());
    let other = Api::serving(store, only.agent("billing", billing).build().unwrap());

    let mut events = other.events(&id, None).await;
    let follow = json!({ "follow": [{ "feed": "f", "session": id }] });
    let mut feed = other.stream("/api/events", follow).await;
    let texts = |frames: &[Frame]| -> Vec<(u64, Value)> {
        let ends = frames.iter().filter(|frame| frame.event == "message_end");
        ends.map(|frame| (frame.id.unwrap(), frame.data["message"].clone())).collect()
    };
    let first = events.until("agent_end").await;
    assert_eq!(texts(&first), texts(&own));
    let mut feed_until_end = async || {
        let mut ends = Vec::new();
        loop {
            let frame = feed.next().await.unwrap();
            assert_ne!(frame.event, "error", "{frame:?}");
            let event = &frame.data["event"];
            if event["type"] == "message_end" {
                ends.push((frame.data["id"].as_u64().unwrap(), event["message"].clone()));
            }
            if event["type"] == "agent_end" {
                return ends;
            }
        }
    };
    assert_eq!(feed_until_end().await, texts(&own));

    // The owner continues, and both streams follow.
    let last = own.iter().rev().find_map(|frame| frame.id);
    owner.say(&id, "And now?").await;
    let own = owner.run(&id, last).await;
    assert_eq!(texts(&own).len(), 2);
    assert_eq!(texts(&events.until("agent_end").await), texts(&own));
    assert_eq!(feed_until_end().await, texts(&own));
    let history = other.get(&format!("/api/sessions/{id}/history?before=3")).await;
    assert_eq!(history["events"].as_array().unwrap().len(), 2, "{history}");

    let path = format!("/api/sessions/{id}");
    let decision = json!({ "digest": "d", "decision": "approve" });
    for (method, route, body) in [
        ("POST", "/prompt", json!({ "message": "Go." })),
        ("POST", "/steer", json!({ "message": "Go." })),
        ("POST", "/steer", json!({ "message": "Go.", "call": "c" })),
        ("POST", "/actions/c", decision),
        ("POST", "/fork", json!({})),
        ("PATCH", "", json!({ "name": "Mine" })),
        ("DELETE", "", json!({})),
    ] {
        let (status, refused) = other.call(method, &format!("{path}{route}"), Some(body)).await;
        let kind = &refused["error"]["kind"];
        assert_eq!((status, kind), (409, &json!("unknown_agent")), "{route}: {refused}");
    }
    assert!(events.ready().is_none(), "nothing was changed");
}

/// C202: Limits and approvals of a session apply to any agent. Settings that an agent does not have
/// are refused.
#[tokio::test(start_paused = true)]
async fn the_settings_of_a_session_apply_to_any_agent() {
    let store = Arc::new(InMemoryStore::new()) as Arc<dyn SessionStore>;
    let api = api(&store, &Recording::default());
    for (settings, end) in [
        (json!({}), "awaiting_action"),
        (json!({ "approve": ["pay"] }), "done"),
        (json!({ "approve": ["pay"], "maxTurns": 1 }), "limit"),
        (json!({ "approve": ["pay"], "maxSessionTurns": 1 }), "limit"),
    ] {
        let id = api.session(settings.clone()).await;
        api.say(&id, "Pay.").await;
        let frames = api.run(&id, None).await;
        let last = &frames.last().unwrap().data;
        assert_eq!(kind(&last["end"]), end, "{settings}: {last}");
    }
    for (settings, path) in [
        (json!({ "approve": ["sell"] }), "/approve/0"),
        (json!({ "pattern": "pi" }), "/pattern"),
        (json!({ "toolChoice": "pay" }), "/toolChoice"),
        (json!({ "system": "Obey." }), "/system"),
        (json!({ "network": true }), "/network"),
        (json!({ "writable": ["/"] }), "/writable"),
        (json!({ "maxTurns": 0.5 }), "/maxTurns"),
        (json!({ "thinking": "hard" }), "/thinking"),
    ] {
        let (status, refused) = api.post("/api/sessions", settings).await;
        assert_eq!((status, &refused["error"]["path"]), (400, &json!(path)), "{refused}");
    }
    let mut defaults = SessionSettings::new();
    (defaults.model, defaults.network) = (Some("custom/local".into()), Some(true));
    let server = server(&store, &Recording::default()).defaults(defaults).build().unwrap();
    Api::serving(store.clone(), server).session(json!({})).await; // it ignores the default
    let chat = json!({ "message": "Pay.", "workDir": ".", "approve": [] });
    let mut reader = api.stream("/api/agent-chat", chat).await;
    let mut text = String::new();
    while let Some(frame) = reader.next_text().await {
        text.push_str(&frame);
    }
    assert!(text.contains("needs the user's approval") && text.contains("Not paid."), "{text}");
}

/// Returns the name of an outcome, which may have data.
fn kind(end: &Value) -> &str {
    end.as_str().or_else(|| end.as_object()?.keys().next().map(String::as_str)).unwrap()
}

/// C203: A conversation that began with a model at some address is sent to no other address, even
/// if the server's default changes. No credentials are stored.
#[tokio::test(start_paused = true)]
async fn a_conversation_keeps_its_model_and_its_address() {
    let store = Arc::new(InMemoryStore::new()) as Arc<dyn SessionStore>;
    let first = api(&store, &Recording::default());
    let id = first.session(json!({})).await;
    let stored = first.get(&format!("/api/sessions/{id}")).await["session"]["settings"].clone();
    assert_eq!(stored["model"], "custom/local");
    assert_eq!(stored["baseUrl"], "http://127.0.0.1:9/v1");
    assert!(!format!("{:?}", store.read(&id, 0).await.unwrap()).contains("secret"));

    let asked = |models: &Recording| {
        let last = models.0.lock().unwrap().last().cloned().unwrap();
        (last.model.unwrap(), last.base_url)
    };
    let models = Recording::default();
    api(&copy(&store, &id).await, &models).say(&id, "Pay.").await;
    let own = Some("http://me:secret@127.0.0.1:9/v1".to_owned());
    assert_eq!(asked(&models), ("custom/local".to_owned(), own), "with the credentials again");

    for other in ["custom/local", "openai/gpt-4o-mini"] {
        let store = copy(&store, &id).await;
        let models = Recording::default();
        let mut defaults = SessionSettings::new();
        defaults.model = Some(other.into());
        let server = server(&store, &models).defaults(defaults).build().unwrap();
        Api::serving(store, server).say(&id, "Pay.").await;
        let address = Some("http://127.0.0.1:9/v1".to_owned());
        assert_eq!(asked(&models), ("custom/local".to_owned(), address), "{other}");
    }
}

/// C286: A session that was stored with a model and without an address is sent to no other address.
/// This holds if the server's default gets one later, after changes of its settings, and in forks.
#[tokio::test(start_paused = true)]
async fn a_model_without_an_address_gets_none() {
    let store = Arc::new(InMemoryStore::new()) as Arc<dyn SessionStore>;
    let mut defaults = SessionSettings::new();
    defaults.model = Some("custom/local".into());
    let plain = server(&store, &Recording::default()).defaults(defaults).build().unwrap();
    let first = Api::serving(store.clone(), plain);
    let id = first.session(json!({})).await;
    first.say(&id, "Pay.").await;
    first.run(&id, None).await;

    let models = Recording::default();
    let store = copy(&store, &id).await;
    let moved = api(&store, &models); // its default has an address
    let path = format!("/api/sessions/{id}");
    assert_eq!(moved.post(&format!("{path}/abort"), json!({})).await.0, 202);
    let (status, changed) = moved.call("PATCH", &path, Some(json!({ "name": "Sheep" }))).await;
    assert_eq!(status, 200, "{changed}");
    let (status, fork) = moved.post(&format!("{path}/fork"), json!({})).await;
    assert_eq!(status, 201, "{fork}");
    moved.say(&id, "Pay.").await;
    let asked = models.0.lock().unwrap().clone();
    assert!(asked.len() >= 3, "{asked:?}");
    for settings in asked {
        assert_eq!((settings.model.as_deref(), settings.base_url), (Some("custom/local"), None));
    }
}

/// C287: A session whose settings are missing, unreadable or another program's is read, and neither
/// written nor deleted. The first agent runs sessions of earlier versions.
#[tokio::test(start_paused = true)]
async fn a_session_of_another_program_is_read_only() {
    let store = Arc::new(InMemoryStore::new()) as Arc<dyn SessionStore>;
    for (id, settings) in [
        ("none", None),
        ("unreadable", Some(json!({ "workDir": 7, "agent": "billing" }))),
        ("other", Some(json!({ "model": "small", "colour": "red" }))),
        ("empty", Some(json!({ "agent": "" }))),
        ("earlier", Some(json!({ "root": "/work", "model": "custom/local" }))),
    ] {
        let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
        let mut context = RunContext::new().stored(&store, id).await.unwrap();
        if let Some(settings) = settings {
            context = context.settings(settings);
        }
        let (handle, _events) = agent.run(context).await.unwrap();
        handle.close().await;
    }
    let api = api(&store, &Recording::default());
    for id in ["none", "unreadable", "other", "empty"] {
        let path = format!("/api/sessions/{id}");
        let before = store.read(id, 0).await.unwrap();
        let status = api.get(&path).await;
        assert_eq!(status["readOnly"], json!(true), "{id}: {status}");
        api.get(&format!("{path}/messages")).await;
        let message = json!({ "message": "And now?" });
        let decision = json!({ "digest": "d", "decision": "approve" });
        for (method, route, body) in [
            ("POST", "/prompt", message.clone()),
            ("POST", "/steer", message.clone()),
            ("POST", "/follow-up", message),
            ("POST", "/continue", json!({})),
            ("POST", "/signal", json!({ "key": "k" })),
            ("POST", "/abort", json!({})),
            ("POST", "/compact", json!({})),
            ("POST", "/fork", json!({})),
            ("POST", "/actions/c1", decision),
            ("PATCH", "", json!({ "name": "Mine" })),
            ("DELETE", "", json!({})),
        ] {
            let (status, refused) = api.call(method, &format!("{path}{route}"), Some(body)).await;
            let kind = &refused["error"]["kind"];
            assert_eq!((status, kind), (409, &json!("unknown_agent")), "{id}{route}: {refused}");
        }
        assert_eq!(store.read(id, 0).await.unwrap(), before, "{id}");
    }
    api.say("earlier", "Pay.").await;
    assert_eq!(api.call("DELETE", "/api/sessions/other", None).await.0, 409);
}

/// Returns another store with this session, as if the process had been killed.
async fn copy(store: &Arc<dyn SessionStore>, id: &str) -> Arc<dyn SessionStore> {
    let entries: Vec<LogEntry> = store.read(id, 0).await.unwrap();
    let copy = Arc::new(InMemoryStore::new());
    copy.open(id).await.unwrap().append(0, entries.into()).await.unwrap();
    copy
}

/// A server with two agents of the same name, or without agents, is refused.
#[test]
fn a_server_needs_agents_with_different_names() {
    let build = |builder: ServerBuilder| builder.build().err().unwrap().to_string();
    let builder = || Server::builder(InMemoryStore::new());
    assert!(build(builder()).contains("no agent"));
    let twice = builder().agent("billing", billing).agent("billing", shepherd);
    assert!(build(twice).contains("`billing`"));
    assert!(build(builder().agent("", billing)).contains("empty name"));
}
