//! Changes of a session's settings, forks, and look-ups by clients: agents, models, messages.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::log::InMemoryStore;
use loopwright_core::model::{ModelError, ModelInfo};
use loopwright_core::testing::{Gate, Script, ScriptedModel};
use loopwright_core::{ChatModel, SessionStore};
use loopwright_host::{
    AgentRejection, CodingAgent, LlmConfig, Models, OperatorRules, SessionSettings,
};
use loopwright_memory::Sqlite;
use loopwright_server::{Access, AccessPolicy, Caller, OwnerPolicy, Server, ServerBuilder};
use serde_json::{Value, json};

use crate::api::Api;

/// Models that answer with their name.
struct Named;

impl Models for Named {
    fn named(&self, settings: &SessionSettings) -> Result<Box<dyn ChatModel>, ModelError> {
        let name = settings.model.as_deref().unwrap_or_default();
        let model = ScriptedModel::new([]).default_reply(Script::text(name));
        Ok(Box::new(model.info(ModelInfo::new(name))))
    }

    fn configured(
        &self,
        _: &LlmConfig,
        _: &OperatorRules,
    ) -> Result<Box<dyn ChatModel>, AgentRejection> {
        Err(AgentRejection::bad_request("", "None."))
    }

    fn list(&self) -> Vec<ModelInfo> {
        vec![ModelInfo::new("a/small"), ModelInfo::new("a/large").with_context_window(1_000)]
    }
}

fn named(store: Arc<dyn SessionStore>) -> Api {
    named_with(store, |server| server)
}

fn named_with(
    store: Arc<dyn SessionStore>,
    set: impl FnOnce(ServerBuilder) -> ServerBuilder,
) -> Api {
    let mut defaults = SessionSettings::new();
    defaults.model = Some("a/small".into());
    let agent = CodingAgent::builder().build().unwrap();
    let server = Server::builder(store.clone())
        .models(Named)
        .defaults(defaults)
        .agent("coding", agent)
        .agent("other", CodingAgent::builder().build().unwrap());
    Api::serving(store, set(server).build().unwrap())
}

async fn patch(api: &Api, session: &str, body: Value) -> (u16, Value) {
    api.call("PATCH", &format!("/api/sessions/{session}"), Some(body)).await
}

/// C247: The next run uses changed settings, even after a restart. Readers do not notice.
#[tokio::test(start_paused = true)]
async fn the_next_run_uses_the_changed_settings() {
    let dir = tempfile::tempdir().unwrap();
    let disk =
        Arc::new(Sqlite::open(dir.path().join("sessions.db")).unwrap()) as Arc<dyn SessionStore>;
    for store in [Arc::new(InMemoryStore::new()), disk] {
        let api = named(store.clone());
        let id = api.session(json!({ "name": "Sheep", "maxTurns": 3 })).await;
        let mut reader = api.events(&id, None).await;
        api.say(&id, "go").await;
        assert_eq!(reader.until("agent_end").await.last().unwrap().data["text"], "a/small");
        let change = json!({
            "name": "Goats", "model": "a/large", "thinking": "high", "maxTurns": null,
            "maxSessionTurns": 9, "approve": ["write_file"],
        });
        let (status, changed) = patch(&api, &id, change).await;
        assert_eq!(status, 200, "{changed}");
        let expected = json!({
            "agent": "coding", "name": "Goats", "model": "a/large", "thinking": "high",
            "maxSessionTurns": 9, "approve": ["write_file"],
        });
        assert_eq!(changed["session"]["settings"], expected);
        assert_eq!(changed["model"], "a/large");
        api.say(&id, "again").await;
        assert_eq!(reader.until("agent_end").await.last().unwrap().data["text"], "a/large");
        drop((reader, api));
        let api = named(store);
        while api.try_events(&id, None).await.is_err() {} // the first server closes the session
        assert_eq!(api.get(&format!("/api/sessions/{id}")).await["session"]["settings"], expected);
        let agent = api.get(&format!("/api/sessions/{id}/agent")).await;
        assert_eq!(agent["model"]["id"], "a/large");
    }
}

/// C247: An invalid change is refused with the name of the setting, and changes nothing.
#[tokio::test(start_paused = true)]
async fn an_invalid_change_changes_nothing() {
    let api = Api::new([Script::text("Nine.")]);
    let id = api.session(json!({ "maxTurns": 3 })).await;
    let before = api.get(&format!("/api/sessions/{id}")).await;
    for (name, value) in [
        ("workDir", json!("/")),
        ("agent", json!("coding")),
        ("system", json!("x")),
        ("unknown", json!(1)),
        ("maxTurns", json!(0)),
        ("maxSessionCost", json!(-1)),
        ("thinking", json!("hard")),
        ("approve", json!(["no_such_tool"])),
    ] {
        let (status, refused) = patch(&api, &id, json!({ name: value })).await;
        let path = refused["error"]["path"].as_str().unwrap_or_default();
        assert!(status == 400 && path.starts_with(&format!("/{name}")), "{status} {refused}");
    }
    assert_eq!(patch(&api, &id, json!({})).await, (200, before.clone()));
    assert_eq!(patch(&api, &id, json!({ "maxTurns": 3 })).await, (200, before));
    assert_eq!(patch(&api, "none", json!({})).await.0, 404);
}

