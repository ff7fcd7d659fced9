//! The page for people who only decide: the pending actions of all sessions.

use std::time::Duration;

use loopwright_core::GenericAgent;
use loopwright_core::testing::{Script, ScriptedModel, TestTool};
use loopwright_core::tool::{ActionOptions, Approval, DecisionKind};
use loopwright_patterns::PiPattern;
use loopwright_test_support::browser::Tab;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::BIN;
use crate::access::CONTRAST;
use crate::fixture::Fixture;

fn inbox(fixture: &Fixture) -> Tab {
    fixture.tab_at(&format!("{}/inbox", fixture.url.trim_end_matches('/')))
}

/// C264: The inbox shows the pending actions of all sessions as they come and go, with the changes
/// that they would make. They can be decided there.
#[test]
fn actions_of_all_sessions_are_decided_in_the_inbox() {
    let fixture = Fixture::new();
    let inbox = inbox(&fixture);
    inbox.until_text("#none", "Nothing waits");
    let tab = fixture.tab();
    tab.say("Write it.");
    let written = json!({ "path": "new.txt", "content": "ten sheep\n" });
    fixture.request().call(&[("write_file", written)]);
    inbox.until_text(".card h3", "Run write_file?");
    inbox.until_text(".card .diff .add", "+ten sheep");
    assert_eq!(inbox.eval("document.title"), "(1) Inbox");
    assert_eq!(inbox.eval(CONTRAST)[2], json!([]));
    inbox.screenshot("inbox");
    inbox.click(".card .approve");
    fixture.request().say("Written.");
    inbox.until_text("#none", "Nothing waits");
    tab.until_text("#status", "Ready");
    assert_eq!(fixture.read("new.txt"), "ten sheep\n");

    // Decisions elsewhere remove actions from the inbox, even while it was disconnected.
    tab.say("Once more.");
    fixture.request().call(&[("execute_command", json!({ "command": "true" }))]);
    inbox.until_text(".card .args", "true");
    tab.click(".card .deny");
    tab.press("Enter", false);
    inbox.until_text("#none", "Nothing waits");
    fixture.request().say("Then not.");
    fixture.kill();
    inbox.until_text("#status", "Reconnecting");
    fixture.restart();
    inbox.until("document.querySelector('#status').textContent === ''");
    assert_eq!(inbox.count(".card"), 0);
}

/// C264: An action shows its terms there and in the conversation, and offers what they allow.
#[test]
fn an_action_shows_its_terms() {
    let options = ActionOptions::new()
        .description("Pays <b>an invoice</b>.")
        .role("treasurer")
        .deadline(Duration::from_secs(3600))
        .decisions([DecisionKind::Approve])
        .quorum(2);
    let pay = TestTool::new("pay")
        .spec(move |spec| spec.approval(Approval::Always).action_options(options.clone()));
    let model = ScriptedModel::new([Script::calls([("c1", "pay", json!({ "euros": 200 }))])]);
    let agent = GenericAgent::builder(model, PiPattern).tool(pay).build().unwrap();
    let fixture = Fixture::after(&agent, 1);
    for tab in [inbox(&fixture), fixture.before()] {
        tab.until_text(".card .terms", "Pays <b>an invoice</b>.");
        tab.until_text(".card .terms", "Who may decide: treasurer.");
        tab.until_text(".card .terms", "Without a decision it is denied at");
        tab.until_text(".card .terms", "0 of 2 approvals.");
        tab.until_text(".card .args", "200");
        assert_eq!((tab.count(".card .approve"), tab.count(".card .edit")), (1, 0));
        assert_eq!(tab.count(".card b"), 0);
    }
    let tab = inbox(&fixture);
    tab.until_text(".card .terms", "0 of 2 approvals.");
    tab.click(".card .approve");
    tab.until_text(".card .problem", "principal");
    tab.click(".card .deny");
    tab.press("Enter", false);
    fixture.request().say("Not paid.");
    tab.until_text("#none", "Nothing waits");
}

/// Returns the flag that gives a user a token.
fn user(name: &str, token: &str, role: &str) -> String {
    let digest: String =
        Sha256::digest(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("--user={name}:{digest}{role}")
}

/// C264: A user with the role of an action finds it in the inbox with their own token. They see
/// nothing else of others, there and on the page. Their decision names them. A reader without the
/// role is refused.
#[test]
fn an_approver_sees_and_decides_only_what_they_may() {
    let options = ActionOptions::new().role("treasurer");
    // A tool that the server has too, whose action needs a role.
    let pay = TestTool::new("write_file")
        .spec(move |spec| spec.approval(Approval::Always).action_options(options.clone()));
    let arguments = json!({ "path": "paid.txt", "content": "200 euros\n" });
    let model = ScriptedModel::new([Script::calls([("c1", "write_file", arguments)])]);
    let agent = GenericAgent::builder(model, PiPattern).tool(pay).build().unwrap();
    let [tom, ann, rita] =
        ["the-token-of-tom-0123", "the-token-of-ann-0123", "the-token-of-rita-01"];
    let users =
        [user("tom", tom, ":treasurer"), user("ann", ann, ""), user("rita", rita, ":reader")];
    let fixture = Fixture::after_with(&agent, 1, &users.each_ref().map(String::as_str));
    let page = |token: &str| {
        fixture.tab_at(&format!("{}/#token={token}", fixture.url.trim_end_matches('/')))
    };
    let inbox_of = |token: &str| {
        let tab = inbox(&fixture);
        tab.until("document.querySelector('#ask').open");
        tab.type_text(token);
        tab.press("Enter", false);
        tab.until("!document.querySelector('#ask').open");
        tab
    };
    let toms = inbox_of(tom);
    toms.until_text(".card .terms", "Who may decide: treasurer.");

    let anns = page(ann);
    anns.say("Write it.");
    let written = json!({ "path": "new.txt", "content": "x" });
    fixture.request().call(&[("write_file", written)]);
    anns.until_text(".card h3", "Run write_file?");
    let ritas = inbox_of(rita);
    ritas.until("document.querySelectorAll('.card').length === 2");
    ritas.click(".card .approve");
    ritas.until_text(".card .problem", "You may read this session, but not decide this action.");

    toms.reload();
    toms.until_text(".card .terms", "Who may decide: treasurer.");
    toms.until("document.querySelector('#status').dataset.state === 'ready'");
    assert_eq!(toms.count(".card"), 1, "nothing of ann's");
    let page_of_tom = page(tom);
    page_of_tom.say("My own.");
    fixture.request().say("Good day.");
    page_of_tom.until_text("#list", "My own.");
    page_of_tom.until_text("#status", "Ready");
    assert_eq!(page_of_tom.count("#list li"), 1, "no conversations of others");

    toms.click(".card .approve");
    fixture.request().say("Paid.");
    toms.until_text("#none", "Nothing waits");
    ritas.until("document.querySelectorAll('.card').length === 1");
    assert_eq!(fixture.read("paid.txt"), "200 euros\n");
    let audit = BIN.run(&fixture.dir, &["audit"]).out;
    assert!(audit.contains("  tom  http from 127.0.0.1  before  c1  write_file  "), "{audit}");
    assert_eq!((audit.lines().count(), toms.console_errors()), (1, Vec::<String>::new()));
}
