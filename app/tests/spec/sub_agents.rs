//! Sub-agents on the command line, and line by line. The agents of this binary have none, so an
//! agent in the test's process has left the session with actions of its sub-agents.

use loopwright_core::GenericAgent;
use loopwright_core::testing::{Script, ScriptedModel, TestTool};
use loopwright_core::tool::{AskUser, Effect};
use loopwright_patterns::PiPattern;
use loopwright_test_support::process::project;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BIN;
use crate::questions::waiting;

/// Returns an agent whose first reply is this call.
fn calling(name: &str, arguments: Value) -> GenericAgent {
    let model = ScriptedModel::new([Script::calls([("p", name, arguments)])]);
    let pay = TestTool::new("pay").effect(Effect::AtMostOnce);
    GenericAgent::builder(model, PiPattern).tool(pay).tool(AskUser::new()).build().unwrap()
}

/// Creates the session `s`, in which alice and bob wait for decisions.
fn waits(project: &TempDir) {
    let task = json!({ "task": "Do your part." });
    let calls = Script::calls([("a", "alice", task.clone()), ("b", "bob", task)]);
    let asks = json!({ "question": "Which\ncolour?", "options": ["red", "blue"] });
    let agent = GenericAgent::builder(ScriptedModel::new([calls]), PiPattern)
        .child("alice", "Pays.", calling("pay", json!({ "amount": 3 })))
        .child("bob", "Paints.", calling("ask_user", asks));
    waiting(project, agent);
}

/// C171: Lists name the sub-agent that needs a decision, and no list has its session.
#[test]
fn actions_name_the_sub_agent() {
    let project = project();
    waits(&project);
    let listed = BIN.run(&project, &["actions"]);
    let mut lines: Vec<&str> = listed.out.lines().collect();
    lines.sort_unstable(); // they need decisions at the same time
    assert!(lines[0].starts_with("s  a~p  "), "{listed:?}");
    assert!(lines[0].ends_with("  alice: pay {\"amount\":3}"), "{listed:?}");
    assert!(lines[1].ends_with("  bob: Which colour? (1 red, 2 blue)"), "{listed:?}");
    let json = BIN.run(&project, &["actions", "--json", "--tool", "pay"]);
    let action: Value = serde_json::from_str(json.out.trim()).unwrap();
    assert_eq!((&action["path"], &action["call"]), (&json!(["alice"]), &json!("a~p")));
    let sessions = BIN.run(&project, &["sessions", "list"]);
    let note = "1 call and 1 question wait; asks: bob: Which colour? (1 red, 2 blue)";
    assert!(sessions.out.contains(note), "{sessions:?}");
    assert_eq!(sessions.out.lines().count(), 1, "{sessions:?}");
}

/// C171: A decision for a sub-agent needs an agent that has it; another one changes nothing.
#[test]
fn actions_of_sub_agents_need_an_agent_that_has_them() {
    let project = project();
    waits(&project);
    let before = BIN.run(&project, &["sessions", "export", "s"]).out;
    for args in [
        &["approve", "s", "a~p", "--model", "offline"][..],
        &["deny", "s", "a~p", "--reason", "too much", "--model", "offline"],
        &["answer", "s", "b~p", "2", "--model", "offline"],
    ] {
        let refused = BIN.run(&project, args);
        assert_eq!(refused.code, 2, "{args:?}: {refused:?}");
        assert!(refused.err.contains("the agent has no sub-agent `"), "{refused:?}");
    }
    let wrong = BIN.run(&project, &["approve", "s", "b~p", "--model", "offline"]);
    assert!(wrong.code == 2 && wrong.err.contains("`loopwright answer s b~p`"), "{wrong:?}");
    assert_eq!(BIN.run(&project, &["actions"]).out.lines().count(), 2, "nothing has changed");
    let after = BIN.run(&project, &["sessions", "export", "s"]).out;
    let decided = |log: &str| log.contains("\"decided\"");
    assert!(after.starts_with(&before) && !decided(&after), "{after}");
}

/// C171: The session of a sub-agent can be shown. Whatever would open, change or delete it says
/// which session to open, and ends with 2.
#[test]
fn the_session_of_a_sub_agent_names_its_root() {
    let project = project();
    waits(&project);
    let shown = BIN.run(&project, &["sessions", "show", "s/m2.1"]);
    assert!(shown.code == 0 && shown.out.contains("Do your part."), "{shown:?}");
    for args in [
        &["approve", "s/m2.1", "p"][..],
        &["deny", "s/m2.1", "p"],
        &["answer", "s/m2.2", "p", "2"],
        &["actions", "s/m2.1"],
        &["run", "--session", "s/m2.1", "--model", "offline", "Go on."],
        &["chat", "--session", "s/m2.1", "--model", "offline"],
        &["sessions", "delete", "s/m2.1"],
        &["sessions", "fork", "s/m2.1"],
    ] {
        let refused = BIN.run(&project, args);
        assert_eq!(refused.code, 2, "{args:?}: {refused:?}");
        assert!(refused.err.contains("belongs to a sub-agent: open `s` instead"), "{refused:?}");
    }
    assert_eq!(BIN.run(&project, &["actions"]).out.lines().count(), 2);
}

/// C171: In the line chat, the question names the sub-agent. Its tools are not allowed for the rest
/// of the session, and an answer that the agent cannot pass on is refused.
#[test]
fn a_line_decides_for_a_sub_agent() {
    let project = project();
    waits(&project);
    let mut chat = BIN.start(&project, &["chat", "--session", "s", "--model", "offline"]);
    chat.err.until("? alice: pay {\"amount\":3}\nRun it? [y]es [n]o [e]dit:");
    chat.line("a");
    chat.err.until("e [JSON]      run it with these arguments instead\nRun it?");
    let exit = chat.close();
    assert!(exit.code == 0 && exit.err.contains("`loopwright approve s a~p --digest "), "{exit:?}");
    assert!(exit.err.contains("? alice: pay {\"amount\":3} (call a~p)"), "{exit:?}");

    let project = loopwright_test_support::process::project();
    let asks = json!({ "question": "Which\ncolour?", "options": ["red", "blue"] });
    let calls = Script::calls([("b", "bob", json!({ "task": "Paint." }))]);
    let agent = GenericAgent::builder(ScriptedModel::new([calls]), PiPattern);
    waiting(&project, agent.child("bob", "Paints.", calling("ask_user", asks)));
    let mut chat = BIN.start(&project, &["chat", "--session", "s", "--model", "offline"]);
    chat.err.until("? bob: Which\ncolour?\n  1. red\n  2. blue\nYour answer");
    chat.line("blue");
    chat.err.until("the agent has no sub-agent `bob`");
    chat.close();
    assert_eq!(BIN.run(&project, &["actions"]).code, 0, "nothing has changed");
}
