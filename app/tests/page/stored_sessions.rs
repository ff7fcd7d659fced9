//! Sessions that another process has created: a tool that asks for input, a conversation of
//! thousands of messages, a compaction.

use loopwright_core::event::{Decision, Provided};
use loopwright_core::log::LogEntry;
use loopwright_core::session::Profile;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::tool::{ActionRequest, Effect};
use loopwright_core::{AgentBuilder, GenericAgent, ToolError, tool_fn};
use loopwright_patterns::{PiPattern, Reflect};
use loopwright_test_support::browser::Tab;
use serde_json::{Map, Value, json};

use crate::fixture::Fixture;

pub(crate) fn agent(model: ScriptedModel) -> AgentBuilder {
    GenericAgent::builder(model.discard_requests(), PiPattern)
}

#[test]
fn a_tool_that_asks_for_input_receives_it() {
    // The server's own `read_file` continues the call.
    let asking = tool_fn("read_file", "Reads.", async |_: Map<String, Value>, _cx| {
        let choices = ["the old one", "the new one"];
        let data = json!({ "question": "Which of both is meant?", "choices": choices });
        Err::<String, _>(ToolError::Suspend(ActionRequest::new("choice", data)))
    });
    let model =
        ScriptedModel::new([Script::calls([("c1", "read_file", json!({ "path": "Cargo.toml" }))])]);
    let fixture =
        Fixture::after(&agent(model).tool(asking.effect(Effect::ReadOnly)).build().unwrap(), 1);
    let tab = fixture.before();
    tab.until_text(".card h3", "read_file asks: choice");
    tab.until_text("#status", "Waits for you");
    assert!(tab.text(".card").contains("Which of both is meant?"), "{}", tab.text(".card"));
    tab.screenshot("input");
    // With keys alone: the keyboard is in the card.
    tab.until("document.activeElement.matches('.card h3')");
    for _ in 0..2 {
        tab.press("Tab", false);
    }
    tab.until("document.activeElement.matches('.card .edit')");
    tab.press("Enter", false);
    tab.until("document.activeElement.matches('.card .json')");
    assert_eq!(
        tab.eval("document.querySelector('.card .approve').disabled"),
        true,
        "an empty field is no input"
    );
    tab.type_text("the new one");
    tab.until_text(".card .problem", "This is not JSON yet");
    tab.eval("document.activeElement.select()");
    tab.type_text("\"the new one\"");
    tab.press("Tab", false);
    tab.until("document.activeElement.matches('.card .approve')");
    tab.press("Enter", false);

    let reply = fixture.request();
    assert!(reply.last().contains("Counts sheep"), "{}", reply.last());
    reply.say("It counts sheep.");
    tab.until_text("#log", "It counts sheep.");
    tab.click(".call summary");
    tab.until_text(".call .note", "The input was provided.");
    tab.until("document.activeElement.matches('#prompt, summary')");
    let provided = Decision::Provide(Provided::Input(json!("the new one")));
    assert!(
        fixture.log().iter().any(
            |item| matches!(item, LogEntry::Decided { decision, .. } if **decision == provided)
        )
    );
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}

