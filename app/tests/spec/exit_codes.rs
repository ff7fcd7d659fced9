//! The exit codes of `run` other than 0, which the other files cover.

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::project;
use serde_json::json;

use crate::BIN;

#[test]
fn bad_usage_is_2_and_a_sentence() {
    let project = project();
    for (args, says) in [
        (&["run", "--model", "nonsense", "x"][..], "write PROVIDER/NAME"),
        (&["run", "--model", "acme/big", "x"], "The provider `acme` is not known"),
        (&["run", "--model", "openai/gpt-4o-mini", "x"], "set OPENAI_API_KEY"),
        (&["run", "--model", "openai/x", "--base-url", "::", "x"], "base URL"),
        (
            &["run", "--model", "offline", "--root", "nowhere", "x"],
            "the workspace `nowhere` cannot be opened",
        ),
        (&["run", "--model", "offline", "--approve", "nothing", "x"], "There is no tool `nothing`"),
        (&["run", "--model", "offline", " "], "There is no prompt"),
        (&["run", "--max-turns", "0", "x"], "--max-turns"),
        (&["run", "--max-session-cost", "nothing", "x"], "--max-session-cost"),
        (&["run", "--thinking", "hard", "x"], "xhigh"),
        (&["chat", "--json"], "--json"),
    ] {
        let exit = BIN.run(&project, args);
        assert_eq!(exit.code, 2, "{args:?} {exit:?}");
        assert!(exit.err.contains(says) && exit.out.is_empty(), "{args:?} {exit:?}");
    }
}

#[test]
fn an_open_confirmation_is_3_and_says_which() {
    for (more, how) in
        [(&[][..], "`loopwright approve s"), (&["--no-session"], "--approve write_file")]
    {
        let exit = BIN.run(
            &project(),
            &[&["run", "--model", "offline", "Create a.txt with \"hi\""], more].concat(),
        );
        assert_eq!(exit.code, 3, "{exit:?}");
        assert!(
            exit.err.contains("? write_file {\"content\":\"hi\",\"path\":\"a.txt\"} (call "),
            "{exit:?}"
        );
        assert!(exit.err.contains(how), "{exit:?}");
    }
}

#[test]
fn a_limit_is_4() {
    let exit =
        BIN.run(&project(), &["run", "--model", "offline", "--max-turns", "1", "Read Cargo.toml"]);
    assert_eq!(exit.code, 4, "{exit:?}");
    assert!(exit.err.contains("1 of 1 turns are used"), "{exit:?}");
    assert!(exit.err.contains("--max-turns"), "{exit:?}");
}

/// C487: The coding agent answers at a limit, unless that is switched off.
#[test]
fn a_limit_is_4_with_an_answer_too() {
    let (project, model) = (project(), Server::start());
    let args = ["run", "--model", "local/scripted", "--base-url", &model.url, "--max-turns", "2"];
    let look = || ("read_file", json!({ "path": "Cargo.toml" }));
    for (flags, is_last) in [(&[][..], true), (&["--wrap-up=false"][..], false)] {
        let run = BIN.start(&project, &[&args[..], flags, &["Look"]].concat());
        model.request().call(&[look()]);
        let request = model.request();
        assert_eq!(request.body["tool_choice"] == "none", is_last, "{}", request.body);
        assert_eq!(request.last().contains("the limit of turns is reached"), is_last);
        match is_last {
            true => request.say("Half of it."),
            false => request.call(&[look()]),
        }
        let exit = run.end();
        let answer = if is_last { "Half of it.\n" } else { "" };
        assert_eq!((exit.code, exit.out.as_str()), (4, answer), "{exit:?}");
        assert!(exit.err.contains("he limit of turns is reached"), "{exit:?}");
        assert_eq!(exit.err.contains("The answer says what is left."), is_last, "{exit:?}");
    }
}

