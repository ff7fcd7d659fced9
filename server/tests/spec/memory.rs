//! Facts that outlive sessions, over HTTP.

use std::time::Duration;

use loopwright_core::model::ModelErrorKind;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{GenericAgent, Principal};
use loopwright_memory::long_term::{LongTerm, Scope};
use loopwright_patterns::PiPattern;
use loopwright_server::{Caller, ServerBuilder};
use serde_json::{Value, json};

use crate::api::{Api, scripted};

fn texts(page: &Value) -> Vec<&str> {
    page["facts"].as_array().unwrap().iter().map(|fact| fact["text"].as_str().unwrap()).collect()
}

/// Makes the user `ann` the caller of all requests.
fn as_ann(builder: ServerBuilder) -> ServerBuilder {
    builder.principal(Principal::new("ann"))
}

/// C197: A fact that a session stores is used in another one, and can be seen and deleted. A fact
/// of another principal is neither used, seen nor deleted.
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
    let api = Api::remembering(&memory, model.clone(), as_ann);
    let approve = json!({ "approve": ["remember_fact"] });
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
    let api = Api::remembering(&memory, ScriptedModel::new([]), as_ann);
    let first = api.get("/api/memory?limit=2").await;
    assert_eq!(texts(&first), ["She paints.", "She sails on the lake."]);
    let rest = api.get(&format!("/api/memory?limit=2&after={}", first["after"])).await;
    assert_eq!((texts(&rest), rest.get("after")), (vec!["She has a boat."], None));
    let whole = api.get("/api/memory?limit=3").await;
    assert_eq!((texts(&whole).len(), whole.get("after")), (3, None));
    let found = api.get("/api/memory?query=sailing").await;
    assert_eq!(texts(&found), ["She sails on the lake."]);
    for query in ["limit=0", "limit=1001", "limit=x", "after=-1", "after=9007199254740992"] {
        assert_eq!(api.call("GET", &format!("/api/memory?{query}"), None).await.0, 400, "{query}");
    }
    assert_eq!(api.call("DELETE", "/api/memory", None).await, (200, json!({ "facts": 3 })));
    assert_eq!(api.call("DELETE", "/api/memory", None).await, (200, json!({ "facts": 0 })));
    assert_eq!(api.call("DELETE", "/api/memory/cat", None).await.0, 404);
}

/// C197: Without long-term memory there are no facts, and the error explains how to set it up.
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

/// C199: A layer of the host names each client. Without it nobody sees facts, and nothing in a
/// request changes that.
#[tokio::test]
async fn each_user_has_their_own_facts() {
    let folder = tempfile::tempdir().unwrap();
    let memory = LongTerm::open(folder.path().join("facts.db")).unwrap();
    memory.remember(&Scope::user("ann"), "Ann's cat is called Minka.").await.unwrap();
    memory.remember(&Scope::user("bob"), "Bob's cat is called Tom.").await.unwrap();
    let model = ScriptedModel::new(["1", "2", "3"].map(Script::text));
    let api = Api::remembering(&memory, model.clone(), |builder| builder);
    let id = api.session(json!({ "principal": "bob" })).await;
    let admin = |name: &str| api.as_caller(Caller::new(Principal::new(name)).role("admin"));
    let mut after = None;
    for (client, seen) in [(admin("ann"), "Minka"), (admin("bob"), "Tom")] {
        assert!(texts(&client.get("/api/memory?principal=bob").await)[0].contains(seen));
        client.say(&id, "What is the cat called?").await;
        let frames = client.run(&id, after).await;
        after = frames.iter().rev().find_map(|frame| frame.id);
        let request = model.requests().pop().unwrap();
        let facts = request.messages.iter().map(|message| message.text());
        let facts: Vec<String> = facts.filter(|text| text.contains("recalled_facts")).collect();
        assert!(facts.len() == 1 && facts[0].contains(seen), "{facts:?}");
    }
    for (method, path) in
        [("GET", "/api/memory"), ("DELETE", "/api/memory"), ("DELETE", "/api/memory/1")]
    {
        assert_eq!(api.call(method, path, None).await.0, 403, "{method} {path}");
    }
    assert_eq!(memory.forget_all(&Scope::user("ann")).await.unwrap(), 1);
}

/// C199: A session works for its owner, and without an owner for the server's principal. An empty
/// name names nobody.
#[tokio::test]
async fn a_session_uses_the_facts_of_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let memory = LongTerm::open(folder.path().join("facts.db")).unwrap();
    memory.remember(&Scope::user("ann"), "The cat is called Minka.").await.unwrap();
    memory.remember(&Scope::user("bob"), "The cat is called Tom.").await.unwrap();
    let model = ScriptedModel::new(["1", "2", "3"].map(Script::text));
    let api = Api::remembering(&memory, model.clone(), as_ann);
    for (client, seen) in [(api.clone(), "Minka"), (api.as_user("bob"), "Tom")] {
        assert!(texts(&client.get("/api/memory").await)[0].contains(seen));
        let id = client.session(json!({})).await;
        client.say(&id, "What is the cat called?").await;
        client.run(&id, None).await;
        let request = model.requests().pop().unwrap();
        let facts = request.messages.iter().map(|message| message.text());
        let facts: Vec<String> = facts.filter(|text| text.contains("recalled_facts")).collect();
        assert!(facts.len() == 1 && facts[0].contains(seen), "{facts:?}");
    }
}

