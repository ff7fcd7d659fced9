//! The extension points of an app: slash commands and the system prompt.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test may")]

use loopwright_test_support::http::Connection;
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::Binary;
use serde_json::{Value, json};

/// The tested binary.
pub(crate) const BIN: Binary = Binary::new(env!("CARGO_BIN_EXE_acme-extended"));

/// C361: The tools of an app's own agent are served without a model.
#[test]
fn the_tools_of_an_apps_agent_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let exit = BIN.start(&dir, &["mcp", "--tools"]).close();
    assert_eq!(exit.code, 0, "{}", exit.err);
}

/// C281: a slash command of an app is in `/help` of the chat, shows its text, sends its message as
/// the user's, and reports the reason of a failure. It has the conversation in which it was typed.
#[test]
fn slash_commands_of_an_app_run_in_the_chat() {
    let (dir, model) = (tempfile::tempdir().unwrap(), Server::start());
    let options = ["chat", "--model", "local/x", "--base-url", &model.url];
    let store = ["--store", "s.db", "--session", "july"];
    let mut chat = BIN.start(&dir, &[&options[..], &store].concat());
    chat.line("/help");
    chat.err.until("/overdue        ask for invoices that are overdue");
    chat.line("/size");
    chat.out.until("july has 0 messages.\n");
    chat.line("/overdue");
    chat.err.until("`/overdue` failed: it needs a month.");
    chat.line("/oversize");
    chat.err.until("`/oversize` is not a command");
    chat.line("/overdue June");
    let request = model.request();
    assert!(request.last().contains("List the invoices of June that are overdue."));
    request.say("There is none.");
    chat.out.until("There is none.\n"); // the reply is complete
    chat.line("/size");
    chat.line("/quit"); // handled after the reply
    let exit = chat.end();
    assert!(exit.out.ends_with("july has 2 messages.\n") && exit.code == 0, "{exit:?}");
}

/// C301: a command of an app runs with its arguments and with the app's sessions, settings and
/// directories: the app's file, environment variables and data directory. It is in the completions
/// and the manual pages.
#[test]
fn a_command_of_an_app_runs_with_the_apps_settings() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().to_str().unwrap();
    let run = |args: &[&str], vars: &[(&str, &str)]| {
        let vars = [&[("HOME", home)], vars].concat();
        BIN.start_with(&dir, args, &vars).end()
    };
    let settings = dir.path().join(".config/acme-extended");
    std::fs::create_dir_all(&settings).unwrap();
    std::fs::write(settings.join("acme-extended.toml"), "model = \"local/file\"\n").unwrap();
    let data = format!("{home}/.local/share/acme-extended");
    let variable = [("ACME_EXTENDED_MODEL", "local/variable")];
    for (args, vars, expected) in [
        (&["report"][..], &[][..], format!("all: local/file in {data}\n")),
        (&["report", "June"], &variable, format!("June: local/variable in {data}\n")),
        (&["report", "--no-config"], &[], format!("all:  in {data}\n")),
    ] {
        let exit = run(args, vars);
        assert_eq!((exit.code, &exit.out), (0, &expected), "{exit:?}");
    }
    assert!(dir.path().join(".local/share/acme-extended/sessions.db").is_file());
    let shown = run(&["config"], &[]);
    assert!(shown.out.contains("local/file"), "{shown:?}");
    let man = run(&["man"], &[]);
    assert!(man.out.contains("Print what was paid"), "{man:?}");
    let completions = run(&["completions", "bash"], &[]);
    assert!(completions.out.contains("report"), "{completions:?}");
}

