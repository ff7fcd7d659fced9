//! MCP servers of the settings and of the command line, which run confined.

use std::fs;

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Exit, project};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BIN;
use crate::serve::sessions::{Live, Screen};

/// A server in the language of a shell: its tool says whether it can read a file outside of the
/// directory.
const SERVER: &str = r#"
: >started
while read -r line; do
    id=${line#*\"id\":}
    id=${id%%[,\}]*}
    case $line in
    *'"method":"initialize"'*)
        info='"serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{}}'
        result='{"protocolVersion":"2025-11-25",'$info'}' ;;
    *'"method":"tools/list"'*)
        result='{"tools":[{"name":"bad"},{"name":"greet","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*)
        seen=nothing
        if cat "$OUTSIDE" >/dev/null 2>&1; then seen=everything; fi
        result='{"content":[{"type":"text","text":"I see '$seen'."}]}' ;;
    *'"id":'*)
        echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"unknown"}}'
        continue ;;
    *) continue ;;
    esac
    echo '{"jsonrpc":"2.0","id":'$id',"result":'$result'}'
done
"#;

fn run(project: &TempDir, home: &TempDir, flags: &[&str]) -> Exit {
    let prompt = "Call mine__greet with x=1";
    let args = [&["run", "--model", "offline", "--no-session"], flags, &[prompt]].concat();
    let secret = home.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let (home, secret) = (home.path().to_str().unwrap(), secret.to_str().unwrap());
    BIN.start_with(project, &args, &[("HOME", home), ("OUTSIDE", secret)]).end()
}

fn propose(project: &TempDir, arguments: &str) {
    let text = format!("[mcp.mine]\ncommand = \"sh\"\nargs = [{arguments}]\nenv = [\"OUTSIDE\"]\n");
    fs::write(project.path().join("loopwright.toml"), text).unwrap();
}

/// C348: A project's file only proposes MCP servers: none is started before the user has accepted
/// it, once, and once more when its settings change; it runs confined.
#[test]
fn a_project_only_proposes_servers() {
    let (project, home) = (project(), tempfile::tempdir().unwrap());
    let started = project.path().join("started");
    fs::write(project.path().join("server.sh"), SERVER).unwrap();
    propose(&project, "\"server.sh\"");
    let approve = ["--approve", "mine__greet"];
    let exit = run(&project, &home, &approve);
    assert!(exit.err.contains("propose the MCP server `mine`: `sh server.sh`"), "{exit:?}");
    assert!(exit.err.contains("which gets the variables OUTSIDE"), "{exit:?}");
    assert!(!started.exists(), "{exit:?}");

    let exit = run(&project, &home, &["--mcp", "mine", "--approve", "mine__greet"]);
    assert!(exit.code == 0 && exit.out.contains("I see nothing."), "{exit:?}");
    let exit = run(&project, &home, &approve);
    assert!(exit.code == 0 && exit.out.contains("I see nothing."), "{exit:?}");

    fs::remove_file(&started).unwrap();
    propose(&project, "\"server.sh\", \"more\"");
    let exit = run(&project, &home, &approve);
    assert!(exit.err.contains("propose the MCP server `mine`"), "{exit:?}");
    assert!(!started.exists(), "{exit:?}");
}

/// C347: A call of a server that the command line describes waits for approval.
#[test]
fn a_call_waits_for_approval() {
    let (project, home) = (project(), tempfile::tempdir().unwrap());
    fs::write(project.path().join("server.sh"), SERVER).unwrap();
    let exit = run(&project, &home, &["--mcp", "mine=sh server.sh"]);
    assert!(exit.code == 3 && exit.err.contains("mine__greet"), "{exit:?}");
    let exit = run(&project, &home, &["--mcp", "other"]);
    assert!(exit.code == 2 && exit.err.contains("--mcp other=COMMAND"), "{exit:?}");
}

/// C459: `run` names the tools that cannot be read, and says why a server cannot be used.
#[test]
fn run_tells_what_cannot_be_used() {
    let (project, home) = (project(), tempfile::tempdir().unwrap());
    fs::write(project.path().join("server.sh"), SERVER).unwrap();
    let exit = run(&project, &home, &["--mcp", "mine=sh server.sh", "--approve", "mine__greet"]);
    let left_out =
        "Tools of the MCP server `mine` are left out: `bad`: missing field `inputSchema`.";
    assert!(exit.code == 0 && exit.err.contains(left_out), "{exit:?}");
    let exit = run(&project, &home, &["--mcp", "mine=sh absent.sh"]);
    assert!(exit.err.contains("The MCP server `mine` cannot be used: "), "{exit:?}");
}

/// The agents of a server have the user's servers, and none that a directory proposes.
#[test]
fn a_server_has_the_users_servers_alone() {
    let (project, model) = (project(), Server::start());
    fs::write(project.path().join("server.sh"), SERVER).unwrap();
    let other = "[mcp.other]\ncommand = \"sh\"\nargs = [\"other.sh\"]\n";
    fs::write(project.path().join("loopwright.toml"), other).unwrap();
    let home = tempfile::tempdir().unwrap();
    let (settings, secret) = (home.path().join("own.toml"), home.path().join("secret"));
    let mine = "[mcp.mine]\ncommand = \"sh\"\nargs = [\"server.sh\"]\nenv = [\"OUTSIDE\"]\n";
    fs::write(&settings, mine).unwrap();
    fs::write(&secret, "secret").unwrap();
    let vars = [
        ("LOOPWRIGHT_CONFIG", settings.to_str().unwrap()),
        ("OUTSIDE", secret.to_str().unwrap()),
        ("PATH", "/usr/bin:/bin"),
    ];
    let model_args = ["--model", "custom/test", "--base-url", &model.url];
    let args = [&["serve", "--addr", "127.0.0.1:0"], &model_args[..]].concat();
    let mut process = BIN.start_with(&project, &args, &vars);
    let address = process.err.word_after("http://");
    let served = Live { process, address };
    let id = served.post("/api/sessions", &json!({}))["id"].as_str().unwrap().to_owned();
    let path = format!("/api/sessions/{id}");
    served.post(&format!("{path}/prompt"), &json!({ "message": "Greet." }));
    let request = model.request();
    let tools = request.body["tools"].as_array().unwrap();
    let names: Vec<&Value> = tools.iter().map(|tool| &tool["function"]["name"]).collect();
    assert!(names.contains(&&json!("mine__greet")), "{names:?}");
    assert!(!names.iter().any(|name| name.as_str().unwrap().starts_with("other")), "{names:?}");
    request.call(&[("mine__greet", json!({}))]);
    let mut events = served.events(&id, 0);
    let pending = Screen::default().until(&mut events, "external_action", "mine__greet");
    let action = format!("{path}/actions/{}", pending["call"].as_str().unwrap());
    served.post(&action, &json!({ "digest": pending["digest"], "decision": "approve" }));
    assert!(model.request().last().contains("I see nothing."));
}
