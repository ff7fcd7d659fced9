//! `serve`, `POST /api/agent-chat`: the check marks of its specification, against a model server on
//! this machine.

use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{Connection, Response};
use crate::process::{Process, project};
use crate::server::Server;

/// The key that no log, error or event may have in it.
pub(crate) const KEY: &str = "sk-test-0123456789abcdef";

/// A served directory and the model's server.
pub(crate) struct Served {
    pub(crate) process: Process,
    pub(crate) dir: TempDir,
    pub(crate) model: Server,
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn start(args: &[&str]) -> Served {
        Served::start_with(args, &[])
    }

    /// With these environment variables besides.
    fn start_with(args: &[&str], vars: &[(&str, &str)]) -> Served {
        let (dir, model) = (project(), Server::start());
        let args = [&["serve", "--addr", "127.0.0.1:0"], args].concat();
        let mut process =
            Process::start_with(&dir, &args, &[&[("PATH", "/usr/bin:/bin")], vars].concat());
        let address = process.err.word_after("http://");
        Served { process, dir, model, address }
    }

    /// A request with this message, and with these fields over the usual ones.
    pub(crate) fn body(&self, message: &str, fields: &Value) -> Value {
        let config = json!({ "apiKey": KEY, "model": "test-model", "baseUrl": self.model.url, "provider": "openai" });
        let mut body =
            json!({ "message": message, "workDir": self.dir.path(), "llmConfig": config });
        for (name, value) in fields.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        body
    }

    /// Asks, and gives the connection once the stream has begun.
    pub(crate) fn ask(&self, message: &str, fields: &Value) -> Connection {
        let mut connection = self.post(&self.body(message, fields));
        let (status, head) = connection.head().unwrap();
        assert_eq!(status, 200, "{head}");
        connection
    }

    fn post(&self, body: &Value) -> Connection {
        Connection::post(&self.address, "/api/agent-chat", "", &body.to_string())
    }

    /// The response to a request that is refused.
    pub(crate) fn refused(&self, body: &Value) -> Response {
        self.post(body).response().unwrap()
    }
}

fn types(events: &[Value]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    types.dedup();
    types
}

/// C92: `/api/agent-chat` answers a request with an event stream, in the frames of its
/// specification, byte by byte
#[test]
fn the_route_takes_a_request_and_answers_with_an_event_stream() {
    let served = Served::start(&[]);
    let fields = json!({ "llmConfig": {
        "apiKey": KEY, "model": "test-model", "baseUrl": served.model.url, "provider": "openai",
        "temperature": 0.5, "maxTokens": 321, "headers": { "x-tenant": "blue" },
    } });
    let mut connection = served.post(&served.body("Hello\nthere", &fields));
    let request = served.model.request();
    assert!(request.head.contains(&format!("authorization: bearer {KEY}")), "{}", request.head);
    assert!(request.head.contains("x-tenant: blue"), "{}", request.head);
    assert_eq!(
        (&request.body["model"], &request.body["temperature"]),
        (&json!("test-model"), &json!(0.5))
    );
    assert!(request.body.to_string().contains("321"), "{}", request.body);
    let system = request.body["messages"][0]["content"].to_string();
    assert!(
        system.contains("You are an AI coding assistant working in the directory: /"),
        "{system}"
    );
    assert!(
        !system.contains("{workDir}") && !system.contains("{platform}") && system.contains("linux"),
        "{system}"
    );
    let tools = request.body["tools"].as_array().unwrap();
    let mut names: Vec<&str> =
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let eight = "diff edit_file execute_command glob_files list_directory read_file search_files write_file";
    assert_eq!(names.join(" "), eight);
    request.say("Let me\n\nlook…");
    let (status, head) = connection.head().unwrap();
    assert_eq!(status, 200);
    assert!(
        head.contains("content-type: text/event-stream")
            && head.contains("cache-control: no-cache"),
        "{head}"
    );
    let frames: Vec<String> = std::iter::from_fn(|| connection.frame()).collect();
    assert_eq!(
        frames,
        [
            "data: {\"type\":\"agent_start\"}\n\n",
            "data: {\"type\":\"thinking_start\"}\n\n",
            "data: {\"type\":\"content\",\"content\":\"Let me\\n\\nlook…\"}\n\n",
            "data: {\"type\":\"thinking_end\"}\n\n",
            "data: {\"type\":\"complete\"}\n\n",
        ]
    );
}

