//! The command line of the official inspector.

use std::process::{Child, Command, Stdio};

use loopwright_test_support::clients::clients;
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{STORE, project};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BIN;

/// The parts of the inspector's command line before the command of the server.
const INSPECTOR: [&str; 3] = ["--format", "json", "--quiet"];

/// Starts the inspector with `loopwright mcp` as its server.
fn start(project: &TempDir, method: &[&str], server: &[&str]) -> Child {
    let inspector = clients().join("node_modules/@modelcontextprotocol/inspector/clients/cli");
    let mut command = Command::new("node");
    command.arg(inspector.join("build/index.js"));
    command.args([BIN.path(), "mcp"]).args(server).args(INSPECTOR).args(method);
    let store = project.path().join(STORE);
    command.args(["-e", &format!("LOOPWRIGHT_STORE={}", store.display())]);
    command.current_dir(project.path()).env("HOME", project.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Returns what the inspector printed: the result.
fn result(inspector: Child) -> Value {
    let output = inspector.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout), String::from_utf8_lossy(&output.stderr));
    let out = out.unwrap();
    let printed: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}\n{err}"));
    match printed.get("result") {
        Some(result) => result.clone(),
        None => printed,
    }
}

fn call<'a>(tool: &'a str, arguments: &'a str, era: &'a str) -> [&'a str; 8] {
    let method = ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", arguments];
    let [a, b, c, d, e, f] = method;
    [a, b, c, d, e, f, "--protocol-era", era]
}

/// C357: In both forms of the protocol, the inspector lists the agent, calls it, accepts the
/// structured content by its schema, and continues the session in a process of its own.
#[test]
fn the_inspector_calls_an_agent() {
    for era in ["legacy", "modern"] {
        let (server, project) = (Server::start(), project());
        let model = ["--model", "openai/x", "--base-url", &server.url];
        let list = ["--method", "tools/list", "--strict", "--protocol-era", era];
        let tools = result(start(&project, &list, &model));
        assert_eq!(tools["tools"][0]["name"], "coding", "{tools}");

        let first = json!({ "message": "How many sheep?", "session": "s" }).to_string();
        let calling = start(&project, &call("coding", &first, era), &model);
        server.request().say("Seven.");
        let reply = result(calling);
        assert_eq!(reply["content"][0]["text"], "Seven.", "{reply}");
        assert_eq!(reply["structuredContent"]["status"], "done", "{reply}");

        let second = json!({ "message": "And cows?", "session": "s" }).to_string();
        let calling = start(&project, &call("coding", &second, era), &model);
        let request = server.request();
        assert!(request.body.to_string().contains("How many sheep?"), "{}", request.body);
        request.say("None.");
        assert_eq!(result(calling)["content"][0]["text"], "None.");
    }
}

/// C359: The inspector's command line has no forms, so the result says how to decide.
#[test]
fn the_inspector_gets_the_pending_action() {
    let project = project();
    let write = json!({ "message": "Create a.txt with \"hi\"" }).to_string();
    let waiting =
        result(start(&project, &call("coding", &write, "legacy"), &["--model", "offline"]));
    assert_eq!(waiting["structuredContent"]["status"], "awaiting_action", "{waiting}");
    let text = waiting["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("loopwright approve"), "{text}");
    assert!(!project.path().join("a.txt").exists());
}

/// C361: The inspector finds no fault in the schemas of the tools, and calls one.
#[test]
fn the_inspector_calls_a_tool() {
    let project = project();
    let list = ["--method", "tools/list", "--strict"];
    let tools = result(start(&project, &list, &["--tools"]));
    let names: Vec<_> = tools["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert!(names.contains(&&json!("read_file")) && names.len() > 5, "{names:?}");
    let read = json!({ "path": "Cargo.toml" }).to_string();
    let read = result(start(&project, &call("read_file", &read, "modern"), &["--tools"]));
    assert!(read["content"][0]["text"].as_str().unwrap().contains("Counts sheep"), "{read}");
}
