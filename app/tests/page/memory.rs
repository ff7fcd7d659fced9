//! `/memory`: the facts about the user, to see and to forget.

use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{GenericAgent, RunContext};
use loopwright_patterns::PiPattern;
use serde_json::json;

use crate::fixture::Fixture;

/// C197: The facts that a session stores are shown as text. One click deletes a fact, two clicks
/// delete all.
#[test]
fn facts_are_seen_and_forgotten() {
    let fixture = Fixture::with(&["--memory"]);
    let tab = fixture.tab();
    tab.say("My cat is called <b>Minka</b>.");
    let fact = json!({ "fact": "The user's cat is called <b>Minka</b>." });
    fixture.request().call(&[("remember_fact", fact)]);
    tab.until_text(".card h3", "remember_fact");
    tab.click(".card .approve");
    fixture.request().say("I will remember it.");
    tab.until_text("#status", "Ready");
    fixture.remember((1..=149).map(|number| format!("Fact {number}.")));

    tab.say("/memory");
    tab.until("document.querySelector('#memory').open");
    tab.until_text("#facts .fact", "The user's cat is called <b>Minka</b>.");
    assert_eq!(tab.count("#facts li"), 100);
    tab.screenshot("memory");
    tab.click("#more-facts");
    tab.until("document.querySelectorAll('#facts li').length === 150");
    tab.until("!document.querySelector('#more-facts').checkVisibility()");
    tab.click("#facts li:first-child button");
    tab.until_text("#facts .fact", "Fact 1.");
    tab.click("#forget-all");
    tab.until_text("#forget-all", "Forget all facts?");
    // The second half of a double click confirms nothing.
    tab.eval(
        "document.querySelector('#forget-all')
            .dispatchEvent(new MouseEvent('click', { bubbles: true, detail: 2 }))",
    );
    assert_eq!(tab.text("#forget-all"), "Forget all facts?");
    assert_eq!(
        tab.eval("fetch('/api/memory').then((r) => r.json()).then((r) => r.facts.length)"),
        100
    );
    tab.click("#forget-all");
    tab.until_text("#facts-note", "There are no remembered facts.");
    assert_eq!(tab.count("#facts li"), 0);
    tab.press("Escape", false);
    tab.until("!document.querySelector('#memory').open");
    fixture.remember(["The user sails.".into(), "The user paints.".into()]);
    tab.say("/memory find sailing");
    tab.until_text("#facts .fact", "The user sails.");
    assert_eq!(tab.count("#facts li"), 1);
    tab.press("Escape", false);
    tab.say("/memory forget all");
    tab.until_text("#problem", "facts are deleted in the list");
    assert_eq!(tab.eval("document.querySelector('#memory').open"), json!(false));
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}

/// C197: A server without memory says how to enable it.
#[test]
fn without_memory_the_page_says_so() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.say("/memory");
    tab.until_text("#problem", "loopwright serve --memory");
    assert_eq!(tab.eval("document.querySelector('#memory').open"), json!(false));
}

/// C268: The page offers only the commands that the agent and the server have.
#[test]
fn the_page_offers_what_the_agent_and_the_server_have() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.until_text("#hint", "/plan plans first");
    assert!(!tab.text("#hint").contains("/memory"));
    tab.say("/memory distil");
    tab.until_text("#problem", "distils no facts");

    let model = ScriptedModel::new([Script::text("Baa.")]);
    let agent = GenericAgent::builder(model, PiPattern).build().unwrap();
    let context = RunContext::new().settings(json!({ "agent": "shepherd" }));
    let fixture = Fixture::after_in(context, &agent, 1, &[]);
    let tab = fixture.before();
    tab.until_text(".assistant", "Baa.");
    tab.until_text("#hint", "Enter sends");
    // The description of the session has been read when its title is shown.
    tab.until_text("#title", "Request 1.");
    assert!(!tab.text("#hint").contains("/plan"), "{}", tab.text("#hint"));
}

/// C268: `/memory distil` stores what the conversation says about the user.
#[test]
fn facts_are_distilled_from_the_conversation() {
    let fixture = Fixture::with(&["--memory"]);
    let tab = fixture.tab();
    tab.until_text("#hint", "/memory");
    tab.say("My cat is called Minka.");
    fixture.request().say("What a name.");
    tab.until_text("#status", "Ready");
    tab.until_text("#hint", "/plan plans first · /memory");
    tab.say("/memory distil");
    let request = fixture.request();
    assert!(request.body["messages"].to_string().contains("My cat is called Minka."));
    request.say(&json!({ "facts": ["The user's cat is called Minka."] }).to_string());
    tab.until_text(".assistant:last-child", "1 fact was remembered");
    tab.say("/memory");
    tab.until_text("#facts .fact", "The user's cat is called Minka.");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}
