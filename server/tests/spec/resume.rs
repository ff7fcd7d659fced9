//! Streams of events: from any point on, for any number of readers, through reloads, restarts and
//! faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loopwright_core::log::InMemoryStore;
use loopwright_core::model::ModelErrorKind;
use loopwright_core::testing::{Gate, Script};
use serde_json::json;

use crate::api::{Api, Faulty, Frame, Screen, numbered};

const MS: Duration = Duration::from_millis(1);

fn reads() -> Script {
    Script::new().say("I look.").call("a", "read_file", r#"{"path": "notes.txt"}"#)
}

fn slow() -> Script {
    Script::new().stream((0..8).map(|i| format!("w{i} ")), MS)
}

/// C98: after any number exactly the rest comes, as it was told the first time.
#[tokio::test(start_paused = true)]
async fn after_every_number_exactly_the_rest_comes() {
    let api = Api::new([reads(), slow(), Script::text("And more.")]);
    let id = api.session(json!({})).await;
    let mut first = api.events(&id, None).await;
    api.say(&id, "How many?").await;
    let mut told = first.until("agent_end").await;
    api.say(&id, "More.").await;
    told.extend(first.until("agent_end").await);
    let all = numbered(&told);
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
            frame.data["time"] = json!(0); // of the log's, not of the clock's
            frame
        };
        let wanted: Vec<Frame> = all[after as usize..].iter().map(|frame| plain(frame)).collect();
        assert_eq!(rest.iter().map(plain).collect::<Vec<_>>(), wanted, "after {after}");
    }
    let (status, refused) = api.try_events(&id, Some(last + 1)).await.err().unwrap();
    assert_eq!((status, &refused["error"]["kind"]), (409, &json!("after_the_end")), "{refused}");
}

/// C97: two readers, one of whom reloads at each frame in turn, see the same in the end; of the
/// reply that streams nothing is lost and nothing comes twice.
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
        frames.iter().for_each(|frame| screen.see(frame));
        let last = frames.iter().rev().find_map(|frame| frame.id);
        drop(reloads);
        let mut again = api.events(&id, last).await;
        if last.is_none() {
            screen = Screen::default();
        }
        again.until("agent_end").await.iter().for_each(|frame| screen.see(frame));
        assert_eq!(
            screen,
            Screen::of(&stays.until("agent_end").await),
            "reloaded after {cut} frames"
        );
        assert!(screen.streaming.is_empty());
    }
}

/// C98: a server that is killed in the middle of a reply: whoever comes again has the reply
/// withdrawn, sees that the run was interrupted, and `continue` goes on with it.
#[tokio::test(start_paused = true)]
async fn after_a_kill_the_reply_is_withdrawn_and_the_run_goes_on() {
    let api = Api::new([reads(), slow()]);
    let id = api.session(json!({})).await;
    let (mut reader, mut screen) = (api.events(&id, None).await, Screen::default());
    api.say(&id, "How many?").await;
    while !screen.streaming.values().any(|text| text.contains("w3")) {
        screen.see(&reader.next().await.unwrap());
    }
    let listed = api.get("/api/sessions").await["sessions"][0].clone();
    assert_eq!((&listed["run"], &listed["interrupted"]), (&json!("r1"), &json!(false)));
    let next = api.killed(&id, [Script::text("Nine.")]).await;
    assert_eq!(next.get("/api/sessions").await["sessions"][0]["interrupted"], true);
    let session = next.get(&format!("/api/sessions/{id}")).await;
    assert_eq!((&session["running"], &session["interrupted"]), (&json!(false), &json!(true)));
    let mut reader = next.events(&id, Some(screen.seq)).await;
    screen.see(&reader.next().await.unwrap());
    assert!(screen.streaming.is_empty(), "{screen:?}");
    let session = next.get(&format!("/api/sessions/{id}")).await;
    assert_eq!((&session["running"], &session["interrupted"]), (&json!(false), &json!(true)));
    assert_eq!(next.call("POST", &format!("/api/sessions/{id}/continue"), None).await.0, 202);
    reader.until("agent_end").await.iter().for_each(|frame| screen.see(frame));
    let messages = next.get(&format!("/api/sessions/{id}/messages")).await;
    assert_eq!(messages["messages"], json!(screen.messages));
    assert_eq!(messages["seq"], screen.seq);
    assert_eq!(screen.messages.last().unwrap()["parts"][0]["text"], "Nine.");
    assert_eq!(next.get(&format!("/api/sessions/{id}")).await["interrupted"], false);
}

/// A stream that is silent says every 15 seconds that it is there.
#[tokio::test(start_paused = true)]
async fn a_silent_stream_has_heartbeats() {
    let api = Api::new([]);
    let id = api.session(json!({})).await;
    let mut reader = api.events(&id, None).await;
    let begun = tokio::time::Instant::now();
    for beat in 1..=3 {
        let text = reader.next_text().await.unwrap();
        assert!(text.starts_with(':'), "{text}");
        assert_eq!(begun.elapsed().as_secs(), 15 * beat);
    }
}

