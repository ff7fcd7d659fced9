//! `loopwright mcp`, through lines of JSON-RPC.

use std::fs;

use loopwright_test_support::model_server::{Exchange, Server};
use loopwright_test_support::process::{Exit, Process, STORE, project};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BIN;

const WRITE: &str = "Create a.txt with \"hi\"";
/// The version of the protocol that replaced `initialize` by metadata in each request.
const MODERN: &str = "2026-07-28";

/// A client that speaks to a process.
struct Client {
    process: Process,
    /// The metadata sent with each request of a client without `initialize`.
    meta: Value,
    requests: u64,
    /// The notifications that have arrived.
    notifications: Vec<Value>,
}

impl Client {
    /// Starts `loopwright mcp` and initializes the connection.
    fn start(project: &TempDir, args: &[&str], capabilities: Value) -> Client {
        let mut client = Client::without_initialize(project, args, Value::Null);
        let reply = client.call(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "clientInfo": { "name": "test", "version": "1" },
            }),
        );
        assert_eq!(reply["serverInfo"]["name"], "loopwright", "{reply}");
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    /// Starts `loopwright mcp` for a client of version 2026-07-28.
    fn modern(project: &TempDir, args: &[&str], capabilities: Value) -> Client {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        Client::without_initialize(project, args, meta)
    }

    fn without_initialize(project: &TempDir, args: &[&str], meta: Value) -> Client {
        let process = BIN.start(project, &[&["mcp"], args].concat());
        Client { process, meta, requests: 0, notifications: Vec::new() }
    }

    fn send(&mut self, message: Value) {
        self.process.line(&message.to_string());
    }

    /// Sends a request and returns its id.
    fn request(&mut self, method: &str, mut params: Value) -> u64 {
        self.requests += 1;
        let id = self.requests;
        if !self.meta.is_null() {
            params["_meta"] = self.meta.clone();
        }
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Waits for the next message that is not a notification. Whatever the process writes to
    /// standard output must be a message.
    fn message(&mut self) -> Value {
        loop {
            let line = self.process.out.line();
            let message: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(message["jsonrpc"], "2.0", "{line}");
            match message.get("id") {
                Some(_) => return message,
                None => self.notifications.push(message),
            }
        }
    }

    /// Waits for the response to a request.
    fn response(&mut self, id: u64) -> Value {
        let message = self.message();
        assert_eq!(message["id"], id, "{message}");
        message
    }

    /// Waits for the result of a request.
    fn result(&mut self, id: u64) -> Value {
        let mut response = self.response(id);
        assert_eq!(response.get("error"), None, "{response}");
        response["result"].take()
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.result(id)
    }

    /// Starts a call of a tool.
    fn start_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    fn call_tool(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.start_call(tool, arguments);
        self.result(id)
    }

    /// Waits for a request to ask the user, and returns its parameters and its id.
    fn elicitation(&mut self) -> (Value, Value) {
        let mut message = self.message();
        assert_eq!(message["method"], "elicitation/create", "{message}");
        (message["params"].take(), message["id"].take())
    }

    fn answer(&mut self, id: Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    /// Closes standard input and waits for the end.
    fn close(self) -> Exit {
        let exit = self.process.close();
        assert_eq!(exit.code, 0, "{exit:?}");
        exit
    }
}

fn elicits() -> Value {
    json!({ "elicitation": {} })
}

fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

/// Returns the first text of a result.
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

/// Returns the arguments of `mcp` for a model server.
fn model(server: &Server) -> [&str; 4] {
    ["--model", "openai/x", "--base-url", &server.url]
}

fn messages(request: &Exchange) -> usize {
    request.body["messages"].as_array().unwrap().len()
}

/// C357: Each agent is a tool. A call starts a stored session, or continues one of the same agent
/// and directory, and returns the reply with its session; standard output has only the protocol.
#[test]
fn an_agent_is_a_tool_whose_sessions_continue() {
    let (server, project) = (Server::start(), project());
    let mut client = Client::start(&project, &model(&server), json!({}));
    let tools = client.call("tools/list", json!({}));
    let tool = &tools["tools"][0];
    assert_eq!((&tool["name"], tools["tools"].as_array().unwrap().len()), (&json!("coding"), 1));
    assert!(tool["inputSchema"]["properties"]["message"].is_object(), "{tool}");
    assert_eq!(tool["outputSchema"]["properties"]["session"]["type"], "string", "{tool}");

    let call = client.start_call("coding", json!({ "message": "How many sheep?" }));
    let request = server.request();
    assert_eq!(request.last(), "\"How many sheep?\"");
    let before = messages(&request);
    request.reply_with_usage("Seven.", 10, 2);
    let result = client.result(call);
    assert_eq!((text(&result), &result["isError"]), ("Seven.", &json!(false)), "{result}");
    let reply = &result["structuredContent"];
    assert_eq!((&reply["status"], &reply["text"]), (&json!("done"), &json!("Seven.")), "{reply}");
    assert_eq!((&reply["usage"]["input"], &reply["usage"]["output"]), (&json!(10), &json!(2)));
    let session = reply["session"].as_str().unwrap();

    // A message continues the session; without one, the last reply is returned.
    let more = json!({ "message": "And cows?", "session": session });
    let call = client.start_call("coding", more);
    let request = server.request();
    assert_eq!(messages(&request), before + 2);
    request.say("None.");
    assert_eq!(client.result(call)["structuredContent"]["session"], session);
    let last = client.call_tool("coding", json!({ "message": "", "session": session }));
    assert_eq!(text(&last), "None.");
    let listed = BIN.run(&project, &["sessions", "list"]);
    assert!(listed.out.contains(session) && listed.out.contains("How many sheep?"), "{listed:?}");

    // Sessions of other directories are not the client's, and wrong calls are not answered.
    let other = loopwright_test_support::process::project();
    let store = project.path().join(STORE).display().to_string();
    let run = ["run", "--model", "offline", "--session", "private", "--store", &store, "Hello"];
    assert_eq!(BIN.run(&other, &run).code, 0);
    for (arguments, why) in [
        (json!({ "message": "Hi", "session": "private" }), "is not one of the agent `coding`"),
        (json!({ "message": 7 }), "`message` is 7, and must be a string."),
        (json!({}), "There is no message"),
    ] {
        let refused = client.call_tool("coding", arguments);
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(text(&refused).contains(why), "{refused}");
    }
    let unknown = client.start_call("shell", json!({}));
    let unknown = client.response(unknown);
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert!(server.is_unasked());
    let exit = client.close();
    assert_eq!(exit.err, "");
}

/// C358: A call reports its session, its tools and its text as progress. Cancelled, it aborts its
/// run, and the session can be continued.
#[test]
fn a_call_reports_progress_and_can_be_cancelled() {
    let (server, project) = (Server::start(), project());
    let mut client = Client::start(&project, &model(&server), json!({}));
    let params = json!({
        "name": "coding",
        "arguments": { "message": "Read it.", "session": "s" },
        "_meta": { "progressToken": "p" },
    });
    let call = client.request("tools/call", params.clone());
    server.request().call(&[("read_file", json!({ "path": "Cargo.toml" }))]);
    server.request().say("Sheep.\nSeven.");
    client.result(call);
    let progress = client.notifications.iter().filter(|one| {
        one["method"] == "notifications/progress" && one["params"]["progressToken"] == "p"
    });
    let lines: Vec<_> = progress.clone().map(|one| one["params"]["message"].clone()).collect();
    let expected = ["Session s", "read_file {\"path\":\"Cargo.toml\"}", "Sheep.", "Seven."];
    assert_eq!(lines, expected);
    let numbers: Vec<_> = progress.map(|one| one["params"]["progress"].as_f64().unwrap()).collect();
    assert!(numbers.is_sorted() && numbers[0] > 0.0, "{numbers:?}");

    let call = client.request("tools/call", params);
    let mut request = server.request();
    request.begin();
    request.text("Half");
    let cancelled = json!({ "requestId": call });
    client.send(
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled }),
    );
    request.until_hung_up();
    // The session is free as soon as its run has ended.
    let next = client.start_call("coding", json!({ "message": "Again.", "session": "s" }));
    let request = server.request();
    assert!(request.last().contains("Again."), "{}", request.last());
    request.say("Fine.");
    let result = client.result(next);
    assert_eq!((text(&result), &result["structuredContent"]["status"]), ("Fine.", &json!("done")));
    client.close();
}

