//! MCP servers of the settings and of the command line, which run confined.

use std::fs;

use tempfile::TempDir;

use crate::process::{Exit, Process, project};

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
        result='{"tools":[{"name":"greet","inputSchema":{"type":"object"}}]}' ;;
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
    Process::start_with(project, &args, &[("HOME", home), ("OUTSIDE", secret)]).end()
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
