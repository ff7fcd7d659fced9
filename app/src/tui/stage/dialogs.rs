//! The content of dialogs, beyond the snapshots.

use crossterm::event::{KeyCode, KeyEvent};
use loopwright_core::event::ExternalAction;
use loopwright_core::message::CallId;
use loopwright_core::tool::{ActionRequest, ActionTerms, ApprovalRecord};
use serde_json::{Value, json};

use super::*;

async fn asked(
    size: (u16, u16),
    name: &str,
    arguments: Value,
    need: Option<ActionRequest>,
) -> (Stage, ExternalAction) {
    let mut stage = Stage::new(size, [], |agent| agent).await;
    let call = CallId::from("c1");
    let need = need.map(Arc::new);
    let action = ExternalAction::new(call, name, arguments, "d").request(need);
    stage.state.dialog.open(&action, BEGIN, false);
    (stage, action)
}

#[tokio::test]
async fn arguments_that_a_diff_does_not_show_are_listed_below_it() {
    let arguments = json!({
        "path": "a.txt", "old_string": "b", "new_string": "B", "replace_all": true, "mode": "x",
    });
    let (mut stage, action) = asked(USUAL, "edit_file", arguments, None).await;
    stage.outcome(Outcome::Preview(action.clone(), Ok("@@ -1 +1 @@\n-b\n+B\n".into()))).await;
    let screen = stage.screen();
    assert!(
        screen.contains("+ B")
            && screen.contains("replace_all: true")
            && screen.contains("mode: x"),
        "{screen}"
    );
    assert!(!screen.contains("old_string"), "{screen}");
    stage.outcome(Outcome::Preview(action, Ok(String::new()))).await;
    let screen = stage.screen();
    assert!(
        screen.contains("No change")
            && screen.contains("replace_all: true")
            && screen.contains("- b"),
        "{screen}"
    );
}

#[tokio::test]
async fn a_suspended_call_shows_its_arguments_below_the_input_it_needs() {
    let need = ActionRequest::new("login", json!("Enter the code."));
    let (mut stage, _) = asked(USUAL, "mail", json!({ "to": "bob@example.com" }), Some(need)).await;
    let screen = stage.screen();
    let (code, to) =
        (screen.find("Enter the code.").unwrap(), screen.find("to: bob@example.com").unwrap());
    assert!(code < to, "{screen}");
}

#[tokio::test]
async fn a_refusal_is_wrapped_and_every_answer_is_visible() {
    for size in [(30, 20), NARROW, USUAL] {
        let (mut stage, _) = asked(size, "execute_command", json!({ "command": "ls" }), None).await;
        assert!(!stage.screen().contains("› y"), "keys are ignored at first");
        let why = "the answer was meant for another call than the one that is asked about, which \
            has changed since";
        stage.outcome(Outcome::Refused { call: "c1".into(), why: why.into() }).await;
        stage.wait(Duration::from_secs(1));
        let screen = stage.screen();
        let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("which has changed since."), "{screen}");
        assert!(
            words.contains("› y yes") && words.contains("a always execute_command"),
            "{screen}"
        );
        assert!(words.contains("Esc later"), "{screen}");
    }
}

#[tokio::test]
async fn a_protected_file_is_named_with_the_reason() {
    let arguments = json!({ "path": "a/../.git/hooks/pre-commit", "content": "" });
    let (mut stage, _) = asked(USUAL, "write_file", arguments, None).await;
    let screen = stage.screen();
    assert!(screen.contains("is a protected file: git runs the files in it"), "{screen}");
    assert!(screen.contains("path: a/../.git/hooks/pre-commit"), "{screen}");
}

/// C245: the dialog shows what the approver needs, offers only what the action allows, and takes no
/// key for the rest; it shows approvals as they arrive.
#[tokio::test]
async fn a_dialog_shows_the_terms_and_offers_what_they_allow() {
    let mut stage = Stage::new(USUAL, [], |agent| agent).await;
    let mut terms = ActionTerms::default();
    terms.description = Some("Pays an invoice.".into());
    terms.deadline = Some(BEGIN + 9 * 60_000 + 30_000);
    terms.quorum = 2;
    let action = ExternalAction::new("c1", "pay", json!({ "euros": 7 }), "d").terms(terms);
    stage.state.dialog.open(&action, BEGIN, false);
    stage.wait(Duration::from_secs(1));
    let screen = stage.screen();
    for text in [
        "Pays an invoice.",
        "denied by default",
        "(in 9 min)",
        "needs 2 approvals",
        "y yes   n no   a always pay   Esc later",
    ] {
        assert!(screen.contains(text), "{text}: {screen}");
    }
    let approval: ApprovalRecord =
        serde_json::from_value(json!({ "by": "ann", "time": 1 })).unwrap();
    stage.state.dialog.approved(&"c1".into(), &approval);
    stage.wait(Duration::from_secs(9 * 60));
    let screen = stage.screen();
    assert!(screen.contains("1 of 2 approvals so far: ann"), "{screen}");
    assert!(screen.contains("(in 29 s)"), "{screen}");
    let edit = KeyEvent::from(KeyCode::Char('e'));
    let now = stage.state.now;
    assert_eq!(stage.state.dialog.key(edit, now, 80), []);
}