/// C247: The settings of a session do not change during a run. Its pending actions survive.
#[tokio::test(start_paused = true)]
async fn settings_change_between_runs_only() {
    let gate = Gate::new();
    let write = Script::calls([("w", "write_file", json!({ "path": "new.txt", "content": "x" }))]);
    let api = Api::new([write.gate(&gate), Script::text("Done.")]);
    let id = api.session(json!({})).await;
    let mut reader = api.events(&id, None).await;
    api.say(&id, "go").await;
    reader.until("message_start").await;
    let (status, refused) = patch(&api, &id, json!({ "name": "Sheep" })).await;
    let kind = &refused["error"]["kind"];
    assert_eq!((status, kind), (409, &json!("run_in_progress")), "{refused}");
    gate.open();
    reader.until("agent_end").await;
    let (status, changed) = patch(&api, &id, json!({ "name": "Sheep" })).await;
    assert_eq!(status, 200, "{changed}");
    let action = &api.get("/api/actions").await["actions"][0];
    let path = format!("/api/sessions/{id}/actions/{}", action["call"].as_str().unwrap());
    let approve = json!({ "digest": action["digest"], "decision": "approve" });
    assert_eq!(api.post(&path, approve).await.0, 200);
    assert_eq!(reader.until("agent_end").await.last().unwrap().data["text"], "Done.");
}

/// C247, C248: The policy decides about changed settings as about a new session's, and a fork
/// belongs to the owner of its session.
#[tokio::test(start_paused = true)]
async fn the_policy_decides_about_changes_and_forks() {
    struct SmallOnly;

    #[async_trait]
    impl AccessPolicy for SmallOnly {
        async fn allows(&self, caller: &Caller, access: Access<'_>) -> bool {
            match access {
                Access::Create(settings) => settings.model.as_deref() != Some("a/large"),
                access => OwnerPolicy.allows(caller, access).await,
            }
        }
    }

    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let operator = named_with(store.clone(), |server| server.policy(SmallOnly));
    let (ann, bob) = (operator.as_user("ann"), operator.as_user("bob"));
    let id = ann.session(json!({ "model": "a/small" })).await;
    let (status, refused) = patch(&ann, &id, json!({ "model": "a/large" })).await;
    assert_eq!((status, &refused["error"]["kind"]), (403, &json!("forbidden")), "{refused}");
    assert_eq!(patch(&ann, &id, json!({ "name": "Sheep" })).await.0, 200);
    assert_eq!(patch(&operator, &id, json!({ "model": "a/large" })).await.0, 200);
    let path = format!("/api/sessions/{id}/fork");
    assert_eq!(ann.post(&path, json!({})).await.0, 403, "it would have the other model");
    assert_eq!(patch(&operator, &id, json!({ "model": "a/small" })).await.0, 200);
    assert_eq!(bob.post(&path, json!({})).await.0, 404);
    let (status, forked) = operator.post(&path, json!({})).await;
    assert_eq!(status, 201, "{forked}");
    let fork = format!("/api/sessions/{}", forked["id"].as_str().unwrap());
    assert_eq!(ann.get(&fork).await["session"]["owner"], "ann");
    assert_eq!(bob.call("GET", &fork, None).await.0, 404);
}

/// C248: A fork begins with the conversation up to a message. It has the current settings and agent
/// of its session.
#[tokio::test(start_paused = true)]
async fn a_fork_has_the_conversation_the_settings_and_the_agent() {
    let api = named(Arc::new(InMemoryStore::new()));
    let id = api.session(json!({ "agent": "other", "name": "Sheep" })).await;
    let path = format!("/api/sessions/{id}/fork");
    let mut reader = api.events(&id, None).await;
    for text in ["one", "two"] {
        api.say(&id, text).await;
        reader.until("agent_end").await;
    }
    assert_eq!(patch(&api, &id, json!({ "model": "a/large" })).await.0, 200);
    let texts = async |session: &str| {
        let messages =
            api.get(&format!("/api/sessions/{session}/messages")).await["messages"].clone();
        let text = |message: &Value| {
            let parts = message.get("content").or(message.get("parts")).unwrap().clone();
            parts[0]["text"].as_str().unwrap().to_owned()
        };
        messages.as_array().unwrap().iter().map(text).collect::<Vec<_>>()
    };
    let messages = api.get(&format!("/api/sessions/{id}/messages")).await;
    let first = messages["messages"][1]["id"].clone();
    let (status, forked) = api.post(&path, json!({ "message": first, "name": "Goats" })).await;
    assert_eq!(status, 201, "{forked}");
    let fork = forked["id"].as_str().unwrap();
    assert_eq!(texts(fork).await, ["one", "a/small"]);
    let settings = json!({ "agent": "other", "name": "Goats", "model": "a/large" });
    let session = &api.get(&format!("/api/sessions/{fork}")).await["session"];
    assert_eq!(session["settings"], settings);
    api.say(fork, "three").await;
    api.run(fork, None).await;
    let mut reader = api.events(fork, None).await;
    while texts(fork).await.len() < 4 {
        reader.until("agent_end").await;
    }
    assert_eq!(texts(fork).await, ["one", "a/small", "three", "a/large"]);
    assert_eq!(texts(&id).await.len(), 4, "the session itself is unchanged");

    let whole = api.post(&path, json!({})).await.1["id"].as_str().unwrap().to_owned();
    assert_eq!(texts(&whole).await, texts(&id).await);
    let (status, refused) = api.post(&path, json!({ "message": "m99" })).await;
    assert_eq!((status, &refused["error"]["path"]), (404, &json!("/message")));
}

