//! The tool by which a model asks the user.

use crate::kit::*;

/// Returns a session whose model asks with these arguments and then replies.
async fn asking(arguments: serde_json::Value) -> Harness {
    let replies = [Script::calls([("c1", "ask_user", arguments)]), Script::text("I see.")];
    let harness = Harness::new(PiPattern, replies, |a| a.tool(AskUser::new())).await;
    harness.handle.prompt("Paint.").await.unwrap();
    harness
}

fn input(answer: impl Into<serde_json::Value>) -> Decision {
    Decision::Provide(Provided::Input(answer.into()))
}

/// C154: A question of a model is a pending action like a pattern's question: another process
/// answers it, and the answer is the result of the call.
#[tokio::test(start_paused = true)]
async fn a_question_of_a_model_waits_for_its_answer() {
    let options = json!(["red", "blue"]);
    for (arguments, answer, expected) in [
        (json!({"question": "Which?"}), json!("a red one"), "a red one"),
        (json!({"question": "Which?", "options": options}), json!("blue"), "blue"),
        (
            json!({"question": "Which?", "options": options, "several": true}),
            json!(["blue", "red"]),
            "blue, red",
        ),
        (json!({"question": "Which?", "schema": {"type": "integer"}}), json!(7), "7"),
    ] {
        let harness = asking(arguments).await.restart().await;
        let pending = harness.pending().await;
        assert_eq!(pending[0].question().map(|q| q.question), Some("Which?".into()));
        harness.resolve(0, input(answer)).await.unwrap();
        harness.handle.wait_for_idle().await;
        assert_eq!(sent(&harness, 1).last().unwrap(), expected);
        harness.check().await;
        check_log(&harness.memory.entries()).unwrap();
    }
}

/// C154: An answer that does not match is refused. The question can be declined, which is reported
/// to the model.
#[tokio::test(start_paused = true)]
async fn an_answer_to_a_model_is_checked_and_can_be_declined() {
    let harness = asking(json!({"question": "Which?", "options": ["red", "blue"]})).await;
    for wrong in [input("green"), input(1), Decision::Approve] {
        let before = harness.memory.entries().len();
        let refused = harness.resolve(0, wrong.clone()).await;
        assert!(matches!(refused, Err(InputError::BadDecision(_))), "{wrong:?}: {refused:?}");
        assert_eq!(harness.memory.entries().len(), before);
    }
    harness.resolve(0, Decision::Deny("neither".into())).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(sent(&harness, 1).last().unwrap(), "Denied by the user: neither");
    harness.check().await;
}

/// C154: A question that cannot be asked is an error for the model, with advice.
#[tokio::test(start_paused = true)]
async fn a_question_that_cannot_be_asked_is_an_error_for_the_model() {
    for (arguments, expected) in [
        (json!({"question": "Which?", "options": ["a", "a"]}), "it has the option `a` twice"),
        (json!({"question": "Which?", "schema": {"type": 7}}), "cannot be asked"),
        (json!({"question": "Which?", "form": "secret"}), "/form: not a property of this tool"),
    ] {
        let harness = asking(arguments).await;
        assert_eq!(harness.pending().await, []);
        let result = sent(&harness, 1).pop().unwrap();
        assert!(result.contains(expected), "{result}");
        harness.check().await;
    }
}
