//! The effect of the terminal: its size, its colours, and its absence.

use crate::conversation::Conversation;

#[test]
fn forty_columns_and_a_change_of_size() {
    let chat = Conversation::begin(40, 20, &[]);
    let terminal = &chat.terminal;
    let mut reply = chat.prompt("Tell me all about it");
    reply.begin();
    reply.text(
        "A first paragraph that is longer than forty columns.\n\n\
         - a list of things\n- and **another**",
    );
    let screen = terminal.until("• and another");
    assert!(screen.lines.iter().all(|line| line.chars().count() <= 40), "{screen}");
    assert!(!screen.shows("A first paragraph that is longer than forty columns."), "{screen}");
    terminal.tmux(&["resize-window", "-x", "120", "-y", "30"]);
    terminal.until("A first paragraph that is longer than forty columns.");
    terminal.tmux(&["resize-window", "-x", "30", "-y", "8"]);
    reply.text("\n- a last one");
    terminal.until("• a last one");
    terminal.tmux(&["resize-window", "-x", "80", "-y", "24"]);
    reply.end("stop");
    terminal.until("• a last one");
    chat.quit();
    terminal.assert_usable();
}

#[test]
fn no_color_is_respected() {
    let is_coloured = |screen: &str| {
        let codes = screen
            .split("\x1b[")
            .skip(1)
            .filter_map(|rest| rest.split_once('m'))
            .flat_map(|(codes, _)| codes.split(';'));
        codes
            .filter_map(|code| code.parse::<u8>().ok())
            .any(|code| matches!(code, 30..=38 | 40..=48 | 90..=107))
    };
    for (vars, coloured) in [(&[][..], true), (&[("NO_COLOR", "1")][..], false)] {
        let chat = Conversation::begin(80, 24, vars);
        chat.prompt("Show me")
            .say("# Heading\n\nSome `code`:\n\n```rust\nfn main() {}\n```\n\nThe end.");
        chat.terminal.until("The end.");
        assert_eq!(
            is_coloured(&chat.terminal.coloured()),
            coloured,
            "{:?}",
            chat.terminal.coloured()
        );
    }
}

#[test]
fn scrolling_back_stays_where_it_is_read() {
    let chat = Conversation::begin(80, 24, &[]);
    let terminal = &chat.terminal;
    let mut reply = chat.prompt("Count");
    reply.begin();
    (1..=100).for_each(|number| reply.text(&format!("line {number} of it\n\n")));
    terminal.until("line 100 of it");
    terminal.keys(&["PPage", "PPage"]);
    let before = terminal.until("more below");
    let seen = before.lines.iter().find(|line| line.contains("of it")).unwrap().clone();
    (101..=120).for_each(|number| reply.text(&format!("line {number} of it\n\n")));
    reply.end("stop");
    let after = terminal.until("Type what you want done");
    assert!(after.shows(&seen) && !after.shows("line 120"), "{after}");
    terminal.keys(&["End"]);
    terminal.until("line 120 of it");
    chat.quit();
}

/// Without a terminal the chat is line based.
#[test]
fn without_a_terminal_the_chat_is_line_based() {
    let chat = Conversation::begin(80, 24, &[]);
    chat.terminal.keys(&["C-d"]);
    chat.terminal.until("shell$");
    chat.terminal.line(
        "clear; echo 'Call list_directory with path=.' | loopwright --model offline 2>&1 | cat",
    );
    chat.terminal.until("Cargo.toml");
    chat.terminal.assert_usable();
}
