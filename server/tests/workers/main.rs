//! No worker of the runtime is busy for long, whatever models, clients, MCP servers and files send:
//! `cargo test -p loopwright-server --test workers`, with `--release` for the bound itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]
#![cfg(target_os = "linux")] // the clocks

mod heartbeat;
mod inputs;
mod peers;
mod service;

use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::heartbeat::Gap;
use crate::peers::{calls, says, says_in_parts};
use crate::service::Service;

/// Maximum time that a worker may be busy in an optimised build.
const MAX_BUSY: Duration = Duration::from_millis(100);
/// The same in an unoptimised build, which is this much slower. A real regression would take
/// minutes.
const MAX_BUSY_UNOPTIMISED: Duration = Duration::from_millis(2_500);
/// The size of a large input: nearly the size of the longest reply. An unoptimised build uses less,
/// to finish in seconds.
const LARGE_BYTES: usize = if cfg!(debug_assertions) { 2 << 20 } else { (6 << 20) - (8 << 10) };

/// Returns whether a gap is too long.
///
/// In an unoptimised build, which plain `cargo test` runs beside others, only the time of the
/// worker counts: the time of the process depends on how many threads run at the same time.
fn is_too_long(gap: Gap) -> bool {
    match cfg!(debug_assertions) {
        true => gap.worker > MAX_BUSY_UNOPTIMISED,
        false => gap.worker > MAX_BUSY || gap.process > MAX_BUSY,
    }
}

