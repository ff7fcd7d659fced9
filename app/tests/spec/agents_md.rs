//! `AGENTS.md` in the directory becomes the end of the system prompt.

use std::fs;

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::project;
use serde_json::json;

use crate::BIN;
use crate::serve::sessions::Live;

/// Returns the system prompt of a run with these arguments, and its standard error.
fn system(project: &tempfile::TempDir, more: &[&str]) -> (String, String) {
    let server = Server::start();
    let args = [
        &["run", "--model", "custom/x", "--base-url", &server.url, "--no-session"],
        more,
        &["Hello"],
    ]
    .concat();
    let run = BIN.start(project, &args);
    let request = server.request();
    let system = request.body["messages"][0]["content"].as_str().unwrap().to_owned();
    request.say("Hello.");
    let exit = run.end();
    assert_eq!(exit.code, 0, "{exit:?}");
    (system, exit.err)
}

/// C114: `AGENTS.md` in the root becomes the end of the system prompt, up to a limit, whatever the
/// system prompt is. A link that leads out of the root, or a file that cannot be read, causes a
/// warning.
#[test]
fn what_the_project_says_to_agents_is_in_the_system_prompt() {
    let project = project();
    let file = project.path().join("AGENTS.md");
    let (without, _) = system(&project, &[]);
    fs::write(&file, "Answer in Latin.\n").unwrap();
    let (with, err) = system(&project, &[]);
    assert!(with.starts_with(&without) && with.ends_with("\n\nAnswer in Latin."), "{with}");
    let announced = format!("custom/x in {}\n", project.path().display());
    assert_eq!(err, announced, "and nothing else");
    let (own, _) = system(&project, &["--system", "Be brief."]);
    assert!(
        own.starts_with("Be brief.\n\n# AGENTS.md") && own.ends_with("Answer in Latin."),
        "{own}"
    );
    assert_eq!(system(&project, &["--no-agents-md"]).0, without);
    assert_eq!(system(&project, &["--no-agents-md=false"]).0, with);

    fs::write(&file, "x".repeat(100_000)).unwrap();
    let (cut, _) = system(&project, &[]);
    assert!(
        cut.len() < without.len() + 34_000 && cut.contains("first 32768 of 100000 bytes"),
        "{}",
        cut.len()
    );

    let outside = tempfile::NamedTempFile::new().unwrap();
    fs::write(&outside, "a secret").unwrap();
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(outside.path(), &file).unwrap();
    let (safe, err) = system(&project, &[]);
    assert_eq!(safe, without);
    assert!(
        err.contains("`AGENTS.md` leads out of the workspace") && !err.contains("secret"),
        "{err}"
    );
}

/// C114: the same applies to sessions of the server.
#[test]
fn sessions_of_the_server_have_it_too() {
    let (project, model) = (project(), Server::start());
    fs::write(project.path().join("AGENTS.md"), "Answer in Latin.\n").unwrap();
    for (more, expected) in [(&[][..], true), (&["--no-agents-md"][..], false)] {
        let live = Live::start_as(&project, &model, &[], more);
        let id = live.post("/api/sessions", &json!({}))["id"].as_str().unwrap().to_owned();
        live.post(&format!("/api/sessions/{id}/prompt"), &json!({ "message": "Hello" }));
        let request = model.request();
        let system = request.body["messages"][0]["content"].as_str().unwrap();
        assert_eq!(system.ends_with("\n\nAnswer in Latin."), expected, "{system}");
    }
}