/// C359: Decisions are requested through the client: by a request, or since version 2026-07-28 by
/// the result, whose digest the answer carries.
#[test]
fn the_user_of_the_client_decides() {
    let project = project();
    let mut client = Client::start(&project, &["--model", "offline"], elicits());
    let written = project.path().join("a.txt");

    let call = client.start_call("coding", json!({ "message": WRITE, "session": "s" }));
    let (form, id) = client.elicitation();
    let message = form["message"].as_str().unwrap();
    assert!(message.starts_with("write_file {") && message.contains("+hi"), "{message}");
    let decision = &form["requestedSchema"]["properties"]["decision"];
    assert_eq!(decision["enum"], json!(["approve", "deny"]), "{form}");
    client.answer(id, json!({ "action": "decline" }));
    client.result(call);
    assert!(!written.exists());

    // An invalid answer causes a second question; edited arguments are the ones that run.
    let call = client.start_call("coding", json!({ "message": WRITE, "session": "s" }));
    let (_, id) = client.elicitation();
    client.answer(id, accept(json!({ "decision": "perhaps" })));
    let (form, id) = client.elicitation();
    assert!(form["message"].as_str().unwrap().starts_with("The decision is missing"), "{form}");
    let edited = json!({ "path": "a.txt", "content": "ho" }).to_string();
    client.answer(id, accept(json!({ "decision": "approve", "arguments": edited })));
    assert_eq!(client.result(call)["structuredContent"]["status"], "done");
    assert_eq!(fs::read_to_string(&written).unwrap(), "ho");
    client.close();
    let audit = BIN.run(&project, &["audit", "s", "--json"]);
    assert_eq!(audit.out.matches("\"source\":\"mcp\"").count(), 2, "{audit:?}");
    fs::remove_file(&written).unwrap();

    let mut client = Client::modern(&project, &["--model", "offline"], elicits());
    let arguments = json!({ "message": WRITE, "session": "t" });
    let asked = client.call_tool("coding", arguments.clone());
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let (name, request) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create");
    let params = |state: &Value| {
        let answers = json!({ name: accept(json!({ "decision": "approve" })) });
        json!({
            "name": "coding",
            "arguments": arguments,
            "inputResponses": answers,
            "requestState": state,
        })
    };
    // The state contains the digest of another call.
    let mut state: Value = serde_json::from_str(asked["requestState"].as_str().unwrap()).unwrap();
    state["shown"][name]["digest"] = json!("0123");
    let refused = client.call("tools/call", params(&json!(state.to_string())));
    assert_eq!(refused["resultType"], "input_required", "{refused}");
    assert!(refused.to_string().contains("digest"), "{refused}");
    assert!(!written.exists());
    let done = client.call("tools/call", params(&refused["requestState"]));
    assert_eq!(done["structuredContent"]["status"], "done", "{done}");
    assert_eq!(fs::read_to_string(&written).unwrap(), "hi");
    let forged = client.request("tools/call", params(&json!("{}")));
    assert_eq!(client.response(forged)["error"]["code"], -32602);
    client.close();
}

