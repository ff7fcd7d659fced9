//! `loopwright acp`, line by line: invalid messages, and a process that is killed. The tests in
//! `tests/acp/` drive it with the protocol's own client library.

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Process, project};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BIN;

/// A process that speaks the protocol, and the number of the last request.
struct Editor {
    process: Process,
    unread: String,
    requests: u64,
}

impl Editor {
    fn start(dir: &TempDir, server: &Server) -> Editor {
        Editor::with(dir, server, &[])
    }

    /// Starts `loopwright acp` with further options.
    fn with(dir: &TempDir, server: &Server, more: &[&str]) -> Editor {
        let args = ["acp", "--model", "openai/x", "--base-url", &server.url];
        let data = dir.path().join("data");
        let vars = [("XDG_DATA_HOME", data.to_str().unwrap())];
        let process = BIN.start_with(dir, &[&args, more].concat(), &vars);
        let mut editor = Editor { process, unread: String::new(), requests: 0 };
        let initialized = editor.request("initialize", json!({ "protocolVersion": 1 }));
        assert_eq!(initialized["result"]["protocolVersion"], 1);
        editor
    }

    /// Waits for the next line, which must be a message.
    fn message(&mut self) -> Value {
        while !self.unread.contains('\n') {
            let more = self.process.out.more().to_vec();
            self.unread.push_str(std::str::from_utf8(&more).unwrap());
        }
        let rest = self.unread.split_off(self.unread.find('\n').unwrap() + 1);
        let line = std::mem::replace(&mut self.unread, rest);
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        message
    }

    /// Waits for a message that fits.
    fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.message();
            if fits(&message) {
                return message;
            }
        }
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.requests += 1;
        let id = self.requests;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.process.line(&request.to_string());
        id
    }

    /// Sends a request and waits for its response.
    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.until(|message| message["id"] == id && message["method"].is_null())
    }

    fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.send("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
    }

    /// Waits until the user is asked, and returns the request.
    fn permission(&mut self) -> Value {
        self.until(|message| message["method"] == "session/request_permission")
    }
}

fn write() -> [(&'static str, Value); 1] {
    [("write_file", json!({ "path": "new.txt", "content": "hello\n" }))]
}

/// C384: A message that cannot be handled is answered with an error, and the next request is
/// handled. A client can choose only from the decisions that it was offered.
#[test]
fn what_is_no_request_is_refused_and_changes_nothing() {
    let (server, dir) = (Server::start(), project());
    let mut editor = Editor::start(&dir, &server);
    let refused = |editor: &mut Editor, line: &str| {
        editor.process.line(line);
        let error = editor.message()["error"].take();
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(refused(&mut editor, "not JSON").0, -32700);
    assert_eq!(refused(&mut editor, "[1]").0, -32600);
    let unknown = r#"{"jsonrpc":"2.0","id":"a","method":"session/fly","params":{}}"#;
    assert_eq!(
        refused(&mut editor, unknown),
        (-32601, "The method `session/fly` is not known.".into())
    );
    let relative = json!({ "cwd": "src", "mcpServers": [] });
    let error = editor.request("session/new", relative)["error"]["message"].take();
    assert_eq!(error, "/params/cwd: the directory must be an absolute path");
    let missing = json!({ "cwd": dir.path().join("missing"), "mcpServers": [] });
    assert_eq!(editor.request("session/new", missing)["error"]["code"], -32603);
    let prompt = json!({ "sessionId": "none", "prompt": [{ "type": "text", "text": "Hi" }] });
    assert_eq!(editor.request("session/prompt", prompt)["error"]["code"], -32002);
    editor
        .process
        .line(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"n"}}"#);
    editor.process.line(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#);

    let new = json!({ "cwd": dir.path(), "mcpServers": [] });
    let session = editor.request("session/new", new)["result"]["sessionId"].take();
    let session = session.as_str().unwrap();
    let turn = editor.prompt(session, "Write.");
    server.request().call(&write());
    let asked = editor.permission();
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "approve-everything" } });
    let response = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": outcome });
    editor.process.line(&response.to_string());
    let ended = editor.until(|message| message["id"] == turn && message["method"].is_null());
    assert_eq!(ended["result"]["stopReason"], "end_turn");
    assert!(!dir.path().join("new.txt").exists());
}

