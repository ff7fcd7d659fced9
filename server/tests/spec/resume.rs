//! Streams of events: from any point on, for any number of readers, through reloads, restarts and
//! faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loopwright_core::log::{InMemoryStore, LogEntry};
use loopwright_core::model::ModelErrorKind;
use loopwright_core::testing::{Gate, Script};
use loopwright_core::{Memory, SessionStore};
use serde_json::{Value, json};

use crate::api::{Api, Frame, Screen, numbered};
use crate::full_disk::FullDisk;

const MS: Duration = Duration::from_millis(1);

fn reads() -> Script {
    Script::new().say("I read.").call("a", "read_file", r#"{"path": "notes.txt"}"#)
}

fn slow() -> Script {
    Script::new().stream((0..8).map(|i| format!("w{i} ")), MS)
}

/// C101: After any number, exactly the later events follow, the same as the first time.
#[tokio::test(start_paused = true)]
async fn after_every_number_exactly_the_rest_comes() {
    let api = Api::new([reads(), slow(), Script::text("And more.")]);
    let id = api.session(json!({})).await;
    let mut first = api.events(&id, None).await;
    api.say(&id, "How many?").await;
    let mut frames = first.until("agent_end").await;
    api.say(&id, "More.").await;
    frames.extend(first.until("agent_end").await);
    let all = numbered(&frames);
    let last = all.last().unwrap().id.unwrap();
    assert_eq!(
        all.iter().map(|frame| frame.id.unwrap()).collect::<Vec<_>>(),
        (1..=last).collect::<Vec<_>>()
    );
    for after in 0..=last {
        let mut reader = api.events(&id, Some(after)).await;
        let rest: Vec<Frame> = std::iter::from_fn(|| reader.ready()).collect();
        let plain = |frame: &Frame| {
            let mut frame = frame.clone();
            frame.data["time"] = json!(0); // the log's time, not the clock's
            frame
        };
        let wanted: Vec<Frame> = all[after as usize..].iter().map(|frame| plain(frame)).collect();
        assert_eq!(rest.iter().map(plain).collect::<Vec<_>>(), wanted, "after {after}");
    }
    let (status, refused) = api.try_events(&id, Some(last + 1)).await.err().unwrap();
    assert_eq!((status, &refused["error"]["kind"]), (409, &json!("after_the_end")), "{refused}");
}

/// C100: Two readers, one of which reloads at each frame in turn, have the same state in the end.
/// No part of the streaming reply is lost or duplicated.
#[tokio::test(start_paused = true)]
async fn a_reload_anywhere_loses_and_doubles_nothing() {
    let replies = || [reads(), slow(), Script::text("unused")];
    let api = Api::new(replies());
    let id = api.session(json!({})).await;
    let mut whole = api.events(&id, None).await;
    api.say(&id, "How many?").await;
    let count = whole.until("agent_end").await.len();
    for cut in 0..count {
        let api = Api::new(replies());
        let id = api.session(json!({})).await;
        let (mut stays, mut reloads) = (api.events(&id, None).await, api.events(&id, None).await);
        api.say(&id, "How many?").await;
        let (mut frames, mut screen) = (Vec::new(), Screen::default());
        for _ in 0..cut {
            frames.push(reloads.next().await.unwrap());
        }
        frames.iter().for_each(|frame| screen.apply(frame));
        let last = frames.iter().rev().find_map(|frame| frame.id);
        drop(reloads);
        let mut reloaded = api.events(&id, last).await;
        if last.is_none() {
            screen = Screen::default();
        }
        reloaded.until("agent_end").await.iter().for_each(|frame| screen.apply(frame));
        assert_eq!(
            screen,
            Screen::of(&stays.until("agent_end").await),
            "reloaded after {cut} frames"
        );
        assert!(screen.streaming.is_empty());
    }
}

/// C101: A server is killed in the middle of a reply. For a reader that reconnects, the reply is
/// withdrawn and the run is interrupted, and `continue` resumes it.
#[tokio::test(start_paused = true)]
async fn after_a_kill_the_reply_is_withdrawn_and_the_run_continues() {
    let api = Api::new([reads(), slow()]);
    let id = api.session(json!({})).await;
    let (mut reader, mut screen) = (api.events(&id, None).await, Screen::default());
    api.say(&id, "How many?").await;
    while !screen.streaming.values().any(|text| text.contains("w3")) {
        screen.apply(&reader.next().await.unwrap());
    }
    let listed = api.get("/api/sessions").await["sessions"][0].clone();
    assert_eq!((&listed["run"], &listed["interrupted"]), (&json!("r1"), &json!(false)));
    let next = api.killed(&id, [Script::text("Nine.")]).await;
    assert_eq!(next.get("/api/sessions").await["sessions"][0]["interrupted"], true);
    let session = next.get(&format!("/api/sessions/{id}")).await;
    assert_eq!((&session["running"], &session["interrupted"]), (&json!(false), &json!(true)));
    let mut reader = next.events(&id, Some(screen.seq)).await;
    screen.apply(&reader.next().await.unwrap());
    assert!(screen.streaming.is_empty(), "{screen:?}");
    let session = next.get(&format!("/api/sessions/{id}")).await;
    assert_eq!((&session["running"], &session["interrupted"]), (&json!(false), &json!(true)));
    assert_eq!(next.call("POST", &format!("/api/sessions/{id}/continue"), None).await.0, 202);
    reader.until("agent_end").await.iter().for_each(|frame| screen.apply(frame));
    let messages = next.get(&format!("/api/sessions/{id}/messages")).await;
    assert_eq!(messages["messages"], json!(screen.messages));
    assert_eq!(messages["seq"], screen.seq);
    assert_eq!(screen.messages.last().unwrap()["parts"][0]["text"], "Nine.");
    assert_eq!(next.get(&format!("/api/sessions/{id}")).await["interrupted"], false);
}

/// C101: a run that another process executes is not interrupted, and neither is its session.
#[tokio::test(start_paused = true)]
async fn a_run_in_another_process_is_running() {
    let api = Api::new([slow()]);
    let id = api.session(json!({})).await;
    let mut events = api.events(&id, None).await;
    api.say(&id, "How many?").await;
    events.until("message_update").await;
    let other = Api::over(api.store.clone(), []);
    let listed = other.get("/api/sessions").await["sessions"][0].clone();
    assert_eq!((&listed["run"], &listed["interrupted"]), (&json!("r1"), &json!(false)));
    let session = other.get(&format!("/api/sessions/{id}")).await;
    assert_eq!((&session["running"], &session["interrupted"]), (&json!(true), &json!(false)));
    events.until("agent_end").await;
    assert_eq!(other.get(&format!("/api/sessions/{id}")).await["running"], false);
}

/// C101: A request that was acknowledged before a kill is listed as due. The next server runs it by
/// itself, if need be after another owner has died.
#[tokio::test(start_paused = true)]
async fn an_acknowledged_request_runs_after_a_restart() {
    let api = Api::new([slow()]);
    let id = api.session(json!({})).await;
    let mut events = api.events(&id, None).await;
    api.say(&id, "How many?").await;
    events.until("agent_end").await;
    let entries = api.store.read(&id, 0).await.unwrap();
    let queued = entries.iter().position(|entry| matches!(entry, LogEntry::Queued { .. })).unwrap();
    let store = Arc::new(InMemoryStore::new());
    let log = store.open(&id).await.unwrap();
    log.append(0, entries[..=queued].into()).await.unwrap();
    drop(log);
    let next = Api::over(store.clone(), [Script::text("Nine.")]);
    let due = async || next.get("/api/sessions").await["sessions"][0]["due"].clone();
    assert_eq!(due().await, "request");
    let owner = store.open(&id).await.unwrap();
    let owner_dies = async {
        tokio::time::sleep(Duration::from_secs(90)).await; // after two sweeps
        assert_eq!(due().await, "request", "its owner does the work");
        drop(owner);
        tokio::time::sleep(Duration::from_secs(90)).await;
    };
    tokio::select! {
        () = next.keep_running_due() => unreachable!("it never ends"),
        () = owner_dies => {}
    }
    let messages = next.get(&format!("/api/sessions/{id}/messages")).await;
    assert_eq!(messages["messages"][1]["parts"][0]["text"], "Nine.");
    assert_eq!(due().await, Value::Null);
}

/// Adds a session whose request has ended two processes to a store. Returns its id and its log,
/// which is still open.
pub(crate) async fn add_held(store: &dyn SessionStore) -> (String, Arc<dyn Memory>) {
    let api = Api::new([slow()]);
    let id = api.session(json!({})).await;
    let mut events = api.events(&id, None).await;
    api.say(&id, "How many?").await;
    events.until("agent_end").await;
    let entries = api.store.read(&id, 0).await.unwrap();
    let queued = entries.iter().position(|entry| matches!(entry, LogEntry::Queued { .. })).unwrap();
    let mut log = entries[..=queued].to_vec();
    log.push(LogEntry::Opened { epoch: 2, time: 2, parent: None, owner: None });
    let memory = store.open(&id).await.unwrap();
    memory.append(0, log.into()).await.unwrap();
    (id, memory)
}

/// C402: A request that has ended two processes is not started by a third. The list, the metrics
/// and an event report this, until a user continues it.
#[tokio::test(start_paused = true)]
async fn a_request_that_ends_every_process_waits_for_a_user() {
    let store = Arc::new(InMemoryStore::new());
    let (id, _) = add_held(&*store).await;
    let next = Api::over(store, [Script::text("Nine.")]);
    next.run_due().await;
    let listed = next.get("/api/sessions").await["sessions"][0].clone();
    let why = listed["held"].as_str().unwrap();
    assert!(why.starts_with("2 processes ended while they worked on this session"), "{why}");
    assert_eq!(listed["due"], Value::Null);
    let session = next.get(&format!("/api/sessions/{id}")).await;
    assert_eq!((&session["held"], &session["session"]["held"]["owners"]), (&json!(why), &json!(2)));
    let metrics = next.get("/metrics").await;
    let held = "sessions_held_total{agent=\"coding\",model=\"test/scripted\"} 1";
    assert!(metrics.as_str().unwrap().contains(held), "{metrics}");
    let mut reader = next.events(&id, Some(0)).await;
    assert_eq!(reader.until("held").await.last().unwrap().data["owners"], 2);

    assert_eq!(next.call("POST", &format!("/api/sessions/{id}/continue"), None).await.0, 202);
    reader.until("agent_end").await;
    let messages = next.get(&format!("/api/sessions/{id}/messages")).await;
    assert_eq!(messages["messages"][1]["parts"][0]["text"], "Nine.");
    assert_eq!(next.get("/api/sessions").await["sessions"][0]["held"], Value::Null);
}

/// A silent stream sends a comment every 15 seconds.
#[tokio::test(start_paused = true)]
async fn a_silent_stream_has_heartbeats() {
    let api = Api::new([]);
    let id = api.session(json!({})).await;
    let mut reader = api.events(&id, None).await;
    let start = tokio::time::Instant::now();
    for beat in 1..=3 {
        let text = reader.next_text().await.unwrap();
        assert!(text.starts_with(':'), "{text}");
        assert_eq!(start.elapsed().as_secs(), 15 * beat);
    }
}

/// C100: a reader that reads nothing delays neither the run nor other readers.
#[tokio::test(start_paused = true)]
async fn a_reader_that_reads_nothing_delays_nobody() {
    let long = Script::new().stream((0..50_000).map(|i| format!("{i} ")), Duration::ZERO);
    let api = Api::new([long]);
    let id = api.session(json!({})).await;
    let (mut takes, mut stalls) = (api.events(&id, None).await, api.events(&id, None).await);
    api.say(&id, "Count.").await;
    let screen = Screen::of(&takes.until("agent_end").await);
    let late = stalls.until("agent_end").await;
    assert!(late.len() < 3_000, "deltas were merged: {} frames", late.len());
    assert_eq!(Screen::of(&late), screen);
}

/// An error of the model is in `agent_end`. The messages stay, and the session continues.
#[tokio::test(start_paused = true)]
async fn after_an_error_of_the_model_the_session_continues() {
    let dies = Script::new().say("half").fail(ModelErrorKind::Network, "the connection broke");
    let stalls = Script::new().say("half").hang();
    let api = Api::new([dies, stalls, Script::text("whole")]);
    let id = api.session(json!({})).await;
    let mut reader = api.events(&id, None).await;
    api.say(&id, "one").await;
    let mut frames = reader.until("agent_end").await;
    let end = &frames.last().unwrap().data;
    assert_eq!((&end["end"], &end["model_error"]), (&json!("error"), &json!("network")), "{end}");
    api.say(&id, "two").await;
    frames.extend(reader.until("message_update").await);
    assert_eq!(api.call("POST", &format!("/api/sessions/{id}/abort"), None).await.0, 202);
    frames.extend(reader.until("agent_end").await);
    assert_eq!(frames.last().unwrap().data["end"], "aborted");
    api.say(&id, "three").await;
    frames.extend(reader.until("agent_end").await);
    assert_eq!(frames.last().unwrap().data["end"], "done");
    let screen = Screen::of(&frames);
    assert_eq!(
        api.get(&format!("/api/sessions/{id}/messages")).await["messages"],
        json!(screen.messages)
    );
}

/// A full disk: input that cannot be stored is refused, or ends the run with an error. All events
/// that were sent are still there afterwards.
#[tokio::test(start_paused = true)]
async fn with_a_full_disk_no_event_that_was_sent_is_lost() {
    for room in 3..14 {
        let full_after = Arc::new(AtomicU64::new(room));
        let store =
            Arc::new(FullDisk { inner: InMemoryStore::new(), full_after: full_after.clone() });
        let api = Api::over(
            store,
            [reads(), Script::text("Nine."), Script::text("Again."), Script::text("More.")],
        );
        let id = api.session(json!({})).await;
        let (mut reader, mut screen) = (api.events(&id, None).await, Screen::default());
        let (status, refused) = api
            .post(&format!("/api/sessions/{id}/prompt"), json!({ "message": "How many?" }))
            .await;
        if status != 202 {
            assert_eq!(status, 500, "{refused}");
            assert!(
                refused["error"]["message"].as_str().unwrap().contains("the disk is full"),
                "{refused}"
            );
        } else {
            let frames = reader.until("agent_end").await;
            frames.iter().for_each(|frame| screen.apply(frame));
            let end = &frames.last().unwrap().data;
            let enough = end["end"] == "done";
            assert!(enough || end["error"].as_str().unwrap().contains("the disk is full"), "{end}");
        }
        full_after.store(u64::MAX, Ordering::Relaxed);
        // The first event after a fault may be the end of the interrupted run.
        let (status, accepted) =
            api.post(&format!("/api/sessions/{id}/prompt"), json!({ "message": "more" })).await;
        assert_eq!(status, 202, "{accepted}");
        loop {
            let frame = reader.next().await.unwrap();
            screen.apply(&frame);
            let answered =
                screen.messages.iter().any(|message| message["content"][0]["text"] == "more");
            if answered && frame.event == "agent_end" && frame.data["end"] == "done" {
                break;
            }
        }
        let messages = api.get(&format!("/api/sessions/{id}/messages")).await;
        assert_eq!(
            (&messages["messages"], &messages["seq"]),
            (&json!(screen.messages), &json!(screen.seq))
        );
        let replayed = api.events(&id, None).await.until_seq(screen.seq).await;
        assert_eq!(Screen::of(&replayed).numbered, screen.numbered);
    }
}

/// C104: A server that shuts down starts no runs. Readers receive `draining` and the rest of the
/// run, and their streams end.
#[tokio::test(start_paused = true)]
async fn a_server_that_shuts_down_informs_its_readers_and_takes_no_new_runs() {
    let gate = Gate::new();
    let api = Api::new([Script::new().say("half").gate(&gate).say(" whole")]);
    let id = api.session(json!({})).await;
    let mut reader = api.events(&id, None).await;
    api.say(&id, "go").await;
    reader.until("message_update").await;
    tokio::join!(api.drain(Duration::from_secs(10)), async {
        assert_eq!(reader.next().await.unwrap().event, "draining");
        for path in ["prompt", "continue", "actions/a"] {
            let body = json!({ "message": "more", "digest": "d", "decision": "approve" });
            let (status, refused) = api.post(&format!("/api/sessions/{id}/{path}"), body).await;
            assert_eq!(
                (status, &refused["error"]["kind"]),
                (503, &json!("draining")),
                "{path}: {refused}"
            );
        }
        assert_eq!(api.post("/api/sessions", json!({})).await.0, 503);
        assert_eq!(api.try_events(&id, None).await.err().unwrap().0, 503);
        assert_eq!(api.call("GET", "/readyz", None).await.0, 503);
        assert_eq!(api.call("GET", "/healthz", None).await.0, 200, "it is alive");
        gate.open();
        let rest = reader.until("agent_end").await;
        assert_eq!(rest.last().unwrap().data["end"], "done");
        assert_eq!(reader.next().await, None);
    });
}

/// C104: Other input than a prompt starts no run either.
#[tokio::test(start_paused = true)]
async fn a_steer_instead_of_a_decision_starts_no_run_in_a_server_that_shuts_down() {
    let api = Api::new([Script::new().call(
        "a",
        "write_file",
        r#"{"path": "new.txt", "content": "ten"}"#,
    )]);
    let id = api.session(json!({})).await;
    api.say(&id, "Write.").await;
    assert_eq!(api.run(&id, None).await.last().unwrap().data["end"], "awaiting_action");
    api.drain(Duration::from_secs(10)).await;
    let (status, refused) =
        api.post(&format!("/api/sessions/{id}/steer"), json!({ "message": "Do not." })).await;
    assert_eq!((status, &refused["error"]["kind"]), (503, &json!("draining")), "{refused}");
}

/// C104: a run that does not end in time is interrupted, and the next server can continue it.
#[tokio::test(start_paused = true)]
async fn a_run_that_outlives_the_grace_is_interrupted_and_another_server_continues_it() {
    let api = Api::new([Script::new().say("half").hang()]);
    let id = api.session(json!({})).await;
    let (mut reader, mut screen) = (api.events(&id, None).await, Screen::default());
    api.say(&id, "go").await;
    reader.until("message_update").await.iter().for_each(|frame| screen.apply(frame));
    let start = tokio::time::Instant::now();
    api.drain(Duration::from_secs(10)).await;
    assert_eq!(start.elapsed().as_secs(), 10);
    assert_eq!(reader.next().await.unwrap().event, "draining");
    assert_eq!(reader.next().await, None);
    let next = api.killed(&id, [Script::text("whole")]).await;
    let mut reader = next.events(&id, Some(screen.seq)).await;
    assert_eq!(next.call("POST", &format!("/api/sessions/{id}/continue"), None).await.0, 202);
    reader.until("agent_end").await.iter().for_each(|frame| screen.apply(frame));
    assert_eq!(screen.messages.last().unwrap()["parts"][0]["text"], "whole");
}

/// C200: While sessions cannot be stored, the server is alive and not ready. The store is asked
/// once a second.
#[tokio::test(start_paused = true)]
async fn a_server_with_a_full_disk_is_not_ready() {
    let full_after = Arc::new(AtomicU64::new(u64::MAX));
    let store = FullDisk { inner: InMemoryStore::new(), full_after: full_after.clone() };
    let api = Api::over(Arc::new(store), []);
    let ready = async || {
        let (status, body) = api.call("GET", "/readyz", None).await;
        (status, body["status"].as_str().unwrap().to_owned())
    };
    assert_eq!(ready().await, (200, "ok".into()));
    full_after.store(0, Ordering::Relaxed);
    assert_eq!(ready().await, (200, "ok".into()), "it was checked within the last second");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(ready().await, (503, "store".into()));
    assert_eq!(api.call("GET", "/healthz", None).await.0, 200);
    full_after.store(u64::MAX, Ordering::Relaxed);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(ready().await, (200, "ok".into()));
}
