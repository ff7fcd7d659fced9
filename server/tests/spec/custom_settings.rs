//! Settings that an app adds to the settings of its sessions.

use std::sync::Arc;

use loopwright_core::log::InMemoryStore;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{AgentBuilder, GenericAgent, SessionStore};
use loopwright_host::{AgentRejection, AgentSetup, CustomSetting, SessionSettings};
use loopwright_patterns::PiPattern;
use loopwright_server::{Server, ServerBuilder};
use serde_json::{Value, json};

use crate::api::Api;

/// Returns an agent that replies with the values that it reads.
fn payer(setup: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
    let values = json!([
        setup.custom::<Option<f64>>("max-amount")?,
        setup.custom::<bool>("dry-run")?,
        setup.custom::<String>("region")?,
        setup.custom::<Option<String>>("ledger")?,
    ]);
    let model = ScriptedModel::new([]).default_reply(Script::text(&values.to_string()));
    Ok(GenericAgent::builder(model, PiPattern))
}

fn server(store: Arc<dyn SessionStore>) -> ServerBuilder {
    Server::builder(store)
        .agent("payer", payer)
        .setting(CustomSetting::number("max-amount", "The largest payment, in euros"))
        .setting(CustomSetting::switch("dry-run", "Prepare payments only"))
        .setting(CustomSetting::choice("region", "Where", ["eu", "us"]).default("eu"))
        .setting(CustomSetting::text("ledger", "The ledger to write").host_only())
}

fn api(store: &Arc<dyn SessionStore>) -> Api {
    Api::serving(store.clone(), server(store.clone()).build().unwrap())
}

async fn create(api: &Api, custom: Value) -> (u16, Value) {
    api.post("/api/sessions", json!({ "custom": custom })).await
}

async fn change(api: &Api, session: &str, custom: Value) -> (u16, Value) {
    let path = format!("/api/sessions/{session}");
    api.call("PATCH", &path, Some(json!({ "custom": custom }))).await
}

/// Returns the reply of a session's agent.
async fn reply(api: &Api, session: &str) -> Value {
    let mut reader = api.events(session, None).await;
    api.say(session, "go").await;
    let end = reader.until("agent_end").await;
    serde_json::from_str(end.last().unwrap().data["text"].as_str().unwrap()).unwrap()
}

/// C302: The agent reads the values that a client has chosen, else the defaults. They are stored
/// with the session, change one by one, and survive a restart.
#[tokio::test(start_paused = true)]
async fn a_session_has_the_values_that_its_client_has_chosen() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let api = api(&store);
    let id = api.session(json!({ "custom": { "max-amount": 100, "dry-run": null } })).await;
    assert_eq!(reply(&api, &id).await, json!([100.0, false, "eu", null]));
    let (status, changed) = change(&api, &id, json!({ "region": "us", "dry-run": true })).await;
    assert_eq!(status, 200, "{changed}");
    let expected = json!({ "max-amount": 100, "region": "us", "dry-run": true });
    assert_eq!(changed["session"]["settings"]["custom"], expected);
    drop(api);
    let api = self::api(&store);
    while api.try_events(&id, None).await.is_err() {} // the first server closes the session
    assert_eq!(change(&api, &id, json!({ "max-amount": null })).await.0, 200);
    let mut reader = api.events(&id, None).await;
    api.say(&id, "go").await;
    let replies = reader.until("agent_end").await;
    assert_eq!(replies.last().unwrap().data["text"], "[100.0,false,\"eu\",null]", "the first run");
    let replies = reader.until("agent_end").await;
    assert_eq!(replies.last().unwrap().data["text"], "[null,true,\"us\",null]");
    let fork = api.post(&format!("/api/sessions/{id}/fork"), json!({})).await.1;
    let fork = api.get(&format!("/api/sessions/{}", fork["id"].as_str().unwrap())).await;
    assert_eq!(fork["session"]["settings"]["custom"], json!({ "region": "us", "dry-run": true }));
}

/// C302: An unknown name, an invalid value, and a setting of the operator are refused, even in
/// requests to `/api/agent-chat`. The error has the position and the allowed values.
#[tokio::test(start_paused = true)]
async fn unknown_names_and_wrong_values_are_refused() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let api = api(&store);
    let id = api.session(json!({})).await;
    for (custom, path, allowed) in [
        (json!({ "tenant": "x" }), "/custom/tenant", "`max-amount`, `dry-run`, `region`."),
        (json!({ "max-amount": "1" }), "/custom/max-amount", "must be a number"),
        (json!({ "dry-run": 1 }), "/custom/dry-run", "must be true or false"),
        (json!({ "region": "mars" }), "/custom/region", "must be one of: eu, us"),
        (json!({ "ledger": "x" }), "/custom/ledger", "only the server's operator"),
        (json!([]), "/custom", ""),
    ] {
        let chat = json!({ "message": "go", "workDir": ".", "custom": custom });
        for (status, refused) in [
            create(&api, custom.clone()).await,
            change(&api, &id, custom.clone()).await,
            api.post("/api/agent-chat", chat).await,
        ] {
            let error = &refused["error"];
            assert_eq!((status, error["path"].as_str()), (400, Some(path)), "{custom} {refused}");
            assert!(error["message"].as_str().unwrap().contains(allowed), "{refused}");
            assert!(!refused.to_string().contains("mars"), "{refused}");
        }
    }
    let plain = Api::new([]);
    let (status, refused) = create(&plain, json!({ "region": "eu" })).await;
    assert_eq!((status, &refused["error"]["path"]), (400, &json!("/custom/region")));
}

