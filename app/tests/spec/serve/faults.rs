//! `serve`, live sessions: the model server sends garbage or no reply, or the disk is full.

use loopwright_test_support::http::Connection;
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::project;
use serde_json::{Value, json};

use super::sessions::{Live, Screen};

/// Checks that the stored messages and sequence number equal the ones of `screen`, and that a new
/// client receives the same.
fn agree(live: &Live, id: &str, screen: &Screen) {
    let stored = live.get(&format!("/api/sessions/{id}/messages"), "").response().unwrap();
    let stored: Value = serde_json::from_str(&stored.body).unwrap();
    assert_eq!(
        (&stored["messages"], &stored["seq"]),
        (&json!(screen.messages), &json!(screen.seq))
    );
    let (mut fresh, mut events) = (Screen::default(), live.events(id, 0));
    while fresh.seq < screen.seq {
        fresh.read(&mut events).unwrap();
    }
    assert_eq!(fresh.messages, screen.messages);
}

/// C101: a model server drops the connection, sends garbage, or stops sending. The partial reply is
/// withdrawn, the request is retried where that can help, a run that hangs can be aborted, and the
/// session continues.
#[test]
fn what_a_broken_model_server_sends_is_withdrawn_and_the_session_goes_on() {
    let (dir, model) = (project(), Server::start());
    let live = Live::start(&dir, &model);
    let id = live.post("/api/sessions", &json!({ "workDir": dir.path() }))["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let (mut screen, mut events) = (Screen::default(), live.events(&id, 0));
    let say = |message: &str| {
        live.post(&format!("/api/sessions/{id}/prompt"), &json!({ "message": message }))
    };

    say("Dies");
    let mut request = model.request();
    request.begin();
    request.text("Once ");
    screen.until(&mut events, "message_update", "Once ");
    drop(request);
    screen.until(&mut events, "message_update", "withdrawn");
    let mut request = model.request();
    request.begin();
    request.text("Twice ");
    request.garbage();
    let mut request = model.request();
    request.begin();
    request.text("Whole.");
    request.end("stop");
    assert_eq!(screen.until(&mut events, "agent_end", "")["text"], "Whole.");

    say("Stalls");
    let mut request = model.request();
    request.begin();
    request.text("Half ");
    screen.until(&mut events, "message_update", "Half ");
    live.post(&format!("/api/sessions/{id}/abort"), &json!({}));
    request.until_hung_up();
    assert_eq!(screen.until(&mut events, "agent_end", "")["end"], "aborted");

    say("Continues");
    model.request().say("Yes.");
    assert_eq!(screen.until(&mut events, "agent_end", "")["text"], "Yes.");
    agree(&live, &id, &screen);
}

/// A full disk, simulated by a file size limit, for each kind of store. The error is reported in
/// the response or at the end of the run, and the server keeps running. Once there is space again,
/// the session continues without lost or duplicated events.
#[test]
fn a_full_disk_is_reported_and_the_session_continues_when_there_is_space() {
    for store in ["sessions.db", "sessions/"] {
        let (dir, model) = (project(), Server::start());
        let path = dir.path().join(store).display().to_string();
        // Files cannot grow beyond this limit. With the signal ignored, a write beyond it returns
        // an error.
        let limited = r#"trap "" XFSZ; ulimit -S -f 600; exec "$0" "$@""#;
        let live = Live::start_as(&dir, &model, &["sh", "-c", limited], &["--store", &path]);
        let id = live.post("/api/sessions", &json!({ "workDir": dir.path() }))["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let (mut screen, mut events) = (Screen::default(), live.events(&id, 0));
        let path = format!("/api/sessions/{id}/prompt");
        let long = "sheep ".repeat(10_000);
        let full = (0..100).any(|_| {
            let body = json!({ "message": "More" }).to_string();
            let response = Connection::post(&live.address, &path, "", &body).response().unwrap();
            if response.status != 202 {
                assert_eq!(response.status, 500, "{response:?}");
                return true;
            }
            let mut request = model.request();
            request.begin();
            request.text(&long);
            request.end("stop");
            let end = screen.until(&mut events, "agent_end", "");
            let why = end["error"].as_str().unwrap_or_default();
            assert!(
                end["end"] == "done" || why.contains("has room") || why.contains("disk full"),
                "{why}"
            );
            end["end"] != "done"
        });
        assert!(full, "{store}: the disk is never full");
        assert_eq!(live.get("/healthz", "").response().unwrap().status, 200);

        live.process.no_limit();
        live.post(&path, &json!({ "message": "Again" }));
        let mut request = model.request();
        while !request.last().contains("Again") {
            request.say("Before that.");
            request = model.request();
        }
        request.say("There is room.");
        screen.until(&mut events, "agent_end", "There is room.");
        agree(&live, &id, &screen);
    }
}
