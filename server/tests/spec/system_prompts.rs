//! System prompts that a server computes.

use std::sync::Arc;

use loopwright_core::log::InMemoryStore;
use loopwright_core::model::ModelError;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{AgentBuilder, ChatModel, GenericAgent, SessionStore};
use loopwright_host::{
    AgentRejection, AgentSetup, CodingAgent, CustomSetting, LlmConfig, Models, OperatorRules,
    SessionSettings,
};
use loopwright_patterns::PiPattern;
use loopwright_server::Server;
use serde_json::{Value, json};

use crate::api::{Api, scripted};

/// A model that replies with the system prompt.
struct Echo;

fn echo() -> Box<dyn ChatModel> {
    let model = ScriptedModel::new([]);
    Box::new(model.reply_with(|request| Script::text(&request.system)))
}

impl Models for Echo {
    fn named(&self, _: &SessionSettings) -> Result<Box<dyn ChatModel>, ModelError> {
        Ok(echo())
    }

    fn configured(
        &self,
        _: &LlmConfig,
        _: &OperatorRules,
    ) -> Result<Box<dyn ChatModel>, AgentRejection> {
        Ok(echo())
    }
}

fn support(setup: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
    let system = setup.system().unwrap_or_default();
    Ok(GenericAgent::builder(setup.model()?, PiPattern).system(system))
}

/// Returns an agent that does not ask for the system prompt.
fn fixed(setup: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
    Ok(GenericAgent::builder(setup.model()?, PiPattern).system("Fixed."))
}

/// Returns a prompt with the setting of the app, the principal, the model, and the prompt itself.
fn prompt(setup: &AgentSetup) -> String {
    assert!(setup.model().is_ok());
    let own = setup.system().unwrap_or("no prompt");
    let user = setup.principal().map_or("nobody", |principal| principal.as_str());
    let region: String = setup.custom("region").unwrap_or_default();
    format!("{user} in {region}, {own}, {{workDir}}.")
}

fn api() -> Api {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let region = CustomSetting::text("region", "The region").default("eu");
    let server = Server::builder(store.clone())
        .models(Echo)
        .defaults(scripted())
        .agent("support", support)
        .agent("fixed", fixed)
        .agent("coding", CodingAgent::builder().any_directory().build().unwrap())
        .agent("own", CodingAgent::builder().any_directory().system("Own.").build().unwrap())
        .setting(region)
        .system(prompt);
    Api::serving(store, server.build().unwrap())
}

async fn system_prompt(api: &Api, settings: Value) -> String {
    let id = api.session(settings).await;
    api.say(&id, "go").await;
    let events = api.run(&id, None).await;
    events.last().unwrap().data["text"].as_str().unwrap().to_owned()
}

/// C305: A function computes the system prompt of a session from its settings and its principal. It
/// is not called for a session with a prompt of its own.
#[tokio::test(start_paused = true)]
async fn a_function_computes_the_system_prompt() {
    let api = api();
    let ann = api.as_user("ann");
    let us = json!({ "custom": { "region": "us" } });
    for (api, settings, expected) in [
        (&api, json!({}), "nobody in eu, no prompt, {workDir}."),
        (&ann, us, "ann in us, no prompt, {workDir}."),
        (&ann, json!({ "system": "Be brief." }), "Be brief."),
        (&ann, json!({ "agent": "fixed" }), "Fixed."),
        (&ann, json!({ "agent": "own" }), "Own."),
    ] {
        assert_eq!(system_prompt(api, settings.clone()).await, expected, "{settings}");
    }
    let refused = json!({ "agent": "fixed", "system": "Be brief." });
    let (status, refused) = api.post("/api/sessions", refused).await;
    assert_eq!((status, &refused["error"]["path"]), (400, &json!("/system")));
}

/// C305: A coding agent without a prompt of its own uses its server's, in its directory.
#[tokio::test(start_paused = true)]
async fn a_coding_agent_has_the_system_prompt_of_its_server() {
    let (api, dir) = (api(), tempfile::tempdir().unwrap());
    let root = dir.path().canonicalize().unwrap();
    let settings = json!({ "agent": "coding", "workDir": root });
    let expected = format!("nobody in eu, no prompt, {}.", root.display());
    assert_eq!(system_prompt(&api, settings).await, expected);
}
