//! What a person sees when something breaks: the connection, the server, the session's place.

use loopwright_core::log::LogEntry;
use loopwright_core::testing::{Script, ScriptedModel};

use crate::begun::agent;
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
    tab.until_text("#status", "Interrupted");
    tab.screenshot("interrupted");
    place.tab().until_text("#list", "interrupted");
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

/// What a retry may mend is retried, and the server's sentence says why it takes so long.
#[test]
fn a_session_that_another_process_has_is_waited_for() {
    let place =
        Place::after(&agent(ScriptedModel::new([Script::text("Sheep.")])).build().unwrap(), 1);
    let other = place.hold();
    let tab = place.before();
    tab.until_text("#status", "Reconnecting…");
    tab.until_text("#problem.error", "in use");
    drop(other);
    tab.until_text("#log", "Sheep.");
    tab.until_text("#status", "Ready");
    tab.until("document.querySelector('#problem').hidden");
}

/// The page did not know yet that the run was over.
#[test]
fn what_is_said_to_a_run_that_has_just_ended_is_heard() {
    let place = Place::new();
    let tab = place.tab();
    tab.eval(
        "{ const real = fetch;
           window.fetch = async (url, init) => {
             const response = await real(url, init);
             if (!String(url).includes('/events')) return response;
             const late = new TransformStream({ transform: async (chunk, out) => (await window.held, out.enqueue(chunk)) });
             return new Response(response.body.pipeThrough(late), response);
           } }",
    );
    tab.say("Count.");
    let mut reply = place.request();
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
    let reply = place.request();
    assert!(reply.last().contains("And on."), "{}", reply.last());
    tab.eval("release()");
    reply.say("Two.");
    tab.until_text("#status", "Ready");
    tab.until_text("#log", "Two.");
    assert_eq!(tab.conversation(), ["Count.", "One.", "And on.", "Two."]);
}

/// What it cannot mend is said and left.
#[test]
fn a_session_that_is_not_there_is_not_asked_for_again() {
    let place = Place::new();
    let tab = place.tab_at(&format!("{}/#s=nobody", place.url.trim_end_matches('/')));
    tab.until_text("#status", "Not there");
    tab.until_text("#problem.error", "nobody");
    // Who waits would try again at once when the network comes.
    let asked = "performance.getEntriesByType('resource').filter((one) => one.name.includes('events')).length";
    tab.eval("dispatchEvent(new Event('online'))");
    assert_eq!(
        tab.eval(&format!("fetch('api/sessions').then((one) => one.json()).then(() => {asked})")),
        1
    );
    tab.until_text("#status", "Not there");
}

#[test]
fn a_log_that_became_shorter_is_read_anew() {
    let model = ScriptedModel::new([
        Script::text("One sheep."),
        Script::text("Two sheep."),
        Script::text("Three."),
    ]);
    let place = Place::after(&agent(model).build().unwrap(), 3);
    let tab = place.before();
    tab.until_text("#log", "Three.");
    place.kill();
    let mut items = place.log();
    items.truncate(
        items.iter().position(|item| matches!(item, LogEntry::RunEnded { .. })).unwrap() + 1,
    );
    place.rewrite(items);
    place.start_again();
    tab.until("!document.querySelector('#log').innerText.includes('Two')");
    tab.until_text("#status", "Ready");
    assert_eq!(tab.conversation(), ["Request 1.", "One sheep."]);
}
