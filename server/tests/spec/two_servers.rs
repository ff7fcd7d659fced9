//! Two servers on one file: a session that is open in one is reached through the other.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_core::event::InputEvent;
use loopwright_core::log::PostedInput;
use loopwright_core::testing::{Gate, Script};
use loopwright_memory::Sqlite;
use serde_json::{Value, json};

use crate::api::{Api, Frame};
use crate::resume::add_held;

/// Returns two servers on one file, each with its replies.
fn two_servers(replies: Vec<Script>, others: Vec<Script>) -> (tempfile::TempDir, Api, Api) {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let store = Sqlite::open(folder.path().join("sessions.db")).unwrap();
        Arc::new(store) as Arc<dyn SessionStore>
    };
    let (one, two) = (Api::over(open(), replies), Api::over(open(), others));
    (folder, one, two)
}

async fn post(api: &Api, session: &str, path: &str, body: Value) -> (u16, Value) {
    api.post(&format!("/api/sessions/{session}/{path}"), body).await
}

/// Returns frames without the times of their events, which the log has only in part.
fn without_times(mut frames: Vec<Frame>) -> Vec<Frame> {
    for frame in &mut frames {
        frame.data.as_object_mut().unwrap().remove("time");
    }
    frames
}

fn write() -> Script {
    Script::calls([("w", "write_file", json!({ "path": "new.txt", "content": "x" }))])
}

/// C220: Prompts, steers, follow-ups, decisions, continuations and aborts reach the session where
/// it is open, and are refused as they would be there.
#[tokio::test]
async fn every_input_reaches_a_session_that_another_server_has_open() {
    let gate = Gate::new();
    let replies = vec![
        write(),
        Script::text("written"),
        Script::text("1").gate(&gate),
        Script::text("2"),
        Script::text("3"),
        Script::new().hang(),
    ];
    let (_folder, one, two) = two_servers(replies, vec![]);
    let id = one.session(json!({})).await;
    let mut reader = one.events(&id, None).await;
    let continued = post(&two, &id, "continue", json!({ "id": "c" })).await;
    assert_eq!(continued.0, 409, "{continued:?}");
    // The answer stands, and is not the error of a later input with the same id.
    for (api, path, body) in [
        (&one, "continue", json!({ "id": "c" })),
        (&two, "continue", json!({ "id": "c" })),
        (&one, "prompt", json!({ "id": "c", "message": "go" })),
    ] {
        let (status, refused) = post(api, &id, path, body).await;
        assert_eq!((status, &refused["error"]["kind"]), (409, &json!("conflict")));
        let why = refused["error"]["message"].as_str().unwrap();
        assert!(why.contains("`c` was refused before: there is nothing to continue"), "{why}");
    }

    let (status, sent) = post(&two, &id, "prompt", json!({ "message": "go", "id": "p" })).await;
    assert_eq!((status, &sent["input"]), (202, &json!("p")), "{sent}");
    reader.until("agent_end").await;
    let action = two.get("/api/actions").await["actions"][0].clone();
    let path = format!("actions/{}", action["call"].as_str().unwrap());
    let wrong = json!({ "decision": "approve", "digest": "wrong" });
    let refused = post(&two, &id, &path, wrong.clone()).await;
    assert_eq!(refused.0, 409, "{refused:?}");
    assert_eq!(post(&one, &id, &path, wrong).await, refused);
    let approve = json!({ "decision": "approve", "digest": action["digest"] });
    assert_eq!(post(&two, &id, &path, approve.clone()).await.0, 200);
    reader.until("agent_end").await;
    let late = post(&two, &id, &path, approve).await;
    assert_eq!(late.0, 409);
    assert!(late.1["error"]["message"].as_str().unwrap().contains("already resolved"), "{late:?}");

    two.say(&id, "wait").await;
    reader.until("turn_start").await;
    assert_eq!(post(&two, &id, "steer", json!({ "message": "left" })).await.0, 202);
    assert_eq!(post(&two, &id, "follow-up", json!({ "message": "then" })).await.0, 202);
    gate.open();
    reader.until("agent_end").await;
    two.say(&id, "hang").await;
    reader.until("turn_start").await;
    let state = two.get(&format!("/api/sessions/{id}")).await;
    assert_eq!((&state["running"], &state["interrupted"]), (&json!(true), &json!(false)));
    assert_eq!(post(&two, &id, "abort", json!({})).await.0, 202);
    let end = reader.until("agent_end").await.pop().unwrap();
    assert_eq!(end.data["end"], "aborted");
    let ended = post(&two, &id, "abort", json!({ "run": "r1" })).await;
    assert_eq!(ended.0, 409, "{ended:?}");
    let messages = one.get(&format!("/api/sessions/{id}/messages")).await;
    let messages = messages["messages"].as_array().unwrap().clone();
    let user = messages.iter().filter(|message| message["role"] == "user");
    let user: Vec<_> = user.map(|message| message["content"][0]["text"].clone()).collect();
    assert_eq!(user, ["go", "wait", "left", "then", "hang"]);
}

