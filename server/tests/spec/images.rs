//! Images in messages, and the changes that pending calls would make.

use std::sync::Arc;

use loopwright_core::log::InMemoryStore;
use loopwright_core::message::Content;
use loopwright_core::model::{ModelError, ModelInfo};
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{ChatModel, SessionStore};
use loopwright_host::{
    AgentRejection, CodingAgent, LlmConfig, Models, OperatorRules, SessionSettings,
};
use loopwright_server::Server;
use serde_json::{Value, json};

use crate::api::Api;

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA\
                   AABJRU5ErkJggg==";

struct Seeing(ScriptedModel);

impl Models for Seeing {
    fn named(&self, settings: &SessionSettings) -> Result<Box<dyn ChatModel>, ModelError> {
        let mut info = ModelInfo::new("a/b");
        info.images = Some(settings.model.as_deref() == Some("a/seeing"));
        Ok(Box::new(self.0.clone().info(info)))
    }

    fn configured(
        &self,
        _: &LlmConfig,
        _: &OperatorRules,
    ) -> Result<Box<dyn ChatModel>, AgentRejection> {
        Err(AgentRejection::bad_request("", "None."))
    }
}

async fn prompt(api: &Api, session: &str, body: Value) -> (u16, Value) {
    api.post(&format!("/api/sessions/{session}/prompt"), body).await
}

/// C251: Images of a message are checked, stored, returned, and sent to the model. A model that
/// takes no images is sent none.
#[tokio::test(start_paused = true)]
async fn images_reach_the_model() {
    let model = ScriptedModel::new([Script::text("A sheep."), Script::text("Another one.")]);
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let server = Server::builder(store.clone())
        .models(Seeing(model.clone()))
        .agent("coding", CodingAgent::builder().build().unwrap());
    let api = Api::serving(store, server.build().unwrap());
    let id = api.session(json!({ "model": "a/seeing" })).await;
    let image = json!({ "media_type": "image/png", "data": PNG });
    let (status, sent) =
        prompt(&api, &id, json!({ "message": "What is it?", "images": [image] })).await;
    assert_eq!(status, 202, "{sent}");
    api.run(&id, None).await;
    let message = &api.get(&format!("/api/sessions/{id}/messages")).await["messages"][0];
    let expected = json!([
        { "type": "text", "text": "What is it?" },
        { "type": "image", "media_type": "image/png", "data": PNG },
    ]);
    assert_eq!(message["content"], expected);
    let requests = model.requests();
    let last = requests[0].messages.iter().next().unwrap();
    let content = serde_json::to_value(last).unwrap()["content"].clone();
    assert_eq!(content, json!([Content::text("What is it?"), Content::image("image/png", PNG)]));
    assert_eq!(prompt(&api, &id, json!({ "images": [image] })).await.0, 202, "no text");

    let images = vec![image.clone(); 11];
    let cases = [
        (json!({ "images": images }), "/images"),
        (json!({ "images": [] }), "/message"),
        (json!({ "message": " ", "images": [image] }), "/message"),
        (json!({ "images": [{ "media_type": "image/png", "data": "?" }] }), "/images/0/data"),
        (json!({ "images": [{ "media_type": "image/png", "data": "AAAA" }] }), "/images/0/data"),
        (json!({ "images": [{ "media_type": "image/gif", "data": PNG }] }), "/images/0/media_type"),
        (json!({ "images": [{ "media_type": "text/html", "data": PNG }] }), "/images/0/media_type"),
    ];
    for (body, path) in cases {
        let (status, refused) = prompt(&api, &id, body).await;
        assert_eq!((status, &refused["error"]["path"]), (400, &json!(path)), "{refused}");
    }
    let blind = api.session(json!({ "model": "a/blind" })).await;
    for route in ["prompt", "steer", "follow-up"] {
        let path = format!("/api/sessions/{blind}/{route}");
        let (status, refused) = api.post(&path, json!({ "images": [image] })).await;
        let why = refused["error"]["message"].as_str().unwrap();
        assert!(status == 400 && why.contains("takes no images"), "{route}: {status} {why}");
    }
}

/// C252: The change of a pending call can be seen before the decision, or the reason that there is
/// no preview.
#[tokio::test(start_paused = true)]
async fn a_pending_change_has_a_preview() {
    let edit = |old: &str| json!({ "path": "notes.txt", "old_string": old, "new_string": "Ten" });
    let api = Api::new([Script::calls([
        ("w", "write_file", json!({ "path": "new.txt", "content": "<b>\n" })),
        ("e", "edit_file", edit("Nine")),
        ("f", "edit_file", edit("Eleven")),
        ("x", "execute_command", json!({ "command": "true" })),
    ])]);
    let id = api.session(json!({})).await;
    api.say(&id, "Write.").await;
    api.run(&id, None).await;
    let actions = api.get(&format!("/api/sessions/{id}/actions")).await["actions"].clone();
    let preview = async |call: &str| {
        let path = format!("/api/sessions/{id}/actions/{call}/preview");
        let preview = api.get(&path).await;
        let mut actions = actions.as_array().unwrap().iter();
        let action = actions.find(|action| action["call"] == call).unwrap();
        assert_eq!(preview["digest"], action["digest"]);
        (preview["diff"].clone(), preview["problem"].clone())
    };
    let written = json!("--- new.txt\n+++ new.txt\n@@ -0,0 +1 @@\n+<b>\n");
    assert_eq!(preview("w").await, (written, Value::Null));
    let edited = json!("--- notes.txt\n+++ notes.txt\n@@ -1 +1 @@\n-Nine sheep.\n+Ten sheep.\n");
    assert_eq!(preview("e").await, (edited, Value::Null));
    let (diff, problem) = preview("f").await;
    assert!(diff.is_null() && problem.as_str().unwrap().contains("cannot be previewed"));
    assert_eq!(preview("x").await, (Value::Null, Value::Null));
    let path = format!("/api/sessions/{id}/actions/none/preview");
    assert_eq!(api.call("GET", &path, None).await.0, 404);
    assert!(!api.root.path().join("new.txt").exists());
}
