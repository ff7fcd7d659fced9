//! Limits of runs, sessions and bodies, and clean-up after dropped requests.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use futures::StreamExt;
use loopwright_core::SessionStore;
use loopwright_core::limits::Budget;
use loopwright_core::log::{InMemoryStore, LogEntry};
use loopwright_core::model::{BlockKind, ModelEvent};
use loopwright_core::testing::{Gate, Script};
use serde_json::{Value, json};

use crate::api::{Api, Reader};

fn waits(gate: &Gate) -> Script {
    Script::new().say("half").gate(gate).say(" whole")
}

fn refused((status, body): (u16, Value), message: &str) {
    assert_eq!((status, &body["error"]["kind"]), (429, &json!("too_many")), "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains(message), "{body}");
}

async fn metric(api: &Api, line: &str) -> bool {
    api.get("/metrics").await.as_str().unwrap().contains(&format!("loopwright_{line}\n"))
}

fn chat(message: &str) -> Value {
    let config = json!({ "apiKey": "k", "model": "m", "provider": "openai" });
    json!({ "message": message, "workDir": ".", "llmConfig": config })
}

/// C107: Runs of live sessions and of requests count together for each client. Further ones are
/// refused until one has ended. Input for a run in progress is accepted. A run that waits for a
/// decision does not count.
#[tokio::test(start_paused = true)]
async fn the_runs_of_a_client_are_bounded() {
    let (first, second) = (Gate::new(), Gate::new());
    let writes = Script::new().call("a", "write_file", r#"{"path": "new.txt", "content": "ten"}"#);
    let replies =
        [writes, waits(&first), waits(&second), Script::text("other"), Script::text("queued")];
    let replies = replies.into_iter().chain((0..4).map(|_| Script::text("more")));
    let api =
        Api::with(Arc::new(InMemoryStore::new()), replies, |builder| builder.max_runs(2, 100));
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(api.session(json!({})).await);
    }
    let path = |session: usize, what: &str| format!("/api/sessions/{}/{what}", ids[session]);
    let say = json!({ "message": "go" });
    api.say(&ids[0], "Write.").await;
    let asked = api.run(&ids[0], None).await;
    assert_eq!(asked.last().unwrap().data["end"], "awaiting_action");
    let mut readers = [api.events(&ids[1], None).await, api.events(&ids[2], None).await];
    for (at, reader) in readers.iter_mut().enumerate() {
        api.say(&ids[at + 1], "go").await;
        reader.until("message_update").await;
    }

    let too_many = "Too many runs";
    refused(api.post(&path(3, "prompt"), say.clone()).await, too_many);
    refused(api.post(&path(3, "continue"), json!({})).await, too_many);
    refused(api.post(&path(3, "compact"), json!({})).await, too_many);
    refused(api.post("/api/agent-chat", chat("go")).await, too_many);
    let action = api.get("/api/actions").await["actions"][0].clone();
    let approve = json!({ "digest": action["digest"], "decision": "approve" });
    let answer = path(0, &format!("actions/{}", action["call"].as_str().unwrap()));
    refused(api.post(&answer, approve.clone()).await, too_many);
    refused(api.post(&path(0, "steer"), say.clone()).await, too_many);
    assert_eq!(api.get("/api/actions").await["actions"][0], action, "the action is unchanged");

    let other = api.at_another_address();
    other.say(&ids[3], "Another client has its own runs.").await;
    assert_eq!(other.run(&ids[3], None).await.last().unwrap().data["text"], "other");
    api.say(&ids[1], "This waits for the run in progress.").await;
    assert_eq!(api.post(&path(2, "steer"), say.clone()).await.0, 202);

    first.open();
    readers[0].until("agent_end").await;
    assert_eq!(readers[0].until("agent_end").await.last().unwrap().data["text"], "queued");
    assert_eq!(api.post(&answer, approve).await.0, 200, "there is room");
    let last = asked.iter().rev().find_map(|frame| frame.id);
    assert_eq!(api.run(&ids[0], last).await.last().unwrap().data["end"], "done");
    assert_eq!(api.post("/api/agent-chat", chat("go")).await.0, 200);
    // Requests that start no run release their permit too.
    for _ in 0..3 {
        assert_eq!(api.post(&path(3, "compact"), json!({})).await.0, 200);
        assert_eq!(api.post(&path(3, "continue"), json!({})).await.0, 409);
    }
    assert_eq!(api.post(&path(2, "abort"), json!({})).await.0, 202);
    readers[1].until("agent_end").await;
}

/// C211: The operator's budget bounds a run, whatever its session and its request ask for.
#[tokio::test(start_paused = true)]
async fn the_operator_bounds_what_a_run_uses() {
    let reads = || Script::new().call("a", "read_file", r#"{"path": "notes.txt"}"#);
    let hangs = || Script::new().say("half").hang();
    let time = Budget::default().time(Duration::from_secs(5));
    for (budget, reply, limit) in
        [(Budget::default().turns(1), reads(), "turns"), (time, hangs(), "wall_time")]
    {
        let store = Arc::new(InMemoryStore::new());
        let api = Api::with(store, vec![reply; 4], |server| server.run_budget(budget));
        let id = api.session(json!({ "maxTurns": 40, "approve": ["all"] })).await;
        let start = tokio::time::Instant::now();
        api.say(&id, "go").await;
        let end = api.run(&id, None).await.pop().unwrap().data;
        assert_eq!((&end["end"], &end["limit"]), (&json!("limit"), &json!(limit)), "{end}");
        let (_, frames) = api.post("/api/agent-chat", chat("go")).await;
        assert!(frames.as_str().unwrap().contains(r#""kind":"limit""#), "{frames}");
        assert!(start.elapsed().as_secs() <= 10, "{:?}", start.elapsed());
    }
}

/// C108: The number of open sessions is bounded. The least recently used one is closed to open
/// another, but never one with a run or a reader.
#[tokio::test(start_paused = true)]
async fn the_number_of_open_sessions_is_bounded() {
    let gate = Gate::new();
    let api = Api::with(Arc::new(InMemoryStore::new()), [waits(&gate)], |builder| {
        builder.max_open_sessions(2)
    });
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(api.session(json!({})).await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(metric(&api, "live_sessions 2").await);
    let reader = api.events(&ids[0], None).await; // closes the second
    api.say(&ids[2], "go").await;
    let full = "Too many sessions are open";
    refused(api.post("/api/sessions", json!({})).await, full);
    refused(api.try_events(&ids[1], None).await.err().unwrap(), full);
    assert_eq!(api.get(&format!("/api/sessions/{}", ids[2])).await["running"], true);
    assert_eq!(
        api.get(&format!("/api/sessions/{}", ids[1])).await["running"],
        false,
        "reading needs no open session"
    );
    assert!(metric(&api, "live_sessions 2").await, "refused requests leave no slot");
    drop(reader);
    let mut reader = api.events(&ids[1], None).await;
    assert!(reader.ready().is_none(), "it has no events");
    gate.open();
    assert_eq!(api.run(&ids[2], None).await.last().unwrap().data["end"], "done");
}

/// A byte order mark before a body is ignored. Alone it is not the empty body, which is `{}`.
#[tokio::test(start_paused = true)]
async fn a_body_may_begin_with_a_byte_order_mark() {
    let api = Api::new([]);
    for (body, status) in [("\u{feff}{}", 201), ("", 201), ("\u{feff}", 400)] {
        let request = Request::post("/api/sessions").header("content-type", "application/json");
        let request = request.body(Body::from(body)).unwrap();
        assert_eq!(api.send(request).await.status(), status, "{body:?}");
    }
}

/// C430: A body with very many values is refused before it is parsed, by each protocol.
#[tokio::test(start_paused = true)]
async fn a_body_with_too_many_values_is_refused() {
    let api = Api::new([]);
    let body = json!({ "message": "go", "many": vec![0; 200_000] });
    for path in ["/api/sessions", "/v1/chat/completions", "/ag-ui/agent", "/a2a/agent"] {
        let (status, answer) = api.post(path, body.clone()).await;
        assert_eq!(status, 413, "{path}: {answer}");
        assert!(answer.to_string().contains("more than 200000 JSON values"), "{path}: {answer}");
    }
}

/// A session is not deleted during a run that has just started.
#[tokio::test(start_paused = true)]
async fn a_session_is_not_deleted_right_after_a_prompt() {
    let api = Api::new([Script::new().say("half").hang()]);
    let id = api.session(json!({})).await;
    api.say(&id, "go").await;
    let path = format!("/api/sessions/{id}");
    let answer = tokio::time::timeout(Duration::from_secs(1), api.call("DELETE", &path, None))
        .await
        .unwrap();
    assert_eq!(
        (answer.0, &answer.1["error"]["kind"]),
        (409, &json!("run_in_progress")),
        "{answer:?}"
    );
    assert_eq!(api.get(&path).await["running"], true);
}

/// C108: A request that is dropped at any point keeps no session open for longer than an unused
/// one.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_leaves_nothing_open() {
    let first = Api::new([]);
    let id = first.session(json!({})).await;
    let cases =
        [("POST", "/api/sessions".to_owned()), ("GET", format!("/api/sessions/{id}/events"))];
    for (method, path) in cases {
        let mut wakes = 0;
        loop {
            let api = first.killed(&id, []).await;
            if api.disconnect(wakes, method, &path, json!({})).await {
                break;
            }
            tokio::time::sleep(Duration::from_secs(121)).await;
            assert!(
                metric(&api, "live_sessions 0").await,
                "{method} {path}, dropped when it was woken {wakes} times"
            );
            wakes += 1;
        }
        assert!(wakes > 0, "{method} {path} was complete at once");
    }
}

/// C107: A run that starts automatically, because the server died between a decision and the call
/// that it allows, is counted and never refused.
#[tokio::test(start_paused = true)]
async fn a_run_that_starts_automatically_is_counted() {
    let writes = Script::new().call("a", "write_file", r#"{"path": "new.txt", "content": "ten"}"#);
    let died = Api::new([writes, Script::text("Done.")]);
    let id = died.session(json!({})).await;
    died.say(&id, "Write.").await;
    died.run(&id, None).await;
    let action = died.get("/api/actions").await["actions"][0].clone();
    let answer = json!({ "digest": action["digest"], "decision": "approve" });
    assert_eq!(
        died.post(
            &format!("/api/sessions/{id}/actions/{}", action["call"].as_str().unwrap()),
            answer
        )
        .await
        .0,
        200
    );
    let mut items = died.store.read(&id, 0).await.unwrap();
    let decided = items.iter().position(|item| matches!(item, LogEntry::Decided { .. })).unwrap();
    items.truncate(decided + 1);
    let (store, gate) = (InMemoryStore::new(), Gate::new());
    store.open(&id).await.unwrap().append(0, items.into()).await.unwrap();
    let api = Api::with(Arc::new(store), [waits(&gate), Script::text("Also.")], |builder| {
        builder.max_runs(1, 1)
    });
    let other = api.session(json!({})).await;
    let mut reader = api.events(&id, None).await;
    reader.until("message_update").await;
    let say = json!({ "message": "go" });
    refused(api.post(&format!("/api/sessions/{other}/prompt"), say.clone()).await, "Too many runs");
    assert_eq!(
        api.post(&format!("/api/sessions/{id}/steer"), say.clone()).await.0,
        202,
        "it belongs to that run"
    );
    gate.open();
    reader.until("agent_end").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(api.post(&format!("/api/sessions/{other}/prompt"), say).await.0, 202);
}

/// C109: a client that disconnects while its run is being started ends it, at any point.
#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_while_its_run_starts_ends_it() {
    let mut wakes = 0;
    loop {
        let slow = Script::new().stream(["I ", "write."], Duration::from_secs(1));
        let writes = slow.call("a", "write_file", r#"{"path": "new.txt", "content": "ten"}"#);
        let api = Api::with(Arc::new(InMemoryStore::new()), [writes, Script::text("Done.")], |b| {
            b.max_runs(1, 1)
        });
        if api.disconnect(wakes, "POST", "/api/agent-chat", chat("Write.")).await {
            break;
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(
            !api.root.path().join("new.txt").exists(),
            "dropped when it was woken {wakes} times, it continued"
        );
        let (status, answer) = api.post("/api/agent-chat", chat("Again.")).await;
        assert_eq!(status, 200, "its permit is released: {answer}");
        wakes += 1;
    }
    assert!(wakes > 0, "it was complete at once");
}

/// C110: when a client of `/api/agent-chat` has not read 65,536 events, its run is stopped, and the
/// last frames are an error.
#[tokio::test(start_paused = true)]
async fn the_run_of_a_client_that_lags_is_stopped_with_an_error() {
    let call = |n: u32| BlockKind::ToolCall {
        id: format!("c{n}").as_str().into(),
        name: "read_file".into(),
    };
    let much = (0..65_600).fold(Script::new(), |script, block| {
        let script = script.event(ModelEvent::BlockStart { block, kind: call(block) });
        script.event(ModelEvent::BlockEnd { block, signature: None })
    });
    let replies = [much.hang(), Script::text("Done.")];
    let api = Api::with(Arc::new(InMemoryStore::new()), replies, |builder| builder.max_runs(1, 1));
    let mut reader = api.stream("/api/agent-chat", chat("Talk.")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        frame_types(&mut reader).await,
        ["agent_start", "thinking_start", "error too_slow", "complete"]
    );
    assert_eq!(api.post("/api/agent-chat", chat("Again.")).await.0, 200, "its permit is released");
}

/// C111: At a shutdown a run of `/api/agent-chat` ends within the grace period, or is stopped then.
/// `complete` is its last frame in either case, after an `error` if it was stopped.
#[tokio::test(start_paused = true)]
async fn a_run_that_outlives_the_grace_has_a_last_frame() {
    let gate = Gate::new();
    for (reply, in_time, end) in [
        (Script::new().say("half").gate(&gate), true, vec!["content", "thinking_end", "complete"]),
        (Script::new().say("half").hang(), false, vec!["content", "error draining", "complete"]),
    ] {
        let api = Api::new([reply]);
        let mut reader = api.stream("/api/agent-chat", chat("Talk.")).await;
        let start = tokio::time::Instant::now();
        let (frames, ()) = tokio::join!(frame_types(&mut reader), async {
            tokio::join!(api.drain(Duration::from_secs(7)), async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                gate.open();
            });
        });
        assert_eq!(frames[2..], end);
        assert_eq!(start.elapsed().as_secs(), if in_time { 5 } else { 7 });
        drop(reader);
        assert!(metric(&api, "runs_active 0").await && metric(&api, "event_streams 0").await);
    }
}

/// C112: The total size of all bodies is bounded. A slow body counts as far as it has arrived, and
/// is released in the end.
#[tokio::test(start_paused = true)]
async fn the_size_of_all_bodies_together_is_bounded() {
    let api =
        Api::with(Arc::new(InMemoryStore::new()), [], |builder| builder.max_bodies(1_000_000));
    let begins = |size: usize| {
        let (first, never) = (
            futures::stream::iter([Ok::<_, Infallible>(vec![b' '; size])]),
            futures::stream::pending(),
        );
        let body = Body::from_stream(first.chain(never));
        Request::post("/api/sessions")
            .header("content-type", "application/json")
            .body(body)
            .unwrap()
    };
    let long = |length: usize| json!({ "system": "n".repeat(length) });
    let slow = [api.respond(begins(300_000)), api.respond(begins(300_000))];
    let mut slow = futures::future::join_all(slow);
    assert!(futures::poll!(&mut slow).is_pending());
    refused(api.post("/api/sessions", long(500_000)).await, "Too many large requests");
    assert_eq!(api.post("/api/sessions", long(300_000)).await.0, 201, "there is room for it");
    for _ in 0..5 {
        assert_eq!(api.post("/api/sessions", long(300_000)).await.0, 201, "it was released");
    }
    let answers = slow.await; // thirty seconds later
    assert!(
        answers
            .iter()
            .all(|(status, body)| *status == 400 && body.to_string().contains("too long")),
        "{answers:?}"
    );
    assert_eq!(api.post("/api/sessions", long(900_000)).await.0, 201);
}

/// C112: A body has thirty seconds in total, even if another byte keeps arriving.
#[tokio::test(start_paused = true)]
async fn a_body_that_drips_is_refused() {
    let api = Api::new([]);
    let bytes = futures::stream::unfold((), async |()| {
        tokio::time::sleep(Duration::from_secs(7)).await;
        Some((Ok::<_, Infallible>(vec![b' ']), ()))
    });
    let request = Request::post("/api/sessions")
        .header("content-type", "application/json")
        .body(Body::from_stream(bytes))
        .unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(31), api.respond(request)).await;
    let (status, body) = answer.expect("an answer after thirty seconds");
    assert!(status == 400 && body.to_string().contains("too long"), "{status} {body}");
}

/// Returns the types of the frames up to the end, and the kind of each `error`.
async fn frame_types(reader: &mut Reader) -> Vec<String> {
    let mut types = Vec::new();
    while let Some(frame) = reader.next_text().await {
        let frame: Value = serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap();
        let [kind, error] = [&frame["type"], &frame["kind"]]
            .map(|word| word.as_str().unwrap_or_default().to_owned());
        types.push(format!("{kind} {error}").trim().to_owned());
    }
    types
}
