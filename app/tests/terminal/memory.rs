//! The distillation of facts when a conversation ends.

use serde_json::json;

use crate::conversation::{Conversation, READY};

/// C269: with `--distil-at-end`, facts are distilled when another conversation is opened and when
/// the app quits; the next conversation uses them.
#[test]
fn facts_are_distilled_when_a_conversation_ends() {
    let chat = Conversation::begin(100, 24, &[]);
    let terminal = &chat.terminal;
    terminal.keys(&["C-d"]);
    terminal.until("shell$");
    chat.start("--memory --distil-at-end");
    let idle_after = |answer: &str| {
        terminal.when("the run has ended", |screen| screen.shows(answer) && screen.shows(READY))
    };
    let facts = |fact: &str| json!({ "facts": [fact] }).to_string();
    chat.prompt("My cat is called Minka.").say("What a name.");
    idle_after("What a name.");
    terminal.line("/new");
    let request = chat.model.request();
    assert!(request.last().contains("My cat is called Minka."), "{}", request.body);
    request.say(&facts("The cat of the user is called Minka."));
    terminal.until(READY);
    terminal.until("1 fact was remembered");

    let request = chat.prompt("What is my cat called?");
    let sent = request.body["messages"].to_string();
    assert!(sent.contains("The cat of the user is called Minka."), "{sent}");
    request.say("She is a cat.");
    idle_after("She is a cat.");
    terminal.keys(&["C-d"]);
    let request = chat.model.request();
    assert!(request.last().contains("What is my cat called?"), "{}", request.body);
    terminal.until("Ctrl-C skips that");
    request.say(&facts("The user asks about cats."));
    terminal.until("1 fact was remembered");
    terminal.resume_command();
    terminal.assert_usable();
}