/// C485: An approval of a change that is no longer the one shown does not run the call.
#[test]
fn a_change_that_is_not_the_one_shown_is_not_made() {
    let project = project();
    let file = project.path().join("a.txt");
    let approve = || accept(json!({ "decision": "approve" }));
    let mut client = Client::start(&project, &["--model", "offline"], elicits());
    let call = client.start_call("coding", json!({ "message": WRITE, "session": "s" }));
    let (_, id) = client.elicitation();
    fs::write(&file, "theirs\n").unwrap();
    client.answer(id, approve());
    client.result(call);
    assert_eq!(fs::read_to_string(&file).unwrap(), "theirs\n");
    let call = client.start_call("coding", json!({ "message": WRITE, "session": "s" }));
    let (form, id) = client.elicitation();
    assert!(form["message"].as_str().unwrap().contains("-theirs"), "{form}");
    client.answer(id, approve());
    client.result(call);
    assert_eq!(fs::read_to_string(&file).unwrap(), "hi");
    client.close();

    let mut client = Client::modern(&project, &["--model", "offline"], elicits());
    let mut call = json!({
        "name": "coding",
        "arguments": { "message": WRITE, "session": "t" },
    });
    let asked = client.call("tools/call", call.clone());
    fs::write(&file, "theirs\n").unwrap();
    let name = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    call["inputResponses"] = json!({ name: approve() });
    call["requestState"] = asked["requestState"].clone();
    let done = client.call("tools/call", call);
    assert_eq!(done["structuredContent"]["status"], "done", "{done}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "theirs\n");
    client.close();
}

/// C359: A question of the model is asked in the form of its answer.
#[test]
fn a_question_is_asked_through_the_client() {
    let (server, project) = (Server::start(), project());
    let mut client = Client::start(&project, &model(&server), elicits());
    let call = client.start_call("coding", json!({ "message": "Paint." }));
    let options = json!(["red", "dark blue"]);
    let question = json!({ "question": "Which colour?", "options": options });
    server.request().call(&[("ask_user", question)]);
    let (form, id) = client.elicitation();
    assert_eq!(form["message"], "Which colour?");
    assert_eq!(form["requestedSchema"]["properties"]["answer"]["enum"], options);
    client.answer(id, accept(json!({ "answer": "dark blue" })));
    let request = server.request();
    assert_eq!(request.last(), "\"dark blue\"");
    request.say("Done.");
    assert_eq!(text(&client.result(call)), "Done.");
    client.close();
}

/// C359: A client that cannot ask its user gets the pending action, and the user decides with the
/// commands; the session is not held meanwhile.
#[test]
fn without_elicitation_the_result_says_how_to_decide() {
    let project = project();
    let mut client = Client::start(&project, &["--model", "offline"], json!({}));
    let result = client.call_tool("coding", json!({ "message": WRITE, "session": "s" }));
    let reply = &result["structuredContent"];
    assert_eq!((&reply["status"], &result["isError"]), (&json!("awaiting_action"), &json!(false)));
    let (call, digest) = (&reply["pending"][0]["call"], &reply["pending"][0]["digest"]);
    let (call, digest) = (call.as_str().unwrap(), digest.as_str().unwrap());
    let command = format!("`loopwright approve s {call} --digest {}", &digest[..12]);
    assert!(text(&result).contains(&command), "{result}");
    let approved = BIN.run(&project, &["approve", "s", call, "--digest", digest]);
    assert_eq!(approved.code, 0, "{approved:?}");
    let result = client.call_tool("coding", json!({ "message": "", "session": "s" }));
    assert_eq!(result["structuredContent"]["status"], "done", "{result}");
    assert_eq!(format!("{}\n", text(&result)), approved.out);
    client.close();
}

/// C360: After the server was killed in the middle of a run, the next one continues the session.
#[test]
fn a_session_survives_its_server() {
    let (server, project) = (Server::start(), project());
    let mut client = Client::start(&project, &model(&server), json!({}));
    client.start_call("coding", json!({ "message": "Count.", "session": "s" }));
    let mut request = server.request();
    request.begin();
    request.text("One");
    client.process.kill();
    drop(request);

    let mut client = Client::start(&project, &model(&server), json!({}));
    let call = client.start_call("coding", json!({ "message": "", "session": "s" }));
    let request = server.request();
    assert!(request.body.to_string().contains("Count."), "{}", request.body);
    request.say("Two.");
    assert_eq!(text(&client.result(call)), "Two.");

    // A run that has not ended five seconds after the client has closed its side is aborted.
    client.start_call("coding", json!({ "message": "On.", "session": "s" }));
    let mut request = server.request();
    request.begin();
    client.process.close_input();
    request.until_hung_up();
    client.close();
    let log = BIN.run(&project, &["sessions", "export", "s"]);
    let end = log.out.lines().rfind(|line| line.contains("run_ended")).unwrap();
    assert!(end.contains("\"aborted\""), "{end}");
}

/// C361: With `--tools`, the tools of the agent are served without a model, with the meaning of
/// their effects. Tools that need approval ask the client's user, or do not run.
#[test]
fn the_tools_of_an_agent_are_served_by_its_rules() {
    let project = project();
    let written = project.path().join("a.txt");
    let arguments = json!({ "path": "a.txt", "content": "hi" });
    let mut client = Client::start(&project, &["--tools"], json!({}));
    let tools = client.call("tools/list", json!({}));
    let all = tools["tools"].as_array().unwrap();
    let tool = |name: &str| all.iter().find(|tool| tool["name"] == name).unwrap();
    assert_eq!(tool("read_file")["annotations"]["readOnlyHint"], true);
    assert_eq!(tool("write_file")["annotations"]["readOnlyHint"], false);
    let of_sessions = ["ask_user", "write_todos", "coding"];
    assert!(!all.iter().any(|tool| of_sessions.iter().any(|name| tool["name"] == *name)));
    let read = client.call_tool("read_file", json!({ "path": "Cargo.toml" }));
    assert!(text(&read).contains("Counts sheep") && read["isError"] == false, "{read}");
    let missing = client.call_tool("read_file", json!({ "path": "none" }));
    assert_eq!(missing["isError"], true);
    let wrong = client.call_tool("read_file", json!({ "file": "Cargo.toml" }));
    assert!(wrong["isError"] == true && text(&wrong).contains("path"), "{wrong}");
    let refused = client.call_tool("write_file", arguments.clone());
    assert!(refused["isError"] == true && text(&refused).contains("--approve write_file"));
    assert!(!written.exists());
    client.close();

    let mut client = Client::start(&project, &["--tools"], elicits());
    for (answer, is_error) in [("deny", true), ("approve", false)] {
        let call = client.start_call("write_file", arguments.clone());
        let (form, id) = client.elicitation();
        assert!(form["message"].as_str().unwrap().starts_with("write_file {"), "{form}");
        client.answer(id, accept(json!({ "decision": answer })));
        assert_eq!(client.result(call)["isError"], is_error);
        assert_eq!(written.exists(), !is_error);
    }
    client.close();
    fs::remove_file(&written).unwrap();

    let mut client = Client::modern(&project, &["--tools"], elicits());
    let asked = client.call_tool("write_file", arguments.clone());
    let name = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let params = json!({
        "name": "write_file",
        "arguments": arguments,
        "inputResponses": { name: accept(json!({ "decision": "approve" })) },
        "requestState": asked["requestState"],
    });
    let done = client.call("tools/call", params.clone());
    assert!(done["isError"] == false && written.exists(), "{done}");
    let second = client.call("tools/call", params);
    assert!(second["isError"] == true && text(&second).contains("not pending any more"));
    client.close();
    // Nothing is stored.
    assert!(!project.path().join(STORE).exists());

    let mut client = Client::start(&project, &["--tools", "--approve", "write_file"], json!({}));
    let arguments = json!({ "path": "b.txt", "content": "hi" });
    assert_eq!(client.call_tool("write_file", arguments)["isError"], false);
    client.close();
}
