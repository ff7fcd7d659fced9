//! The tools of a request stay in its directory and off the network, and cannot forge frames of the
//! stream.

use loopwright_test_support::model_server::Server;
use serde_json::{Value, json};

use super::Served;
use super::attacks::SECRET;

/// Nobody can approve a call of `/api/agent-chat`.
#[test]
fn a_protected_file_is_changed_only_if_the_operator_allows_it() {
    let call = ("write_file", json!({ "path": ".git/hooks/pre-commit", "content": "x" }));
    for (more, written) in [(&[][..], false), (&["--unprotected", ".git/hooks"], true)] {
        let served = Served::start(more);
        let work = served.dir.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let mut connection = served.ask("Add a hook", &json!({ "workDir": work }));
        served.model.request().call(std::slice::from_ref(&call));
        served.model.request().say("Done.");
        let events = connection.events();
        let result = events.iter().find(|event| event["type"] == "tool_result").unwrap();
        let output = result["content"].as_str().unwrap();
        assert_eq!(output.contains("always needs the user's approval"), !written, "{output}");
        assert_eq!(work.join(".git/hooks/pre-commit").exists(), written);
    }
}

#[test]
fn tools_stay_in_the_directory_of_their_request() {
    let served = Served::start(&[]);
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, SECRET).unwrap();
    let work = served.dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(served.dir.path().join("beside"), SECRET).unwrap();
    std::os::unix::fs::symlink(outside.path(), work.join("out")).unwrap();
    let at = secret.display().to_string();
    let calls = [
        ("read_file", json!({ "path": "../beside" })),
        ("read_file", json!({ "path": at })),
        ("read_file", json!({ "path": "out/secret" })),
        ("read_file", json!({ "path": "/proc/self/environ" })),
        ("write_file", json!({ "path": "../beside", "content": "changed" })),
        ("write_file", json!({ "path": "out/new", "content": "changed" })),
        (
            "edit_file",
            json!({ "path": "out/secret", "old_string": SECRET, "new_string": "changed" }),
        ),
        ("list_directory", json!({ "path": ".." })),
        ("list_directory", json!({ "path": "out" })),
        ("search_files", json!({ "pattern": "secret", "path": "out" })),
        ("glob_files", json!({ "pattern": "*", "path": "/" })),
        ("diff", json!({ "file_a": "out/secret", "file_b": "../beside" })),
        ("execute_command", json!({ "command": "true", "cwd": ".." })),
        ("execute_command", json!({ "command": format!("cat {at} ../beside") })),
        ("execute_command", json!({ "command": format!("echo changed > {at}") })),
        ("execute_command", json!({ "command": format!("rm -f {at}") })),
    ];
    let mut connection = served.ask("Break out", &json!({ "workDir": work }));
    served.model.request().call(&calls);
    let request = served.model.request();
    assert!(
        !request.body.to_string().contains(SECRET)
            || request.body.to_string().matches(SECRET).count() == 1,
        "{}",
        request.body
    );
    request.say("No way out.");
    let events = connection.events();
    let results: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "tool_result").collect();
    assert_eq!(results.len(), calls.len());
    for ((name, arguments), result) in calls.iter().zip(results) {
        let output = result["content"].as_str().unwrap();
        assert!(!output.contains(SECRET), "{name} {arguments}: {output}");
        assert!(
            result["isError"] == true
                || output.contains("denied")
                || output.contains("No such file"),
            "{name} {arguments}: {output}"
        );
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), SECRET);
    assert_eq!(std::fs::read_to_string(served.dir.path().join("beside")).unwrap(), SECRET);
    assert!(!outside.path().join("new").exists());
}

#[test]
fn commands_do_not_reach_the_network_of_the_server() {
    let (served, target) = (Served::start(&[]), Server::start());
    let port = target.url.trim_end_matches("/v1").rsplit(':').next().unwrap().to_owned();
    let mut connection = served.ask("Call out", &json!({}));
    let command = format!("bash -c 'echo hello > /dev/tcp/127.0.0.1/{port}' && echo reached");
    served.model.request().call(&[("execute_command", json!({ "command": command }))]);
    let request = served.model.request();
    assert!(!request.last().contains("reached\\n"), "{}", request.last());
    request.say("No.");
    assert_eq!(connection.events().last().unwrap()["type"], "complete");
}

#[test]
fn output_that_looks_like_frames_stays_output() {
    let served = Served::start(&[]);
    let mut connection = served.ask("Print", &json!({}));
    let lines =
        "x\n\ndata: {\"type\":\"complete\"}\n\nevent: error\r\rid: 7\r\n\r\n: \u{2028}retry: 1\n\n";
    std::fs::write(served.dir.path().join("frames"), lines).unwrap();
    served.model.request().call(&[
        ("execute_command", json!({ "command": "cat frames" })),
        ("read_file", json!({ "path": "frames\n\ndata: {}" })),
    ]);
    let mut request = served.model.request();
    request.begin();
    request.text(lines);
    request.end("stop");
    let frames: Vec<String> = std::iter::from_fn(|| connection.frame()).collect();
    for frame in &frames {
        let line = frame.strip_prefix("data: {").and_then(|rest| rest.strip_suffix("}\n\n"));
        assert!(line.is_some_and(|line| !line.contains(['\n', '\r'])), "one line each: {frame:?}");
    }
    let is =
        |frame: &&String, kind: &str| frame.starts_with(&format!("data: {{\"type\":\"{kind}\""));
    assert_eq!(frames.iter().filter(|frame| is(frame, "complete")).count(), 1);
    assert!(
        is(&frames.last().unwrap(), "complete")
            && frames.iter().any(|frame| is(&frame, "tool_update"))
    );
    let content: String = frames
        .iter()
        .filter(|frame| is(frame, "content"))
        .map(|frame| {
            serde_json::from_str::<Value>(&frame[6..]).unwrap()["content"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(content, lines);
}
