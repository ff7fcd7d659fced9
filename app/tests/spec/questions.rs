//! Questions to the user: on the command line, and line by line.

use std::fs;

use loopwright_core::session::QuestionStatus;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::tool::{ActionRequest, Effect, Question};
use loopwright_core::{
    AgentBuilder, BehaviorPattern, GenericAgent, RunContext, StepContext, StepEnd, StepError,
    ToolError, async_trait, tool_fn,
};
use loopwright_memory::Sqlite;
use loopwright_patterns::PiPattern;
use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Exit, STORE, project};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::BIN;

/// Runs until a model that asks with these arguments has asked.
fn asks(project: &TempDir, server: &Server, arguments: Value, more: &[&str]) -> Exit {
    let args = ["run", "--model", "openai/x", "--base-url", &server.url, "Paint."];
    let run = BIN.start(project, &[&args, more].concat());
    server.request().call(&[("ask_user", arguments)]);
    let exit = run.end();
    assert_eq!(exit.code, 3, "{exit:?}");
    exit
}

fn colours() -> Value {
    json!({ "question": "Which\ncolour?", "options": ["red", "dark blue"] })
}

/// Returns the lines of JSON.
fn lines(exit: &Exit) -> Vec<Value> {
    exit.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// C155: `run` ends with 3 and prints the question, its options and the commands that resolve it;
/// `actions` and the list of sessions show it too, and with `--json` it is complete.
#[test]
fn a_question_is_shown_with_its_options() {
    let (server, project) = (Server::start(), project());
    let exit = asks(&project, &server, colours(), &["--session", "s"]);
    let shown = "? Which\ncolour? (call call_0)\n  1. red\n  2. dark blue\n";
    assert!(exit.err.contains(shown), "{exit:?}");
    assert!(exit.err.contains("`loopwright answer s call_0 --digest "), "{exit:?}");
    assert!(exit.err.contains("with an option or its number"), "{exit:?}");
    let listed = BIN.run(&project, &["actions"]);
    assert!(listed.out.ends_with("  Which colour? (1 red, 2 dark blue)\n"), "{listed:?}");
    let sessions = BIN.run(&project, &["sessions", "list"]);
    let note = "1 question waits; asks: Which colour? (1 red, 2 dark blue)";
    assert!(sessions.out.contains(note), "{sessions:?}");

    let question = json!({
        "kind": "question",
        "data": {
            "question": "Which\ncolour?", "form": "choice", "options": ["red", "dark blue"],
        },
    });
    assert_eq!(lines(&BIN.run(&project, &["actions", "--json"]))[0]["request"], question);
    let exit = asks(&project, &server, colours(), &["--session", "t", "--json"]);
    let events = lines(&exit);
    let asked = events.iter().find(|event| event["type"] == "external_action").unwrap();
    assert_eq!(asked["request"], question);

    // Nobody can answer later.
    let exit = asks(&project, &server, colours(), &["--no-session"]);
    assert!(exit.err.contains("the session is not stored"), "{exit:?}");
}

/// C156: `answer` takes an option, its number, several, a text or JSON, and continues the session.
/// An answer that does not fit reports the valid ones, and changes nothing.
#[test]
fn a_question_is_answered_by_another_process() {
    let options = json!(["red", "dark blue"]);
    let schema = json!({ "type": "object", "properties": { "r": { "type": "integer" } } });
    for (arguments, wrong, right, result) in [
        (
            json!({ "question": "Which?", "options": options }),
            ("3", "`3` is not one of the options: red, dark blue."),
            "2",
            "dark blue",
        ),
        (
            json!({ "question": "Which?", "options": options, "several": true }),
            ("1, green", "`green` is not one of the options: red, dark blue."),
            "2,red",
            "dark blue, red",
        ),
        (
            json!({ "question": "Which?" }),
            (" ", "The answer does not fit the question: the answer is empty."),
            "a dark one",
            "a dark one",
        ),
        (
            json!({ "question": "Which?", "schema": schema }),
            ("{\"r\": \"x\"}", "- /r: \"x\" is not of type"),
            "{\"r\": 7}",
            "{\"r\":7}",
        ),
    ] {
        let (server, project) = (Server::start(), project());
        asks(&project, &server, arguments, &["--session", "s"]);
        let refused = BIN.run(&project, &["answer", "s", "call_0", wrong.0]);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
        assert!(refused.err.contains(wrong.1), "{refused:?}");
        let stale = BIN.run(&project, &["answer", "s", "call_0", right, "--digest", "00"]);
        assert!(stale.code == 2 && stale.err.contains("does not match"), "{stale:?}");
        let approved = BIN.run(&project, &["approve", "s", "call_0"]);
        assert!(
            approved.code == 2 && approved.err.contains("`loopwright answer s call_0`"),
            "{approved:?}"
        );
        assert_eq!(lines(&BIN.run(&project, &["actions", "--json"])).len(), 1);

        let answer = BIN.start(&project, &["answer", "s", "call_0", right, "--by", "Ann"]);
        let request = server.request();
        assert_eq!(request.last(), json!(result).to_string());
        request.say("I see.");
        let exit = answer.end();
        assert_eq!((exit.code, exit.out.as_str()), (0, "I see.\n"), "{exit:?}");
        let second = BIN.run(&project, &["answer", "s", "call_0", right]);
        assert!(second.code == 2 && second.err.contains("no call does"), "{second:?}");
    }
}

/// C156: Without an answer, or with `-`, it is read from standard input. A question can be
/// declined.
#[test]
fn an_answer_is_read_from_standard_input_or_declined() {
    for more in [&[][..], &["-"]] {
        let (server, project) = (Server::start(), project());
        asks(&project, &server, json!({ "question": "Which?" }), &["--session", "s"]);
        let mut answer = BIN.start(&project, &[&["answer", "s", "call_0"], more].concat());
        answer.line("a dark one");
        answer.close_input();
        let request = server.request();
        assert_eq!(request.last(), "\"a dark one\"");
        request.say("I see.");
        assert_eq!(answer.end().code, 0);
    }
    let (server, project) = (Server::start(), project());
    asks(&project, &server, colours(), &["--session", "s"]);
    let deny = BIN.start(&project, &["deny", "s", "call_0", "--reason", "no paint"]);
    let request = server.request();
    assert_eq!(request.last(), "\"Denied by the user: no paint\"");
    request.say("I see.");
    assert_eq!(deny.end().code, 0);
}

/// Creates the session `s` with an agent in this process, whose run ends when an action is pending.
pub(crate) fn waiting(project: &TempDir, agent: AgentBuilder) {
    let path = project.path().join(STORE);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let agent = agent.build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Sqlite::open(path).unwrap();
        let context = RunContext::new().stored(&store, "s").await.unwrap();
        let context = context.settings(json!({ "agent": "coding" }));
        let (handle, _events) = agent.run(context).await.unwrap();
        handle.prompt("Log in.").await.unwrap();
        handle.close().await;
    });
}