/// C97: a reader that takes nothing neither holds the run up nor the others.
#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_holds_nobody_up() {
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

/// What goes wrong with the model is told in `agent_end`, what was said stays, and the session goes
/// on.
#[tokio::test(start_paused = true)]
async fn a_model_that_dies_or_stalls_is_told_and_the_session_goes_on() {
    let dies = Script::new().say("half").fail(ModelErrorKind::Network, "the connection broke");
    let stalls = Script::new().say("half").hang();
    let api = Api::new([dies, stalls, Script::text("whole")]);
    let id = api.session(json!({})).await;
    let mut reader = api.events(&id, None).await;
    api.say(&id, "one").await;
    let mut told = reader.until("agent_end").await;
    let end = &told.last().unwrap().data;
    assert_eq!((&end["end"], &end["model_error"]), (&json!("error"), &json!("network")), "{end}");
    api.say(&id, "two").await;
    told.extend(reader.until("message_update").await);
    assert_eq!(api.call("POST", &format!("/api/sessions/{id}/abort"), None).await.0, 202);
    told.extend(reader.until("agent_end").await);
    assert_eq!(told.last().unwrap().data["end"], "aborted");
    api.say(&id, "three").await;
    told.extend(reader.until("agent_end").await);
    assert_eq!(told.last().unwrap().data["end"], "done");
    let screen = Screen::of(&told);
    assert_eq!(
        api.get(&format!("/api/sessions/{id}/messages")).await["messages"],
        json!(screen.messages)
    );
}

/// A full disk: what cannot be kept is refused or ends the run with an error; all that was told is
/// there afterwards.
#[tokio::test(start_paused = true)]
async fn a_full_disk_is_told_and_nothing_that_was_told_is_lost() {
    for room in 3..14 {
        let full_after = Arc::new(AtomicU64::new(room));
        let store =
            Arc::new(Faulty { inner: InMemoryStore::new(), full_after: full_after.clone() });
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
            let told = reader.until("agent_end").await;
            told.iter().for_each(|frame| screen.see(frame));
            let end = &told.last().unwrap().data;
            let enough = end["end"] == "done";
            assert!(enough || end["error"].as_str().unwrap().contains("the disk is full"), "{end}");
        }
        full_after.store(u64::MAX, Ordering::Relaxed);
        // The first event after a fault may tell that the interrupted run has ended.
        let (status, accepted) =
            api.post(&format!("/api/sessions/{id}/prompt"), json!({ "message": "more" })).await;
        assert_eq!(status, 202, "{accepted}");
        loop {
            let frame = reader.next().await.unwrap();
            screen.see(&frame);
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
        let again = api.events(&id, None).await.until_seq(screen.seq).await;
        assert_eq!(Screen::of(&again).told, screen.told);
    }
}

/// C101: once the server drains, nothing new begins; whoever listens is told, hears the run out,
/// and the stream ends.
#[tokio::test(start_paused = true)]
async fn a_server_that_ends_tells_its_readers_and_takes_no_new_runs() {
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
        assert_eq!(api.call("GET", "/healthz", None).await.0, 503);
        gate.open();
        let rest = reader.until("agent_end").await;
        assert_eq!(rest.last().unwrap().data["end"], "done");
        assert_eq!(reader.next().await, None);
    });
}

/// C101: what would begin a run by another way than a prompt begins none either.
#[tokio::test(start_paused = true)]
async fn a_steer_instead_of_an_answer_begins_no_run_in_a_server_that_ends() {
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

/// C101: a run that does not end in time is left as it is, and the next server can go on with it.
#[tokio::test(start_paused = true)]
async fn a_run_that_outlives_the_grace_is_interrupted_and_goes_on_elsewhere() {
    let api = Api::new([Script::new().say("half").hang()]);
    let id = api.session(json!({})).await;
    let (mut reader, mut screen) = (api.events(&id, None).await, Screen::default());
    api.say(&id, "go").await;
    reader.until("message_update").await.iter().for_each(|frame| screen.see(frame));
    let begun = tokio::time::Instant::now();
    api.drain(Duration::from_secs(10)).await;
    assert_eq!(begun.elapsed().as_secs(), 10);
    assert_eq!(reader.next().await.unwrap().event, "draining");
    assert_eq!(reader.next().await, None);
    let next = api.killed(&id, [Script::text("whole")]).await;
    let mut reader = next.events(&id, Some(screen.seq)).await;
    assert_eq!(next.call("POST", &format!("/api/sessions/{id}/continue"), None).await.0, 202);
    reader.until("agent_end").await.iter().for_each(|frame| screen.see(frame));
    assert_eq!(screen.messages.last().unwrap()["parts"][0]["text"], "whole");
}
