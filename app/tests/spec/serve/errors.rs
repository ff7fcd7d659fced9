//! Errors of `serve`, as the client, the log and the command line show them.

use std::path::{Path, PathBuf};

use loopwright_test_support::http::Connection;
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::project;
use serde_json::{Value, json};

use super::{KEY, Served, types};
use crate::BIN;

/// C98: Before its stream starts a run fails with an HTTP status, afterwards with an `error` frame.
/// Neither of them and no log contains a key.
#[test]
fn errors_are_sent_in_an_error_frame() {
    let served = Served::start_with(&[], &[("LOOPWRIGHT_LOG", "trace")]);
    let mut connection = served.ask("Fail", &json!({}));
    let message = format!("Incorrect API key provided: {KEY}.");
    let why = json!({ "error": { "message": message, "type": "invalid_request_error" } });
    served.model.request().answer("401 Unauthorized", &why);
    let events = connection.events();
    assert_eq!(
        types(&events),
        ["agent_start", "thinking_start", "error", "complete"],
        "{events:?}"
    );
    let error = &events[events.len() - 2];
    assert_eq!(error["kind"], "auth");
    assert!(error["message"].as_str().unwrap().contains("did not accept the key"), "{error}");
    assert!(!format!("{events:?}").contains(KEY));

    let mut connection = served.ask("Break off", &json!({}));
    let request = served.model.request();
    request.answer("400 Bad Request", &json!({ "error": { "message": "No such thing." } }));
    assert_eq!(connection.event_of("error")["kind"], "invalid_request");
    assert!(connection.events().iter().all(|event| event["type"] == "complete"));
    served.process.signal("-TERM");
    let log = served.process.end().err;
    let logged = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(
        (logged("a run begins"), logged("close")),
        (2, 4),
        "runs and replies are in it: {log}"
    );
    assert!(!log.contains(KEY), "{log}");
}

/// C312: No file of a store contains a key or a header of a client, even if the model's server
/// sends them back.
#[test]
fn no_file_of_a_store_contains_a_key() {
    const HEADER: &str = "a-header-of-the-team-0123";
    for store in ["kept/sessions.db", "kept/"] {
        let served = Served::start_own(&["--store", store], &[("CUSTOM_API_KEY", KEY)]);
        let post = |path: &str, body: Value| {
            let mut connection = Connection::post(&served.address, path, "", &body.to_string());
            let response = connection.response().unwrap();
            assert!(response.status < 300, "{response:?}");
            serde_json::from_str::<Value>(&response.body).unwrap()
        };
        let id = post("/api/sessions", json!({}))["id"].as_str().unwrap().to_owned();
        let mut events = Connection::open(&served.address);
        let head =
            format!("GET /api/sessions/{id}/events HTTP/1.1\r\nHost: {}\r\n\r\n", served.address);
        events.send(head.as_bytes());
        assert_eq!(events.head().unwrap().0, 200);
        for refuse in [true, false] {
            post(&format!("/api/sessions/{id}/prompt"), json!({ "message": "Count the sheep." }));
            let request = served.model.request();
            assert!(request.head.contains(KEY), "it is sent: {}", request.head);
            match refuse {
                true => request.answer("401 Unauthorized", &json!({ "error": { "message": KEY } })),
                false => request.say("Nine sheep."),
            }
            loop {
                let frame = events.frame().unwrap();
                assert!(!frame.contains(KEY), "{frame}");
                if frame.lines().any(|line| line.trim_end() == "event: agent_end") {
                    break;
                }
            }
        }
        let mut body = served.body("Count the goats.", &json!({}));
        body["llmConfig"]["headers"] = json!({ "x-team": HEADER });
        let mut connection = served.post(&body);
        let request = served.model.request();
        let echoed = format!("{KEY} and {HEADER} are wrong");
        assert!(request.head.contains(HEADER), "it is sent: {}", request.head);
        request.answer("400 Bad Request", &json!({ "error": { "message": echoed } }));
        assert_eq!(connection.head().unwrap().0, 200);
        let events = format!("{:?}", connection.events());
        assert!(events.contains("error") && !events.contains(KEY), "{events}");
        assert!(!events.contains(HEADER), "{events}");
        let check = || {
            let mut files = Vec::new();
            files_below(&served.dir.path().join("kept"), &mut files);
            let has = |file: &[u8], text: &str| {
                file.windows(text.len()).any(|part| part == text.as_bytes())
            };
            assert!(files.iter().any(|(_, file)| has(file, "Nine sheep.")), "it is stored here");
            for (path, file) in &files {
                let secret = [KEY, HEADER].into_iter().find(|secret| has(file, secret));
                assert_eq!(secret, None, "{}", path.display());
            }
        };
        check();
        served.process.signal("-TERM");
        let log = served.process.end().err;
        assert!(!log.contains(KEY) && !log.contains(HEADER), "{log}");
        check();
    }
}

/// Reads all files below a directory.
fn files_below(dir: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files_below(&path, files),
            false => {
                let contents = std::fs::read(&path).unwrap();
                files.push((path, contents));
            }
        }
    }
}

#[test]
fn the_log_is_as_much_as_the_environment_says() {
    let dir = project();
    let wrong = BIN
        .start_with(&dir, &["serve", "--addr", "127.0.0.1:0"], &[("LOOPWRIGHT_LOG", "loud")])
        .end();
    assert!(
        wrong.code == 2 && wrong.err.contains("LOOPWRIGHT_LOG is \"loud\". It must be `error`"),
        "{wrong:?}"
    );
    for (level, lines) in [("", [false, false]), ("info", [true, false]), ("debug", [true, true])] {
        let served = Served::start_with(&[], &[("LOOPWRIGHT_LOG", level)]);
        let mut connection = served.ask("Hello", &json!({}));
        served.model.request().say("Hello.");
        connection.events();
        served.process.signal("-TERM");
        let log = served.process.end().err;
        assert_eq!(
            ["invoke_agent", "a run begins"].map(|text| log.contains(text)),
            lines,
            "{level}: {log}"
        );
    }
}

