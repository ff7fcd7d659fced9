//! Facts that outlive sessions, over HTTP.

use loopwright_core::GenericAgent;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_memory::long_term::{LongTerm, Scope};
use loopwright_patterns::PiPattern;
use loopwright_server::Server;
use serde_json::{Value, json};

use crate::api::Api;

fn texts(page: &Value) -> Vec<&str> {
    page["facts"].as_array().unwrap().iter().map(|fact| fact["text"].as_str().unwrap()).collect()
}

/// C197: A fact that a session stores is used in another one, and can be seen and deleted; that of
/// another principal is neither used, seen nor deleted.
#[tokio::test]
async fn facts_are_used_in_other_sessions_seen_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let memory = LongTerm::open(folder.path().join("facts.db")).unwrap();
    let bob = memory.remember(&Scope::user("bob"), "Bob's cat is called Tom.").await.unwrap();
    let fact = r#"{"fact": "The user's cat is called Minka."}"#;
    let replies = [
        Script::new().call("a", "remember_fact", fact),
        Script::text("I will remember it."),
        Script::text("Minka."),
    ];
    let model = ScriptedModel::new(replies);
    let api = Api::remembering(&memory, "ann", model.clone());
    let approve = json!({ "autoApprove": ["remember_fact"] });
    let first = api.session(approve).await;
    let mut reader = api.events(&first, None).await;
    api.say(&first, "My cat is called Minka.").await;
    reader.until("agent_end").await;

    let second = api.session(json!({})).await;
    let mut reader = api.events(&second, None).await;
    api.say(&second, "What is my cat called?").await;
    reader.until("agent_end").await;
    let last = model.requests().pop().unwrap();
    let sent: String = last.messages.iter().map(|message| message.text()).collect();
    assert!(sent.contains("Minka") && !sent.contains("Tom"), "{sent}");

    let page = api.get("/api/memory").await;
    assert_eq!(texts(&page), ["The user's cat is called Minka."]);
    assert_eq!(page["facts"][0]["session"], json!(first));
    assert_eq!(page.get("after"), None);
    let id = page["facts"][0]["id"].as_u64().unwrap();
    assert_eq!(api.call("DELETE", &format!("/api/memory/{}", bob.id), None).await.0, 404);
    assert_eq!(api.call("DELETE", &format!("/api/memory/{id}"), None).await.0, 204);
    assert_eq!(api.call("DELETE", &format!("/api/memory/{id}"), None).await.0, 404);
    assert_eq!(texts(&api.get("/api/memory").await), Vec::<&str>::new());
    assert_eq!(memory.facts(&[Scope::user("bob")], 0, 9).await.unwrap(), [bob]);
}

/// C197: Facts are listed in pages, and found by words.
#[tokio::test]
async fn facts_are_listed_in_pages_and_found_by_words() {
    let folder = tempfile::tempdir().unwrap();
    let memory = LongTerm::open(folder.path().join("facts.db")).unwrap();
    let ann = Scope::user("ann");
    for fact in ["She paints.", "She sails on the lake.", "She has a boat."] {
        memory.remember(&ann, fact).await.unwrap();
    }
    let api = Api::remembering(&memory, "ann", ScriptedModel::new([]));
    let first = api.get("/api/memory?limit=2").await;
    assert_eq!(texts(&first), ["She paints.", "She sails on the lake."]);
    let rest = api.get(&format!("/api/memory?limit=2&after={}", first["after"])).await;
    assert_eq!((texts(&rest), rest.get("after")), (vec!["She has a boat."], None));
    let found = api.get("/api/memory?query=sailing").await;
    assert_eq!(texts(&found), ["She sails on the lake."]);
    for query in ["limit=0", "limit=1001", "limit=x", "after=-1"] {
        assert_eq!(api.call("GET", &format!("/api/memory?{query}"), None).await.0, 400, "{query}");
    }
    assert_eq!(api.call("DELETE", "/api/memory", None).await, (200, json!({ "facts": 3 })));
    assert_eq!(api.call("DELETE", "/api/memory", None).await, (200, json!({ "facts": 0 })));
    assert_eq!(api.call("DELETE", "/api/memory/cat", None).await.0, 404);
}

/// C197: Without long-term memory there are no facts, and the error says how to have them.
#[tokio::test]
async fn without_memory_there_are_no_facts() {
    let api = Api::new([]);
    for (method, path) in
        [("GET", "/api/memory"), ("DELETE", "/api/memory"), ("DELETE", "/api/memory/1")]
    {
        let (status, body) = api.call(method, path, None).await;
        let why = body["error"]["message"].as_str().unwrap();
        assert!(status == 404 && why.contains("--memory"), "{method} {path}: {status} {why}");
    }
}

/// A memory whose facts belong to nobody in particular is refused.
#[test]
fn a_server_with_memory_needs_a_principal() {
    let folder = tempfile::tempdir().unwrap();
    let memory = LongTerm::open(folder.path().join("facts.db")).unwrap();
    let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
    let why = Server::builder(agent).long_term(memory).build().err().unwrap();
    assert!(why.to_string().contains("ServerBuilder::principal"), "{why}");
}