/// C386: A killed process leaves its pending call: a new one says that it waits, asks once more,
/// and continues.
#[test]
fn a_call_that_a_killed_process_has_left_is_decided_in_the_next_one() {
    let (server, dir) = (Server::start(), project());
    let mut editor = Editor::start(&dir, &server);
    let new = json!({ "cwd": dir.path(), "mcpServers": [] });
    let session = editor.request("session/new", new)["result"]["sessionId"].take();
    let session = session.as_str().unwrap();
    editor.prompt(session, "Write.");
    server.request().call(&write());
    editor.permission();
    editor.process.kill();

    let mut editor = Editor::start(&dir, &server);
    let load = json!({ "sessionId": session, "cwd": dir.path(), "mcpServers": [] });
    let id = editor.send("session/load", load);
    let user = editor.message()["params"]["update"].take();
    assert_eq!(
        (&user["sessionUpdate"], &user["content"]["text"]),
        (&json!("user_message_chunk"), &json!("Write."))
    );
    let call = editor.message()["params"]["update"].take();
    assert_eq!((&call["sessionUpdate"], &call["kind"]), (&json!("tool_call"), &json!("edit")));
    assert_eq!(editor.message()["id"], id);
    editor.until(|message| message.to_string().contains("1 call waits for you: "));

    let turn = editor.prompt(session, "/continue");
    let asked = editor.permission();
    let diff = json!([{ "type": "diff", "path": dir.path().canonicalize().unwrap().join("new.txt"),
        "newText": "hello\n" }]);
    assert_eq!(asked["params"]["toolCall"]["content"], diff);
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "0" } });
    let response = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": outcome });
    editor.process.line(&response.to_string());
    server.request().say("Written.");
    let ended = editor.until(|message| message["id"] == turn && message["method"].is_null());
    assert_eq!(ended["result"]["stopReason"], "end_turn");
    assert_eq!(std::fs::read_to_string(dir.path().join("new.txt")).unwrap(), "hello\n");
    assert_eq!(editor.process.close().code, 0);
}

