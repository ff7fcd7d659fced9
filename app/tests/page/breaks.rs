//! Failures: of the connection, of the server, of the session.

use loopwright_core::log::LogEntry;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_test_support::browser::Tab;

use serde_json::json;

use crate::fixture::Fixture;
use crate::stored_sessions::agent;

/// The page says what to do if the server does not respond, and keeps the message.
#[test]
fn a_message_to_a_server_that_is_down_is_kept() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.say("Count.");
    fixture.request().say("One.");
    tab.until_text("#status", "Ready");
    fixture.kill();
    tab.until_text("#status", "Reconnecting…");
    tab.say("Go on.");
    tab.until_text("#problem.error", "The server does not respond. Check that it is running");
    assert_eq!(tab.eval("document.querySelector('#prompt').value"), "Go on.");
    fixture.restart();
    tab.until_text(".notice, #status", "Ready");
    assert_eq!(tab.eval("document.querySelector('#prompt').value"), "Go on.");
}

/// C105: After a kill of the server in the middle of a reply the page continues where it was.
#[test]
fn after_a_kill_of_the_server_its_run_is_continued() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.say("Count.");
    fixture.request().say("One.");
    tab.until_text("#status", "Ready");
    tab.say("Go on.");
    let mut reply = fixture.request();
    reply.begin();
    reply.text("Two, thr");
    tab.until_text("#log", "Two, thr");
    fixture.kill();
    tab.until_text("#status", "Reconnecting…");
    fixture.restart();
    tab.until_text(".notice", "The server stopped in the middle of this run.");
    tab.until_text("#status", "Interrupted");
    tab.screenshot("interrupted");
    fixture.tab().until_text("#list", "interrupted");
    let other = fixture.tab_at(&tab.address());
    other.until_text(".continue", "Continue");
    assert_eq!(other.conversation(), tab.conversation());

    tab.click(".continue");
    let mut reply = fixture.request();
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
        assert_eq!(tab.console_errors(), Vec::<String>::new());
    }
}

/// A session that another process has open is shown, from its log.
#[test]
fn a_session_of_another_process_is_shown() {
    let fixture =
        Fixture::after(&agent(ScriptedModel::new([Script::text("Sheep.")])).build().unwrap(), 1);
    let other = fixture.hold();
    let tab = fixture.before();
    tab.until_text("#log", "Sheep.");
    tab.until_text("#status", "Ready");
    tab.until("document.querySelector('#problem').hidden");
    drop(other);
}

/// C313: A run in progress in another process is shown as such, in the conversation and in the
/// list. It is called interrupted when that process is gone.
#[test]
fn a_run_of_another_process_is_not_called_interrupted() {
    let fixture = Fixture::new();
    let other = fixture.run("elsewhere", "Count.");
    let mut reply = fixture.request();
    reply.begin();
    reply.text("One, ");
    let at = format!("{}/#s=elsewhere", fixture.url.trim_end_matches('/'));
    let is_in_progress = |tab: &Tab| {
        tab.until_text("#log", "Count.");
        tab.until_text("#status", "Working…");
        tab.until_text("#list .when", "working");
        let session = tab.eval("fetch('api/sessions/elsewhere').then((one) => one.json())");
        assert_eq!((&session["running"], &session["interrupted"]), (&json!(true), &json!(false)));
        tab.until_text("#status", "Working…");
        assert_eq!(tab.count(".continue"), 0, "{:?}", tab.conversation());
        assert!(!tab.text("#list").contains("interrupted"), "{}", tab.text("#list"));
    };
    let tab = fixture.tab_at(&at);
    is_in_progress(&tab);
    tab.reload();
    is_in_progress(&tab);
    reply.text("two.");
    reply.end("stop");
    tab.until_text("#log", "One, two.");
    tab.until_text("#status", "Ready");
    assert_eq!(other.end().code, 0);

    let other = fixture.run("elsewhere", "Go on.");
    let mut reply = fixture.request();
    reply.begin();
    tab.until_text("#log", "Go on.");
    is_in_progress(&tab);
    other.kill();
    tab.reload();
    tab.until_text(".notice", "The server stopped in the middle of this run.");
    tab.until_text("#status", "Interrupted");
    tab.until_text("#list .when", "interrupted");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}

/// The page did not know yet that the run had ended.
#[test]
fn a_message_to_a_run_that_has_just_ended_is_delivered() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.eval(
        "{ const real = fetch;
           window.fetch = async (url, init) => {
             const response = await real(url, init);
             if (!String(url).endsWith('/events')) return response;
             const transform = async (chunk, out) => (await window.held, out.enqueue(chunk));
             const late = new TransformStream({ transform });
             return new Response(response.body.pipeThrough(late), response);
           } }",
    );
    tab.say("Count.");
    let mut reply = fixture.request();
    reply.begin();
    reply.text("One.");
    tab.until_text("#log", "One.");
    tab.eval("window.held = new Promise((done) => (window.release = done)), null");
    reply.end("stop");
    tab.eval(
        "(async () => {
           const of = (path) => fetch(`api/sessions${path}`).then((one) => one.json());
           const { id } = (await of('')).sessions[0];
           while ((await of(`/${id}`)).running);
        })()",
    );
    tab.until_text("#send", "Steer");
    tab.say("And on.");
    let reply = fixture.request();
    assert!(reply.last().contains("And on."), "{}", reply.last());
    tab.eval("release()");
    reply.say("Two.");
    tab.until_text("#status", "Ready");
    tab.until_text("#log", "Two.");
    assert_eq!(tab.conversation(), ["Count.", "One.", "And on.", "Two."]);
}

/// Permanent errors are shown and not retried.
#[test]
fn a_missing_session_is_requested_once() {
    let fixture = Fixture::new();
    let tab = fixture.tab_at(&format!("{}/#s=nobody", fixture.url.trim_end_matches('/')));
    tab.until_text("#status", "Not there");
    tab.until_text("#problem.error", "nobody");
    // A stream that waits would retry at once when the network is back.
    let requests = "performance.getEntriesByType('resource')
        .filter((one) => one.name.includes('api/events/')).length";
    tab.eval("dispatchEvent(new Event('online'))");
    assert_eq!(
        tab.eval(&format!(
            "fetch('api/sessions').then((one) => one.json()).then(() => {requests})"
        )),
        1
    );
    tab.until_text("#status", "Not there");
}

#[test]
fn a_log_that_became_shorter_is_read_from_its_start() {
    let model = ScriptedModel::new([
        Script::text("One sheep."),
        Script::text("Two sheep."),
        Script::text("Three."),
    ]);
    let fixture = Fixture::after(&agent(model).build().unwrap(), 3);
    let tab = fixture.before();
    tab.until_text("#log", "Three.");
    fixture.kill();
    let mut items = fixture.log();
    items.truncate(
        items.iter().position(|item| matches!(item, LogEntry::RunEnded { .. })).unwrap() + 1,
    );
    fixture.rewrite(items);
    fixture.restart();
    tab.until("!document.querySelector('#log').innerText.includes('Two')");
    tab.until_text("#status", "Ready");
    assert_eq!(tab.conversation(), ["Request 1.", "One sheep."]);
}