/// A pattern that asks for a password before it asks the model.
struct Login;

#[async_trait]
impl BehaviorPattern for Login {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        match step.question("password", Question::secret("The password?").shown()).await? {
            QuestionStatus::Waiting => Ok(StepEnd::AwaitingAction),
            _ => step.ask().await?.finish(),
        }
    }
}

pub(crate) fn waits_for_a_secret(project: &TempDir) {
    waiting(project, GenericAgent::builder(ScriptedModel::new([]), Login));
}

/// C156: A secret is read from standard input only, and is never printed.
#[test]
fn a_secret_is_read_from_standard_input_and_is_not_shown() {
    let project = project();
    waits_for_a_secret(&project);
    let call = lines(&BIN.run(&project, &["actions", "--json"]))[0]["call"].clone();
    let call = call.as_str().unwrap();
    let refused = BIN.run(&project, &["answer", "s", call, "hunter2", "--model", "offline"]);
    assert!(refused.code == 2 && refused.err.contains("give it on standard input"), "{refused:?}");
    let args = ["answer", "s", call, "--model", "offline", "--json"];
    let mut answer = BIN.start(&project, &args);
    answer.line(" hunter2 ");
    let exit = answer.close();
    assert_eq!(exit.code, 0, "{exit:?}");
    let shown = BIN.run(&project, &["sessions", "show", "s"]);
    for text in [&exit.out, &exit.err, &shown.out] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    let log = BIN.run(&project, &["sessions", "export", "s"]);
    assert!(log.out.contains("\" hunter2 \""), "its spaces are part of it: {log:?}");
}

