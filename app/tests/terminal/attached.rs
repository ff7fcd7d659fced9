//! A terminal in a session that another process has open.

use serde_json::json;

use crate::BIN;
use crate::conversation::{Conversation, call};

const ATTACHED: &str = "Another process has this conversation open";

/// C316: The terminal in a session that another process has open prompts, approves and aborts
/// there. When that process is killed, the terminal has the session, and continues its run.
#[test]
fn a_terminal_shares_the_session_of_another_process_and_survives_it() {
    let chat = Conversation::begin(80, 24, &[]);
    let url = &chat.model.url;
    let args = ["chat", "--model", "local/scripted", "--base-url", url, "--session", "s"];
    let mut owner = BIN.start(&chat.dir, &args);
    owner.line("Hello");
    chat.model.request().say("Good morning.");
    owner.out.until("Good morning.");

    let terminal = &chat.terminal;
    terminal.until("local/scripted · s");
    terminal.line("/sessions s");
    terminal.until(ATTACHED);
    terminal.until("Good morning.");

    // Approve a call of the other process.
    let mut reply = chat.prompt("Write it");
    reply.begin();
    call(reply, "write_file", &json!({ "path": "a.txt", "content": "hi" }));
    terminal.until("› y yes");
    owner.err.until("Run it?");
    terminal.keys(&["y"]);
    chat.model.request().say("It is written.");
    terminal.until("It is written.");
    owner.err.until("It was decided elsewhere.");
    owner.out.until("It is written.");
    assert_eq!(chat.read("a.txt"), "hi");

    // Abort a run of the other process.
    let mut reply = chat.prompt("Go on");
    reply.begin();
    terminal.keys(&["Escape"]);
    reply.until_hung_up();
    owner.err.until("Aborted");
    terminal.until("Interrupted");

    // Quit without an abort, and come back.
    let reply = chat.prompt("Once more");
    let command = chat.quit();
    terminal.line(&format!("clear; {command}"));
    terminal.until(ATTACHED);
    owner.kill();
    drop(reply);
    terminal.until("was interrupted");
    terminal.line("/continue");
    let reply = chat.model.request();
    assert!(reply.last().contains("Once more"), "{}", reply.body);
    reply.say("Here I am.");
    terminal.until("Here I am.");
    chat.quit();
    terminal.assert_usable();
}