/// C526: Detached replies that are shown stand below the names of their speakers. The ones that
/// stream stay apart, and one that is withdrawn leaves nothing.
#[test]
fn detached_replies_stand_below_their_speakers() {
    let role = Profile::new().shown("judge");
    let verdict = Script::text(r#"{"is_good": true, "reason": "It rhymes."}"#);
    let model = ScriptedModel::new([Script::text("A line."), verdict]);
    let pattern = Reflect::new("It rhymes.", PiPattern).judge(role);
    let agent = GenericAgent::builder(model.discard_requests(), pattern).build().unwrap();
    let fixture = Fixture::after(&agent, 1);
    let tab = fixture.before();
    tab.until_text(".speaker", "judge");
    assert_eq!(tab.count(".speaker"), 1);
    assert!(tab.text("#log").contains("A line."), "{}", tab.text("#log"));
    let shown = tab.eval(
        "import('./view.js').then(async ({ Conversation }) => {
           const root = document.createElement('div');
           const page = new Conversation(root, { changed() {}, replied() {}, ended() {} });
           const event = (id, speaker, more) =>
             page.apply({ type: 'detached_update', message_id: id, speaker, block: 0, ...more });
           const says = (id, speaker, delta) => event(id, speaker, { kind: 'text', delta });
           const text = async () => {
             await new Promise((done) => setTimeout(done, 100));
             return [...root.children].map((one) => one.textContent).join('|');
           };
           says(2, 'pro', 'Cars '); says(3, 'contra', 'No'); says(2, 'pro', 'kill.');
           const all = [await text()];
           event(3, 'contra', { kind: 'withdrawn' });
           const parts = [{ type: 'text', text: 'Cars kill.' }];
           const message = { id: 2, role: 'detached', speaker: 'pro', parts, stop: 'stop' };
           page.apply({ type: 'message_end', message });
           says(4, 'pro', 'And');
           page.reconnected();
           says(4, 'pro', 'And more.');
           return [...all, await text()];
         })",
    );
    assert_eq!(shown, json!(["proCars kill.|contraNo", "proCars kill.|proAnd more."]));
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}

/// Waits until two frames are painted, and returns the time since the start of the navigation in
/// milliseconds.
const PAINTED: &str = "new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))";

/// Returns the time from the start of the navigation until all is shown and something typed is on
/// the screen, in milliseconds: the best of three, since the machine does other things too.
fn opens_in(tab: &Tab) -> f64 {
    let opens = [1, 2, 3].map(|_| {
        tab.reload();
        tab.until(
            "document.querySelector('#log').childElementCount >= 100
                && document.querySelector('#status').dataset.state === 'ready'",
        );
        tab.eval("document.querySelector('#prompt').focus()");
        tab.type_text("Hello");
        tab.eval(PAINTED).as_f64().unwrap()
    });
    opens.into_iter().fold(f64::INFINITY, f64::min)
}

/// Returns the time until a key is drawn, in milliseconds: the best of three.
fn draws_key_in(tab: &Tab) -> f64 {
    let key = format!(
        "{{ const start = performance.now(); const field = document.querySelector('#prompt');
           field.value += '!'; field.dispatchEvent(new Event('input'));
           {PAINTED}.then((end) => end - start) }}"
    );
    [1, 2, 3].map(|_| tab.eval(&key).as_f64().unwrap()).into_iter().fold(f64::INFINITY, f64::min)
}

