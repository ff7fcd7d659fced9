//! The app in a real terminal (tmux) and in a real Chromium.
//!
//! Needs Debian's `tmux` and `chromium`, which `.ci/run` installs.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test may")]

use loopwright_test_support::browser::Browser;
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::Binary;
use loopwright_test_support::terminal::Terminal;
use serde_json::json;

/// The tested binary.
pub(crate) const BIN: Binary = Binary::new(env!("CARGO_BIN_EXE_acme"));

/// C225: the terminal app shows the app's name, and a payment is approved in it.
#[test]
fn a_payment_is_approved_in_the_terminal() {
    let (dir, model) = (tempfile::tempdir().unwrap(), Server::start());
    let terminal = Terminal::new(BIN, &dir, 80, 24, &[]);
    terminal.line(&format!("acme --model local/x --base-url {}", model.url));
    terminal.until("acme");
    terminal.until("/help lists keys and commands");
    terminal.line("Pay invoice 7.");
    model.request().call(&[("pay", json!({ "to": "Alpha", "euros": 199.0 }))]);
    terminal.until("› y yes");
    terminal.keys(&["y"]);
    let request = model.request();
    assert!(request.last().contains("Paid 199 € to Alpha."), "{}", request.body);
    request.say("It is paid.");
    terminal.until("It is paid.");
    terminal.keys(&["C-d"]);
    terminal.until("`acme --session");
}

/// C281: a slash command of an app is completed in the terminal, shows its text and sends its
/// message.
#[test]
fn slash_commands_of_an_app_run_in_the_terminal() {
    let (dir, model) = (tempfile::tempdir().unwrap(), Server::start());
    let terminal = Terminal::new(BIN, &dir, 80, 24, &[]);
    let options = format!("--model local/x --base-url {} --session july", model.url);
    terminal.line(&format!("acme-extended {options}"));
    terminal.until("/help lists keys and commands");
    terminal.text("/si");
    terminal.until("count the messages of this conversation");
    terminal.keys(&["Tab", "Enter"]);
    terminal.until("july has 0 messages.");
    terminal.line("/overdue June");
    let request = model.request();
    assert!(request.last().contains("List the invoices of June that are overdue."));
    request.say("There is none.");
    terminal.until("There is none.");
    terminal.keys(&["C-d"]);
    terminal.until("`acme-extended --session july`");
}

/// C225: the page shows the app's agent, and a payment is approved on it.
#[test]
fn a_payment_is_approved_on_the_page() {
    let (dir, model) = (tempfile::tempdir().unwrap(), Server::start());
    let options = ["--model", "local/x", "--base-url", &model.url];
    let mut served = BIN.start(&dir, &[&["serve", "--addr", "127.0.0.1:0"], &options[..]].concat());
    let tab = Browser::start().tab(&served.err.word_after("Serving at "));
    tab.until_text("#empty", "What should be done?");
    tab.click("#prompt");
    tab.type_text("Pay invoice 7.");
    tab.press("Enter", false);
    model.request().call(&[("pay", json!({ "to": "Alpha", "euros": 199.0 }))]);
    tab.until_text(".card h3", "Run pay?");
    tab.click(".card .approve");
    let request = model.request();
    assert!(request.last().contains("Paid 199 € to Alpha."), "{}", request.body);
    request.say("It is paid.");
    tab.until_text(".assistant", "It is paid.");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}
