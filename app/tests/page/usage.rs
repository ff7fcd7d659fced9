//! The use of the page: prompts, streaming replies, decisions, steers, aborts, reloads, two tabs.

use serde_json::json;

use crate::fixture::{Fixture, Relay, edit};

/// C105: The page shows a reply as it streams; a reload in the middle of a run loses nothing.
#[test]
fn a_reply_grows_as_it_streams_and_a_reload_in_the_middle_loses_nothing() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.until_text("#empty", "What should be done?");
    tab.say("Why are there *sheep*?");
    let mut reply = fixture.request();
    reply.begin();
    reply.text("First **bo");
    tab.until_text(".assistant strong", "bo");
    tab.until_text("#status", "Working…");
    assert_eq!(tab.conversation(), ["Why are there *sheep*?", "First bo"]);
    reply.text("ld** and\n\n```rust\nlet a =");
    tab.until_text(".assistant pre", "let a =");

    tab.reload();
    tab.until_text(".assistant pre", "let a =");
    tab.until_text("#status", "Working…");
    reply.text(" 1;\n```\n\nLast.");
    tab.until_text(".assistant", "Last.");
    let whole = ["Why are there *sheep*?", "First bold and", "rust", "Copy", "let a = 1;", "Last."];
    assert_eq!(tab.conversation(), whole);
    reply.end("stop");
    tab.until_text("#status", "Ready");
    assert_eq!(tab.conversation(), whole);
    tab.reload();
    tab.until_text(".assistant", "Last.");
    assert_eq!(tab.conversation(), whole, "the log has the same as the stream");
    tab.until_text("#list a[aria-current]", "Why are there *sheep*?");

    let shown = tab.text("#list a[aria-current] .setup");
    let directory = fixture.dir.path().canonicalize().unwrap();
    assert!(shown.ends_with(&format!(" · {}", directory.display())), "{shown}");

    tab.say("Once more.");
    fixture.request().reply_with_usage("Yes.", 12_345, 678);
    tab.until_text("#spent", "12.3k in · 678 out");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}

#[test]
fn an_edit_is_approved_with_other_arguments_than_the_model_gave() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.say("No more sheep.");
    fixture.request().call(&[("edit_file", edit("goats"))]);
    tab.until_text(".card h3", "Run edit_file?");
    tab.until_text("#status", "Waits for you");
    tab.until_text(".card .diff .add", "Counts goats for");
    assert!(tab.text(".card .diff .del").contains("Counts sheep for"), "{}", tab.text(".card"));
    tab.until("document.activeElement.matches('.card h3')");
    tab.screenshot("confirmation");

    tab.click(".card .edit");
    for (text, problem) in [("{", "This is not JSON yet"), ("[1]", "must be one JSON object")] {
        tab.eval("document.activeElement.select()");
        tab.type_text(text);
        tab.until_text(".card .problem", problem);
        assert_eq!(tab.eval("document.querySelector('.card .approve').disabled"), true);
    }
    tab.eval("document.activeElement.select()");
    tab.type_text(&json!({ "path": 7, "old_string": "sheep", "new_string": "llamas" }).to_string());
    tab.click(".card .approve");
    tab.until_text(".card .problem", "path");
    assert!(fixture.read("Cargo.toml").contains("sheep"), "what is refused changes nothing");
    tab.eval("document.querySelector('.json').select()");
    tab.type_text(&edit("llamas").to_string());
    tab.click(".card .approve");

    let reply = fixture.request();
    assert!(
        fixture.read("Cargo.toml").contains("Counts llamas for"),
        "{}",
        fixture.read("Cargo.toml")
    );
    reply.say("Done.");
    tab.until_text(".assistant", "Done.");
    assert_eq!(tab.count(".card"), 0);
    assert!(tab.text(".call .diff .add").contains("Counts llamas"), "{}", tab.text(".call"));
    assert!(tab.text(".call .diff .del").contains("Counts sheep"), "{}", tab.text(".call"));
    tab.until_text(".call .state", "done");
    tab.click(".call summary");
    tab.until("!document.querySelector('.call .diff').checkVisibility()");
}

#[test]
fn the_model_receives_the_reason_of_a_denial() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.say("No more sheep.");
    fixture.request().call(&[("edit_file", edit("goats"))]);
    tab.click(".card .deny");
    tab.until("document.activeElement.matches('.card .reason')");
    tab.type_text("Sheep are fine.");
    tab.press("Enter", false);
    let reply = fixture.request();
    assert!(reply.last().contains("Sheep are fine."), "{}", reply.last());
    reply.say("Then they stay.");
    tab.until_text(".assistant", "Then they stay.");
    tab.until_text(".call .state", "denied");
    tab.until("document.activeElement.id === 'prompt'");
    assert!(fixture.read("Cargo.toml").contains("sheep"));
}