/// A part of the test: a name, and the function that sends the input.
type Part = (&'static str, fn(&Service));

const PARTS: &[Part] = &[
    ("a schema that doubles per level", |service| {
        service.model.add([says(&inputs::deep_value(60))]);
        service.complete(&inputs::doubling_schema());
    }),
    ("a schema with a chain of 5,000 references", |service| {
        service.model.add([says("{\"a\": 1}")]);
        service.complete(&inputs::chain_of_references(5_000));
    }),
    ("a schema with 1,000 patterns", |service| {
        service.model.add([says("{\"a\": \"x\"}")]);
        service.complete(&inputs::many_patterns(1_000));
    }),
    ("a schema with a list of 90,000 values", |service| {
        service.model.add([says("{\"a\": 1}")]);
        service.complete(&json!({ "enum": (0..90_000).collect::<Vec<_>>() }));
    }),
    ("a question with a schema that is nested deep", |service| {
        let schema = inputs::chain_of_nots(60);
        service.call("ask_user", &json!({ "question": "?", "schema": schema }).to_string());
    }),
    ("a question with 200,000 options", |service| {
        let options: Vec<String> = (0..200_000).map(|at| format!("option {at}")).collect();
        service.call("ask_user", &json!({ "question": "?", "options": options }).to_string());
    }),
    ("a glob with nested braces", |service| {
        service.call("glob_files", &json!({ "pattern": inputs::braces(16_000) }).to_string());
    }),
    ("a glob of 10 MB", |service| {
        service.call("glob_files", &json!({ "pattern": "*a?[b]".repeat(1 << 20) }).to_string());
    }),
    ("ignore rules with nested braces", |service| {
        fs::create_dir_all(service.root.path().join("repo")).unwrap();
        let rules = inputs::braces(16_000) + "\n" + &"*.{a,b,c}x\n".repeat(10_000);
        fs::write(service.root.path().join("repo/.gitignore"), rules).unwrap();
        service.call("search_files", r#"{"pattern": "needle", "path": "repo"}"#);
    }),
    ("a large pattern", |service| {
        let pattern = r"(\w{100}){100}".repeat(1_000);
        service.call("search_files", &json!({ "pattern": pattern }).to_string());
    }),
    ("a call with a long text", |service| {
        let content = "a line of a file\n".repeat(LARGE_BYTES / 17);
        let arguments = json!({ "path": "large.txt", "content": content });
        service.call("write_file", &arguments.to_string());
    }),
    ("a call with millions of numbers", |service| {
        let list = "[".to_owned() + &"0,".repeat(LARGE_BYTES / 2) + "0]";
        service.call("read_file", &format!(r#"{{"path": {list}}}"#));
        service.call("ask_user", &format!(r#"{{"question": "?", "options": {list}}}"#));
    }),
    ("a call with millions of lists", |service| {
        let list = "[".to_owned() + &"[],".repeat(LARGE_BYTES / 3) + "0]";
        service.call("hostile__tool_0", &format!(r#"{{"a": {list}}}"#));
    }),
    ("a call whose arguments are no JSON", |service| {
        service.call("read_file", &"[".repeat(LARGE_BYTES));
    }),
    ("the preview of a large edit", |service| {
        let text = inputs::lines(200_000, 1);
        fs::write(service.root.path().join("edited.txt"), &text).unwrap();
        let arguments = json!({ "path": "edited.txt", "content": inputs::lines(200_000, 2) });
        let session = service.call("write_file", &arguments.to_string());
        let actions = service.get(&format!("{session}/actions"));
        let call = actions["actions"][0]["call"].as_str().unwrap_or_else(|| panic!("{actions}"));
        service.get(&format!("{session}/actions/{call}/preview"));
    }),
    ("the difference of two large files", |service| {
        for seed in [1, 2] {
            let path = service.root.path().join(format!("{seed}.txt"));
            fs::write(path, inputs::lines(200_000, seed)).unwrap();
        }
        service.call("diff", r#"{"file_a": "1.txt", "file_b": "2.txt"}"#);
    }),
    ("a large prompt", |service| {
        let session = service.session();
        service.run(&session, &"Some words. ".repeat(LARGE_BYTES / 12));
    }),
    ("a reply in one event", |service| {
        service.model.add([says(&"Some words. ".repeat(LARGE_BYTES / 12))]);
        service.run(&service.session(), "Write much.");
    }),
    ("a reply in 100,000 events", |service| {
        service.model.add([says_in_parts(100_000)]);
        service.run(&service.session(), "Write much.");
    }),
    ("a tool result of 8 MB", |service| {
        service.call("hostile__tool_0", "{}");
    }),
    ("a long history: pages, messages, search, a branch and its compaction", |service| {
        let session = service.session();
        let turns = if cfg!(debug_assertions) { 8 } else { 40 };
        service.model.add((0..turns).map(|_| says(&"Some words. ".repeat(400_000 / 12))));
        (0..turns).for_each(|_| drop(service.run(&session, &"Some more. ".repeat(10_000))));
        service.get(&format!("{session}/history?before=1000&limit=1"));
        service.get(&format!("{session}/messages?limit=1"));
        service.get("/api/search?q=nothing");
        assert_eq!(service.post(&format!("{session}/fork"), &json!({})).0, 201);
        let (status, answer) = service.post(&format!("{session}/compact"), &json!({}));
        assert!(status < 300, "{status} {answer}");
    }),
    ("requests of protocols that are nested deep or wide", |service| {
        for body in ["[".repeat(4 << 20), format!("[{}0]", "[],".repeat(1 << 20))] {
            for path in ["/v1/chat/completions", "/v1/responses", "/ag-ui/coding", "/ai-sdk/coding"]
            {
                service.send("POST", path, Some(body.clone()));
                service.send("POST", path, Some(format!(r#"{{"messages": {body}}}"#)));
            }
            service.send("POST", "/a2a/coding", Some(body));
        }
    }),
    ("the OpenAPI document", |service| {
        service.get("/api/openapi.json");
    }),
];

impl Service {
    /// Asks for an answer that conforms to a schema.
    fn complete(&self, schema: &serde_json::Value) {
        let format = json!({ "name": "x", "schema": schema });
        let body = json!({
            "model": "coding",
            "messages": [{ "role": "user", "content": "Answer." }],
            "response_format": { "type": "json_schema", "json_schema": format },
        });
        self.post("/v1/chat/completions", &body);
    }

    /// Has the model call a tool, in a session whose path is returned.
    fn call(&self, tool: &str, arguments: &str) -> String {
        let session = self.session();
        self.model.add([calls(tool, arguments)]);
        self.run(&session, "Use a tool.");
        session
    }
}

/// C430: Hostile input of models, clients, MCP servers and files keeps no worker of the runtime
/// busy for longer than the bound.
#[test]
fn no_worker_is_busy_for_long() {
    let only = std::env::var("LOOPWRIGHT_PART").ok();
    let mut service = Service::start(inputs::many_tools(300, 60_000));
    let (mut report, mut is_failed) = (String::new(), false);
    let first: Part = ("the tools of an MCP server: 300 of 60 KB", |service| {
        drop(service.run(&service.session(), "Say something."));
    });
    for (name, send) in [&first].into_iter().chain(PARTS) {
        if only.as_ref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        service.max_gap();
        send(&service);
        service.model.clear();
        let gap = service.max_gap();
        let mark = if is_too_long(gap) { "TOO LONG " } else { "" };
        is_failed |= is_too_long(gap);
        let line = format!("{:>7.1?} {:>7.1?} {mark}{name}", gap.worker, gap.process);
        println!("{line}");
        report = report + &line + "\n";
    }
    assert!(!is_failed, "worker, process:\n{report}");
}