/// C221: The events of a session that another server has open are its numbered events, and the
/// stream continues when the owner changes.
#[tokio::test]
async fn the_events_of_a_session_of_another_server_follow_its_log() {
    let gate = Gate::new();
    let others = vec![Script::text("two"), Script::text("three").gate(&gate)];
    let (_folder, one, two) = two_servers(vec![Script::text("one")], others);
    let id = one.session(json!({})).await;
    let (mut here, mut there) = (one.events(&id, None).await, two.events(&id, None).await);
    two.say(&id, "go").await;
    let mut live = here.until("agent_end").await;
    live.retain(|frame| frame.id.is_some());
    let seen = there.until("agent_end").await;
    let end = seen.last().unwrap().id;
    assert_eq!(without_times(seen), without_times(live), "the numbered events, and no others");
    let beyond = two.try_events(&id, Some(end.unwrap() + 1)).await.err().unwrap();
    assert_eq!(beyond.1["error"]["kind"], "after_the_end");
    let mut resumed = two.events(&id, end.map(|seq| seq - 1)).await;
    assert_eq!(resumed.next().await.unwrap().id, end);

    drop((here, one)); // the process ends
    two.say(&id, "again").await;
    let rest = there.until("agent_end").await;
    assert_eq!(rest.last().unwrap().data["text"], "two");
    let numbers: Vec<u64> = rest.iter().filter_map(|frame| frame.id).collect();
    let first = end.unwrap() + 1;
    assert_eq!(numbers, (first..first + numbers.len() as u64).collect::<Vec<_>>());
    two.say(&id, "and now").await;
    there.until("message_update").await; // it is open here now
    gate.open();
    there.until("agent_end").await;
}

/// C222: An input whose owner has left is taken by the server that it was sent through. If that
/// server has died too, the next server that looks for work takes it.
#[tokio::test]
async fn what_was_posted_to_a_session_without_an_owner_is_handled() {
    let (folder, one, two) = two_servers(vec![], vec![Script::text("two")]);
    let id = one.session(json!({})).await;
    drop(one);
    let store = Sqlite::open(folder.path().join("sessions.db")).unwrap();
    let input = PostedInput::new("i", InputEvent::UserRequest("go".into())).unwrap();
    assert_eq!(store.post(&id, &input).await, Ok(None));
    let session = async || two.get(&format!("/api/sessions/{id}")).await["session"].clone();
    let before = session().await;
    assert_eq!((&before["unread"], &before["due"]), (&json!(1), &json!("inbox")), "{before}");
    two.run_due().await;
    let after = session().await;
    assert!(after.get("unread").is_none() && after.get("due").is_none(), "{after}");
    let end = two.run(&id, None).await.pop().unwrap();
    assert_eq!(end.data["text"], "two");
}

/// C222: An owner that does not answer delays the sender, who is told so, and nothing is lost.
#[tokio::test(start_paused = true)]
async fn an_owner_that_does_not_answer_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path().join("sessions.db")).unwrap());
    let api = Api::over(store.clone(), [Script::text("late")]);
    let id = api.session(json!({})).await;
    drop(api);
    let api = Api::over(store.clone(), [Script::text("late")]);
    let silent = loop {
        match store.open(&id).await {
            Ok(memory) => break memory,
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    let prompt = json!({ "message": "go", "id": "p" });
    let (status, why) = post(&api, &id, "prompt", prompt.clone()).await;
    assert_eq!((status, &why["error"]["kind"]), (504, &json!("unanswered")), "{why}");
    drop(silent);
    assert_eq!(post(&api, &id, "prompt", prompt).await.0, 202);
    assert_eq!(api.run(&id, None).await.last().unwrap().data["text"], "late");
}

/// C402: An input to a session that has ended two processes waits. An abort drops it: a conflict.
#[tokio::test]
async fn an_input_that_an_abort_drops_is_a_conflict() {
    let (_folder, api, _) = two_servers(vec![], vec![]);
    let (id, owner) = add_held(&*api.store).await;
    let say = || post(&api, &id, "follow-up", json!({ "message": "And now?", "id": "f" }));
    let waits = async {
        while api.store.session(&id).await.unwrap().unread == 0 {
            tokio::task::yield_now().await;
        }
    };
    let abort = async {
        drop(owner);
        let mut reader = api.events(&id, Some(0)).await;
        assert_eq!(reader.until("held").await.last().unwrap().data["unread"], 1);
        api.call("POST", &format!("/api/sessions/{id}/abort"), None).await
    };
    let mut dropped = pin!(say());
    tokio::select! {
        answer = &mut dropped => panic!("it does not wait: {answer:?}"),
        () = waits => {}
    }
    let (dropped, aborted) = tokio::join!(dropped, abort);
    assert_eq!((dropped.0, aborted.0), (409, 202), "{dropped:?} {aborted:?}");
    let why = dropped.1["error"]["message"].as_str().unwrap();
    assert!(why.contains("was dropped by an abort"), "{why}");
    assert_eq!(say().await.0, 409, "the answer stands");
}