/// C249: A search finds the messages of all sessions with excerpts, page by page.
#[tokio::test(start_paused = true)]
async fn messages_are_found_page_by_page() {
    let long = format!("{} The SHEEP are {}", "before ".repeat(200), "after ".repeat(200));
    let api = Api::new([Script::text(&long), Script::text("Ten sheep."), Script::text("Goats.")]);
    let mut ids = Vec::new();
    for (name, text) in
        [(json!("Barn"), "count the sheep"), (json!(null), "sheep?"), (json!(null), "x")]
    {
        let id = api.session(json!({ "name": name })).await;
        api.say(&id, text).await;
        api.run(&id, None).await;
        ids.push(id);
    }
    let mut found = Vec::new();
    let mut path = "/api/search?q=sheep&limit=3".to_owned();
    loop {
        let page = api.get(&path).await;
        found.extend(page["hits"].as_array().unwrap().clone());
        let Some(next) = page.get("next") else { break };
        assert_eq!(page["hits"].as_array().unwrap().len(), 3);
        path = format!("/api/search?q=sheep&limit=3&after={next}");
    }
    let shown = |hit: &Value| (hit["session"].clone(), hit["title"].clone(), hit["role"].clone());
    let mut shown: Vec<_> = found.iter().map(shown).collect();
    shown.sort_by_key(|(session, ..)| session != &json!(ids[1])); // they have the same time
    let expected = [
        (json!(ids[1]), json!("sheep?"), json!("assistant")),
        (json!(ids[1]), json!("sheep?"), json!("user")),
        (json!(ids[0]), json!("Barn"), json!("assistant")),
        (json!(ids[0]), json!("Barn"), json!("user")),
    ];
    assert_eq!(shown, expected);
    let excerpt = found.iter().map(|hit| hit["excerpt"].as_str().unwrap());
    let excerpt = excerpt.max_by_key(|text| text.len()).unwrap();
    assert!(excerpt.contains("The SHEEP are after") && excerpt.chars().count() < 250, "{excerpt}");
    assert_eq!(api.get("/api/search?q=no%20such%20words").await, json!({ "hits": [] }));
    for query in ["", "?q=%20", "?q=x&limit=0", "?q=x&limit=101", "?q=x&after=1000", "?q=x&after=a"]
    {
        let (status, refused) = api.call("GET", &format!("/api/search{query}"), None).await;
        assert_eq!((status, &refused["error"]["kind"]), (400, &json!("bad_request")), "{query}");
    }
}

/// C250: Clients can look up the models, and the model and the tools of each agent, including which
/// tools need approval.
#[tokio::test(start_paused = true)]
async fn agents_and_models_are_described() {
    let api = named(Arc::new(InMemoryStore::new()));
    assert_eq!(
        api.get("/api/models").await,
        json!({
            "default": "a/small",
            "models": [{ "id": "a/small" }, { "id": "a/large", "context_window": 1000 }],
        })
    );
    let rules = OperatorRules::open().models(["b/*"]).unwrap();
    let ruled = named_with(Arc::new(InMemoryStore::new()), |server| server.rules(rules));
    let listed = ruled.get("/api/models").await["models"].clone();
    assert_eq!(listed, json!([{ "id": "a/small" }]), "others are not allowed");
    let tool = |agent: &Value, name: &str| {
        let tools = agent["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap().clone()
    };
    let agent = api.get("/api/agents/other").await;
    assert_eq!((&agent["name"], &agent["model"]["id"]), (&json!("other"), &json!("a/small")));
    let read = tool(&agent, "read_file");
    assert_eq!((&read["approval"], &read["effect"]), (&json!("never"), &json!("read_only")));
    assert_eq!(read["schema"]["type"], "object");
    assert_eq!(tool(&agent, "execute_command")["approval"], "always");
    let id = api.session(json!({ "approve": ["execute_command", "write_file"] })).await;
    let agent = api.get(&format!("/api/sessions/{id}/agent")).await;
    assert_eq!(tool(&agent, "execute_command")["approval"], "never");
    assert_eq!(tool(&agent, "write_file")["approval"], "sometimes", "of protected files always");
    assert_eq!(tool(&agent, "edit_file")["approval"], "always");
    assert_eq!(api.call("GET", "/api/agents/none", None).await.0, 404);
    assert_eq!(api.call("GET", "/api/sessions/none/agent", None).await.0, 404);
}