/// C156: `answer` also provides the input of any suspended call, as JSON or as a text.
#[test]
fn a_suspended_call_is_given_its_input() {
    for (input, expected) in
        [("{\"a\": 1}", json!({ "a": 1 })), ("the new one", json!("the new one"))]
    {
        let project = project();
        let asking = tool_fn("read_file", "Reads.", async |_: Map<String, Value>, _cx| {
            Err::<String, _>(ToolError::Suspend(ActionRequest::new("login", json!("Who?"))))
        });
        let calls = Script::calls([("c1", "read_file", json!({ "path": "Cargo.toml" }))]);
        let agent = GenericAgent::builder(ScriptedModel::new([calls]), PiPattern);
        waiting(&project, agent.tool(asking.effect(Effect::ReadOnly)));
        let exit = BIN.run(&project, &["answer", "s", "c1", input, "--model", "offline"]);
        assert!(exit.code == 0 && exit.err.contains("✓ read_file"), "{exit:?}");
        let log = BIN.run(&project, &["sessions", "export", "s"]);
        let decision = json!({ "provide": { "input": expected } }).to_string();
        assert!(log.out.contains(&format!("\"decision\":{decision}")), "{log:?}");
    }

    // An approval is not an answer.
    let project = project();
    let exit = BIN.run(
        &project,
        &["run", "--model", "offline", "--session", "s", "Create a.txt with \"hi\""],
    );
    assert_eq!(exit.code, 3, "{exit:?}");
    let call = lines(&BIN.run(&project, &["actions", "--json"]))[0]["call"].clone();
    let refused = BIN.run(&project, &["answer", "s", call.as_str().unwrap(), "yes"]);
    assert!(refused.code == 2 && refused.err.contains("loopwright approve"), "{refused:?}");
}

/// C155: In the line chat, the next line is the answer. The question is repeated until it fits.
#[test]
fn a_line_answers_a_question() {
    let (server, project) = (Server::start(), project());
    let args = ["chat", "--model", "openai/x", "--base-url", &server.url];
    let mut chat = BIN.start(&project, &args);
    chat.line("Paint.");
    server.request().call(&[("ask_user", colours())]);
    let asked = "? Which\ncolour?\n  1. red\n  2. dark blue\n\
        Your answer, an option or its number (/decline REASON declines):";
    chat.err.until(asked);
    chat.line("green");
    chat.err.until("`green` is not one of the options: red, dark blue.");
    chat.err.until("Your answer");
    chat.line("2");
    let request = server.request();
    assert_eq!(request.last(), "\"dark blue\"");
    request.call(&[("ask_user", json!({ "question": "Which shade?" }))]);
    chat.err.until("Your answer, a text");
    chat.line("/decline any will do");
    let request = server.request();
    assert_eq!(request.last(), "\"Denied by the user: any will do\"");
    request.call(&[("ask_user", json!({ "question": "And when?" }))]);
    chat.err.until("Your answer, a text");
    let exit = chat.close();
    assert!(exit.code == 0 && exit.err.contains("so the question waits"), "{exit:?}");
    assert!(exit.err.contains("`loopwright answer "), "{exit:?}");
}

/// C156: In the line chat a secret is taken as it is typed, even if it looks like a command, and is
/// not shown.
#[test]
fn a_line_answers_with_a_secret() {
    let project = project();
    waits_for_a_secret(&project);
    let mut chat = BIN.start(&project, &["chat", "--session", "s", "--model", "offline"]);
    chat.err.until("? The password?\nYour answer, a text that is not shown");
    chat.line("");
    chat.err.until("The answer was not sent: the answer is empty.");
    chat.line("/hunter ");
    let exit = chat.close();
    assert_eq!(exit.code, 0, "{exit:?}");
    assert!(!exit.out.contains("hunter") && !exit.err.contains("hunter"), "{exit:?}");
    let log = BIN.run(&project, &["sessions", "export", "s"]);
    assert!(log.out.contains("\"/hunter \""), "{log:?}");
}

/// `--no-questions`, or the setting, leaves the tool out.
#[test]
fn models_ask_only_if_they_may() {
    for (settings, more, expected) in [
        ("", &[][..], true),
        ("", &["--no-questions"], false),
        ("no_questions = true", &[], false),
        ("no_questions = true", &["--no-questions=false"], true),
    ] {
        let (server, project) = (Server::start(), project());
        fs::write(project.path().join("loopwright.toml"), settings).unwrap();
        let args = ["run", "--model", "openai/x", "--base-url", &server.url, "Paint."];
        let run = BIN.start(&project, &[&args, more].concat());
        let request = server.request();
        assert_eq!(request.body["tools"].to_string().contains("\"ask_user\""), expected);
        request.say("Done.");
        assert_eq!(run.end().code, 0);
    }
}
