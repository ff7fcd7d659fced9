//! Sub-agents on the page: each is folded under its call, and its actions bear its name.

use std::net::TcpListener;

use loopwright_core::GenericAgent;
use loopwright_core::log::InMemoryStore;
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{Gate, Script, ScriptedModel, TestTool};
use loopwright_core::tool::{AskUser, Effect};
use loopwright_patterns::PiPattern;
use loopwright_server::{Server, serve};
use loopwright_test_support::browser::Browser;
use serde_json::json;

/// Returns an agent that pays once, after it was asked, and waits for the gate before it replies.
fn payer(gate: &Gate) -> GenericAgent {
    let gate = gate.clone();
    let replies = move |request: &ChatRequest| match request
        .messages
        .last()
        .and_then(|last| last.as_tool_result())
    {
        None => Script::calls([("p", "pay", json!({ "amount": 3 }))]),
        Some(result) => Script::text(&format!("It was {:?}.", result.status)).gate(&gate),
    };
    let pay = TestTool::new("pay").answers("paid").effect(Effect::AtMostOnce);
    GenericAgent::builder(ScriptedModel::new([]).reply_with(replies), PiPattern)
        .tool(pay)
        .build()
        .unwrap()
}

/// Returns an agent that asks which colour it should be.
fn painter() -> GenericAgent {
    let asks = json!({ "question": "Which colour?", "options": ["red", "blue"] });
    let replies = [Script::calls([("q", "ask_user", asks)]), Script::text("I have painted.")];
    GenericAgent::builder(ScriptedModel::new(replies), PiPattern)
        .tool(AskUser::new())
        .build()
        .unwrap()
}

/// Serves an agent in this process, and returns the address.
fn served(agent: GenericAgent) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = InMemoryStore::new();
            let server = Server::builder(store).agent("agent", agent).build().unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            serve(listener, server, std::future::pending()).await.unwrap();
        });
    });
    url
}

/// C170: Each sub-agent is one call with its activity. Its actions are cards in its name below that
/// call, and decisions reach it.
#[test]
fn sub_agents_are_folded_under_their_calls() {
    let gate = Gate::new();
    let task = |what: &str| json!({ "task": what });
    let calls = [
        ("a", "alice", task("Pay the baker.")),
        ("b", "bob", task("Pay the butcher.")),
        ("c", "carol", task("Paint the door.")),
    ];
    let model = ScriptedModel::new([Script::calls(calls), Script::text("All is done.")]);
    let agent = GenericAgent::builder(model, PiPattern)
        .child("alice", "Pays.", payer(&gate))
        .child("bob", "Pays.", payer(&gate))
        .child("carol", "Paints.", painter())
        .build()
        .unwrap();
    let url = served(agent);
    let tab = Browser::start().tab(&url);
    tab.say("Let them work.");
    tab.until_text("#status", "Waits for you");
    tab.until("document.querySelectorAll('.card').length === 3");
    assert_eq!(tab.count(".call"), 3, "an action of a sub-agent is not a call of its own");
    let card = |call: u32| format!(".call:nth-of-type({call}) .card");
    let titles = "[...document.querySelectorAll('.card h3')].map((title) => title.innerText)";
    let expected = ["alice: Run pay?", "bob: Run pay?", "carol asks"];
    assert_eq!(tab.eval(titles), json!(expected));
    let folded = "[...document.querySelectorAll('.call details')].every((one) => !one.open)";
    assert_eq!(tab.eval(folded), true);
    assert_eq!(tab.text(".call:nth-of-type(1) .gist"), "Pay the baker.");
    assert_eq!(tab.text(".call:nth-of-type(1) .state"), "waits for you");
    tab.screenshot("sub-agents");

    tab.reload();
    tab.until("document.querySelectorAll('.card').length === 3");
    assert_eq!((tab.eval(titles), tab.count(".call")), (json!(expected), 3));

    // The decision on one lets it work on, while the others wait.
    tab.click(&format!("{} .approve", card(1)));
    tab.until_text(".call:nth-of-type(1) .state", "turn 2");
    assert_eq!(tab.count(".card"), 2);
    gate.open();
    tab.until_text(".call:nth-of-type(1) .state", "done");
    tab.until_text(".call:nth-of-type(2) .state", "waits for you");

    tab.click(&format!("{} .deny", card(2)));
    tab.click(&format!("{} .reason", card(2)));
    tab.type_text("too much");
    tab.press("Enter", false);
    tab.until_text(".call:nth-of-type(2) .state", "done");
    tab.click(&format!("{} label:nth-child(2)", card(3)));
    tab.click(&format!("{} .approve", card(3)));
    tab.until_text(".assistant:last-of-type", "All is done.");
    tab.until_text("#status", "Ready");
    assert_eq!(tab.count(".card"), 0);

    for reloaded in [false, true] {
        if reloaded {
            tab.reload();
            tab.until_text(".assistant:last-of-type", "All is done.");
        }
        tab.eval("document.querySelectorAll('.call details').forEach((one) => (one.open = true))");
        let conversation = tab.conversation().join("\n");
        for text in [
            "pay: Approved.",
            "pay: Denied: too much",
            "ask_user: Answered.",
            "It was Ok.",
            "It was Denied.",
            "I have painted.",
            "/m2.3.",
        ] {
            assert!(conversation.contains(text), "{text}: {conversation}");
        }
    }
    tab.screenshot("sub-agents-done");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}

/// C170: When a run is stopped, nothing is asked for its sub-agents any more.
#[test]
fn a_stop_removes_what_sub_agents_ask() {
    let gate = Gate::new();
    let model = ScriptedModel::new([]).reply_with(|request| match request.messages.len() {
        1 => Script::calls([("a", "alice", json!({ "task": "Pay." }))]),
        _ => Script::text("Then not."),
    });
    let agent = GenericAgent::builder(model, PiPattern);
    let url = served(agent.child("alice", "Pays.", payer(&gate)).build().unwrap());
    let tab = Browser::start().tab(&url);
    tab.say("Let her pay.");
    tab.until_text(".card h3", "alice: Run pay?");
    tab.say("Stop that.");
    tab.until_text(".assistant:last-of-type", "Then not.");
    tab.until_text("#status", "Ready");
    tab.until_text(".call .state", "denied");
    assert_eq!(tab.count(".card"), 0);
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}