/// Turns on the distillation of facts at the end of sessions, for the user `ann`.
fn distilling(builder: ServerBuilder) -> ServerBuilder {
    let mut settings = scripted();
    settings.distil_at_end = Some(true);
    as_ann(builder).defaults(settings)
}

fn distilled(fact: &str) -> Script {
    Script::text(&json!({ "facts": [fact] }).to_string())
}

const UNTIL_CLOSED: Duration = Duration::from_secs(250);

/// C267: If the settings ask for it, facts are distilled once from a session that is closed because
/// nobody uses it. A server that shuts down distils open sessions. The facts belong to the
/// session's principal, and another session uses them.
#[tokio::test(start_paused = true)]
async fn facts_are_distilled_when_a_session_ends() {
    let folder = tempfile::tempdir().unwrap();
    let memory = LongTerm::open(folder.path().join("facts.db")).unwrap();
    let replies = [
        Script::text("What a name."),
        distilled("The user's cat is called Minka."),
        Script::text("Minka."),
        distilled("The user asks about cats."),
    ];
    let model = ScriptedModel::new(replies);
    let api = Api::remembering(&memory, model.clone(), distilling);
    let first = api.session(json!({})).await;
    api.say(&first, "My cat is called Minka.").await;
    api.run(&first, None).await;
    for _ in 0..2 {
        tokio::time::sleep(UNTIL_CLOSED).await;
        let metrics = api.get("/metrics").await;
        assert!(metrics.as_str().unwrap().contains("loopwright_live_sessions 0\n"), "{metrics}");
        assert_eq!(model.requests().len(), 2, "one request, however often it ends");
        drop(api.events(&first, None).await); // opens it again
    }
    let ann = [Scope::user("ann")];
    assert_eq!(texts(&api.get("/api/memory").await), ["The user's cat is called Minka."]);
    assert!(memory.facts(&[Scope::user("bob")], 0, 9).await.unwrap().is_empty());

    let second = api.session(json!({})).await;
    api.say(&second, "What is my cat called?").await;
    api.run(&second, None).await;
    let sent = model.requests().pop().unwrap();
    assert!(sent.messages[0].text().contains("The user's cat is called Minka."));
    api.drain(Duration::from_secs(10)).await;
    assert_eq!(memory.facts(&ann, 0, 9).await.unwrap().len(), 2);
    assert_eq!(model.requests().len(), 4);
}

/// C267: Without the setting, nothing is sent when a session ends, and a prompt with the command
/// distils facts. A failed request is not repeated before the session is used again.
#[tokio::test(start_paused = true)]
async fn facts_are_distilled_on_request_only_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let memory = LongTerm::open(folder.path().join("facts.db")).unwrap();
    let replies = [Script::text("What a name."), distilled("The user's cat is called Minka.")];
    let model = ScriptedModel::new(replies);
    let api = Api::remembering(&memory, model.clone(), as_ann);
    let id = api.session(json!({})).await;
    api.say(&id, "My cat is called Minka.").await;
    api.run(&id, None).await;
    tokio::time::sleep(UNTIL_CLOSED).await;
    assert_eq!(model.requests().len(), 1);
    let status = api.get(&format!("/api/sessions/{id}")).await;
    assert_eq!(status["commands"], json!(["/plan", "/memory distil"]));
    api.say(&id, "/memory distil").await;
    while memory.facts(&[Scope::user("ann")], 0, 9).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    api.drain(Duration::from_secs(10)).await;
    assert_eq!(model.requests().len(), 2);

    let busy = Script::error(ModelErrorKind::Auth, "no key");
    let model = ScriptedModel::new([Script::text("1"), busy]);
    let api = Api::remembering(&memory, model.clone(), distilling);
    let id = api.session(json!({})).await;
    api.say(&id, "My boat is blue.").await;
    api.run(&id, None).await;
    tokio::time::sleep(3 * UNTIL_CLOSED).await;
    assert_eq!(model.requests().len(), 2);
    let metrics = api.get("/metrics").await;
    assert!(metrics.as_str().unwrap().contains("loopwright_live_sessions 0\n"), "{metrics}");
}

/// C268: The list of agents has the commands of each agent, and whether there are facts about the
/// caller. An app's agent has no commands by default.
#[tokio::test]
async fn the_list_of_agents_says_what_they_carry_out() {
    let folder = tempfile::tempdir().unwrap();
    let memory = LongTerm::open(folder.path().join("facts.db")).unwrap();
    let api = Api::remembering(&memory, ScriptedModel::new([]), as_ann);
    let list = api.get("/api/agents").await;
    assert_eq!(list["agents"][0]["commands"], json!(["/plan", "/memory distil"]));
    assert_eq!(list["memory"], json!(true));
    let list = Api::new([]).get("/api/agents").await;
    assert_eq!(list["agents"][0]["commands"], json!(["/plan"]));
    assert_eq!(list["memory"], json!(false));
    let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
    let api = Api::running(agent);
    assert_eq!(api.get("/api/agents").await["agents"][0]["commands"], json!([]));
    let id = api.session(json!({})).await;
    assert_eq!(api.get(&format!("/api/sessions/{id}")).await["commands"], json!([]));
}
