//! `guard`: another process changed a file after it was read.

use std::fs;

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::project;
use serde_json::json;

use crate::BIN;

/// Lets the model read a file, the user change it, and the model write its own version. Returns the
/// tool result and the file's contents at that point, and again after the model has read and
/// written the file once more.
fn session(more: &[&str]) -> [(String, String); 2] {
    let (server, project) = (Server::start(), project());
    let file = project.path().join("notes.txt");
    fs::write(&file, "old\n").unwrap();
    let options = ["--model", "openai/x", "--base-url", &server.url, "--approve", "all"];
    let run = BIN.start(&project, &[&["run"], &options[..], more, &["Go"]].concat());
    let (read, write) = (
        json!({ "path": "notes.txt" }),
        json!({ "path": "notes.txt", "content": "the model's\n" }),
    );
    server.request().call(&[("read_file", read.clone())]);
    let asked = server.request();
    assert!(asked.last().contains("old"), "{}", asked.last());
    fs::write(&file, "the user's\n").unwrap();
    asked.call(&[("write_file", write.clone())]);
    let asked = server.request();
    let first = (asked.last(), fs::read_to_string(&file).unwrap());
    asked.call(&[("read_file", read)]);
    server.request().call(&[("write_file", write)]);
    let asked = server.request();
    let second = (asked.last(), fs::read_to_string(&file).unwrap());
    asked.say("Done.");
    assert_eq!(run.end().code, 0);
    [first, second]
}

/// C479
#[test]
fn a_file_that_the_user_changed_is_not_overwritten_until_the_agent_rereads_it() {
    let [(result, there), (_, later)] = session(&[]);
    assert!(result.contains("`notes.txt` has changed on disk since it was last read"), "{result}");
    assert_eq!((there.as_str(), later.as_str()), ("the user's\n", "the model's\n"));
}

#[test]
fn without_it_the_model_has_its_way() {
    let [(result, there), _] = session(&["--guard=false"]);
    assert!(result.contains("notes.txt"), "{result}");
    assert_eq!(there, "the model's\n");
}
