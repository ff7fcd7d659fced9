//! `chat` in a session that another process has open.

use std::fs;

use loopwright_test_support::http::Connection;
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::project;
use serde_json::{Value, json};

use crate::BIN;
use crate::serve::Served;

const ATTACHED: &str = "Another process has the session open";
const QUESTION: &str = "Run it? [y]es [n]o [e]dit [a]lways:";

fn chat_of<'a>(server: &'a Server, session: &'a str) -> [&'a str; 7] {
    ["chat", "--model", "custom/m", "--base-url", &server.url, "--session", session]
}

/// Creates a session in a server, and returns its id.
fn session_of(served: &Served) -> String {
    let created = Connection::try_post(&served.address, "/api/sessions", "{}").unwrap();
    let created: Value = serde_json::from_str(&created.body).unwrap();
    created["id"].as_str().unwrap().to_owned()
}

fn prompt(served: &Served, session: &str, message: &str) {
    let path = format!("/api/sessions/{session}/prompt");
    let body = json!({ "message": message }).to_string();
    assert_eq!(Connection::try_post(&served.address, &path, &body).unwrap().status, 202);
}

/// C316: A chat in a session that a server has open decides, prompts and aborts there, and shows
/// the runs. When the server is killed it has the session itself, and continues its run.
#[test]
fn a_chat_shares_the_session_of_a_server_and_survives_it() {
    let served = Served::start_own(&[], &[]);
    let session = session_of(&served);
    prompt(&served, &session, "Write it");
    let arguments = json!({ "path": "a.txt", "content": "hi" });
    served.model.request().call(&[("write_file", arguments)]);

    let mut chat = BIN.start(&served.dir, &chat_of(&served.model, &session));
    chat.err.until(ATTACHED);
    chat.err.until(QUESTION);
    chat.line("y");
    served.model.request().say("It is written.");
    chat.out.until("It is written.");
    assert_eq!(fs::read_to_string(served.dir.path().join("a.txt")).unwrap(), "hi");

    chat.line("And then?");
    let mut request = served.model.request();
    assert!(request.last().contains("And then?"), "{}", request.last());
    request.begin();
    chat.interrupt();
    request.until_hung_up();
    chat.err.until("Aborted");

    chat.line("Once more");
    let request = served.model.request();
    let Served { process, model, dir: _dir, .. } = served;
    process.kill();
    drop(request);
    chat.err.until("was interrupted");
    chat.line("/continue");
    let request = model.request();
    assert!(request.last().contains("Once more"), "{}", request.last());
    request.say("Here I am.");
    chat.out.until("Here I am.");
    let exit = chat.close();
    assert_eq!(exit.code, 0, "{exit:?}");
}

/// C316: A chat that leaves does not abort the run of the process that has the session, and shows
/// that a call was decided there.
#[test]
fn a_chat_leaves_the_run_of_another_process_alone() {
    let (project, server) = (project(), Server::start());
    let mut owner = BIN.start(&project, &chat_of(&server, "s"));
    owner.line("Write it");
    server.request().call(&[("write_file", json!({ "path": "a.txt", "content": "hi" }))]);
    owner.err.until(QUESTION);
    let mut other = BIN.start(&project, &chat_of(&server, "s"));
    other.err.until(ATTACHED);
    other.err.until(QUESTION);
    owner.line("y");
    let request = server.request();
    other.err.until("It was decided elsewhere.");
    other.line("/quit");
    assert_eq!(other.code(), 0);
    request.say("It is written.");
    owner.out.until("It is written.");

    // A run of its own request is not aborted, either.
    let mut other = BIN.start(&project, &chat_of(&server, "s"));
    other.err.until(ATTACHED);
    other.line("And then?");
    let request = server.request();
    other.line("/quit");
    assert_eq!(other.code(), 0);
    request.say("That is all.");
    owner.out.until("That is all.");
    owner.line("/quit");
    assert_eq!(owner.code(), 0);
}

/// C316: When a server asks for the session to change its settings, the chat that has it attaches
/// to the server's.
#[test]
fn a_chat_attaches_to_the_server_that_asks_for_its_session() {
    let served = Served::start_own(&[], &[]);
    let mut chat = BIN.start(&served.dir, &chat_of(&served.model, "s"));
    chat.line("Hello");
    served.model.request().say("Good morning.");
    chat.out.until("Good morning.");
    let body = json!({ "thinking": "high" }).to_string();
    let head = format!("PATCH /api/sessions/s HTTP/1.1\r\nHost: {}\r\n", served.address);
    let mut patch = Connection::open(&served.address);
    let type_and_length =
        format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    patch.send((head + &type_and_length + &body).as_bytes());
    let patched = patch.response().unwrap();
    assert_eq!(patched.status, 200, "{patched:?}");
    chat.err.until(ATTACHED);
    chat.line("And you?");
    served.model.request().say("Still here.");
    chat.out.until("Still here.");
    assert_eq!(chat.close().code, 0);
}
