//! `POST /api/agent-chat`: the requirements of its specification for one request.

use serde_json::{Value, json};

use super::{KEY, Served, types};

/// C473: The client waits for a response, and can ask again.
#[test]
fn a_failing_model_ends_the_request_with_its_error() {
    let served = Served::start(&["--max-retry-delay", "1"]);
    let fields = json!({ "llmConfig": {
        "apiKey": KEY, "model": "test-model", "baseUrl": served.model.url, "provider": "openai",
    } });
    let mut connection = served.post(&served.body("Hello", &fields));
    for _ in 0..5 {
        let error = json!({ "error": { "message": "It broke." } });
        served.model.request().answer("500 Internal Server Error", &error);
    }
    connection.head().unwrap();
    let frames: Vec<String> = std::iter::from_fn(|| connection.frame()).collect();
    let all = frames.concat();
    assert_eq!(all.matches(r#"{"type":"retry","#).count(), 4, "{all}");
    assert!(all.contains(r#""maxAttempts":5"#), "{all}");
    let [.., error, complete] = &frames[..] else { panic!("{all}") };
    assert!(error.contains(r#""type":"error""#) && error.contains("It broke."), "{all}");
    assert!(complete.contains("complete"), "{all}");
    assert!(served.model.is_unasked());
}

/// C95: `/api/agent-chat` answers a request with an event stream, in the frames of its
/// specification, byte by byte
#[test]
fn the_route_takes_a_request_and_answers_with_an_event_stream() {
    let served = Served::start(&[]);
    let fields = json!({ "llmConfig": {
        "apiKey": KEY, "model": "test-model", "baseUrl": served.model.url, "provider": "openai",
        "temperature": 0.5, "maxTokens": 321, "headers": { "x-tenant": "blue" },
    } });
    let mut connection = served.post(&served.body("Hello\nthere", &fields));
    let request = served.model.request();
    assert!(request.head.contains(&format!("authorization: bearer {KEY}")), "{}", request.head);
    assert!(request.head.contains("x-tenant: blue"), "{}", request.head);
    assert_eq!(
        (&request.body["model"], &request.body["temperature"]),
        (&json!("test-model"), &json!(0.5))
    );
    assert!(request.body.to_string().contains("321"), "{}", request.body);
    let system = request.body["messages"][0]["content"].to_string();
    assert!(
        system.contains("You are an AI coding assistant working in the directory: /"),
        "{system}"
    );
    assert!(
        !system.contains("{workDir}") && !system.contains("{platform}") && system.contains("linux"),
        "{system}"
    );
    let tools = request.body["tools"].as_array().unwrap();
    let mut names: Vec<&str> =
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let eight = "diff edit_file execute_command glob_files list_directory read_file search_files \
                 write_file";
    assert_eq!(names.join(" "), eight);
    request.say("Let me\n\nlook…");
    let (status, head) = connection.head().unwrap();
    assert_eq!(status, 200);
    assert!(
        head.contains("content-type: text/event-stream")
            && head.contains("cache-control: no-cache"),
        "{head}"
    );
    let frames: Vec<String> = std::iter::from_fn(|| connection.frame()).collect();
    assert_eq!(
        frames,
        [
            "data: {\"type\":\"agent_start\"}\n\n",
            "data: {\"type\":\"thinking_start\"}\n\n",
            "data: {\"type\":\"content\",\"content\":\"Let me\\n\\nlook…\"}\n\n",
            "data: {\"type\":\"thinking_end\"}\n\n",
            "data: {\"type\":\"complete\"}\n\n",
        ]
    );
}

#[test]
fn the_agent_reads_a_file_and_tells_its_contents() {
    let served = Served::start(&[]);
    let mut connection = served.ask("Read it", &json!({}));
    served.model.request().call(&[("read_file", json!({ "path": "Cargo.toml" }))]);
    let request = served.model.request();
    assert!(request.last().contains("Counts sheep for engineers"), "{}", request.body);
    request.say("It counts sheep.");
    let events = connection.events();
    let use_and_result =
        ["agent_start", "thinking_start", "thinking_end", "tool_use", "tool_result"];
    let answer = ["thinking_start", "content", "thinking_end", "complete"];
    assert_eq!(types(&events), [&use_and_result[..], &answer[..]].concat());
    let tool_use = json!({
        "type": "tool_use", "toolName": "read_file", "toolInput": { "path": "Cargo.toml" },
        "toolId": "call_0"
    });
    assert_eq!(events[3], tool_use);
    assert_eq!((&events[4]["toolId"], &events[4]["isError"]), (&json!("call_0"), &json!(false)));
    assert!(
        events[4]["content"].as_str().unwrap().contains("Counts sheep for engineers"),
        "{}",
        events[4]
    );
}

#[test]
fn the_agent_runs_a_command_and_tells_its_output() {
    let served = Served::start(&[]);
    let mut connection = served.ask("Run it", &json!({}));
    let command = "pwd; echo to-stdout; echo to-stderr >&2; echo written > file";
    served.model.request().call(&[("execute_command", json!({ "command": command }))]);
    let request = served.model.request();
    let last = request.last();
    let dir = std::fs::canonicalize(served.dir.path()).unwrap().display().to_string();
    assert!([&dir, "to-stdout", "to-stderr"].iter().all(|text| last.contains(*text)), "{last}");
    request.say("Done.");
    let events = connection.events();
    let live: String = events
        .iter()
        .filter(|e| e["type"] == "tool_update")
        .filter_map(|e| e["content"].as_str())
        .collect();
    assert!(live.contains("to-stdout"), "{events:?}");
    let result = events.iter().find(|event| event["type"] == "tool_result").unwrap();
    assert!(
        result["isError"] == false && result["content"].as_str().unwrap().contains("to-stderr"),
        "{result}"
    );
    assert_eq!(std::fs::read_to_string(served.dir.path().join("file")).unwrap(), "written\n");
}

/// C96: A history of either form is a conversation in which every call has its result. Nothing of a
/// request is stored.
#[test]
fn the_history_reaches_the_model_and_the_agent_goes_on_from_it() {
    let served = Served::start(&[]);
    let of_the_specification = json!([
        { "role": "user", "content": "What is in Cargo.toml?" },
        { "role": "assistant", "content": "Let me look." },
        { "role": "tool", "content": "", "toolName": "read_file",
          "toolInput": { "path": "Cargo.toml" }, "toolResult": "sheep" },
        { "role": "assistant", "content": "Sheep." },
    ]);
    let with_ids = json!([
        { "role": "user", "content": "What is in Cargo.toml?" },
        { "role": "assistant", "content": "Let me look.", "toolName": "read_file",
          "toolInput": { "path": "Cargo.toml" }, "toolCallId": "a" },
        { "role": "tool", "content": "sheep", "toolCallId": "a" },
        { "role": "assistant", "content": "Sheep." },
    ]);
    let our_own = json!([
        { "id": "m1", "role": "user",
          "content": [{ "type": "text", "text": "What is in Cargo.toml?" }] },
        { "id": "m2", "role": "assistant", "stop": "tool_calls", "model": "openai/other", "parts": [
            { "type": "text", "text": "Let me look." },
            { "type": "tool_call", "id": "a", "name": "read_file",
              "arguments": "{\"path\":\"Cargo.toml\"}" } ] },
        { "id": "m3", "role": "tool_result", "call": "a", "name": "read_file", "status": "ok",
          "content": [{ "type": "text", "text": "sheep" }] },
        { "id": "m4", "role": "custom", "kind": "note", "data": { "not": "for the model" } },
        { "id": "m5", "role": "assistant", "stop": "stop", "model": "openai/other",
          "parts": [{ "type": "text", "text": "Sheep." }] },
    ]);
    for history in [of_the_specification, with_ids, our_own] {
        let mut connection = served.ask("How many?", &json!({ "history": history }));
        let request = served.model.request();
        let messages = request.body["messages"].as_array().unwrap();
        let roles: Vec<&str> =
            messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(
            roles,
            ["system", "user", "assistant", "tool", "assistant", "user"],
            "{history}"
        );
        let call = &messages[2]["tool_calls"][0];
        assert_eq!(call["id"], messages[3]["tool_call_id"], "{history}");
        assert_eq!(call["function"]["name"], "read_file");
        assert_eq!(
            serde_json::from_str::<Value>(call["function"]["arguments"].as_str().unwrap()).unwrap()
                ["path"],
            "Cargo.toml"
        );
        let content = |at: usize| messages[at]["content"].to_string();
        assert!(
            content(2).contains("Let me look.")
                && content(3).contains("sheep")
                && content(4).contains("Sheep."),
            "{messages:?}"
        );
        assert!(content(5).contains("How many?"));
        request.say("Three.");
        assert_eq!(connection.events().last().unwrap()["type"], "complete");
    }
    let mut connection = served.ask("And without?", &json!({ "history": null }));
    let request = served.model.request();
    assert_eq!(
        request.body["messages"].as_array().unwrap().len(),
        2,
        "the server keeps nothing: {}",
        request.body
    );
    request.say("Nothing.");
    connection.events();
}

#[test]
fn a_reply_that_breaks_off_is_withdrawn_and_requested_once_more() {
    let served = Served::start(&[]);
    let mut connection = served.ask("Talk", &json!({}));
    let mut request = served.model.request();
    request.begin();
    request.text("Once upon");
    connection.event_of("content");
    drop(request);
    assert_eq!(connection.event().unwrap()["type"], "withdrawn");
    served.model.request().say("Long ago.");
    assert_eq!(connection.event_of("content")["content"], "Long ago.");
    assert_eq!(connection.events().last().unwrap()["type"], "complete");
}

/// C211: The operator's flags bound each run.
#[test]
fn a_run_ends_at_the_limit_of_the_operator() {
    let served = Served::start(&["--max-turns", "1", "--max-time", "60", "--max-tokens", "9999"]);
    let mut connection = served.ask("List", &json!({}));
    served.model.request().call(&[("list_directory", json!({ "path": "." }))]);
    let events = connection.events();
    let error = events.iter().find(|event| event["type"] == "error").unwrap();
    assert_eq!(error["kind"], "limit", "{events:?}");
    assert_eq!(events.last().unwrap()["type"], "complete");
}

#[test]
fn a_tool_that_fails_is_a_result_for_the_agent() {
    let served = Served::start(&[]);
    let mut connection = served.ask("Read", &json!({}));
    served.model.request().call(&[("read_file", json!({ "path": "missing" }))]);
    let request = served.model.request();
    assert!(request.last().contains("does not exist"), "{}", request.last());
    request.say("It is not there.");
    assert_eq!(connection.event_of("tool_result")["isError"], true);
    assert_eq!(connection.events().last().unwrap()["type"], "complete");
}

#[test]
fn with_confirmation_tools_that_change_something_run_only_if_they_are_listed() {
    let served = Served::start(&[]);
    let calls = [
        ("write_file", json!({ "path": "a", "content": "a" })),
        ("execute_command", json!({ "command": "echo b > b" })),
        ("read_file", json!({ "path": "Cargo.toml" })),
    ];
    for (fields, allowed) in [
        (json!({ "confirm": true }), [false, false, true]),
        (json!({ "approve": ["write_file"] }), [true, false, true]),
        (json!({}), [true, true, true]),
    ] {
        let mut connection = served.ask("Write", &fields);
        served.model.request().call(&calls);
        let request = served.model.request();
        assert_eq!(
            request.body.to_string().contains("needs the user's approval"),
            allowed != [true; 3],
            "{fields}"
        );
        request.say("So be it.");
        let events = connection.events();
        for (at, allowed) in allowed.into_iter().enumerate() {
            let id = json!(format!("call_{at}"));
            let of = |kind: &str| {
                events.iter().filter(|e| e["type"] == kind && e["toolId"] == id).count()
            };
            assert_eq!(
                (of("confirm"), of("tool_result")),
                (usize::from(!allowed), 1),
                "{fields} {events:?}"
            );
        }
        let [a, b] = ["a", "b"].map(|name| served.dir.path().join(name));
        assert_eq!([a.exists(), b.exists()], [allowed[0], allowed[1]], "{fields}");
        let _ = (std::fs::remove_file(a), std::fs::remove_file(b)); // they may not exist
    }
}

/// C49: an incomplete reply is reported by an `error` frame of its own kind.
#[test]
fn an_incomplete_reply_is_an_error_frame() {
    let served = Served::start(&[]);
    for (text, finish, kind) in [
        ("half", "length", "length"),
        ("half", "content_filter", "content_filter"),
        ("", "stop", "empty"),
    ] {
        let mut connection = served.ask("Hello", &json!({}));
        let mut reply = served.model.request();
        reply.begin();
        reply.text(text);
        reply.end(finish);
        let events = connection.events();
        let [.., error, end] = &events[..] else { panic!("{events:?}") };
        assert_eq!((&error["type"], &error["kind"]), (&json!("error"), &json!(kind)));
        assert_eq!(end["type"], "complete");
    }
}