/// C282: agents that ask for it get the app's system prompt, in scripts and served. `--system` and
/// the settings of a session over HTTP have precedence.
#[test]
fn an_app_has_a_system_prompt() {
    let (dir, model) = (tempfile::tempdir().unwrap(), Server::start());
    let options = ["--model", "local/x", "--base-url", &model.url];
    let system = |body: &Value| body["messages"][0]["content"].as_str().unwrap().to_owned();
    for (own, expected) in
        [(&[][..], "You help with invoices."), (&["--system", "Be brief."], "Be brief.")]
    {
        let args = [&["run", "Hi", "--no-session"], &options[..], own].concat();
        let run = BIN.start(&dir, &args);
        let request = model.request();
        assert_eq!(system(&request.body), expected);
        request.say("Hello.");
        assert_eq!(run.end().code, 0);
    }
    let serve = ["serve", "--addr", "127.0.0.1:0", "--store", "s.db"];
    let mut served = BIN.start(&dir, &[&serve, &options[..]].concat());
    let url = served.err.word_after("Serving at ");
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    for (settings, expected) in
        [(json!({}), "You help with invoices."), (json!({ "system": "Be brief." }), "Be brief.")]
    {
        let mut created = Connection::post(address, "/api/sessions", "", &settings.to_string());
        let created: Value = serde_json::from_str(&created.response().unwrap().body).unwrap();
        let path = format!("/api/sessions/{}/prompt", created["id"].as_str().unwrap());
        let sent = Connection::post(address, &path, "", r#"{ "message": "Hi" }"#).response();
        assert_eq!(sent.unwrap().status, 202);
        let request = model.request();
        assert_eq!(system(&request.body), expected);
        request.say("Hello.");
    }
}

/// Answers the next request. Returns its system prompt.
fn system_prompt(model: &Server) -> String {
    let request = model.request();
    let system = request.body["messages"][0]["content"].as_str().unwrap().to_owned();
    request.say("Hello.");
    system
}

/// C303: a setting of an app is a flag, an environment variable and a key of the user's file. A
/// value from the command line is stored with the session.
#[test]
fn an_app_has_settings_of_its_own() {
    let (dir, model) = (tempfile::tempdir().unwrap(), Server::start());
    let home = dir.path().to_str().unwrap();
    let options = ["run", "Hi", "--model", "local/x", "--base-url", &model.url];
    let system = |more: &[&str], vars: &[(&str, &str)]| {
        let vars = [&[("HOME", home)], vars].concat();
        let run = BIN.start_with(&dir, &[&options[..], more].concat(), &vars);
        let system = system_prompt(&model);
        let exit = run.end();
        assert_eq!(exit.code, 0, "{exit:?}");
        system.trim_start_matches("You help with invoices.").to_owned()
    };
    let (eu, us) = (" The region is eu.", " The region is us.");
    let variable = [("ACME_EXTENDED_REGION", "us")];
    assert_eq!(system(&[], &[]), "");
    assert_eq!(system(&["--session", "july", "--region", "eu"], &[]), eu);
    let settings = dir.path().join(".config/acme-extended");
    std::fs::create_dir_all(&settings).unwrap();
    std::fs::write(settings.join("acme-extended.toml"), "region = \"us\"\n").unwrap();
    assert_eq!(system(&["--session", "july"], &[]), eu, "it is stored with the session");
    assert_eq!(system(&["--session", "july"], &variable), eu);
    assert_eq!(system(&["--session", "july", "--region", "us"], &[]), us);
    assert_eq!(system(&["--session", "july", "--no-config"], &[]), us);
    assert_eq!(system(&[], &[]), us, "the file");
    assert_eq!(system(&["--no-config"], &[]), "");
    assert_eq!(system(&["--no-config"], &variable), us);
}

/// C303: wrong values of an app's settings are refused, with the allowed values. The settings are
/// in `config`, in the help, the completions and the manual pages.
#[test]
fn settings_of_an_app_are_checked_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str], vars: &[(&str, &str)]| BIN.start_with(&dir, args, vars).end();
    let run_with = |args: &[&str]| run(&[&["run", "Hi", "--model", "offline"], args].concat(), &[]);
    for (exit, expected) in [
        (run_with(&["--region", "mars"]), "[possible values: eu, us]"),
        (run_with(&["--max-amount", "much"]), "it must be a number"),
        (
            run(&["run", "Hi"], &[("ACME_EXTENDED_REGION", "mars")]),
            "ACME_EXTENDED_REGION is `mars`; it must be one of: eu, us.",
        ),
    ] {
        assert!(exit.code == 2 && exit.err.contains(expected), "{exit:?}");
    }
    let rows = |args: &[&str], vars: &[(&str, &str)]| {
        let shown = run(&[&["config", "--json"], args].concat(), vars);
        let rows = shown.out.lines().map(|line| serde_json::from_str(line).unwrap());
        rows.collect::<Vec<Value>>()
    };
    let shown = rows(&["--region", "eu"], &[("ACME_EXTENDED_MAX_AMOUNT", "7.5")]);
    for row in [
        json!({ "key": "region", "value": "eu", "source": "flag", "flag": "--region" }),
        json!({
            "key": "max_amount", "value": 7.5, "source": "environment",
            "variable": "ACME_EXTENDED_MAX_AMOUNT",
        }),
    ] {
        assert!(shown.contains(&row), "{row} {shown:?}");
    }
    let default = json!({ "key": "max_amount", "value": 100, "source": "default" });
    assert!(rows(&[], &[]).contains(&default));
    for command in ["run", "chat", "serve", "approve"] {
        let help = run(&[command, "--help"], &[]).out;
        assert!(help.contains("--region <WORD>") && help.contains("100 by default"), "{help}");
    }
    assert!(!run(&["sessions", "list", "--help"], &[]).out.contains("--region"));
    assert_eq!(run(&["man", "pages"], &[]).code, 0);
    let page = std::fs::read_to_string(dir.path().join("pages/acme-extended-run.1")).unwrap();
    assert!(page.contains("The region to search"), "{page}");
    assert!(run(&["completions", "bash"], &[]).out.contains("--region"));
}

/// C303: `serve` applies the app's settings to sessions without their own, and its clients choose
/// them like any other setting.
#[test]
fn a_server_has_the_settings_of_its_app() {
    let (dir, model) = (tempfile::tempdir().unwrap(), Server::start());
    let serve = ["serve", "--addr", "127.0.0.1:0", "--store", "s.db", "--region", "eu"];
    let options = ["--model", "local/x", "--base-url", &model.url];
    let mut served = BIN.start(&dir, &[&serve[..], &options].concat());
    let url = served.err.word_after("Serving at ");
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let post = |path: &str, body: Value| {
        let response = Connection::post(address, path, "", &body.to_string()).response().unwrap();
        (response.status, serde_json::from_str::<Value>(&response.body).unwrap())
    };
    for (custom, region) in [(json!({}), "eu"), (json!({ "region": "us" }), "us")] {
        let (_, created) = post("/api/sessions", json!({ "custom": custom }));
        let path = format!("/api/sessions/{}/prompt", created["id"].as_str().unwrap());
        assert_eq!(post(&path, json!({ "message": "Hi" })).0, 202);
        assert!(system_prompt(&model).ends_with(&format!("The region is {region}.")));
    }
    let (status, refused) = post("/api/sessions", json!({ "custom": { "region": "mars" } }));
    assert_eq!((status, &refused["error"]["path"]), (400, &json!("/custom/region")));
}