/// C383: A session begins in the mode that its options imply. A session that was never used is not
/// kept.
#[test]
fn a_session_begins_in_the_mode_of_its_options() {
    let (server, dir) = (Server::start(), project());
    let mut editor = Editor::with(&dir, &server, &["--approve", "all"]);
    let new = json!({ "cwd": dir.path(), "mcpServers": [] });
    let mut opened = editor.request("session/new", new)["result"].take();
    assert_eq!(opened["modes"]["currentModeId"], "accept_all");
    let session = opened["sessionId"].take();
    let turn = editor.prompt(session.as_str().unwrap(), "/compact");
    let commands = editor.message()["params"]["update"].take();
    assert_eq!(commands["sessionUpdate"], "available_commands_update");
    let commands = commands["availableCommands"].as_array().unwrap();
    let names: Vec<_> = commands.iter().map(|command| command["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["plan", "compact", "continue", "mcp"]);
    let notice = editor.message()["params"]["update"]["content"]["text"].take();
    assert_eq!(notice, "There is nothing to summarise yet.");
    let ended = editor.message();
    assert_eq!((&ended["id"], &ended["result"]["stopReason"]), (&json!(turn), &json!("end_turn")));
    assert_eq!(editor.process.close().code, 0);
    assert_eq!(BIN.run(&dir, &["sessions", "list"]).out, "");
}

/// An editor that loads a session which another process has open sends its prompts there.
#[test]
fn a_session_of_another_process_is_attached_to() {
    let (server, dir) = (Server::start(), project());
    let args = ["chat", "--session", "s", "--model", "openai/x", "--base-url", &server.url];
    let mut chat = BIN.start(&dir, &args);
    chat.line("Hello");
    server.request().say("Hi.");
    chat.out.until("Hi.");
    let mut editor = Editor::start(&dir, &server);
    let load = json!({ "sessionId": "s", "cwd": dir.path(), "mcpServers": [] });
    assert_eq!(editor.request("session/load", load)["error"], Value::Null);
    let turn = editor.prompt("s", "Once more.");
    server.request().say("Hi again.");
    editor.until(|message| message["params"]["update"]["content"]["text"] == "Hi again.");
    let ended = editor.until(|message| message["id"] == turn && message["method"].is_null());
    assert_eq!(ended["result"]["stopReason"], "end_turn");
    chat.out.until("Hi again.");
}

/// C452: Each prompt gets a response, even if its session is loaded, resumed or closed meanwhile.
#[test]
fn a_prompt_whose_session_is_closed_is_cancelled() {
    let (server, dir) = (Server::start(), project());
    let mut editor = Editor::start(&dir, &server);
    let new = json!({ "cwd": dir.path(), "mcpServers": [] });
    let session = editor.request("session/new", new)["result"]["sessionId"].take();
    let name = session.as_str().unwrap();
    for method in ["session/load", "session/resume", "session/close"] {
        let turn = editor.prompt(name, "Wait.");
        let _unanswered = server.request();
        let again = json!({ "sessionId": name, "cwd": dir.path(), "mcpServers": [] });
        let closing = editor.send(method, again);
        let ended = editor.until(|message| message["id"] == turn && message["method"].is_null());
        assert_eq!(ended["result"]["stopReason"], "cancelled", "{method}");
        let closed = editor.until(|message| message["id"] == closing);
        assert_eq!(closed["error"], Value::Null, "{method}");
    }
}

#[test]
fn an_editor_is_told_why_the_agent_waits() {
    let (server, dir) = (Server::start(), project());
    let mut editor = Editor::start(&dir, &server);
    let new = json!({ "cwd": dir.path(), "mcpServers": [] });
    let session = editor.request("session/new", new)["result"]["sessionId"].take();
    let turn = editor.prompt(session.as_str().unwrap(), "Go.");
    let busy = json!({ "error": { "message": "Too many sheep." } });
    server.request().answer("503 Service Unavailable", &busy);
    let told = editor.until(|message| message.to_string().contains("Too many sheep."));
    let told = &told["params"]["update"];
    assert_eq!(told["sessionUpdate"], "agent_message_chunk");
    assert!(told.to_string().contains("(attempt 2 of 10)"), "{told}");
    server.request().say("Done.");
    editor.until(|message| message["id"] == turn);
}

/// C467: The user is asked once about each server of the editor, and again if its command changes.
#[test]
fn the_servers_of_the_editor_start_when_they_are_allowed() {
    let (dir, server) = (project(), Server::start());
    let script = r#"
        while read -r line; do
            id=${line#*\"id\":}; id=${id%%[,\}]*}
            case $line in
            *'"method":"initialize"'*)
                result='{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},
                    "capabilities":{"tools":{}}}' ;;
            *'"method":"tools/list"'*)
                result='{"tools":[{"name":"'$TOOL'","description":"'$PWD'",
                    "inputSchema":{"type":"object"}}]}' ;;
            *'"id":'*)
                echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"unknown"}}'
                continue ;;
            *) continue ;;
            esac
            echo '{"jsonrpc":"2.0","id":'$id',"result":'$result'}' | tr -d '\n'
            echo
        done"#;
    let mcp = |tool: &str| {
        let env = json!([{ "name": "TOOL", "value": tool }]);
        let sh = json!({ "name": "My Shell", "command": "sh", "args": ["-c", script], "env": env });
        let other = json!({ "name": "my_shell", "command": "sh", "args": [], "env": [] });
        let web =
            json!({ "type": "http", "name": "web", "url": "https://a.example", "headers": [] });
        json!([sh, other, web])
    };
    let offered = |editor: &mut Editor, tool: &str, allow: Option<&str>| {
        let new = json!({ "cwd": dir.path(), "mcpServers": mcp(tool) });
        let id = editor.send("session/new", new);
        let new = editor.until(|message| message["id"] == id);
        let session = new["result"]["sessionId"].as_str().unwrap().to_owned();
        for name in ["my_shell", "web"] {
            let notice = format!("`{name}` is left out");
            editor.until(|message| message.to_string().contains(&notice));
        }
        let prompt = editor.prompt(&session, "Go.");
        if let Some(choice) = allow {
            let asked = editor.permission();
            assert_eq!(asked["params"]["toolCall"]["title"], "Start the MCP server `my-shell`");
            assert!(asked.to_string().contains("gets the variables TOOL"), "{asked}");
            let outcome = json!({ "outcome": { "outcome": "selected", "optionId": choice } });
            let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": outcome });
            editor.process.line(&answer.to_string());
        }
        let request = server.request();
        let name = format!("my-shell__{tool}");
        let tools = request.body["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["function"]["name"] == name.as_str());
        if let Some(tool) = tool {
            let description = tool["function"]["description"].as_str().unwrap();
            let directory = dir.path().canonicalize().unwrap();
            assert!(description.contains(directory.to_str().unwrap()), "{description}");
        }
        let is_offered = tool.is_some();
        request.say("Done.");
        editor.until(|message| message["id"] == prompt);
        is_offered
    };
    let mut editor = Editor::start(&dir, &server);
    assert!(!offered(&mut editor, "greet", Some("reject")));
    assert!(offered(&mut editor, "greet", Some("allow")));
    assert!(offered(&mut editor, "greet", None));
    assert!(offered(&mut editor, "wave", Some("allow")));
    drop(editor);
    assert!(offered(&mut Editor::start(&dir, &server), "wave", None));
}
