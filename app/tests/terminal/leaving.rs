//! Whatever ends it, the shell has its terminal back, and the conversation can be gone on with.

use crate::talk::Talk;

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
