//! The end of a run of `serve`: a client hangs up, or the server is asked to stop.

use std::fs::File;
use std::io::Read;
use std::process::Command;
use std::time::Instant;

use loopwright_test_support::TEST_TIMEOUT;
use loopwright_test_support::http::Connection;
use serde_json::json;

use super::{Served, types};

/// C97: When a client of `/api/agent-chat` hangs up, its model request ends.
#[test]
fn a_client_that_hangs_up_ends_the_model_request() {
    let served = Served::start(&[]);
    let mut connection = served.ask("Talk", &json!({}));
    let mut request = served.model.request();
    request.begin();
    request.text("Once upon");
    assert_eq!(connection.event_of("content")["content"], "Once upon");
    drop(connection);
    request.until_hung_up();
}

/// C97: Its processes end, too.
#[test]
fn a_client_that_hangs_up_ends_the_processes() {
    let served = Served::start(&["--max-runs", "1"]);
    for name in ["alive", "never"] {
        assert!(
            Command::new("mkfifo").arg(served.dir.path().join(name)).status().unwrap().success()
        );
    }
    let mut connection = served.ask("Hang", &json!({}));
    // All processes that the command starts hold `alive` open.
    let command = "exec 3>alive; (cat never) & echo up >&3; cat never";
    served.model.request().call(&[("execute_command", json!({ "command": command }))]);
    let mut alive = File::open(served.dir.path().join("alive")).unwrap();
    let mut up = [0; 3];
    alive.read_exact(&mut up).unwrap();
    connection.event_of("tool_use");
    assert_eq!(
        served.refused(&served.body("Another", &json!({}))).status,
        429,
        "one run is allowed"
    );
    drop(connection);
    assert_eq!(alive.read(&mut up).unwrap(), 0, "no process holds it open");
    // The permit of the run is released when the run is over.
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let mut connection = served.post(&served.body("Another", &json!({})));
        let (status, _) = connection.head().unwrap();
        if status == 200 {
            served.model.request().say("Here.");
            assert_eq!(connection.events().last().unwrap()["type"], "complete");
            break;
        }
        assert!(status == 429 && Instant::now() < deadline);
    }
}

#[test]
fn a_shutdown_finishes_current_runs_and_accepts_no_new_ones() {
    let mut served = Served::start(&[]);
    let mut connection = served.ask("Talk", &json!({}));
    let mut request = served.model.request();
    request.begin();
    request.text("Once upon ");
    connection.event_of("content");
    served.process.signal("-TERM");
    served.process.err.until("Stopping");
    let health = || {
        let mut connection = Connection::open(&served.address);
        connection
            .send(format!("GET /readyz HTTP/1.1\r\nhost: {}\r\n\r\n", served.address).as_bytes());
        connection.response().unwrap().status
    };
    while health() != 503 {} // the health check reports it before the server stops
    let refused = served.refused(&served.body("Another", &json!({})));
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.body.contains("draining"), "{refused:?}");
    request.text("a time.");
    request.end("stop");
    assert_eq!(connection.event_of("content")["content"], "a time.");
    assert_eq!(connection.events().last().unwrap()["type"], "complete");
    assert_eq!(served.process.end().code, 0);
}

/// C111: a run that outlasts the grace period is aborted, its client receives the error, and the
/// server exits.
#[test]
fn a_shutdown_stops_a_run_that_outlasts_the_grace_period_and_reports_it() {
    let mut served = Served::start(&["--grace", "0"]);
    let mut connection = served.ask("Talk", &json!({}));
    let mut request = served.model.request();
    request.begin();
    request.text("Once upon ");
    connection.event_of("content");
    served.process.signal("-TERM");
    served.process.err.until("current runs have 0 seconds");
    let last = connection.events();
    assert_eq!(types(&last), ["error", "complete"], "{last:?}");
    assert_eq!(last[0]["kind"], "draining");
    request.until_hung_up();
    assert_eq!(served.process.end().code, 0);
}

/// A second signal ends the server at once, whatever is running.
#[test]
fn a_second_ctrl_c_ends_it_at_once() {
    for first in ["-INT", "-TERM"] {
        let mut served = Served::start(&["--grace", "3600"]);
        let mut connection = served.ask("Talk", &json!({}));
        let mut request = served.model.request();
        request.begin();
        request.text("Once upon ");
        connection.event_of("content");
        served.process.signal(first);
        served.process.err.until("Stopping");
        served.process.interrupt();
        assert_eq!(served.process.end().code, 130, "after {first}");
        assert!(connection.events().is_empty(), "there was no time for words");
        request.until_hung_up();
    }
}
