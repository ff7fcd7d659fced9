//! Many tabs over HTTP/1.1, where Chromium opens six connections to a server.

use loopwright_test_support::browser::Tab;

use crate::fixture::Fixture;

const TABS: usize = 20;

/// C206: Twenty tabs with a session each work, whichever of them is closed.
#[test]
fn twenty_tabs_of_twenty_sessions_work() {
    let fixture = Fixture::new();
    let mut tabs: Vec<Tab> = (0..TABS).map(|_| fixture.tab()).collect();
    for (number, tab) in tabs.iter().enumerate() {
        tab.say(&format!("Tab {number}."));
        let mut reply = fixture.request();
        assert!(reply.last().contains(&format!("Tab {number}.")), "{}", reply.last());
        reply.begin();
        reply.text("Half ");
        tab.until_text("#log", "Half");
        reply.text("a sheep.");
        reply.end("stop");
    }
    for (number, tab) in tabs.iter().enumerate() {
        tab.until_text("#status", "Ready");
        assert_eq!(tab.conversation(), [format!("Tab {number}."), "Half a sheep.".into()]);
    }
    let metrics = tabs[0].eval("fetch('metrics').then((one) => one.text())");
    assert!(metrics.as_str().unwrap().contains("loopwright_event_streams 1\n"), "{metrics}");

    // All replies stream while the first tab, which reads them for all, is closed.
    for (number, tab) in tabs.iter().enumerate() {
        tab.say(&format!("Again, Tab {number}."));
    }
    let mut replies: Vec<_> = (0..TABS).map(|_| fixture.request()).collect();
    for reply in &mut replies {
        reply.begin();
        reply.text("Two ");
    }
    for tab in &tabs {
        tab.until("[...document.querySelectorAll('.assistant')].at(-1).innerText.trim() === 'Two'");
    }
    let mut open = tabs.split_off(1);
    tabs.pop().unwrap().close();
    for mut reply in replies {
        reply.text("sheep.");
        reply.end("stop");
    }
    for (number, tab) in open.iter().enumerate() {
        let number = number + 1;
        tab.until_text("#status", "Ready");
        let first = [format!("Tab {number}."), "Half a sheep.".into()];
        let second = [format!("Again, Tab {number}."), "Two sheep.".into()];
        assert_eq!(tab.conversation(), [first, second].concat());
        assert_eq!(tab.console_errors(), Vec::<String>::new());
    }
    // The next tab that reads for all is closed while nothing happens.
    open.remove(0).close();
    let tab = open.last().unwrap();
    tab.say("And now?");
    fixture.request().say("Three.");
    tab.until_text("#log", "Three.");
}

/// C206: A page without Web Locks, such as one over HTTP from another machine, has its own stream.
#[test]
fn without_locks_each_tab_has_its_own_stream() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    let other = fixture.tab();
    for tab in [&tab, &other] {
        tab.reload_after("delete Navigator.prototype.locks");
        assert_eq!(tab.eval("navigator.locks === undefined"), true);
    }
    for (number, tab) in [&tab, &other].into_iter().enumerate() {
        tab.say("Count.");
        fixture.request().say(&format!("Sheep {number}."));
        tab.until_text("#log", &format!("Sheep {number}."));
        tab.until_text("#status", "Ready");
    }
    let metrics = tab.eval("fetch('metrics').then((one) => one.text())");
    assert!(metrics.as_str().unwrap().contains("loopwright_event_streams 2\n"), "{metrics}");
}
