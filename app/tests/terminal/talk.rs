//! A conversation, from the first word to the next process.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::project;
use crate::server::{Exchange, Server};
use crate::tmux::{Screen, Terminal};

/// What stands in an empty prompt.
const READY: &str = "Type what you want done";

/// A project, a model, and a terminal in which a chat with it has begun.
pub(crate) struct Talk {
    pub(crate) terminal: Terminal,
    pub(crate) model: Server,
    pub(crate) dir: TempDir,
}

impl Talk {
    pub(crate) fn begin(columns: u16, rows: u16, vars: &[(&str, &str)]) -> Talk {
        let (dir, model) = (project(), Server::start());
        let terminal = Terminal::new(&dir, columns, rows, vars);
        let talk = Talk { dir, model, terminal };
        talk.start("");
        talk
    }

    /// Starts the chat in the shell, with these options.
    pub(crate) fn start(&self, more: &str) -> Screen {
        let url = &self.model.url;
        self.terminal
            .line(&format!("clear; loopwright --model local/scripted --base-url {url} {more}"));
        self.terminal.until(READY)
    }

    /// Says something, and gives the request that comes of it.
    pub(crate) fn say(&self, text: &str) -> Exchange {
        self.terminal.line(text);
        self.model.request()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap()
    }

    /// Leaves, and gives what the shell is told to go on with.
    pub(crate) fn leave(&self) -> String {
        self.terminal.keys(&["C-d"]);
        self.terminal.left()
    }
}

/// Replies with text and a call.
pub(crate) fn say_and_call(mut reply: Exchange, text: &str, name: &str, arguments: &Value) {
    reply.begin();
    reply.text(text);
    call(reply, name, arguments);
}

/// Ends a reply that has begun with a call.
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
    let talk = Talk::begin(80, 24, &[("EDITOR", editor.to_str().unwrap())]);
    let terminal = &talk.terminal;

    // Ask: what streams is seen before it ends.
    let mut reply = talk.say("What does this count?");
    reply.begin();
    reply.text("Let me **look** at");
    terminal.until("Let me look at");

    // Steer: it waits in sight, and goes out with the next request.
    terminal.line("I prefer goats");
    terminal.until("I prefer goats");
    call(reply, "read_file", &json!({ "path": "Cargo.toml" }));
    let reply = talk.model.request();
    assert!(reply.last().contains("I prefer goats"), "{}", reply.body);
    terminal.when("the call was skipped", |screen| {
        screen.shows("read_file") && screen.shows("the user steered")
    });

    // Confirm: the edit is shown as what it would do; its arguments are changed in an editor.
    say_and_call(reply, "I mend it.", "edit_file", &edit("cows"));
    terminal
        .when("the edit is asked about", |screen| screen.shows("cows") && screen.shows("sheep"));
    terminal.until("› y yes");
    terminal.keys(&["e"]);
    terminal.until("with your changes?");
    terminal.until("goats for engineers");
    assert!(talk.read("Cargo.toml").contains("sheep"), "nothing runs unasked");
    terminal.until("› y yes");
    terminal.keys(&["y"]);
    let mut reply = talk.model.request();
    assert!(talk.read("Cargo.toml").contains("Counts goats"));
    assert!(reply.body.to_string().contains("goats"));

    // Interrupt: the request is hung up on, what was said stays.
    reply.begin();
    reply.text("Now I will talk for a very long");
    terminal.until("a very long");
    terminal.keys(&["Escape"]);
    reply.until_hung_up();
    let screen = terminal.until(READY);
    assert!(screen.shows("a very long"), "{screen}");

    // Resume, in another process.
    let command = talk.leave();
    terminal.assert_usable();
    terminal.line(&format!("clear; {command}"));
    terminal.until("a very long");
    let reply = talk.say("And now?");
    assert!(reply.body.to_string().contains("What does this count?"), "{}", reply.body);
    reply.say("Now it counts *goats*.");
    terminal.until("Now it counts goats.");
    talk.leave();
    terminal.assert_usable();
}