/// C498: The coding agent ends a run that repeats the same calls, unless that is switched off.
#[test]
fn repeated_calls_are_4() {
    let (project, model) = (project(), Server::start());
    let args = ["run", "--model", "local/scripted", "--base-url", &model.url, "Look"];
    let look = || ("no_such_tool", json!({})); // its result takes no time
    for (flags, is_guarded) in [(&[][..], true), (&["--loop-guard=false"][..], false)] {
        let run = BIN.start(&project, &[&args[..], flags].concat());
        for number in 1..=5 {
            let request = model.request();
            let is_noted = request.last().contains("[The same calls had the same results 3");
            assert_eq!(is_noted, is_guarded && number == 4, "{number}: {}", request.last());
            request.call(&[look()]);
        }
        let request = model.request();
        assert_eq!(request.body["tool_choice"] == "none", is_guarded, "{}", request.body);
        request.say("I am stuck.");
        let exit = run.end();
        let code = if is_guarded { 4 } else { 0 };
        assert_eq!((exit.code, exit.out.as_str()), (code, "I am stuck.\n"), "{exit:?}");
        let says = "the limit of repeated calls is reached. The answer says what is left.";
        assert_eq!(exit.err.contains(says), is_guarded, "{exit:?}");
    }
}

#[test]
fn a_limit_of_a_session_continues_over_its_runs() {
    let project = project();
    let run = |more: &[&str]| {
        BIN.run(
            &project,
            &[&["run", "--model", "offline", "--session", "s", "Hello"], more].concat(),
        )
    };
    let limit = ["--max-session-turns", "2"];
    assert_eq!([run(&limit).code, run(&[]).code], [0, 0], "the session stores its limit");
    let exit = run(&[]);
    let says = "the session's limit of turns is reached: 2 of 2 turns are used.";
    assert!(exit.code == 4 && exit.err.contains(says), "{exit:?}");
    assert_eq!(run(&["--max-session-turns", "3"]).code, 0);
    let exit = run(&["--max-session-tokens", "1", "--max-session-turns", "9"]);
    let says = "the session's limit of tokens is reached: 0 of 1 tokens are used, and about ";
    assert!(exit.code == 4 && exit.err.contains(says), "{exit:?}");
    let free = ["--max-session-cost", "0.5", "--max-session-tokens", "99999"];
    assert_eq!(run(&free).code, 0, "offline rules cost nothing");
}

#[test]
fn a_model_that_fails_is_5() {
    let (server, project) = (Server::start(), project());
    let run =
        BIN.start(&project, &["run", "--model", "openai/x", "--base-url", &server.url, "Hello"]);
    server.request().answer("400 Bad Request", &json!({ "error": { "message": "no such model" } }));
    let exit = run.end();
    assert_eq!(exit.code, 5, "{exit:?}");
    assert!(exit.err.contains("no such model"), "{exit:?}");
}

#[test]
#[cfg(unix)]
fn a_second_ctrl_c_leaves_though_standard_output_takes_no_more() {
    let (server, project) = (Server::start(), project());
    let mut run =
        BIN.unread(&project, &["run", "--model", "openai/x", "--base-url", &server.url, "Hello"]);
    let mut reply = server.request();
    reply.begin();
    reply.text(&"So far ".repeat(1 << 17)); // one chunk, larger than a pipe's buffer
    assert_eq!(run.first_bytes(), *b"So far"); // it has written, and now blocks
    run.interrupt();
    reply.until_hung_up();
    assert!(run.is_alive(), "one Ctrl-C only aborts the run");
    run.interrupt();
    assert_eq!(run.code(), 130);
}

#[test]
#[cfg(unix)]
fn ctrl_c_is_130_and_stores_the_partial_reply() {
    let (server, project) = (Server::start(), project());
    for json in [false, true] {
        let mut args = vec!["run", "--model", "openai/x", "--base-url", &server.url, "Hello"];
        args.extend(json.then_some("--json"));
        let mut run = BIN.start(&project, &args);
        let mut stalled = server.request();
        stalled.begin();
        stalled.text("So far");
        run.out.until("So far");
        run.interrupt();
        let exit = run.end();
        assert_eq!(exit.code, 130, "{exit:?}");
        assert!(exit.err.contains("Aborted."), "{exit:?}");
        match json {
            false => assert_eq!(exit.out, "So far\n"),
            true => assert!(
                exit.out.lines().last().unwrap().contains("\"end\":\"aborted\""),
                "{exit:?}"
            ),
        }
    }
}
