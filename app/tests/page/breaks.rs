//! What a person sees when something breaks: the connection, the server, the session's place.


use crate::place::Place;

/// C102: The server is killed in the middle of a reply, and the page goes on where it was.
#[test]
fn a_killed_server_comes_back_and_its_run_is_gone_on_with() {
    let place = Place::new();
    let tab = place.tab();
    tab.say("Count.");
    place.request().say("One.");
    tab.until_text("#status", "Ready");
    tab.say("Go on.");
    let mut reply = place.request();
    reply.begin();
    reply.text("Two, thr");
    tab.until_text("#log", "Two, thr");
    place.kill();
    tab.until_text("#status", "Reconnecting…");
    place.start_again();
    tab.until_text(".notice", "The server stopped in the middle of this run.");
    tab.until_text("#status", "Ready");
    tab.screenshot("interrupted");
    let other = place.tab_at(&tab.address());
    other.until_text(".again", "Continue");
    assert_eq!(other.conversation(), tab.conversation());

    tab.click(".again");
    let mut reply = place.request();
    reply.begin();
    reply.text("Two, ");
    let last = "[...document.querySelectorAll('.assistant')].at(-1)";
    for tab in [&tab, &other] {
        tab.until(&format!("{last}.innerText.trim() === 'Two,'"));
        tab.until_text("#status", "Working…");
    }
    reply.text("three.");
    reply.end("stop");
    for tab in [&tab, &other] {
        tab.until_text("#status", "Ready");
        assert_eq!(tab.conversation(), ["Count.", "One.", "Go on.", "Two, three."]);
        assert_eq!(tab.complaints(), Vec::<String>::new());
    }
}