#[test]
fn enter_steers_alt_enter_waits_and_escape_stops() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.say("Count.");
    let mut reply = fixture.request();
    reply.begin();
    reply.text("One");
    tab.until_text(".assistant", "One");
    tab.until_text("#send", "Steer");
    tab.say("Backwards!");
    tab.until_text("#queue", "Steers Backwards!");
    tab.click("#prompt");
    tab.type_text("Then rest.");
    tab.press("Enter", true);
    tab.until_text("#queue", "Next Then rest.");
    tab.screenshot("queue");
    reply.end("stop");

    let reply = fixture.request();
    assert!(reply.last().contains("Backwards!"), "{}", reply.last());
    tab.until("!document.querySelector('#queue').innerText.includes('Backwards')");
    reply.say("Three");
    let mut reply = fixture.request();
    assert!(reply.last().contains("Then rest."), "{}", reply.last());
    reply.begin();
    reply.text("Resting");
    tab.until_text(".assistant", "Resting");
    tab.press("Escape", false);
    reply.until_hung_up();
    tab.until_text(".notice", "Stopped.");
    tab.until_text("#status", "Ready");

    tab.say("Hello.");
    let mut reply = fixture.request();
    reply.begin();
    reply.text("Good");
    tab.until_text(".assistant:last-child", "Good");
    tab.click("#stop");
    reply.until_hung_up();
    tab.until_text("#send", "Send");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}

#[test]
fn two_tabs_show_the_same_and_one_decides_for_both() {
    let fixture = Fixture::new();
    let one = fixture.tab();
    one.say("No more sheep.");
    let mut reply = fixture.request();
    reply.begin();
    reply.text("I will change");
    one.until_text(".assistant", "I will change");
    let two = fixture.tab_at(&one.address());
    two.until_text(".assistant", "I will change");
    reply.text(" that.");
    reply.end("stop");
    for tab in [&one, &two] {
        tab.until_text(".assistant", "I will change that.");
    }
    two.say("Go on.");
    fixture.request().call(&[("edit_file", edit("goats"))]);
    one.until_text(".user", "Go on.");
    for tab in [&one, &two] {
        tab.until_text(".card", "Run edit_file?");
    }
    two.click(".card .approve");
    fixture.request().say("Done.");
    for tab in [&one, &two] {
        tab.until_text(".assistant", "Done.");
        tab.until_text("#status", "Ready");
        tab.until("!document.querySelector('.card')");
    }
    assert_eq!(one.conversation(), two.conversation());
}

#[test]
fn a_broken_connection_is_restored_and_nothing_is_lost_or_doubled() {
    let fixture = Fixture::new();
    let relay = Relay::to(&fixture.url);
    let tab = fixture.tab_at(&relay.url);
    tab.say("Count.");
    let mut reply = fixture.request();
    reply.begin();
    let mut text = String::new();
    for word in ["one", " two", " three", " four"] {
        reply.text(word);
        text.push_str(word);
        tab.until(&format!("document.querySelector('.assistant')?.innerText.trim() === '{text}'"));
        relay.break_all();
        tab.until_text("#status", "Reconnecting…");
        tab.until_text("#status", "Working…");
    }
    relay.break_all();
    reply.text(" five");
    reply.end("stop");
    tab.until_text(".assistant", "five");
    tab.until_text("#status", "Ready");
    assert_eq!(tab.conversation(), ["Count.", "one two three four five"]);
}

#[test]
fn sessions_are_listed_left_and_deleted() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    for name in ["First", "Second"] {
        tab.click("#new");
        tab.say(name);
        fixture.request().say("Well.");
        tab.until_text("#list a[aria-current]", name);
        tab.until_text("#status", "Ready");
    }
    assert_eq!(tab.count("#list li"), 2);
    tab.click("#list li:not(:has([aria-current])) a");
    tab.until_text("#log .user", "First");
    tab.until_text("#title", "First");
    tab.eval("history.back()");
    tab.until_text("#log .user", "Second");
    tab.until_text("#list a[aria-current]", "Second");
    tab.click("#list li:has([aria-current]) button");
    tab.until_text("#list button", "Delete?");
    // The second half of a double click confirms nothing.
    tab.eval(
        "document.querySelector('#list button.confirm')
            .dispatchEvent(new MouseEvent('click', { bubbles: true, detail: 2 }))",
    );
    tab.click("#list .confirm");
    tab.until("document.querySelectorAll('#list li').length === 1");
    tab.until_text("#empty", "What should be done?");
    assert!(tab.text("#list").contains("First"));
}

/// C207: The page reads the list by pages, and not again for each event.
#[test]
fn a_long_list_is_read_by_pages() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.eval(
        "(async () => {
           const headers = { 'content-type': 'application/json' };
           for (let number = 0; number < 70; number++) {
             const body = JSON.stringify({ name: `Number ${number}.` });
             await fetch('api/sessions', { method: 'POST', headers, body });
           }
         })()",
    );
    tab.reload();
    tab.until("document.querySelectorAll('#list li').length === 30");
    tab.until_text("#list", "Number 69.");
    tab.click("#more-sessions");
    tab.until("document.querySelectorAll('#list li').length === 60");
    tab.click("#more-sessions");
    tab.until("document.querySelectorAll('#list li').length === 70");
    tab.until("!document.querySelector('#more-sessions').checkVisibility()");
    tab.say("Count.");
    let mut reply = fixture.request();
    reply.begin();
    tab.until_text("#list li:first-child", "working");
    assert_eq!(tab.count("#list li"), 71, "what was read before stays");
    reply.text("I look.");
    tab.until_text("#log", "I look.");
    tab.eval("performance.clearResourceTimings()");
    for turn in 1..=5 {
        reply.tool("list_directory", &json!({ "path": "." }));
        reply = fixture.request();
        reply.begin();
        reply.text(&format!("Turn {turn}."));
        tab.until_text("#log", &format!("Turn {turn}."));
    }
    let lists = "performance.getEntriesByType('resource')
        .filter((one) => one.name.includes('api/sessions?')).length";
    // One request may still have been on its way.
    assert!(tab.eval(lists).as_u64().unwrap() <= 1);
    reply.end("stop");
    tab.until_text("#status", "Ready");
}