/// C302: A client neither changes nor removes a value of the operator's. A value that earlier
/// versions of the app have stored under another name stays.
#[tokio::test(start_paused = true)]
async fn a_value_of_the_operator_stays() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let mut settings = SessionSettings::new();
    settings.agent = Some("payer".into());
    settings.custom.insert("ledger".into(), json!("main"));
    settings.custom.insert("former".into(), json!(1));
    let memory = store.open("s").await.unwrap();
    let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
    let settings = serde_json::to_value(settings).unwrap();
    let context = loopwright_core::RunContext::new()
        .session("s")
        .shared_memory(memory)
        .settings(settings.clone());
    let (handle, _events) = agent.run(context).await.unwrap();
    handle.close().await;
    let api = api(&store);
    for custom in [json!({ "ledger": "other" }), json!({ "ledger": null }), json!(null)] {
        let (status, refused) = change(&api, "s", custom).await;
        assert_eq!((status, &refused["error"]["path"]), (400, &json!("/custom/ledger")));
    }
    let (status, changed) = change(&api, "s", json!({ "region": "us" })).await;
    let expected = json!({ "ledger": "main", "former": 1, "region": "us" });
    assert_eq!((status, &changed["session"]["settings"]["custom"]), (200, &expected), "{changed}");
    assert_eq!(reply(&api, "s").await, json!([null, false, "us", "main"]));
}

/// C302: the OpenAPI document of a server has the settings that its clients can choose.
#[tokio::test(start_paused = true)]
async fn the_document_describes_the_settings_of_the_app() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let document = api(&store).get("/api/openapi.json").await;
    for component in ["SessionSettings", "SettingsChange", "ChatRequest"] {
        let schema = &document["components"]["schemas"][component]["properties"]["custom"];
        jsonschema::meta::validate(schema).unwrap();
        let valid = |value: Value| jsonschema::is_valid(schema, &value);
        assert!(valid(json!({ "max-amount": 1.5, "dry-run": true, "region": "eu" })), "{schema}");
        assert!(valid(json!({ "region": null })) && valid(json!(null)), "{schema}");
        for custom in [json!({ "ledger": "x" }), json!({ "region": "mars" }), json!(1)] {
            assert!(!valid(custom.clone()), "{custom} {schema}");
        }
        assert_eq!(schema["properties"]["region"]["default"], "eu");
    }
    let document = Api::new([]).get("/api/openapi.json").await;
    let settings = &document["components"]["schemas"]["SessionSettings"]["properties"];
    assert!(settings.get("name").is_some() && settings.get("custom").is_none(), "{settings}");
}

/// C302: A server with contradictory settings, or invalid values of the operator, cannot be built.
#[test]
fn a_server_has_only_valid_settings() {
    let with = |name: &str, value: Value| {
        let mut defaults = SessionSettings::new();
        defaults.custom.insert(name.into(), value);
        server(Arc::new(InMemoryStore::new())).defaults(defaults).build()
    };
    assert!(with("ledger", json!("main")).is_ok());
    for (built, expected) in [
        (with("region", json!("mars")), "`region` must be one of: eu, us"),
        (with("tenant", json!("x")), "`tenant` is not one of the server's"),
        (
            server(Arc::new(InMemoryStore::new()))
                .setting(CustomSetting::text("region", "Twice"))
                .build(),
            "`region` is added twice",
        ),
    ] {
        let why = built.err().map(|why| why.to_string()).unwrap_or_default();
        assert!(why.contains(expected), "{why}");
    }
}

/// C302: an agent that reads a setting that the app does not have cannot be built.
#[tokio::test(start_paused = true)]
async fn a_setting_that_the_app_does_not_have_cannot_be_read() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let server = Server::builder(store.clone()).agent("payer", payer).build().unwrap();
    let (status, refused) = Api::serving(store, server).post("/api/sessions", json!({})).await;
    assert_eq!((status, &refused["error"]["kind"]), (500, &json!("internal")), "{refused}");
}