/// C208: The page opens a long session near its end, about as fast as a short session.
#[test]
fn a_session_of_two_thousand_messages_opens_at_once_and_stays_quick() {
    let text = "## What was found\n\nThe **parser** reads `every` line:\n\n- first\n- second\n\n\
                ```rust\nlet a = 1;\n```\n\nAnd so on.";
    let after = |requests| {
        let model = ScriptedModel::new([]).default_reply(Script::text(text));
        Fixture::after(&agent(model).build().unwrap(), requests)
    };
    let (short_opens, short_key) = {
        let fixture = after(50);
        let tab = fixture.before();
        (opens_in(&tab), draws_key_in(&tab))
    };
    let fixture = after(1000);
    let tab = fixture.before();
    let opens = opens_in(&tab);
    let at_once = tab.count("#log > *");
    assert!((100..=200).contains(&at_once), "{at_once} messages");
    let first = || {
        let text = tab.eval("document.querySelector('#log > :first-child').textContent");
        text.as_str().unwrap().to_owned()
    };
    assert!(first().starts_with("Request 9"), "{}", first());
    // The rest comes as the user scrolls up, and what the user reads stays in place.
    tab.eval(
        "{ const scroll = document.querySelector('#scroll');
           window.seen = document.querySelector('#log > :first-child');
           scroll.scrollTop = 0;
           window.offset = seen.getBoundingClientRect().top; null }",
    );
    tab.until(&format!("document.querySelector('#log').childElementCount > {at_once}"));
    let moved = tab.eval("Math.abs(seen.getBoundingClientRect().top - offset)").as_f64().unwrap();
    assert!(moved < 100.0, "it moved by {moved} pixels");
    tab.eval(
        "new Promise((done) => {
           const scroll = document.querySelector('#scroll');
           const next = () => {
             if (document.querySelector('#log').childElementCount >= 2000) return done(true);
             scroll.scrollTop = scroll.scrollTop > 10 ? 0 : 5;
             requestAnimationFrame(next);
           };
           next();
         })",
    );
    assert!(first().starts_with("Request 1."), "{}", first());
    assert_eq!(tab.count("#log > *"), 2000);
    tab.until("!document.querySelector('#earlier').checkVisibility()");
    let key = draws_key_in(&tab);
    println!(
        "2,000 messages: interactive after {opens:.0} ms, a key: {key:.0} ms; 100 messages: \
         {short_opens:.0} ms, {short_key:.0} ms"
    );
    assert!(opens < 3.0 * short_opens, "interactive after {opens} ms, a short one {short_opens}");
    assert!(key < 5.0 * short_key, "a key is drawn after {key} ms, in a short one {short_key}");
    tab.eval("document.querySelector('#prompt').value = ''");
    tab.say("One more.");
    fixture.request().say("Fine.");
    tab.until("[...document.querySelectorAll('.assistant')].at(-1).innerText.trim() === 'Fine.'");
}

#[test]
fn a_conversation_is_compacted_on_request() {
    let model =
        ScriptedModel::new([]).default_reply(Script::text(&"It counts sheep by night. ".repeat(9)));
    let fixture = Fixture::after(&agent(model).build().unwrap(), 6);
    let tab = fixture.before();
    tab.until_text("#status", "Ready");
    let before = tab.conversation();
    tab.say("/compact Mind the sheep.");
    let mut summary = fixture.request();
    assert!(summary.last().contains("Mind the sheep."), "{}", summary.last());
    tab.until_text("#status", "Compacting…");
    assert_eq!(tab.eval("document.querySelector('#compact').checkVisibility()"), false);
    summary.begin();
    summary.text("They count sheep.");
    summary.end("stop");
    tab.until_text(".compaction summary", "messages became a summary · about");
    tab.until_text("#status", "Ready");
    tab.click(".compaction summary");
    tab.until_text(".compaction .thought", "They count sheep.");
    tab.screenshot("compacted");
    assert_eq!(tab.conversation()[..before.len()], before, "the conversation stays readable");

    tab.click("#compact");
    tab.until_text("#problem", "There is nothing to compact yet");
    assert_eq!(tab.eval("document.querySelector('#problem').classList.contains('error')"), false);
    tab.say("And now?");
    let reply = fixture.request();
    assert!(reply.body.to_string().contains("They count sheep."), "{}", reply.body);
    reply.say("Goats.");
    tab.until_text("#log", "Goats.");
    tab.until("document.querySelector('#problem').hidden");
    tab.say("And then?");
    let busy = json!({ "error": { "message": "Too many sheep" } });
    fixture.request().answer("503 Service Unavailable\r\nretry-after: 1", &busy);
    tab.until_text("#log", "Too many sheep");
    tab.until_text("#log", "Trying again");
    tab.until_text("#log", "(attempt 2 of 10).");
    fixture.request().say("Pigs.");
    tab.until_text("#log", "Pigs.");
    tab.until("!document.querySelector('#log').textContent.includes('Trying again')");
    tab.click("#compact");
    fixture.request().answer("400 Bad Request", &json!({ "error": { "message": "out of sheep" } }));
    tab.until_text("#problem", "out of sheep");
    assert_eq!(tab.count(".continue"), 0, "there is nothing to continue");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}