/// The list is drawn again while the mouse button is down, since a run starts.
#[test]
fn a_click_is_not_lost_while_the_list_changes() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    for name in ["First", "Second"] {
        tab.click("#new");
        tab.say(name);
        fixture.request().say("Well.");
        tab.until_text("#list a[aria-current]", name);
        tab.until_text("#status", "Ready");
    }
    tab.click("#prompt");
    tab.type_text("More.");
    let mouse = tab.press_mouse("#list li:not(:has([aria-current])) button");
    tab.eval("document.querySelector('#send').click()");
    let request = fixture.request();
    tab.until_text("#list li:has([aria-current])", "working");
    mouse.release();
    tab.until_text("#list button", "Delete?");
    request.say("Well.");
    tab.until_text("#status", "Ready");
}

#[test]
fn a_token_is_asked_for_once() {
    let token = "a-token-of-many-letters";
    let fixture = Fixture::with(&["--token", token]);
    let tab = fixture.tab();
    tab.until("document.querySelector('#ask').open");
    tab.screenshot("token");
    tab.type_text("a-wrong-token-of-letters");
    tab.press("Enter", false);
    tab.until_text("#ask", "That is not a token of this server.");
    tab.until("document.querySelector('#ask').open && document.activeElement.id === 'token'");
    assert_eq!(tab.eval("document.querySelector('#token').value"), "");
    tab.type_text(token);
    tab.press("Enter", false);
    tab.until("!document.querySelector('#ask').open");
    tab.say("Hello.");
    fixture.request().say("Good day.");
    tab.until_text(".assistant", "Good day.");
    tab.reload();
    tab.until_text(".assistant", "Good day.");
    assert_eq!(tab.eval("document.querySelector('#ask').open"), false);
    assert!(!tab.address().contains("token"), "{}", tab.address());
    let handed = fixture.tab_at(&format!("{}/#token={token}", fixture.url.trim_end_matches('/')));
    handed.until_text("#list", "Hello.");
    assert!(!handed.address().contains(token), "{}", handed.address());
}

#[test]
fn the_output_of_a_command_is_seen_while_it_runs() {
    let fixture = Fixture::with(&["--unconfined"]);
    let relay = Relay::to(&fixture.url);
    let tab = fixture.tab_at(&relay.url);
    let gate = fixture.dir.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    tab.say("Run it.");
    let command = "echo first line; read word < gate; echo then $word; exit 3";
    fixture.request().call(&[("execute_command", json!({ "command": command }))]);
    tab.click(".card .approve");
    tab.click(".call summary");
    tab.until_text(".call .live", "first line");
    tab.until_text(".call .state", "running…");
    tab.reload();
    tab.until_text(".call .state", "running…");
    tab.click(".call summary");
    tab.until_text(".call .live", "first line");
    relay.break_all();
    tab.until_text("#status", "Reconnecting…");
    tab.until_text("#status", "Working…");
    tab.until_text(".call .live", "first line");
    assert_eq!(tab.text(".call .live").trim(), "first line", "it is sent twice, and shown once");
    std::fs::write(&gate, "second\n").unwrap();
    let reply = fixture.request();
    assert!(reply.last().contains("then second"), "{}", reply.last());
    tab.until_text(".call .state", "exit 3");
    tab.until_text(".call .out", "first line\nthen second");
    reply.say("It failed.");
    tab.until_text(".assistant", "It failed.");
}

/// C49: an incomplete reply is marked, also after a reload.
#[test]
fn an_incomplete_reply_is_marked() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    let marks = [
        ("half", "length", "The reply was cut off: it reached the limit of its length."),
        ("half", "content_filter", "The provider’s filter cut the reply off."),
        ("", "stop", "The reply is empty."),
    ];
    for (text, finish, mark) in marks {
        tab.say("Hello");
        let mut reply = fixture.request();
        reply.begin();
        reply.text(text);
        reply.end(finish);
        tab.until_text(".assistant:last-of-type .note", mark);
        tab.until_text("#status", "Ready");
    }
    let shown = tab.conversation();
    for (_, _, mark) in marks {
        assert!(shown.iter().any(|line| line == mark), "{mark}: {shown:?}");
    }
    tab.reload();
    tab.until_text(".assistant:last-of-type .note", "The reply is empty.");
    assert_eq!(tab.conversation(), shown);
}