/// C210: Each line of the log is a JSON object, and each request has one.
#[test]
fn the_log_can_be_json() {
    let served = Served::start_with(&["--log-format", "json"], &[("LOOPWRIGHT_LOG", "debug")]);
    let mut connection = served.ask("Hello", &json!({}));
    served.model.request().say("Hello.");
    connection.events();
    served.process.signal("-TERM");
    let log = served.process.end().err;
    let (notices, lines): (Vec<&str>, Vec<&str>) = log
        .lines()
        .partition(|line| line.starts_with("Serving at") || line.starts_with("Stopping"));
    assert_eq!(notices.len(), 2, "{log}");
    let lines: Vec<Value> =
        lines.into_iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let request =
        lines.iter().map(|line| &line["fields"]).find(|fields| fields["path"].is_string());
    let request = request.unwrap_or_else(|| panic!("{log}"));
    assert_eq!(
        (&request["method"], &request["path"], &request["status"]),
        (&json!("POST"), &json!("/api/agent-chat"), &json!(200))
    );
    assert!(lines.iter().any(|line| line["span"]["name"] == "invoke_agent"), "{log}");
    assert!(!log.contains(KEY), "{log}");
}

#[test]
fn what_is_wrong_before_the_stream_is_an_http_error_that_says_where() {
    let mut served = Served::start(&[]);
    let with = |field: &str, value: Value| {
        let mut body = served.body("Hello", &json!({}));
        *body.pointer_mut(field).unwrap() = value;
        body
    };
    let missing = |field: &str| {
        let mut body = served.body("Hello", &json!({}));
        body.as_object_mut().unwrap().remove(field);
        body
    };
    let file = served.dir.path().join("Cargo.toml");
    let cases = [
        (missing("message"), 400, Value::Null, "The field `message` is missing"),
        (with("/message", json!(" ")), 400, json!("/message"), "empty"),
        (with("/message", json!({ "key": KEY })), 400, json!("/message"), "a string"),
        (
            with("/workDir", json!(served.dir.path().join("no"))),
            400,
            json!("/workDir"),
            "does not exist",
        ),
        (with("/workDir", json!(file)), 400, json!("/workDir"), "not a directory"),
        (with("/workDir", json!("/usr")), 400, json!("/workDir"), "outside"),
        (with("/llmConfig/model", json!("")), 400, json!("/llmConfig/model"), "model"),
        (with("/llmConfig/model", json!([KEY])), 400, json!("/llmConfig/model"), "a string"),
        (with("/llmConfig/baseUrl", json!("nowhere")), 400, json!("/llmConfig"), "base URL"),
        (with("/llmConfig/apiKey", json!("")), 401, json!("/llmConfig/apiKey"), "no API key"),
        (with("/llmConfig/apiKey", Value::Null), 401, json!("/llmConfig/apiKey"), "no API key"),
        (missing("llmConfig"), 401, json!("/llmConfig/apiKey"), "no API key"),
        (with("/llmConfig", json!(KEY)), 400, json!("/llmConfig"), "not what is expected"),
    ];
    for (body, status, path, says) in cases {
        let response = served.refused(&body);
        assert_eq!(response.status, status, "{body} {response:?}");
        let error: Value = serde_json::from_str(&response.body).unwrap();
        let missing = path.is_null();
        assert!(missing || error["error"]["path"] == path, "{error}");
        assert_eq!(
            error["error"]["kind"],
            if status == 401 { "unauthorized" } else { "bad_request" }
        );
        assert!(error["error"]["message"].as_str().unwrap().contains(says), "{error}");
        assert!(!response.body.contains(KEY), "{response:?}");
    }
    assert!(!served.process.err.so_far().contains(KEY));
}

#[test]
fn keys_of_the_servers_environment_are_not_for_clients() {
    let (dir, model) = (project(), Server::start());
    let vars =
        [("OPENAI_API_KEY", "sk-of-the-server-0123"), ("CUSTOM_API_KEY", "sk-of-the-server-0123")];
    let mut process = BIN.start_with(&dir, &["serve", "--addr", "127.0.0.1:0"], &vars);
    let address = process.err.word_after("http://");
    for provider in ["openai", "vllm", "custom"] {
        let config = json!({ "model": "m", "provider": provider, "baseUrl": model.url,
            "headers": { "authorization": "Bearer the-clients-own" } });
        let body = json!({ "message": "Hello", "workDir": ".", "llmConfig": config });
        let mut connection = Connection::post(&address, "/api/agent-chat", "", &body.to_string());
        let request = model.request();
        assert!(!request.head.contains("of-the-server"), "{}", request.head);
        request.say("Hello.");
        assert_eq!(connection.head().unwrap().0, 200);
        connection.events();
    }
}

#[test]
fn other_machines_reach_it_only_with_a_token() {
    let dir = project();
    let refused = BIN.start(&dir, &["serve", "--addr", "0.0.0.0:0"]).end();
    assert!(
        refused.code == 2 && refused.err.contains("run commands. Give one with --token"),
        "{refused:?}"
    );
    let short = BIN.start(&dir, &["serve", "--addr", "0.0.0.0:0", "--token", "short"]).end();
    assert!(short.code == 2 && short.err.contains("16 characters"), "{short:?}");
    let missing = BIN.start(&dir, &["serve", "--root", "missing"]).end();
    assert!(missing.code == 2 && missing.err.contains("missing"), "{missing:?}");
}
