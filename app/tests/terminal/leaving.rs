//! Whatever ends it, the shell has its terminal back, and the conversation can be gone on with.

use serde_json::json;

use crate::process::project;
use crate::talk::{Talk, say_and_call};

#[test]
fn sigterm_in_the_middle_of_a_reply() {
    let talk = Talk::begin(80, 24, &[]);
    let terminal = &talk.terminal;
    let mut reply = talk.say("Count the sheep");
    reply.begin();
    reply.text("One sheep, two");
    terminal.until("One sheep, two");
    terminal.signal("-TERM");
    reply.until_hung_up();
    let command = terminal.left();
    terminal.line("echo it ended with $?");
    terminal.until("it ended with 143");
    terminal.assert_usable();

    terminal.line(&format!("clear; {command}"));
    terminal.until("/continue goes on");
    talk.terminal.line("/continue");
    talk.model.request().say("One sheep, two sheep, three.");
    terminal.until("two sheep, three.");
    talk.leave();
    terminal.assert_usable();
}

#[test]
fn ctrl_c_twice_in_the_middle_of_a_reply() {
    let talk = Talk::begin(80, 24, &[]);
    let mut reply = talk.say("Count the sheep");
    reply.begin();
    reply.text("One sheep");
    talk.terminal.until("One sheep");
    talk.terminal.keys(&["C-c", "C-c"]);
    reply.until_hung_up();
    talk.terminal.left();
    talk.terminal.assert_usable();
}

#[test]
fn ctrl_z_and_back() {
    let talk = Talk::begin(80, 24, &[]);
    let terminal = &talk.terminal;
    terminal.text("half a");
    terminal.until("half a");
    terminal.keys(&["C-z"]);
    terminal.until("Stopped");
    terminal.assert_usable();
    terminal.line("fg");
    terminal.until("› half a");
    let reply = talk.say(" request");
    assert!(reply.last().contains("half a request"), "{}", reply.body);
    reply.say("Heard.");
    terminal.until("Heard.");
    talk.leave();
}

/// A `kill -9` cannot be answered; what was said is there all the same.
#[test]
fn killed_and_resumed() {
    let talk = Talk::begin(80, 24, &[]);
    let terminal = &talk.terminal;
    talk.say("Remember the goats").say("I do.");
    terminal.until("I do.");
    terminal.signal("-KILL");
    terminal.line("");
    terminal.until("Killed");
    terminal.line("reset; loopwright -c");
    terminal.until("Remember the goats");
    terminal.until("I do.");
    talk.leave();
    terminal.assert_usable();
}

/// While an editor has the terminal its size is changed, and the editor leaves it without echo:
/// that is mended.
#[test]
fn an_editor_may_leave_the_terminal_as_it_likes() {
    let dir = project();
    let editor = dir.path().join("editor");
    std::fs::write(&editor, "#!/bin/sh\necho editing; read line; stty raw -echo\n").unwrap();
    assert!(std::process::Command::new("chmod").arg("+x").arg(&editor).status().unwrap().success());
    let talk = Talk::begin(80, 24, &[("EDITOR", editor.to_str().unwrap())]);
    let terminal = &talk.terminal;
    edit(&talk);
    terminal.until("editing");
    terminal.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    terminal.line("");
    terminal.when("the edit is asked about on all of the screen", |screen| {
        screen.shows("› y yes") && screen.lines.iter().any(|line| line.chars().count() == 100)
    });
    terminal.keys(&["y"]);
    talk.model.request().say("Done.");
    terminal.until("Done.");
    talk.leave();
    terminal.assert_usable();
}

/// An editor that has the terminal is ended, with all that it has started; nothing of what was
/// edited stays.
#[test]
fn sigterm_while_an_editor_is_open() {
    let dir = project();
    let (editor, temporary, pids) =
        (dir.path().join("editor"), dir.path().join("tmp"), dir.path().join("pids"));
    std::fs::create_dir(&temporary).unwrap();
    let script = format!(
        "#!/bin/sh\nstty raw -echo\necho $$ >> {0}\nsh -c 'trap \"\" TERM; echo $$ >> {0}; echo editing; exec cat'\n",
        pids.display()
    );
    std::fs::write(&editor, script).unwrap();
    assert!(std::process::Command::new("chmod").arg("+x").arg(&editor).status().unwrap().success());
    let vars = [("EDITOR", editor.to_str().unwrap()), ("TMPDIR", temporary.to_str().unwrap())];
    let talk = Talk::begin(80, 24, &vars);
    let terminal = &talk.terminal;
    edit(&talk);
    terminal.until("editing");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 1);
    terminal.signal("-TERM");
    terminal.left();
    terminal.line("echo it ended with $?");
    terminal.until("it ended with 143");
    terminal.assert_usable();
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    let pids = std::fs::read_to_string(&pids).unwrap();
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines() {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    }
}

/// Has an edit asked about, and its arguments edited.
fn edit(talk: &Talk) {
    let arguments = json!({ "path": "Cargo.toml", "old_string": "sheep", "new_string": "cows" });
    say_and_call(talk.say("Mend it"), "I mend it.", "edit_file", &arguments);
    talk.terminal.until("› y yes");
    talk.terminal.keys(&["e"]);
}
