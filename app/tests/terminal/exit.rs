//! Exits of the app: in each case the shell has its terminal back, and the conversation can be
//! resumed.

use loopwright_test_support::process::project;
use serde_json::json;

use crate::conversation::{Conversation, reply_with_call};

#[test]
fn sigterm_in_the_middle_of_a_reply() {
    let chat = Conversation::begin(80, 24, &[]);
    let terminal = &chat.terminal;
    let mut reply = chat.prompt("Count the sheep");
    reply.begin();
    reply.text("One sheep, two");
    terminal.until("One sheep, two");
    terminal.signal("-TERM");
    reply.until_hung_up();
    let command = terminal.resume_command();
    terminal.line("echo it exited with $?");
    terminal.until("it exited with 143");
    terminal.assert_usable();

    terminal.line(&format!("clear; {command}"));
    terminal.until("`/continue` resumes");
    chat.terminal.line("/continue");
    chat.model.request().say("One sheep, two sheep, three.");
    terminal.until("two sheep, three.");
    chat.quit();
    terminal.assert_usable();
}

#[test]
fn ctrl_c_twice_in_the_middle_of_a_reply() {
    let chat = Conversation::begin(80, 24, &[]);
    let mut reply = chat.prompt("Count the sheep");
    reply.begin();
    reply.text("One sheep");
    chat.terminal.until("One sheep");
    chat.terminal.keys(&["C-c", "C-c"]);
    reply.until_hung_up();
    chat.terminal.resume_command();
    chat.terminal.assert_usable();
}

#[test]
fn ctrl_z_and_back() {
    let chat = Conversation::begin(80, 24, &[]);
    let terminal = &chat.terminal;
    terminal.text("half a");
    terminal.until("half a");
    terminal.keys(&["C-z"]);
    terminal.until("Stopped");
    terminal.assert_usable();
    terminal.line("fg");
    terminal.until("› half a");
    let reply = chat.prompt(" request");
    assert!(reply.last().contains("half a request"), "{}", reply.body);
    reply.say("Heard.");
    terminal.until("Heard.");
    chat.quit();
}

/// `kill -9` cannot be handled; the conversation is stored all the same.
#[test]
fn killed_and_resumed() {
    let chat = Conversation::begin(80, 24, &[]);
    let terminal = &chat.terminal;
    chat.prompt("Remember the goats").say("I do.");
    terminal.until("I do.");
    terminal.signal("-KILL");
    terminal.line("");
    terminal.until("Killed");
    terminal.line("reset; clear; echo usable"); // `reset` drops what is typed meanwhile
    terminal
        .when("the old screen is gone", |screen| screen.shows("usable") && !screen.shows("I do."));
    terminal.line("loopwright -c");
    terminal.until("Remember the goats");
    terminal.until("I do.");
    chat.quit();
    terminal.assert_usable();
}

/// While an editor owns the terminal, the size changes and the editor disables echo: both are
/// corrected.
#[test]
fn a_terminal_that_an_editor_left_in_raw_mode_is_restored() {
    let dir = project();
    let editor = dir.path().join("editor");
    std::fs::write(&editor, "#!/bin/sh\necho editing; read line; stty raw -echo\n").unwrap();
    assert!(std::process::Command::new("chmod").arg("+x").arg(&editor).status().unwrap().success());
    let chat = Conversation::begin(80, 24, &[("EDITOR", editor.to_str().unwrap())]);
    let terminal = &chat.terminal;
    edit(&chat);
    terminal.until("editing");
    terminal.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    terminal.line("");
    terminal.when("the edit is asked about on all of the screen", |screen| {
        screen.shows("› y yes") && screen.lines.iter().any(|line| line.chars().count() == 100)
    });
    terminal.keys(&["y"]);
    chat.model.request().say("Done.");
    terminal.until("Done.");
    chat.quit();
    terminal.assert_usable();
}

/// SIGTERM terminates a running editor and its descendants and removes the edited file.
#[test]
fn sigterm_while_an_editor_is_open() {
    let dir = project();
    let editor = dir.path().join("editor");
    let temporary = dir.path().join("tmp");
    let pids = dir.path().join("pids");
    std::fs::create_dir(&temporary).unwrap();
    let script = format!(
        "#!/bin/sh\nstty raw -echo\necho $$ >> {0}\n\
         sh -c 'trap \"\" TERM; echo $$ >> {0}; echo editing; exec cat'\n",
        pids.display()
    );
    std::fs::write(&editor, script).unwrap();
    assert!(std::process::Command::new("chmod").arg("+x").arg(&editor).status().unwrap().success());
    let vars = [("EDITOR", editor.to_str().unwrap()), ("TMPDIR", temporary.to_str().unwrap())];
    let chat = Conversation::begin(80, 24, &vars);
    let terminal = &chat.terminal;
    edit(&chat);
    terminal.until("editing");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 1);
    terminal.signal("-TERM");
    terminal.resume_command();
    terminal.line("echo it exited with $?");
    terminal.until("it exited with 143");
    terminal.assert_usable();
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    let pids = std::fs::read_to_string(&pids).unwrap();
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines() {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    }
}

/// Lets the model ask for an edit, and opens its arguments in the editor.
fn edit(chat: &Conversation) {
    let arguments = json!({ "path": "Cargo.toml", "old_string": "sheep", "new_string": "cows" });
    reply_with_call(chat.prompt("Mend it"), "I mend it.", "edit_file", &arguments);
    chat.terminal.until("› y yes");
    chat.terminal.keys(&["e"]);
}
