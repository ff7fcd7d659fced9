//! The app in scripts and over HTTP, with a model server that the tests control.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test may")]

use loopwright_test_support::http::Connection;
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Binary, Exit};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The tested binary.
pub(crate) const BIN: Binary = Binary::new(env!("CARGO_BIN_EXE_acme"));

fn acme(dir: &TempDir, args: &[&str]) -> Exit {
    BIN.start(dir, args).end()
}

/// C225: an app with its own agent has the commands of `loopwright` under its own name. A payment
/// that needs an approval waits in its store and is approved in another process.
#[test]
fn a_payment_is_approved_in_another_process() {
    let (dir, model) = (tempfile::tempdir().unwrap(), Server::start());
    let options = ["--model", "local/x", "--base-url", &model.url, "--session", "july"];
    let run = BIN.start(&dir, &[&["run", "Pay invoice 7."], &options[..]].concat());
    let request = model.request();
    assert!(request.body.to_string().contains("You pay invoices."), "{}", request.body);
    request.call(&[("find_invoice", json!({ "number": 7 }))]);
    let request = model.request();
    assert!(request.last().contains("Invoice 7: 99 € to Alpha."), "{}", request.body);
    request.call(&[("pay", json!({ "to": "Alpha", "euros": 199.0 }))]);
    let exit = run.end();
    assert_eq!(exit.code, 3, "{exit:?}");
    assert!(exit.err.contains("`acme approve july"), "{exit:?}");
    assert!(dir.path().join("acme-sessions").is_dir(), "the app's own store");

    let listed = acme(&dir, &["actions", "--json"]);
    let action: Value = serde_json::from_str(listed.out.trim()).unwrap();
    let call = action["call"].as_str().unwrap();
    let approve = BIN.start(&dir, &["approve", "july", call, "--by", "bob"]);
    let request = model.request();
    assert!(request.last().contains("Paid 199 € to Alpha."), "{}", request.body);
    request.say("It is paid.");
    let exit = approve.end();
    assert_eq!((exit.code, &*exit.out), (0, "It is paid.\n"), "{exit:?}");
}

#[test]
fn the_command_line_has_the_apps_name_and_only_its_options() {
    let dir = tempfile::tempdir().unwrap();
    let help = acme(&dir, &["--help"]).out;
    assert!(help.contains("Pays invoices") && help.contains("acme.toml"), "{help}");
    assert!(!help.contains("loopwright") && !help.contains("--network"), "{help}");
    let refused = acme(&dir, &["run", "--model", "offline", "--pattern", "pi", "x"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("--pattern: The agent `billing` does not have"), "{refused:?}");
    let tools = acme(&dir, &["tools", "list"]);
    assert_eq!((tools.code, &*tools.out), (2, ""), "its agent has no such tools");
    assert!(tools.err.contains("no agent that works on files"), "{}", tools.err);
}

/// C225: the same agent is served under its name, and shares its sessions with the command line.
#[test]
fn the_agent_is_served() {
    let (dir, model) = (tempfile::tempdir().unwrap(), Server::start());
    let options = ["--model", "local/x", "--base-url", &model.url];
    let mut served = BIN.start(&dir, &[&["serve", "--addr", "127.0.0.1:0"], &options[..]].concat());
    let url = served.err.word_after("Serving at ");
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let created = Connection::post(address, "/api/sessions", "", "{}").response().unwrap();
    let created: Value = serde_json::from_str(&created.body).unwrap();
    let id = created["id"].as_str().unwrap();
    let path = format!("/api/sessions/{id}/prompt");
    let prompt = json!({ "message": "Pay invoice 7." }).to_string();
    let sent = Connection::post(address, &path, "", &prompt).response().unwrap();
    assert_eq!(sent.status, 202);
    model.request().call(&[("pay", json!({ "to": "Alpha", "euros": 50.0 }))]);
    let request = model.request();
    assert!(request.last().contains("Paid 50 € to Alpha."), "small payments need no approval");
    request.say("It is paid.");
    served.signal("-TERM");
    assert_eq!(served.end().code, 0);
    let shown = acme(&dir, &["sessions", "show", id]).out;
    assert!(shown.contains("Pay invoice 7.") && shown.contains("It is paid."), "{shown}");
}

/// C225: settings come from `acme.toml` and `ACME_*`, and the generated texts name the app.
#[test]
fn settings_completions_and_the_manual_page_have_the_apps_name() {
    let dir = tempfile::tempdir().unwrap();
    let max_turns = |vars: &[(&str, &str)]| {
        let vars = [&[("HOME", "home")], vars].concat();
        let exit = BIN.start_with(&dir, &["config", "--json"], &vars).end();
        assert_eq!(exit.code, 0, "{exit:?}");
        let mut rows = exit.out.lines().map(|row| serde_json::from_str::<Value>(row).unwrap());
        rows.find(|row| row["key"] == "max_turns").unwrap()
    };
    let directory = dir.path().join("home/.config/acme");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("acme.toml"), "max_turns = 7").unwrap();
    let row = max_turns(&[("LOOPWRIGHT_MAX_TURNS", "9")]);
    assert_eq!((&row["value"], &row["source"]), (&json!(7), &json!("file")), "{row}");
    let row = max_turns(&[("ACME_MAX_TURNS", "8")]);
    assert_eq!((&row["value"], &row["variable"]), (&json!(8), &json!("ACME_MAX_TURNS")), "{row}");

    for args in [&["man"][..], &["completions", "bash"]] {
        let exit = acme(&dir, args);
        assert!(exit.code == 0 && exit.out.contains("acme"), "{exit:?}");
        assert!(!exit.out.to_lowercase().contains("loopwright"), "{}", exit.out);
    }
}
