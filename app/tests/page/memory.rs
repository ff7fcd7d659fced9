//! `/memory`: the facts about the user, to see and to forget.

use serde_json::json;

use crate::fixture::Fixture;

/// C197: What a session stores is shown as text, and deleted with one click, or all at once with
/// two.
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
    tab.click("#forget-all");
    tab.until_text("#facts-note", "There are no remembered facts.");
    assert_eq!(tab.count("#facts li"), 0);
    tab.press("Escape", false);
    tab.until("!document.querySelector('#memory').open");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}

/// C197: A server without memory says how to have one.
#[test]
fn without_memory_the_page_says_so() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.say("/memory");
    tab.until_text("#problem", "loopwright serve --memory");
    assert_eq!(tab.eval("document.querySelector('#memory').open"), json!(false));
}
