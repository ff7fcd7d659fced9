//! What a dialog shows of a call, beyond the snapshots.

use loopwright_core::event::ExternalAction;
use loopwright_core::message::CallId;
use loopwright_core::tool::ActionRequest;
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
