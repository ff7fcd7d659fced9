//! A conversation, from the first message to the next process.

use loopwright_test_support::model_server::{Exchange, Server};
use loopwright_test_support::process::project;
use loopwright_test_support::terminal::{Screen, Terminal};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BIN;

/// The hint in an empty prompt.
pub(crate) const READY: &str = "Type what you want done";

/// A project, a model server, and a terminal in which a chat has started.
pub(crate) struct Conversation {
    pub(crate) terminal: Terminal,
    pub(crate) model: Server,
    pub(crate) dir: TempDir,
}

impl Conversation {
    pub(crate) fn begin(columns: u16, rows: u16, vars: &[(&str, &str)]) -> Conversation {
        let (dir, model) = (project(), Server::start());
        let terminal = Terminal::new(BIN, &dir, columns, rows, vars);
        let chat = Conversation { dir, model, terminal };
        chat.start("");
        chat
    }

    /// Starts the chat in the shell with these options.
    pub(crate) fn start(&self, more: &str) -> Screen {
        let url = &self.model.url;
        self.terminal
            .line(&format!("clear; loopwright --model local/scripted --base-url {url} {more}"));
        self.terminal.until(READY)
    }

    /// Sends a message and returns the resulting request.
    pub(crate) fn prompt(&self, text: &str) -> Exchange {
        self.terminal.line(text);
        self.model.request()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap()
    }

    /// Quits and returns the command that resumes the chat.
    pub(crate) fn quit(&self) -> String {
        self.terminal.keys(&["C-d"]);
        self.terminal.resume_command()
    }
}

/// Replies with text and a call.
pub(crate) fn reply_with_call(mut reply: Exchange, text: &str, name: &str, arguments: &Value) {
    reply.begin();
    reply.text(text);
    call(reply, name, arguments);
}

/// Ends a started reply with a call.
pub(crate) fn call(mut reply: Exchange, name: &str, arguments: &Value) {
    let function = json!({ "name": name, "arguments": arguments.to_string() });
    let call = json!({ "index": 0, "id": "call_0", "type": "function", "function": function });
    reply.delta(json!({ "tool_calls": [call] }), Value::Null);
    reply.end("tool_calls");
}

fn edit(new: &str) -> Value {
    json!({ "path": "Cargo.toml", "old_string": "sheep", "new_string": new })
}

#[test]
fn ask_steer_confirm_an_edited_edit_interrupt_and_resume() {
    let dir = project();
    let editor = dir.path().join("editor");
    std::fs::write(&editor, "#!/bin/sh\nsed -i 's/cows/goats/' \"$1\"\n").unwrap();
    assert!(std::process::Command::new("chmod").arg("+x").arg(&editor).status().unwrap().success());
    let chat = Conversation::begin(80, 24, &[("EDITOR", editor.to_str().unwrap())]);
    let terminal = &chat.terminal;

    // Ask: streamed text is visible before the reply ends.
    let mut reply = chat.prompt("What does this count?");
    reply.begin();
    reply.text("Let me **look** at");
    terminal.until("Let me look at");

    // Steer: the message is visible while queued and is part of the next request.
    terminal.line("I prefer goats");
    terminal.until("next   I prefer goats");
    call(reply, "read_file", &json!({ "path": "Cargo.toml" }));
    let reply = chat.model.request();
    assert!(reply.last().contains("I prefer goats"), "{}", reply.body);
    terminal.when("the call was skipped", |screen| {
        screen.shows("read_file") && screen.shows("the user steered")
    });

    // Confirm: the edit is shown as a diff; its arguments are changed in an editor.
    reply_with_call(reply, "I mend it.", "edit_file", &edit("cows"));
    terminal
        .when("the edit is asked about", |screen| screen.shows("cows") && screen.shows("sheep"));
    terminal.until("› y yes");
    terminal.keys(&["e"]);
    terminal.until("with your changes?");
    terminal.until("goats for engineers");
    assert!(chat.read("Cargo.toml").contains("sheep"), "nothing runs unasked");
    terminal.until("› y yes");
    terminal.keys(&["y"]);
    let mut reply = chat.model.request();
    assert!(chat.read("Cargo.toml").contains("Counts goats"));
    assert!(reply.body.to_string().contains("goats"));

    // Interrupt: the request is cancelled; the received text stays.
    reply.begin();
    reply.text("Now I will chat for a very long");
    terminal.until("a very long");
    terminal.keys(&["Escape"]);
    reply.until_hung_up();
    let screen = terminal.until(READY);
    assert!(screen.shows("a very long"), "{screen}");

    // Resume, in another process.
    let command = chat.quit();
    terminal.assert_usable();
    terminal.line(&format!("clear; {command}"));
    terminal.until("a very long");
    let reply = chat.prompt("And now?");
    assert!(reply.body.to_string().contains("What does this count?"), "{}", reply.body);
    reply.say("Now it counts *goats*.");
    terminal.until("Now it counts goats.");
    chat.quit();
    terminal.assert_usable();
}

/// C157: An option is chosen with an arrow and Enter; a text is typed, and declined with a reason.
#[test]
fn questions_are_answered() {
    let chat = Conversation::begin(80, 24, &[]);
    let terminal = &chat.terminal;
    // The name of a key is dimmed while the key is ignored, and then in colour.
    let until_ready = || {
        terminal.when("keys answer", |_| {
            let coloured = terminal.coloured();
            coloured.contains("mEnter") && !coloured.contains("[2mEnter")
        });
    };
    let question = json!({ "question": "Which colour?", "options": ["red", "dark blue"] });
    reply_with_call(chat.prompt("Paint."), "Well.", "ask_user", &question);
    terminal.until("› 1. red");
    until_ready();
    terminal.keys(&["Down"]);
    terminal.until("› 2. dark blue");
    terminal.keys(&["Enter"]);
    let reply = chat.model.request();
    assert_eq!(reply.last(), "\"dark blue\"");

    reply_with_call(reply, "Good.", "ask_user", &json!({ "question": "How dark?" }));
    terminal.until("How dark?");
    until_ready();
    terminal.keys(&["Enter"]);
    terminal.until("The answer is empty.");
    terminal.line("as the night");
    let reply = chat.model.request();
    assert_eq!(reply.last(), "\"as the night\"");

    reply_with_call(reply, "Good.", "ask_user", &json!({ "question": "And when?" }));
    terminal.until("And when?");
    until_ready();
    terminal.keys(&["C-x"]);
    terminal.until("decline, for this reason");
    terminal.line("any day");
    let reply = chat.model.request();
    assert_eq!(reply.last(), "\"Denied by the user: any day\"");
    reply.say("Done.");
    terminal.until("Done.");
    chat.quit();
    terminal.assert_usable();
}