#[test]
fn the_agent_reads_a_file_and_tells_its_contents() {
    let served = Served::start(&[]);
    let mut connection = served.ask("Read it", &json!({}));
    served.model.request().call(&[("read_file", json!({ "path": "Cargo.toml" }))]);
    let request = served.model.request();
    assert!(request.last().contains("Counts sheep for engineers"), "{}", request.body);
    request.say("It counts sheep.");
    let events = connection.events();
    let use_and_result =
        ["agent_start", "thinking_start", "thinking_end", "tool_use", "tool_result"];
    let answer = ["thinking_start", "content", "thinking_end", "complete"];
    assert_eq!(types(&events), [&use_and_result[..], &answer[..]].concat());
    let tool_use = json!({ "type": "tool_use", "toolName": "read_file", "toolInput": { "path": "Cargo.toml" },
        "toolId": "call_0" });
    assert_eq!(events[3], tool_use);
    assert_eq!((&events[4]["toolId"], &events[4]["isError"]), (&json!("call_0"), &json!(false)));
    assert!(
        events[4]["content"].as_str().unwrap().contains("Counts sheep for engineers"),
        "{}",
        events[4]
    );
}

#[test]
fn the_agent_runs_a_command_and_tells_its_output() {
    let served = Served::start(&[]);
    let mut connection = served.ask("Run it", &json!({}));
    let command = "pwd; echo to-stdout; echo to-stderr >&2; echo written > file";
    served.model.request().call(&[("execute_command", json!({ "command": command }))]);
    let request = served.model.request();
    let last = request.last();
    let dir = std::fs::canonicalize(served.dir.path()).unwrap().display().to_string();
    assert!([&dir, "to-stdout", "to-stderr"].iter().all(|text| last.contains(*text)), "{last}");
    request.say("Done.");
    let events = connection.events();
    let live: String = events
        .iter()
        .filter(|e| e["type"] == "tool_update")
        .filter_map(|e| e["content"].as_str())
        .collect();
    assert!(live.contains("to-stdout"), "{events:?}");
    let result = events.iter().find(|event| event["type"] == "tool_result").unwrap();
    assert!(
        result["isError"] == false && result["content"].as_str().unwrap().contains("to-stderr"),
        "{result}"
    );
    assert_eq!(std::fs::read_to_string(served.dir.path().join("file")).unwrap(), "written\n");
}

/// C93: A history of either form is a conversation in which every call has its result; nothing is
/// kept of a request
#[test]
fn the_history_reaches_the_model_and_the_agent_goes_on_from_it() {
    let served = Served::start(&[]);
    let of_the_specification = json!([
        { "role": "user", "content": "What is in Cargo.toml?" },
        { "role": "assistant", "content": "Let me look." },
        { "role": "tool", "content": "", "toolName": "read_file", "toolInput": { "path": "Cargo.toml" },
          "toolResult": "sheep" },
        { "role": "assistant", "content": "Sheep." },
    ]);
    let with_ids = json!([
        { "role": "user", "content": "What is in Cargo.toml?" },
        { "role": "assistant", "content": "Let me look.", "toolName": "read_file", "toolInput": { "path": "Cargo.toml" },
          "toolCallId": "a" },
        { "role": "tool", "content": "sheep", "toolCallId": "a" },
        { "role": "assistant", "content": "Sheep." },
    ]);
    let our_own = json!([
        { "id": "m1", "role": "user", "content": [{ "type": "text", "text": "What is in Cargo.toml?" }] },
        { "id": "m2", "role": "assistant", "stop": "tool_calls", "model": "openai/other", "parts": [
            { "type": "text", "text": "Let me look." },
            { "type": "tool_call", "id": "a", "name": "read_file", "arguments": "{\"path\":\"Cargo.toml\"}" } ] },
        { "id": "m3", "role": "tool_result", "call": "a", "name": "read_file", "status": "ok",
          "content": [{ "type": "text", "text": "sheep" }] },
        { "id": "m4", "role": "custom", "kind": "note", "data": { "not": "for the model" } },
        { "id": "m5", "role": "assistant", "stop": "stop", "model": "openai/other",
          "parts": [{ "type": "text", "text": "Sheep." }] },
    ]);
    for history in [of_the_specification, with_ids, our_own] {
        let mut connection = served.ask("How many?", &json!({ "history": history }));
        let request = served.model.request();
        let messages = request.body["messages"].as_array().unwrap();
        let roles: Vec<&str> =
            messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(
            roles,
            ["system", "user", "assistant", "tool", "assistant", "user"],
            "{history}"
        );
        let call = &messages[2]["tool_calls"][0];
        assert_eq!(call["id"], messages[3]["tool_call_id"], "{history}");
        assert_eq!(call["function"]["name"], "read_file");
        assert_eq!(
            serde_json::from_str::<Value>(call["function"]["arguments"].as_str().unwrap()).unwrap()
                ["path"],
            "Cargo.toml"
        );
        let told = |at: usize| messages[at]["content"].to_string();
        assert!(
            told(2).contains("Let me look.")
                && told(3).contains("sheep")
                && told(4).contains("Sheep."),
            "{messages:?}"
        );
        assert!(told(5).contains("How many?"));
        request.say("Three.");
        assert_eq!(connection.events().last().unwrap()["type"], "complete");
    }
    let mut connection = served.ask("And without?", &json!({ "history": null }));
    let request = served.model.request();
    assert_eq!(
        request.body["messages"].as_array().unwrap().len(),
        2,
        "the server keeps nothing: {}",
        request.body
    );
    request.say("Nothing.");
    connection.events();
}

