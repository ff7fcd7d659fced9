//! Live sessions: their life, their input, decisions, and the process that has them open.

use std::sync::Arc;
use std::time::Duration;

use loopwright_core::log::InMemoryStore;
use loopwright_core::testing::{Gate, Script};
use loopwright_core::{Principal, SessionStore};
use loopwright_memory::Sqlite;
use loopwright_server::Caller;
use serde_json::{Value, json};

use crate::api::Api;

fn writes() -> Script {
    Script::new().call("a", "write_file", r#"{"path": "new.txt", "content": "ten"}"#)
}

/// A session from its beginning to its end, in RAM and on disk.
#[tokio::test(start_paused = true)]
async fn a_session_lives_from_its_beginning_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let disk =
        Arc::new(Sqlite::open(dir.path().join("sessions.db")).unwrap()) as Arc<dyn SessionStore>;
    for store in [Arc::new(InMemoryStore::new()), disk] {
        let api = Api::over(store, [Script::text("Nine.")]);
        let settings = json!({ "name": "Sheep", "model": "a/b", "system": "Count." });
        let id = api.session(settings.clone()).await;
        let mut stored = settings;
        stored["agent"] = json!("coding");
        assert_eq!(api.get(&format!("/api/sessions/{id}")).await["session"]["settings"], stored);
        api.say(&id, "How many sheep?\nReally?").await;
        let frames = api.run(&id, None).await;
        assert_eq!(frames.last().unwrap().data["text"], "Nine.");
        let listed = api.get("/api/sessions").await;
        assert_eq!(
            (&listed["sessions"][0]["id"], &listed["sessions"][0]["title"]),
            (&json!(id), &json!("How many sheep?"))
        );
        let body = api.get(&format!("/api/sessions/{id}/messages")).await;
        let roles: Vec<&Value> =
            body["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
        assert_eq!(roles, ["user", "assistant"]);
        assert_eq!(api.call("DELETE", &format!("/api/sessions/{id}"), None).await.0, 204);
        for (method, path) in [
            ("GET", ""),
            ("GET", "/messages"),
            ("GET", "/actions"),
            ("DELETE", ""),
            ("POST", "/abort"),
        ] {
            let (status, refused) =
                api.call(method, &format!("/api/sessions/{id}{path}"), None).await;
            assert_eq!(
                (status, &refused["error"]["kind"]),
                (404, &json!("not_found")),
                "{method} {path}: {refused}"
            );
        }
        assert_eq!(api.try_events(&id, None).await.err().unwrap().0, 404);
        assert_eq!(api.get("/api/sessions").await, json!({ "sessions": [] }));
    }
}

/// A session is not deleted during a run. Its readers' streams end when it is deleted.
#[tokio::test(start_paused = true)]
async fn a_session_is_not_deleted_under_a_run() {
    let gate = Gate::new();
    let api = Api::new([Script::new().gate(&gate).say("ok")]);
    let id = api.session(json!({})).await;
    let mut reader = api.events(&id, None).await;
    api.say(&id, "go").await;
    reader.until("message_start").await;
    let (status, refused) = api.call("DELETE", &format!("/api/sessions/{id}"), None).await;
    assert_eq!((status, &refused["error"]["kind"]), (409, &json!("run_in_progress")), "{refused}");
    gate.open();
    reader.until("agent_end").await;
    assert_eq!(api.call("DELETE", &format!("/api/sessions/{id}"), None).await.0, 204);
    assert_eq!(reader.next().await, None);
}

/// C103: Of two decisions on one action, the first counts. The error of the other one contains the
/// first and its author.
#[tokio::test(start_paused = true)]
async fn of_two_decisions_the_first_counts() {
    let api = Api::new([writes(), Script::text("Done.")]);
    let id = api.session(json!({})).await;
    api.say(&id, "Write.").await;
    let frames = api.run(&id, None).await;
    assert_eq!(frames.last().unwrap().data["end"], "awaiting_action");
    let actions = api.get("/api/actions").await;
    let action = &actions["actions"][0];
    assert_eq!((&action["session"], &action["name"]), (&json!(id), &json!("write_file")));
    assert_eq!(api.get(&format!("/api/sessions/{id}/actions")).await, actions);
    let path = format!("/api/sessions/{id}/actions/{}", action["call"].as_str().unwrap());
    let digest = &action["digest"];
    let body =
        |decision: &str| json!({ "digest": digest, "decision": decision, "by": "someone else" });
    let wrong = json!({ "digest": "0", "decision": "approve" });
    assert_eq!(api.post(&path, wrong).await.0, 409);
    let edit = json!({ "digest": digest, "decision": "approve_with", "arguments": { "path": 7 } });
    let (status, refused) = api.post(&path, edit).await;
    assert_eq!((status, &refused["error"]["path"]), (400, &json!("/arguments")), "{refused}");
    for (decision, field) in [("approve_with", "/arguments"), ("provide", "/data")] {
        let lacks = json!({ "digest": digest, "decision": decision });
        assert_eq!(api.post(&path, lacks).await.1["error"]["path"], field);
    }
    for unknown in ["answer", "result"] {
        let unknown = json!({ "digest": digest, "decision": unknown, "data": 1, "content": "x" });
        assert_eq!(api.post(&path, unknown).await.1["error"]["path"], "/decision");
    }
    let input = json!({ "digest": digest, "decision": "provide", "data": 1 });
    assert_eq!(api.post(&path, input).await.1["error"]["path"], "/decision", "it asks for none");
    let approver = |name| api.as_caller(Caller::new(Principal::new(name)).role("approver"));
    let (ann, bob) = (approver("Ann"), approver("Bob"));
    let (first, second) =
        tokio::join!(ann.post(&path, body("deny")), bob.post(&path, body("approve")));
    assert_eq!(first.0, 200, "{first:?}");
    assert_eq!((second.0, &second.1["error"]["kind"]), (409, &json!("conflict")), "{second:?}");
    let why = second.1["error"]["message"].as_str().unwrap();
    assert!(why.contains("`deny` by Ann"), "{why}");
    let rest = api.run(&id, frames.iter().rev().find_map(|frame| frame.id)).await;
    assert_eq!(rest.last().unwrap().data["end"], "done");
    assert_eq!(
        rest.iter().find(|frame| frame.event == "tool_execution_end").unwrap().data["status"],
        "denied"
    );
    assert_eq!(api.get("/api/actions").await, json!({ "actions": [] }));
    let (status, refused) =
        api.post(&format!("/api/sessions/{id}/actions/nothing"), body("approve")).await;
    assert_eq!(status, 404, "{refused}");
}

/// C103: Each decision takes effect, and survives a restart in between.
#[tokio::test(start_paused = true)]
async fn each_decision_does_what_it_says() {
    let cases = [
        (json!({ "decision": "approve" }), "ok", "Created `new.txt`"),
        (
            json!({
                "decision": "approve_with",
                "arguments": { "path": "other.txt", "content": "ten" },
            }),
            "ok",
            "other.txt",
        ),
        (json!({ "decision": "deny", "reason": "not now" }), "denied", "not now"),
        (json!({ "decision": "provide", "content": "done by hand" }), "ok", "done by hand"),
        (
            json!({
                "decision": "provide",
                "content": [{ "type": "text", "text": "in parts" }],
                "data": { "exit_code": 0 },
            }),
            "ok",
            "in parts",
        ),
    ];
    for (mut body, status, text) in cases {
        let api = Api::new([writes()]);
        let id = api.session(json!({})).await;
        api.say(&id, "Write.").await;
        let frames = api.run(&id, None).await;
        let api = api.killed(&id, [Script::text("Done.")]).await;
        let action = api.get("/api/actions").await["actions"][0].clone();
        body["digest"] = action["digest"].clone();
        let path = format!("/api/sessions/{id}/actions/{}", action["call"].as_str().unwrap());
        let (code, accepted) = api.post(&path, body.clone()).await;
        assert_eq!(code, 200, "{accepted}");
        let rest = api.run(&id, frames.iter().rev().find_map(|frame| frame.id)).await;
        let end = rest.iter().find(|frame| frame.event == "tool_execution_end").unwrap();
        assert_eq!(end.data["status"], status, "{body}: {end:?}");
        assert!(end.data["result"].to_string().contains(text), "{body}: {end:?}");
        if body["decision"] == "provide" {
            let details = end.data["result"].get("details").cloned().unwrap_or_default();
            assert_eq!(details, body["data"], "{end:?}");
        }
    }
}

/// At most 32 requests are queued. A repeated id is accepted and changes nothing.
#[tokio::test(start_paused = true)]
async fn requests_wait_their_turn_and_are_bounded() {
    let gate = Gate::new();
    let api = Api::new(
        std::iter::once(Script::new().gate(&gate).say("first"))
            .chain((0..32).map(|_| Script::text("ok"))),
    );
    let id = api.session(json!({})).await;
    let (mut reader, prompt) = (api.events(&id, None).await, format!("/api/sessions/{id}/prompt"));
    api.say(&id, "first").await;
    reader.until("message_start").await;
    for i in 0..32 {
        let body = json!({ "message": format!("{i}"), "id": format!("mine-{i}") });
        assert_eq!(api.post(&prompt, body).await, (202, json!({ "input": format!("mine-{i}") })));
    }
    let (status, refused) = api.post(&prompt, json!({ "message": "one more" })).await;
    assert_eq!((status, &refused["error"]["kind"]), (429, &json!("too_many")), "{refused}");
    assert_eq!(api.post(&prompt, json!({ "message": "0", "id": "mine-0" })).await.0, 202);
    gate.open();
    for _ in 0..33 {
        assert_eq!(reader.until("agent_end").await.last().unwrap().data["end"], "done");
    }
    let body = api.get(&format!("/api/sessions/{id}/messages")).await;
    assert_eq!(body["messages"].as_array().unwrap().len(), 66);
}

/// Steers and follow-ups appear in the queue, and are delivered.
#[tokio::test(start_paused = true)]
async fn steers_and_follow_ups_are_queued_and_taken() {
    let gate = Gate::new();
    let api = Api::new([
        Script::new().gate(&gate).say("one"),
        Script::text("two"),
        Script::text("three"),
    ]);
    let id = api.session(json!({})).await;
    let mut reader = api.events(&id, None).await;
    let idle = api.call("POST", &format!("/api/sessions/{id}/continue"), None).await;
    assert_eq!((idle.0, &idle.1["error"]["kind"]), (409, &json!("conflict")), "{idle:?}");
    api.say(&id, "go").await;
    reader.until("message_start").await;
    let steer = json!({ "message": "left", "urgency": "after_turn" });
    assert_eq!(api.post(&format!("/api/sessions/{id}/steer"), steer).await.0, 202);
    assert_eq!(
        api.post(&format!("/api/sessions/{id}/follow-up"), json!({ "message": "then" })).await.0,
        202
    );
    let session = api.get(&format!("/api/sessions/{id}")).await;
    assert_eq!(session["queue"], json!({ "steering": ["left"], "follow_up": ["then"] }));
    assert_eq!(session["running"], true);
    let bad = api
        .post(&format!("/api/sessions/{id}/steer"), json!({ "message": "x", "urgency": "now" }))
        .await;
    assert_eq!(bad.0, 400, "{bad:?}");
    gate.open();
    reader.until("agent_end").await;
    let body = api.get(&format!("/api/sessions/{id}/messages")).await;
    assert_eq!(body["messages"].as_array().unwrap().len(), 6);
}

/// C102: A session is opened once, at its first use, and closed when it has been unused for a
/// while. Only then can another process open it. Until then, that process reaches it where it is
/// open.
#[tokio::test(start_paused = true)]
async fn a_session_is_opened_once_and_closed_when_nobody_uses_it() {
    let store = Arc::new(InMemoryStore::new());
    let (api, other) = (
        Api::over(store.clone(), [Script::text("one")]),
        Api::over(store.clone(), [Script::text("two")]),
    );
    let id = api.session(json!({})).await;
    let mut reader = api.events(&id, None).await;
    other.say(&id, "go").await;
    let end = reader.until("agent_end").await.pop().unwrap();
    assert_eq!(end.data["text"], "one", "it is answered where it is open");
    tokio::time::sleep(Duration::from_secs(600)).await;
    other.events(&id, None).await.until("agent_end").await;
    drop(reader);
    tokio::time::sleep(Duration::from_secs(121)).await;
    let metrics = api.get("/metrics").await;
    assert!(metrics.as_str().unwrap().contains("loopwright_live_sessions 0\n"), "{metrics}");
    let before = store.read(&id, 0).await.unwrap().len();
    let openings = futures::future::join_all((0..10).map(|_| other.try_events(&id, None))).await;
    assert!(openings.iter().all(Result::is_ok));
    assert_eq!(store.read(&id, 0).await.unwrap().len(), before + 1, "opened once");
    other.say(&id, "go").await;
    assert_eq!(other.run(&id, end.id).await.last().unwrap().data["text"], "two");
}

/// C102: a session is not closed during a run, even if no stream is open.
#[tokio::test(start_paused = true)]
async fn a_run_without_a_reader_continues() {
    let long = Script::new().stream((0..300).map(|i| format!("{i} ")), Duration::from_secs(1));
    let api = Api::new([long]);
    let id = api.session(json!({})).await;
    api.say(&id, "go").await;
    tokio::time::sleep(Duration::from_secs(250)).await;
    assert_eq!(api.get(&format!("/api/sessions/{id}")).await["running"], true);
    let frames = api.run(&id, None).await;
    assert_eq!(frames.last().unwrap().data["end"], "done");
}

/// Invalid settings are refused at once, with their path.
#[tokio::test(start_paused = true)]
async fn settings_that_make_no_session_are_refused() {
    let api = Api::new([]);
    let cases = [
        (json!({ "workDir": "/etc" }), "/workDir"),
        (json!({ "baseUrl": "http://127.0.0.1:1/v1" }), "/baseUrl"),
        (json!({ "base_url": "http://127.0.0.1:1/v1" }), "/baseUrl"),
        (json!({ "workDir": "missing" }), "/workDir"),
        (json!({ "workDir": "" }), "/workDir"),
        (json!({ "maxTurns": 0 }), "/maxTurns"),
        (json!({ "maxSessionCost": 0 }), "/maxSessionCost"),
        (json!({ "approve": ["read_file", "sudo"] }), "/approve/1"),
        (json!({ "model": 7 }), "/model"),
    ];
    for (settings, path) in cases {
        let (status, refused) = api.post("/api/sessions", settings).await;
        assert_eq!((status, &refused["error"]["path"]), (400, &json!(path)), "{refused}");
    }
    assert_eq!(api.get("/api/sessions").await, json!({ "sessions": [] }));
    for name in ["%00", "%ff", "..%2f..%2fetc%2fpasswd", "%0a", &"x".repeat(5_000), "%F0%9F%90%91"]
    {
        for (method, path) in [
            ("GET", ""),
            ("DELETE", ""),
            ("GET", "/events"),
            ("GET", "/messages"),
            ("POST", "/abort"),
        ] {
            let (status, refused) =
                api.call(method, &format!("/api/sessions/{name}{path}"), None).await;
            assert_eq!(
                (status, &refused["error"]["kind"]),
                (404, &json!("not_found")),
                "{name}: {refused}"
            );
        }
    }
    let id = api.session(json!({})).await;
    let odd = api
        .post(
            &format!("/api/sessions/{id}/actions/%ff"),
            json!({ "digest": "", "decision": "approve" }),
        )
        .await;
    assert_eq!(odd.0, 404, "{odd:?}");
    for body in [
        json!({}),
        json!({ "message": " " }),
        json!({ "message": 1 }),
        json!({ "message": "x", "id": "" }),
    ] {
        assert_eq!(api.post(&format!("/api/sessions/{id}/prompt"), body).await.0, 400);
    }
}

/// C207: The list of sessions has pages, and contains neither prompts nor arguments of calls.
#[tokio::test(start_paused = true)]
async fn the_list_has_pages_and_nothing_long() {
    let dir = tempfile::tempdir().unwrap();
    let disk =
        Arc::new(Sqlite::open(dir.path().join("sessions.db")).unwrap()) as Arc<dyn SessionStore>;
    for store in [Arc::new(InMemoryStore::new()), disk] {
        let api = Api::over(store, [writes()]);
        let mut ids = Vec::new();
        for number in 0..7 {
            let system = "A long prompt. ".repeat(1_000);
            let name = format!("Number {number}");
            ids.push(api.session(json!({ "name": name, "system": system })).await);
        }
        api.say(&ids[3], "Write.").await;
        api.run(&ids[3], None).await;
        let (mut listed, mut path) = (Vec::new(), "/api/sessions?limit=3".to_owned());
        loop {
            let page = api.get(&path).await;
            assert!(page.to_string().len() < 2_000, "{page}");
            listed.extend(page["sessions"].as_array().unwrap().clone());
            let Some(next) = page["next"].as_str() else { break };
            path = format!("/api/sessions?limit=3&after={next}");
        }
        let text = json!(listed).to_string();
        assert!(!text.contains("A long prompt") && !text.contains("new.txt"), "{text}");
        // The clock may not have moved between the last creation and the run.
        let latest = listed.iter().map(|one| one["changed"].as_u64().unwrap()).max();
        assert!(listed.is_sorted_by_key(|one| std::cmp::Reverse(one["changed"].as_u64())));
        let third = listed.iter().find(|one| one["id"] == *ids[3]).unwrap();
        assert_eq!((third["changed"].as_u64(), &third["pending_actions"]), (latest, &json!(1)));
        assert_eq!(third["name"], "Number 3");
        let mut unique: Vec<&str> = listed.iter().map(|one| one["id"].as_str().unwrap()).collect();
        unique.sort();
        ids.sort();
        assert_eq!(unique, ids);
        for query in ["limit=0", "limit=1001", "limit=x", "after=x", "after=1", "after="] {
            let (status, body) = api.call("GET", &format!("/api/sessions?{query}"), None).await;
            assert_eq!((status, &body["error"]["kind"]), (400, &json!("bad_request")), "{query}");
        }
    }
}

/// C116: Lists of sessions show the directory and the model, even if the server chose them.
#[tokio::test(start_paused = true)]
async fn a_session_shows_its_directory_and_model() {
    let api = Api::new([]);
    let root = api.root.path().canonicalize().unwrap().display().to_string();
    std::fs::create_dir(api.root.path().join("below")).unwrap();
    let below = format!("{root}/below");
    for (settings, directory, model) in [
        (json!({}), &root, "test/scripted"),
        (json!({ "workDir": "below", "model": "any/model" }), &below, "any/model"),
        (json!({ "workDir": below }), &below, "test/scripted"),
    ] {
        let id = api.session(settings).await;
        let list = api.get("/api/sessions").await;
        let all = list["sessions"].as_array().unwrap();
        let listed = all.iter().find(|session| session["id"] == *id).unwrap();
        let status = api.get(&format!("/api/sessions/{id}")).await;
        for shown in [listed, &status] {
            assert_eq!((&shown["directory"], &shown["model"]), (&json!(directory), &json!(model)));
        }
    }
}

/// Tools that the settings approve run without approval of each call.
#[tokio::test(start_paused = true)]
async fn approved_tools_run_at_once() {
    for approve in ["write_file", "all"] {
        let api = Api::new([writes(), Script::text("Done.")]);
        let id = api.session(json!({ "approve": [approve] })).await;
        api.say(&id, "Write.").await;
        let frames = api.run(&id, None).await;
        assert_eq!(frames.last().unwrap().data["end"], "done");
        assert_eq!(
            frames.iter().find(|frame| frame.event == "tool_execution_end").unwrap().data["status"],
            "ok"
        );
    }
}

/// Bodies may be as large as the limit, and no larger.
#[tokio::test]
async fn a_message_may_be_nearly_as_large_as_a_body() {
    let api = Api::new([Script::text("Long.")]);
    let id = api.session(json!({})).await;
    let path = format!("/api/sessions/{id}/prompt");
    let (status, answer) =
        api.post(&path, json!({ "message": "a".repeat(4 * 1024 * 1024 - 100) })).await;
    assert_eq!(status, 202, "{answer}");
    let (status, answer) = api.post(&path, json!({ "message": "a".repeat(4 * 1024 * 1024) })).await;
    assert_eq!((status, &answer["error"]["kind"]), (413, &json!("too_large")), "{answer}");
}

/// C43: an abort that names a run that has ended is refused and stops nothing.
#[tokio::test(start_paused = true)]
async fn an_abort_names_its_run() {
    let gate = Gate::new();
    let api = Api::new([Script::text("One."), Script::new().gate(&gate).say("Two.")]);
    let id = api.session(json!({})).await;
    let mut events = api.events(&id, None).await;
    api.say(&id, "First").await;
    events.until("agent_end").await;
    api.say(&id, "Second").await;
    events.until("agent_start").await;
    let abort = format!("/api/sessions/{id}/abort");
    let (status, error) = api.post(&abort, json!({ "run": "r1" })).await;
    assert_eq!(status, 409, "{error}");
    assert!(error["error"]["message"].as_str().unwrap().contains("run r1 has ended"), "{error}");
    assert_eq!(api.post(&abort, json!({ "run": "1" })).await.0, 400);
    gate.open();
    assert_eq!(events.until("agent_end").await.last().unwrap().data["text"], "Two.");
}

/// Messages are read in pages, from the latest to the first.
#[tokio::test(start_paused = true)]
async fn messages_come_in_pages() {
    let api = Api::new((0..4).map(|number| Script::text(&format!("answer {number}"))));
    let id = api.session(json!({})).await;
    let mut reader = api.events(&id, None).await;
    for number in 0..4 {
        api.say(&id, &format!("question {number}")).await;
        reader.until("agent_end").await;
    }
    let path = format!("/api/sessions/{id}/messages");
    let all = api.get(&path).await;
    assert_eq!(all["messages"].as_array().unwrap().len(), 8);
    assert!(all.get("before").is_none(), "{all}");
    let (mut query, mut pages) = ("limit=3".to_owned(), Vec::new());
    loop {
        let page = api.get(&format!("{path}?{query}")).await;
        assert_eq!(page["seq"], all["seq"]);
        pages.push(page["messages"].as_array().unwrap().clone());
        let Some(before) = page["before"].as_str() else { break };
        query = format!("limit=3&before={before}");
    }
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 2]);
    pages.reverse();
    assert_eq!(json!(pages.concat()), all["messages"]);
    assert_eq!(api.get(&format!("{path}?before=m999")).await["messages"], json!([]));
    for bad in ["limit=0", "limit=1001", "limit=x", "before=7"] {
        let (status, refused) = api.call("GET", &format!("{path}?{bad}"), None).await;
        assert_eq!((status, &refused["error"]["kind"]), (400, &json!("bad_request")), "{bad}");
    }
}
