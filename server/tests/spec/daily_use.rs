//! The daily budget after a restart, and on several servers with one store.

use std::path::Path;
use std::sync::Arc;

use loopwright_core::limits::Budget;
use loopwright_core::log::InMemoryStore;
use loopwright_core::message::Usage;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{GenericAgent, SessionStore};
use loopwright_memory::{Jsonl, Sqlite};
use loopwright_patterns::PiPattern;
use loopwright_server::Server;
use serde_json::json;

use crate::api::Api;

/// Returns a server whose users may use 20 tokens a day, two replies of its model.
fn server(store: Arc<dyn SessionStore>, directory: &Path) -> Api {
    let mut usage = Usage::default();
    (usage.input, usage.output) = (9, 1);
    let model = ScriptedModel::new((0..9).map(|_| Script::text("Hi.").usage(usage)));
    let agent = GenericAgent::builder(model, PiPattern).build().unwrap();
    let server = Server::builder(store.clone())
        .agent("agent", agent)
        .daily_budget(Budget::default().tokens(20))
        .daily_use(directory);
    Api::serving(store, server.build().unwrap())
}

/// Sends a prompt of a new session, and deletes the session after its run. Returns the status.
async fn use_and_delete(ann: &Api) -> u16 {
    let id = ann.session(json!({})).await;
    let prompt = json!({ "message": "Hello" });
    let (status, _) = ann.post(&format!("/api/sessions/{id}/prompt"), prompt).await;
    if status == 202 {
        ann.run(&id, None).await;
        while ann.call("DELETE", &format!("/api/sessions/{id}"), None).await.0 == 409 {
            tokio::task::yield_now().await; // the run is about to end
        }
    }
    status
}

async fn chat(ann: &Api) -> u16 {
    ann.post("/api/agent-chat", json!({ "message": "Hello", "workDir": "." })).await.0
}

/// C307: The usage of a deleted session and of a request without a session counts after a restart,
/// and on another server with the store.
#[tokio::test]
async fn the_use_of_a_day_survives_a_restart() {
    for is_sqlite in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (file, directory) = (folder.path().join("sessions"), folder.path().join("use"));
        let open = || -> Arc<dyn SessionStore> {
            match is_sqlite {
                true => Arc::new(Sqlite::open(&file).unwrap()),
                false => Arc::new(Jsonl::open(&file).unwrap()),
            }
        };
        let first = server(open(), &directory);
        assert_eq!(use_and_delete(&first.as_user("ann")).await, 202);
        drop(first);
        let second = server(open(), &directory);
        assert_eq!(chat(&second.as_user("ann")).await, 200);
        let line = || {
            std::fs::read_dir(&directory)
                .unwrap()
                .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap().lines().count())
        };
        while line().sum::<usize>() < 2 {
            tokio::task::yield_now().await; // it is added when the run has ended
        }
        let third = server(open(), &directory);
        for api in [&second, &third] {
            let ann = api.as_user("ann");
            assert_eq!(chat(&ann).await, 429, "10 of a session, 10 of a request");
            assert_eq!(use_and_delete(&ann).await, 429);
            assert_eq!(use_and_delete(&api.as_user("bob")).await, 202, "bob's own");
        }
    }
}

/// C307: A session counts once, on the server that has deleted it and on a server that has read its
/// log before.
#[tokio::test]
async fn a_deleted_session_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let [one, two] = [(); 2].map(|()| server(store.clone(), folder.path()));
    let (ann, at_two) = (one.as_user("ann"), two.as_user("ann"));
    let id = ann.session(json!({})).await;
    ann.say(&id, "Hello").await;
    ann.run(&id, None).await;
    // The check of a prompt, which is refused for another reason, reads the logs.
    let prompt = format!("/api/sessions/{id}/prompt");
    assert_eq!(at_two.post(&prompt, json!({ "message": " " })).await.0, 400);
    while ann.call("DELETE", &format!("/api/sessions/{id}"), None).await.0 == 409 {
        tokio::task::yield_now().await; // the run is about to end
    }
    for api in [&ann, &at_two] {
        let id = api.session(json!({})).await;
        let prompt = format!("/api/sessions/{id}/prompt");
        let empty = api.post(&prompt, json!({ "message": " " })).await;
        assert_eq!(empty.0, 400, "10 of 20 tokens: {empty:?}");
    }
    assert_eq!(use_and_delete(&at_two).await, 202);
    assert_eq!(use_and_delete(&ann).await, 429);
}

/// C307: An unreadable file is an error, not a day without usage.
#[tokio::test]
async fn a_use_that_cannot_be_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let api = server(Arc::new(InMemoryStore::new()), &file.join("below"));
    assert_eq!(chat(&api.as_user("ann")).await, 500);
    assert_eq!(chat(&api).await, 200, "the operator has no budget");
}