/// C94: When a client of `/api/agent-chat` hangs up, its model request and its processes end within
/// a second
#[test]
fn a_client_that_hangs_up_ends_the_model_request() {
    let served = Served::start(&[]);
    let mut connection = served.ask("Talk", &json!({}));
    let mut request = served.model.request();
    request.begin();
    request.text("Once upon");
    assert_eq!(connection.event_of("content")["content"], "Once upon");
    let hung_up = Instant::now();
    drop(connection);
    request.until_hung_up();
    assert!(hung_up.elapsed() < Duration::from_secs(1), "{:?}", hung_up.elapsed());
}

#[test]
fn a_client_that_hangs_up_ends_the_processes() {
    let served = Served::start(&["--max-runs", "1"]);
    for name in ["alive", "never"] {
        assert!(
            Command::new("mkfifo").arg(served.dir.path().join(name)).status().unwrap().success()
        );
    }
    let mut connection = served.ask("Hang", &json!({}));
    // All that the command starts holds `alive` open.
    let command = "exec 3>alive; (cat never) & echo up >&3; cat never";
    served.model.request().call(&[("execute_command", json!({ "command": command }))]);
    let mut alive = std::fs::File::open(served.dir.path().join("alive")).unwrap();
    let mut up = [0; 3];
    alive.read_exact(&mut up).unwrap();
    connection.event_of("tool_use");
    assert_eq!(
        served.refused(&served.body("Another", &json!({}))).status,
        429,
        "one run is allowed"
    );
    let hung_up = Instant::now();
    drop(connection);
    assert_eq!(alive.read(&mut up).unwrap(), 0, "nobody holds it any more");
    assert!(hung_up.elapsed() < Duration::from_secs(1), "{:?}", hung_up.elapsed());
    // What the run held is free again, soon: the permit is given back when the run is over.
    let deadline = Instant::now() + crate::process::PATIENCE;
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

/// C95: Before its stream a run fails with an HTTP status, in it with an `error` frame; a key is in
/// neither, nor in a log
#[test]
fn errors_are_told_in_an_error_frame() {
    let served = Served::start_with(&[], &[("LOOPWRIGHT_LOG", "trace")]);
    let mut connection = served.ask("Fail", &json!({}));
    let why = json!({ "error": { "message": format!("Incorrect API key provided: {KEY}."), "type": "invalid_request_error" } });
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

#[test]
fn the_log_is_as_much_as_the_environment_says() {
    let dir = project();
    let wrong = Process::start_with(
        &dir,
        &["serve", "--addr", "127.0.0.1:0"],
        &[("LOOPWRIGHT_LOG", "loud")],
    )
    .end();
    assert!(
        wrong.code == 2 && wrong.err.contains("LOOPWRIGHT_LOG is \"loud\": give `error`"),
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

#[test]
fn a_reply_that_breaks_off_is_withdrawn_and_asked_for_again() {
    let served = Served::start(&[]);
    let mut connection = served.ask("Talk", &json!({}));
    let mut request = served.model.request();
    request.begin();
    request.text("Once upon");
    connection.event_of("content");
    drop(request);
    assert_eq!(connection.event().unwrap()["type"], "withdrawn");
    served.model.request().say("Long ago.");
    assert_eq!(connection.event_of("content")["content"], "Long ago.");
    assert_eq!(connection.events().last().unwrap()["type"], "complete");
}

#[test]
fn a_tool_that_fails_is_a_result_for_the_agent() {
    let served = Served::start(&[]);
    let mut connection = served.ask("Read", &json!({}));
    served.model.request().call(&[("read_file", json!({ "path": "missing" }))]);
    let request = served.model.request();
    assert!(request.last().contains("does not exist"), "{}", request.last());
    request.say("It is not there.");
    assert_eq!(connection.event_of("tool_result")["isError"], true);
    assert_eq!(connection.events().last().unwrap()["type"], "complete");
}

#[test]
fn with_confirmation_tools_that_change_something_run_only_if_they_are_listed() {
    let served = Served::start(&[]);
    let calls = [
        ("write_file", json!({ "path": "a", "content": "a" })),
        ("execute_command", json!({ "command": "echo b > b" })),
        ("read_file", json!({ "path": "Cargo.toml" })),
    ];
    for (fields, allowed) in [
        (json!({ "confirm": true }), [false, false, true]),
        (json!({ "autoApprove": ["write_file"] }), [true, false, true]),
        (json!({}), [true, true, true]),
    ] {
        let mut connection = served.ask("Write", &fields);
        served.model.request().call(&calls);
        let request = served.model.request();
        assert_eq!(
            request.body.to_string().contains("needs the user's confirmation"),
            allowed != [true; 3],
            "{fields}"
        );
        request.say("So be it.");
        let events = connection.events();
        for (at, allowed) in allowed.into_iter().enumerate() {
            let id = json!(format!("call_{at}"));
            let of = |kind: &str| {
                events.iter().filter(|e| e["type"] == kind && e["toolId"] == id).count()
            };
            assert_eq!(
                (of("confirm"), of("tool_result")),
                (usize::from(!allowed), 1),
                "{fields} {events:?}"
            );
        }
        let [a, b] = ["a", "b"].map(|name| served.dir.path().join(name));
        assert_eq!([a.exists(), b.exists()], [allowed[0], allowed[1]], "{fields}");
        let _ = (std::fs::remove_file(a), std::fs::remove_file(b)); // they may not be there
    }
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
    let mut process = Process::start_with(&dir, &["serve", "--addr", "127.0.0.1:0"], &vars);
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
fn when_it_is_told_to_end_it_finishes_what_goes_on_and_takes_nothing_new() {
    let mut served = Served::start(&[]);
    let mut connection = served.ask("Talk", &json!({}));
    let mut request = served.model.request();
    request.begin();
    request.text("Once upon ");
    connection.event_of("content");
    served.process.signal("-TERM");
    served.process.err.until("Ending");
    let health = || {
        let mut connection = Connection::open(&served.address);
        connection
            .send(format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", served.address).as_bytes());
        connection.response().unwrap().status
    };
    while health() != 503 {} // it says so a moment before it does so
    let refused = served.refused(&served.body("Another", &json!({})));
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.body.contains("draining"), "{refused:?}");
    request.text("a time.");
    request.end("stop");
    assert_eq!(connection.event_of("content")["content"], "a time.");
    assert_eq!(connection.events().last().unwrap()["type"], "complete");
    assert_eq!(served.process.end().code, 0);
}

/// C108: what does not end in the grace is stopped, its client is told, and the server ends by
/// itself.
#[test]
fn when_it_is_told_to_end_a_run_that_does_not_is_stopped_and_told_so() {
    let mut served = Served::start(&["--grace", "0"]);
    let mut connection = served.ask("Talk", &json!({}));
    let mut request = served.model.request();
    request.begin();
    request.text("Once upon ");
    connection.event_of("content");
    served.process.signal("-TERM");
    served.process.err.until("what goes on has 0 seconds");
    let last = connection.events();
    assert_eq!(types(&last), ["error", "complete"], "{last:?}");
    assert_eq!(last[0]["kind"], "draining");
    request.until_hung_up();
    assert_eq!(served.process.end().code, 0);
}

/// A second signal ends it at once, whatever goes on.
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
        served.process.err.until("Ending");
        served.process.interrupt();
        assert_eq!(served.process.end().code, 130, "after {first}");
        assert!(connection.events().is_empty(), "there was no time for words");
        request.until_hung_up();
    }
}

#[test]
fn other_machines_reach_it_only_with_a_token() {
    let dir = project();
    let refused = Process::start(&dir, &["serve", "--addr", "0.0.0.0:0"]).end();
    assert!(
        refused.code == 2 && refused.err.contains("run commands. Give one with --token"),
        "{refused:?}"
    );
    let short = Process::start(&dir, &["serve", "--addr", "0.0.0.0:0", "--token", "short"]).end();
    assert!(short.code == 2 && short.err.contains("16 characters"), "{short:?}");
    let missing = Process::start(&dir, &["serve", "--root", "missing"]).end();
    assert!(missing.code == 2 && missing.err.contains("missing"), "{missing:?}");
}
