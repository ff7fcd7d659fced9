//! The choice of the model, and the requests that it receives.

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::project;
use serde_json::json;

use crate::BIN;

#[test]
fn without_a_model_there_is_a_server_on_this_machine_or_the_offline_rules() {
    let exit = BIN.run(&project(), &["run", "Read Cargo.toml"]);
    match exit.err.lines().next() {
        // This machine runs a model, whose replies are not known.
        Some(note) if note.starts_with("The model is ") => {}
        _ => {
            assert!(
                exit.err.contains("not a language model") && exit.err.contains("OPENAI_API_KEY"),
                "{exit:?}"
            );
            assert!(exit.code == 0 && exit.out.contains("Counts sheep"), "{exit:?}");
        }
    }
}

#[test]
fn a_local_server_needs_no_key_and_receives_the_flags() {
    let (server, project) = (Server::start(), project());
    let args =
        ["run", "--model", "openai/small", "--base-url", &server.url, "--thinking", "low", "Hello"];
    let run = BIN.start(&project, &args);
    let request = server.request();
    assert!(
        request.head.starts_with("post /v1/chat/completions ")
            && !request.head.contains("authorization")
    );
    assert_eq!(request.body["model"], "small");
    assert_eq!(request.body["reasoning_effort"], "low");
    let root = project.path().display().to_string();
    let system = request.body["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains(&root) && !system.contains('{'), "{system}");
    let tools: Vec<_> =
        request.body["tools"].as_array().unwrap().iter().map(|t| &t["function"]["name"]).collect();
    let all = [
        "ask_user",
        "diff",
        "edit_file",
        "execute_command",
        "glob_files",
        "list_directory",
        "read_file",
        "search_files",
        "write_file",
        "write_todos",
    ];
    assert_eq!(tools, all);
    request.say("Hi.");
    let exit = run.end();
    let announced = format!("openai/small in {root}\n");
    assert_eq!((exit.code, exit.out.as_str(), exit.err.as_str()), (0, "Hi.\n", &*announced));
}

#[test]
fn system_replaces_the_system_prompt() {
    let (server, project) = (Server::start(), project());
    let args = [
        "run",
        "--model",
        "openai/x",
        "--base-url",
        &server.url,
        "--system",
        "Rhyme.",
        "--pattern",
        "generic",
    ];
    let mut run = BIN.piped(&project, &args);
    run.line("Hello");
    let reply = std::thread::spawn(move || {
        let request = server.request();
        let system = request.body["messages"][0].clone();
        request.say("Yellow.");
        system
    });
    assert_eq!(run.close().out, "Yellow.\n");
    assert_eq!(reply.join().unwrap()["content"], "Rhyme.");
}

#[test]
fn a_base_url_without_a_model_takes_the_first_that_the_server_lists() {
    let (server, project) = (Server::start(), project());
    let args = ["run", "--base-url", &server.url, "Hello"];
    let run = BIN.start_with(&project, &args, &[("CUSTOM_API_KEY", "of-ones-own")]);
    let question = server.request();
    assert!(question.head.starts_with("get /v1/models "));
    assert!(question.head.contains("authorization: bearer of-ones-own"), "{}", question.head);
    question.answer("200 OK", &json!({ "data": [{ "id": "org/first" }, { "id": "second" }] }));
    let request = server.request();
    assert!(request.head.contains("authorization: bearer of-ones-own"), "{}", request.head);
    assert_eq!(request.body["model"], "org/first");
    request.say("Hi.");
    let exit = run.end();
    assert!(exit.code == 0 && exit.err.contains("The model is custom/org/first."), "{exit:?}");
}

/// C66: a request that failed is sent again, and standard error says when and why.
#[test]
fn a_failed_request_is_retried_and_the_wait_is_reported() {
    let (server, project) = (Server::start(), project());
    let args = |more: &'static [&'static str]| {
        [&["run", "--model", "openai/x", "--base-url", &server.url, "Hello"], more].concat()
    };
    let busy = json!({ "error": { "message": "Too many sheep" } });
    let mut run = BIN.start(&project, &args(&["--max-attempts", "3"]));
    server.request().answer("503 Service Unavailable", &busy);
    run.err.until("(attempt 2 of 3)");
    server.request().say("Hi.");
    let exit = run.end();
    assert_eq!((exit.code, exit.out.as_str()), (0, "Hi.\n"), "{exit:?}");
    assert!(exit.err.contains("Too many sheep"), "{exit:?}");
    assert!(exit.err.contains("Trying again in 1s (attempt 2 of 3)"), "{exit:?}");

    let run = BIN.start(&project, &args(&["--max-attempts", "2"]));
    for _ in 0..2 {
        server.request().answer("503 Service Unavailable", &busy);
    }
    let exit = run.end();
    assert_eq!((exit.code, exit.err.matches("Trying again").count()), (5, 1), "{exit:?}");

    // A server that asks to wait longer than the user allows.
    let run = BIN.start(&project, &args(&["--max-retry-delay", "30"]));
    server.request().answer("429 Too Many Requests\r\nretry-after: 40", &busy);
    let exit = run.end();
    assert!(exit.code == 5 && !exit.err.contains("Trying again"), "{exit:?}");
}
