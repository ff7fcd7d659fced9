//! The settings of a session, in a dialog.

use loopwright_core::GenericAgent;
use loopwright_core::log::InMemoryStore;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_patterns::PiPattern;
use loopwright_server::Server;
use loopwright_test_support::browser::{Browser, Tab};
use serde_json::json;

use crate::fixture::Fixture;

fn set(tab: &Tab, field: &str, value: &str) {
    tab.eval(&format!("document.querySelector('#set-{field}').value = {}", json!(value)));
}

fn open(tab: &Tab) {
    tab.click("#show-settings");
    tab.until("document.querySelector('#settings').open");
}

/// C253: The settings of the next session are chosen before its first message. The open session's
/// are changed between runs.
#[test]
fn settings_are_chosen_and_changed() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.until_text("#empty", "What should be done?");
    open(&tab);
    tab.until("document.querySelector('#models option[value=\"offline/rules\"]')");
    set(&tab, "name", "Barn");
    set(&tab, "maxTurns", "7");
    tab.click("#approvals [value=write_file]");
    tab.screenshot("settings");
    tab.click("#settings [value=save]");
    tab.until("!document.querySelector('#settings').open");
    tab.say("Write.");
    let written = json!({ "path": "new.txt", "content": "x" });
    fixture.request().call(&[("write_file", written)]); // without asking
    let reply = fixture.request();
    assert_eq!(fixture.read("new.txt"), "x");
    tab.until_text("#title", "Barn");

    open(&tab);
    assert_eq!(tab.eval("document.querySelector('#set-maxTurns').value"), "7");
    assert_eq!(tab.eval("document.querySelector('#approvals [value=write_file]').checked"), true);
    set(&tab, "name", "Stable");
    tab.click("#settings [value=save]");
    tab.until_text("#settings-problem", "A run is in progress");
    reply.say("Written.");
    tab.until_text("#status", "Ready");
    tab.click("#settings [value=save]");
    tab.until("!document.querySelector('#settings').open");
    tab.until_text("#title", "Stable");
    tab.until_text("#list .name", "Stable");

    open(&tab);
    set(&tab, "model", "offline");
    set(&tab, "thinking", "low");
    set(&tab, "maxTurns", "");
    tab.click("#approvals [value=write_file]");
    tab.click("#settings [value=save]");
    tab.until("!document.querySelector('#settings').open");
    let path = tab.address().split("#s=").nth(1).unwrap().to_owned();
    let settings = tab.eval(&format!(
        "fetch('/api/sessions/{path}').then((r) => r.json()).then((r) => r.session.settings)"
    ));
    assert_eq!(
        (&settings["model"], &settings["thinking"], &settings["maxTurns"]),
        (&json!("offline"), &json!("low"), &json!(null))
    );
    assert_eq!(settings["approve"], json!([]));
    tab.say("write `sheep.txt` with the text `one`");
    tab.until_text(".card h3", "Run write_file?"); // the offline model, which asks
    open(&tab);
    set(&tab, "model", "nobody/nothing");
    tab.click("#settings [value=save]");
    tab.until_text("#settings-problem", "model: ");
    tab.press("Escape", false);
    tab.until("!document.querySelector('#settings').open");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}

/// C253: The user chooses among the agents of a server that has several.
#[test]
fn an_agent_is_chosen() {
    let agent = |reply| {
        let model = ScriptedModel::new([]).default_reply(Script::text(reply));
        GenericAgent::builder(model, PiPattern).build().unwrap()
    };
    let server = Server::builder(InMemoryStore::new())
        .agent("shepherd", agent("Nine."))
        .agent("goatherd", agent("Ten."));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = server.build().unwrap();
    runtime.spawn(loopwright_server::serve(listener, server, std::future::pending()));
    let tab = Browser::start().tab(&url);
    tab.click("#empty summary");
    tab.until("document.querySelector('#agent').checkVisibility()");
    assert_eq!(tab.text("#agent").split_whitespace().collect::<Vec<_>>(), ["shepherd", "goatherd"]);
    tab.eval("document.querySelector('#agent').value = 'goatherd'");
    tab.say("How many?");
    tab.until_text(".assistant", "Ten.");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}
