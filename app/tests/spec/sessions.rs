//! Stored sessions, and how other processes use them.

use std::fs;

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Exit, LockedStore, STORE, project};
use serde_json::{Value, json};

use crate::BIN;

const WRITE: &str = "Create a.txt with \"hi\"";

/// Runs until a call is pending; returns the session and the call.
fn waits(project: &tempfile::TempDir) -> (String, String) {
    let exit = BIN.run(project, &["run", "--model", "offline", "--session", "s", WRITE]);
    assert_eq!(exit.code, 3, "{exit:?}");
    let call = listed(project)[0]["call"].as_str().unwrap().to_owned();
    assert!(exit.err.contains(&format!("`loopwright approve s {call} --digest ")), "{exit:?}");
    ("s".into(), call)
}

/// Returns the list of `actions --json`.
fn listed(project: &tempfile::TempDir) -> Vec<Value> {
    lines(&BIN.run(project, &["actions", "--json"]))
}

fn lines(exit: &Exit) -> Vec<Value> {
    exit.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_call_is_approved_by_another_process() {
    let project = project();
    let (session, call) = waits(&project);
    let shown = BIN.run(&project, &["actions", &session]);
    assert!(
        shown.code == 0 && shown.out.contains("write_file {\"content\":\"hi\",\"path\":\"a.txt\"}"),
        "{shown:?}"
    );
    let digest = shown.out.split_whitespace().nth(3).unwrap();
    for wrong in ["0123456789ab", "", &digest[..4]] {
        let refused = BIN.run(&project, &["approve", &session, &call, "--digest", wrong]);
        assert!(
            refused.code == 2 && refused.err.contains("does not match the pending call"),
            "{refused:?}"
        );
    }
    assert!(!project.path().join("a.txt").exists());
    let done = BIN.run(&project, &["approve", &session, &call, "--digest", digest, "--by", "Ann"]);
    assert!(done.code == 0 && done.err.contains("✓ write_file: Created `a.txt`"), "{done:?}");
    assert_eq!(fs::read_to_string(project.path().join("a.txt")).unwrap(), "hi");
    let second = BIN.run(&project, &["approve", &session, &call]);
    assert!(second.code == 2 && second.err.contains("no call does"), "{second:?}");
    assert_eq!(BIN.run(&project, &["actions"]).code, 1);
    let log = BIN.run(&project, &["sessions", "export", &session]);
    assert!(log.out.contains("\"by\":\"Ann\""), "{log:?}");
}

#[test]
fn a_call_is_denied_or_edited_by_another_process() {
    let project = project();
    let (session, call) = waits(&project);
    let denied = BIN.run(&project, &["deny", &session, &call, "--reason", "not here", "--json"]);
    let ends =
        lines(&denied).into_iter().find(|event| event["type"] == "tool_execution_end").unwrap();
    assert_eq!((denied.code, &ends["status"]), (0, &json!("denied")), "{denied:?}");
    assert!(ends["result"]["content"][0]["text"].as_str().unwrap().contains("not here"));

    let (session, call) = waits(&project);
    let bad = BIN.run(&project, &["approve", &session, &call, "--args", "{"]);
    assert!(bad.code == 2 && bad.err.contains("not valid JSON"), "{bad:?}");
    let bad = BIN.run(&project, &["approve", &session, &call, "--args", "{\"path\": 7}"]);
    assert!(bad.code == 2 && bad.err.contains("/content"), "{bad:?}");
    let edited = BIN.run(
        &project,
        &["approve", &session, &call, "--args", r#"{"path":"b.txt","content":"ho"}"#],
    );
    assert_eq!(edited.code, 0, "{edited:?}");
    assert_eq!(fs::read_to_string(project.path().join("b.txt")).unwrap(), "ho");
    assert!(!project.path().join("a.txt").exists());
}

/// C223: a decision and a prompt for a session that another process has open go to that process.
/// The command shows the run and exits as if it had the session itself.
#[test]
fn commands_reach_a_session_that_another_process_has_open() {
    let (project, server) = (project(), Server::start());
    let vars = [("OPENAI_API_KEY", "sk-secret")];
    let args = ["chat", "--model", "openai-chat/x", "--base-url", &server.url, "--session", "s"];
    let mut chat = BIN.start_with(&project, &args, &vars);
    chat.line("Write it");
    server.request().call(&[("write_file", json!({"path": "a.txt", "content": "hi"}))]);
    chat.err.until("Run it?");
    let call = lines(&BIN.run(&project, &["actions", "s", "--json"]))[0]["call"].clone();
    let call = call.as_str().unwrap().to_owned();
    let wrong = BIN.run(&project, &["approve", "s", &call, "--args", "{\"path\": 7}"]);
    assert!(wrong.code == 2 && wrong.err.contains("/content"), "{wrong:?}");
    // Neither a key nor a model is needed: the other process has them.
    let approve = BIN.start(&project, &["approve", "s", &call]);
    server.request().say("It is written.");
    let approved = approve.end();
    assert_eq!((approved.code, approved.out.as_str()), (0, "It is written.\n"), "{approved:?}");
    assert_eq!(fs::read_to_string(project.path().join("a.txt")).unwrap(), "hi");
    let late = BIN.run(&project, &["approve", "s", &call]);
    assert_eq!(late.code, 2, "{late:?}");

    let run = BIN.start(&project, &["run", "--session", "s", "--json", "And you?"]);
    let request = server.request();
    assert!(request.last().contains("And you?"), "{}", request.last());
    request.say("Fine.");
    let ran = run.end();
    let end = lines(&ran).pop().unwrap();
    assert_eq!((ran.code, &end["type"], &end["text"]), (0, &json!("agent_end"), &json!("Fine.")));
    let more = BIN.start(&project, &["run", "--session", "s", "Write more"]);
    server.request().call(&[("write_file", json!({"path": "b.txt", "content": "ho"}))]);
    let waits = more.end();
    assert!(waits.code == 3 && waits.err.contains("loopwright approve"), "{waits:?}");
    chat.kill();
}

/// Another process approves a call after the first process was killed.
#[test]
fn a_process_that_was_killed_leaves_the_call_to_another_one() {
    let (project, server) = (project(), Server::start());
    let vars = [("OPENAI_API_KEY", "sk-secret")];
    let args = ["chat", "--model", "openai-chat/x", "--base-url", &server.url, "--session", "s"];
    let mut chat = BIN.start_with(&project, &args, &vars);
    chat.line("Write it");
    server.request().call(&[("write_file", json!({"path": "a.txt", "content": "hi"}))]);
    chat.err.until("Run it?");
    chat.kill();
    let other_dir = tempfile::tempdir().unwrap();
    let store = project.path().join(STORE);
    let store = store.to_str().unwrap();
    let call =
        lines(&BIN.run(&other_dir, &["actions", "s", "--json", "--store", store]))[0]["call"]
            .clone();
    let approve = ["approve", "s", call.as_str().unwrap(), "--store", store];
    // Model, address and directory come from the session.
    let approve = BIN.start_with(&other_dir, &approve, &vars);
    let request = server.request();
    assert!(
        request.head.contains("bearer sk-secret") && request.last().contains("Created"),
        "{}",
        request.last()
    );
    request.say("Written.");
    let exit = approve.end();
    assert_eq!((exit.code, exit.out.as_str()), (0, "Written.\n"), "{exit:?}");
    assert_eq!(fs::read_to_string(project.path().join("a.txt")).unwrap(), "hi");
    for file in fs::read_dir(project.path().join(".kept")).unwrap() {
        let path = file.unwrap().path();
        let kept = if path.is_file() { fs::read(path).unwrap() } else { Vec::new() };
        assert!(!kept.windows(9).any(|bytes| bytes == b"sk-secret"), "a key is never kept");
    }
}

#[test]
fn an_interrupted_run_goes_on_or_is_ended_by_a_prompt() {
    for resume in [true, false] {
        let (project, server) = (project(), Server::start());
        let args =
            ["run", "--model", "custom/x", "--base-url", &server.url, "--session", "s", "Think"];
        let run = BIN.start(&project, &args);
        let request = server.request();
        run.kill();
        drop(request);
        let list = BIN.run(&project, &["sessions", "list"]);
        assert!(
            list.out.contains("; run r1 was interrupted)") && list.out.contains("Think"),
            "{list:?}"
        );
        let rest = if resume {
            ["run", "--session", "s", "--resume"]
        } else {
            ["run", "--session", "s", "Again"]
        };
        let second = BIN.start(&project, &rest);
        let request = server.request();
        let messages: Vec<_> = request.body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["content"].clone())
            .collect();
        assert_eq!(
            messages[1..],
            if resume { vec![json!("Think")] } else { vec![json!("Think"), json!("Again")] }
        );
        request.say("Done.");
        let exit = second.end();
        assert_eq!((exit.code, exit.out.as_str()), (0, "Done.\n"), "{exit:?}");
        assert_eq!(exit.err.contains("was interrupted; your prompt ends it"), !resume, "{exit:?}");
        let nothing = BIN.run(&project, &["run", "--session", "s", "--resume"]);
        assert!(nothing.code == 2 && nothing.err.contains("othing to continue"), "{nothing:?}");
    }
}

#[test]
fn the_latest_session_goes_on_as_it_was_started() {
    let (project, server) = (project(), Server::start());
    let none = BIN.run(&project, &["run", "-c", "Hello"]);
    assert!(none.code == 2 && none.err.contains("There is no session of /"), "{none:?}");
    for (args, expected) in [
        (
            vec![
                "run",
                "--model",
                "custom/x",
                "--base-url",
                &server.url,
                "--system",
                "Be brief.",
                "One",
            ],
            vec!["One"],
        ),
        (vec!["run", "-c", "Two"], vec!["One", "Two"]),
        (vec!["run", "-c", "--system", "Be long.", "Three"], vec!["One", "Two", "Three"]),
        (
            vec!["run", "--no-session", "--model", "custom/x", "--base-url", &server.url, "Four"],
            vec!["Four"],
        ),
        (vec!["run", "-c", "Five"], vec!["One", "Two", "Three", "Five"]),
    ] {
        let run = BIN.start(&project, &args);
        let request = server.request();
        let messages = request.body["messages"].as_array().unwrap();
        let users: Vec<_> =
            messages.iter().filter(|m| m["role"] == "user").map(|m| m["content"].clone()).collect();
        assert_eq!(users, expected);
        let system = messages[0]["content"].as_str().unwrap();
        match expected.len() {
            1 if expected[0] == "Four" => assert!(!system.starts_with("Be ")),
            1 | 2 => assert_eq!(system, "Be brief."),
            _ => assert_eq!(system, "Be long."),
        }
        request.say("Yes.");
        assert_eq!(run.end().code, 0);
    }
    assert_eq!(lines(&BIN.run(&project, &["sessions", "list", "--json"])).len(), 1);
}

/// C116: `-c` continues the latest session of the directory, however many others there are, and
/// lists and runs show the directory and the model.
#[test]
fn the_latest_session_is_that_of_the_directory() {
    let (here, there, server) = (project(), project(), Server::start());
    let store = here.path().join("shared.db");
    let store = [("LOOPWRIGHT_STORE", store.to_str().unwrap())];
    let path = |dir: &tempfile::TempDir| dir.path().canonicalize().unwrap().display().to_string();
    let run = |dir, args: &[&str]| {
        let run = BIN.start_with(dir, args, &store);
        let request = server.request();
        let messages = request.body["messages"].as_array().unwrap().clone();
        request.say("Yes.");
        let exit = run.end();
        assert_eq!(exit.code, 0, "{exit:?}");
        let first = exit.err.lines().next().unwrap().to_owned();
        let users = messages.iter().filter(|m| m["role"] == "user");
        (first, users.map(|m| m["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>())
    };
    let new = ["run", "--model", "custom/x", "--base-url", &server.url];
    let (line, _) = run(&here, &[&new[..], &["--session", "a", "One"]].concat());
    assert_eq!(line, format!("custom/x in {}", path(&here)));
    for args in [&["run", "-c", "No"][..], &["-c"], &["--plain", "-c"]] {
        let refused = BIN.start_with(&there, args, &store).end();
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains(&path(&there)), "{refused:?}");
        assert!(refused.err.contains("sessions list"), "{refused:?}");
    }
    run(&there, &[&new[..], &["--session", "b", "Two"]].concat());
    let (line, users) = run(&here, &["run", "-c", "Three"]);
    assert_eq!(line, format!("custom/x in {}, session a", path(&here)));
    assert_eq!(users, ["One", "Three"]);
    let (line, users) = run(&here, &["run", "-c", "--root", &path(&there), "Four"]);
    assert_eq!(line, format!("custom/x in {}, session b", path(&there)));
    assert_eq!(users, ["Two", "Four"]);
    let list = BIN.start_with(&here, &["sessions", "list"], &store).end();
    for (session, dir) in [("a", &here), ("b", &there)] {
        let line = list.out.lines().find(|line| line.starts_with(session)).unwrap();
        assert!(line.ends_with(&format!("(custom/x in {})", path(dir))), "{line}");
    }
}

#[test]
fn a_chat_goes_on_where_it_was() {
    let project = project();
    let (session, _) = waits(&project);
    let mut chat = BIN.start(&project, &["--session", &session]);
    chat.err.until("The conversation has 2 messages.");
    chat.err.until("? write_file");
    chat.err.until("Run it?");
    chat.line("y");
    chat.err.until("✓ write_file");
    assert_eq!(chat.close().code, 0);
    let mut chat = BIN.start(&project, &["-c"]);
    chat.err.until("The conversation has 4 messages.");
    chat.line("/continue");
    chat.err.until("othing to continue");
    assert_eq!(chat.close().code, 0);
}

#[test]
fn sessions_are_shown_searched_forked_moved_and_removed() {
    let project = project();
    let messages = BIN
        .run(&project, &["run", "--model", "offline", "--session", "first one", "Read Cargo.toml"]);
    assert_eq!(messages.code, 0, "{messages:?}");
    let shown = BIN.run(&project, &["sessions", "show", "first one"]);
    assert!(
        shown.out.starts_with("# Read Cargo.toml\n") && shown.out.contains("Call of `read_file`"),
        "{shown:?}"
    );
    let found = BIN.run(&project, &["sessions", "search", "SHEEP", "engineers"]);
    assert!(found.code == 0 && found.out.starts_with("first one  m"), "{found:?}");
    assert_eq!(BIN.run(&project, &["sessions", "search", "wolves"]).code, 1);

    let forked = BIN.run(&project, &["sessions", "fork", "first one", "--name", "second"]);
    assert_eq!(forked.code, 0, "{forked:?}");
    assert_eq!(BIN.run(&project, &["run", "--session", "second", "Read Cargo.toml"]).code, 0);
    let refused = BIN.run(&project, &["sessions", "delete", "first one"]);
    assert!(refused.code == 2 && refused.err.contains("delete second first"), "{refused:?}");

    let file = project.path().join("out.jsonl");
    let file = file.to_str().unwrap();
    assert_eq!(BIN.run(&project, &["sessions", "export", "second", "--output", file]).code, 0);
    let refused = BIN.run(&project, &["sessions", "export", "second", "--output", file]);
    assert!(refused.code == 2 && refused.err.contains("out.jsonl"), "{refused:?}");
    let directory = project.path().join("kept as files/");
    let at = ["--store", directory.to_str().unwrap()];
    let import = [&["sessions", "import", file, "--session", "third"][..], &at].concat();
    assert_eq!(BIN.run(&project, &import).code, 0);
    let twice = BIN.run(&project, &import);
    assert!(
        twice.code == 2 && twice.err.contains("There is a session `third` already"),
        "{twice:?}"
    );
    let markdown = |session: &str, more: &[&str]| {
        BIN.run(
            &project,
            &[&["sessions", "export", session, "--format", "markdown"][..], more].concat(),
        )
        .out
    };
    assert_eq!(markdown("third", &at).replace("third", "second"), markdown("second", &[]));
    let kept = lines(&BIN.run(&project, &[&["sessions", "list", "--json"][..], &at].concat()));
    assert!(
        kept[0].get("settings").is_none(),
        "the exporter's settings are not imported: {kept:?}"
    );
    let earlier = BIN.run(
        &project,
        &[&["sessions", "fork", "third", "--at", "m4", "--name", "a b"][..], &at].concat(),
    );
    assert_eq!(earlier.code, 0, "{earlier:?}");
    assert!(!markdown("a b", &at).contains("(m5") && markdown("a b", &at).contains("(m4"));
    let nowhere =
        BIN.run(&project, &[&["sessions", "fork", "third", "--at", "m99"][..], &at].concat());
    assert!(nowhere.code == 2 && nowhere.err.contains("has no message m99"), "{nowhere:?}");

    for name in ["second", "first one"] {
        assert_eq!(BIN.run(&project, &["sessions", "delete", name]).code, 0);
    }
    assert_eq!(BIN.run(&project, &["sessions", "list"]).out, "");
    let gone = BIN.run(&project, &["sessions", "show", "second"]);
    assert!(gone.code == 2 && gone.err.contains("There is no session `second`"), "{gone:?}");
}

#[test]
fn an_unusable_store_path_is_a_clear_error() {
    let project = project();
    let file = project.path().join("Cargo.toml");
    let exit = BIN
        .run(&project, &["run", "--model", "offline", "--store", file.to_str().unwrap(), "Hello"]);
    assert!(exit.code == 2 && exit.err.contains("Cargo.toml"), "{exit:?}");
    assert!(fs::read_to_string(&file).unwrap().contains("Counts sheep"));
    let exit = BIN.start_with(&project, &["sessions", "list"], &[("LOOPWRIGHT_STORE", "")]).end();
    assert!(exit.code == 2 && exit.err.contains("--store PATH"), "{exit:?}");
}

/// Queued messages start a run when the session is opened. `--resume` and a prompt show it to its
/// end.
#[test]
fn what_had_waited_runs_first_and_is_shown() {
    for resume in [true, false] {
        let (project, server) = (project(), Server::start());
        let args = ["chat", "--model", "custom/x", "--base-url", &server.url, "--session", "s"];
        let mut chat = BIN.start(&project, &args);
        chat.line("One");
        let request = server.request();
        chat.line("/later Two");
        chat.err.until("Queued as a follow-up.");
        chat.kill();
        drop(request);
        let rest = if resume {
            ["run", "--session", "s", "--resume"]
        } else {
            ["run", "--session", "s", "Three"]
        };
        let run = BIN.start(&project, &rest);
        let mut answers = 0;
        loop {
            let request = server.request();
            answers += 1;
            let (last, text) = (request.last(), format!("Answer {answers}."));
            request.say(&text);
            if last.contains("Two") {
                break;
            }
        }
        let exit = run.end();
        assert!(exit.code == 0 && exit.out.contains(&format!("Answer {answers}.")), "{exit:?}");
    }
}

#[test]
fn permissions_of_a_session_are_reported_and_can_be_revoked() {
    let project = project();
    let first =
        ["run", "--model", "offline", "--session", "s", "--approve", "all", "--network", "Hello"];
    assert_eq!(BIN.run(&project, &first).code, 0);
    let second = BIN.run(&project, &["run", "-c", "Hello"]);
    assert!(
        second.err.contains("all tools run without approval")
            && second.err.contains("may use the network"),
        "{second:?}"
    );
    let back = ["run", "-c", "--approve", "read-only", "--network=false", WRITE];
    assert_eq!(BIN.run(&project, &back).code, 3);
    let second = BIN.run(&project, &["run", "-c", "Hello"]);
    assert!(!second.err.contains("As this session was started"), "{second:?}");
    let nowhere = BIN.run(&project, &["run", "--resume"]);
    assert!(nowhere.code == 2 && nowhere.err.contains("-c for the latest"), "{nowhere:?}");
}

#[test]
fn a_call_stays_pending_when_the_chat_ends_and_an_unused_session_is_not_stored() {
    let project = project();
    let (session, call) = waits(&project);
    let mut chat = BIN.start(&project, &["--session", &session]);
    chat.err.until("Run it?");
    chat.line("/quit");
    assert_eq!(chat.end().code, 0);
    assert_eq!(listed(&project)[0]["call"], json!(call));
    let chat = BIN.start(&project, &["--model", "offline"]);
    assert_eq!(chat.close().code, 0);
    assert_eq!(lines(&BIN.run(&project, &["sessions", "list", "--json"])).len(), 1);
}

/// A process that waits for another one, which has locked the store, can be interrupted.
#[test]
fn ctrl_c_ends_a_process_that_waits_for_a_lock() {
    let project = project();
    let locked = LockedStore::new(&project);
    let args = ["run", "--model", "offline", "--store", "locked/", "--session", "s", "Hello"];
    // A shell lets the programs that it runs in the background ignore SIGINT.
    let terminal = ["/usr/bin/env", "--default-signal=INT"];
    let process = BIN.start_as(&project, &terminal, &args, &[]);
    locked.until_tried();
    process.interrupt();
    let end = process.end();
    assert!(!end.err.contains("cannot be locked"), "it has waited for the lock: {end:?}");
    assert!(!project.path().join("locked/s.jsonl").exists());
}
