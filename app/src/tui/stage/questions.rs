//! Questions on the screen, and their answers.

use insta::assert_snapshot;
use loopwright_core::event::ExternalAction;
use loopwright_core::testing::Script;
use loopwright_core::tool::{ActionRequest, AskUser, Question};
use serde_json::{Value, json};

use super::*;

/// Returns a stage on which a question of this form is asked.
async fn asked(size: (u16, u16), question: &Question) -> Stage {
    let mut stage = Stage::new(size, [], |agent| agent).await;
    let data = serde_json::to_value(question).unwrap();
    let request = Arc::new(ActionRequest::new("question", data));
    let action = ExternalAction::new("c1", "ask_user", Value::Null, "d").request(request);
    stage.state.dialog.open(&action, BEGIN, false);
    stage.wait(Duration::from_secs(1));
    stage
}

#[tokio::test]
async fn a_question_of_a_model_is_answered() {
    let asks = json!({
        "question": "Which colour should the door have?",
        "options": ["red", "dark blue, as the windows have been since the house was built"],
    });
    let replies = [Script::calls([("c1", "ask_user", asks)]), Script::text("Dark blue.")];
    let mut stage = Stage::new(NARROW, replies, |agent| agent.tool(AskUser::new())).await;
    stage.enter("Paint the door").await;
    stage.run_end().await;
    stage.wait(Duration::from_secs(1));
    stage.press(KeyCode::Down).await;
    assert_snapshot!("a_choice", stage.styled());
    stage.press(KeyCode::Enter).await;
    stage.run_end().await;
    assert_snapshot!("a_question_that_was_answered", stage.screen());
}

#[tokio::test]
async fn several_options_are_shown_with_their_marks() {
    let question = Question::several("Which rooms?", ["kitchen", "bath", "hall"]);
    let mut stage = asked(USUAL, &question).await;
    stage.press(KeyCode::Char('2')).await;
    stage.press(KeyCode::Down).await;
    assert_snapshot!("several", stage.screen());
    stage.press(KeyCode::Char('n')).await;
    stage.types("none of them").await;
    assert_snapshot!("a_question_that_is_declined", stage.screen());
}

/// C157: A secret is shown as dots.
#[tokio::test]
async fn a_secret_is_shown_as_dots() {
    let mut stage = asked(USUAL, &Question::secret("The password of the server?")).await;
    stage.types("hunter2").await;
    let screen = stage.screen();
    assert!(!screen.contains("hunter2") && screen.contains("•••••••"), "{screen}");
    assert_snapshot!("a_secret", screen);
}

#[tokio::test]
async fn json_is_checked_before_it_is_sent() {
    let mut stage = asked(USUAL, &Question::json::<Vec<u32>>("How many in each room?")).await;
    stage.enter("[1, \"x\"]").await;
    assert_snapshot!("json_that_does_not_fit", stage.screen());
}

/// The current option is visible, however many there are, and control characters are not obeyed.
#[tokio::test]
async fn the_current_option_is_visible() {
    let options: Vec<String> = (1..=40).map(|n| format!("option {n}\x1b[2J")).collect();
    let mut stage = asked(NARROW, &Question::choice("Which?", options)).await;
    assert!(stage.screen().contains("Which?"));
    for _ in 0..29 {
        stage.press(KeyCode::Down).await;
    }
    let screen = stage.screen();
    assert!(screen.contains("› 30. option 30"), "{screen}");
    assert!(!screen.contains('\x1b'), "{screen}");
    stage.press(KeyCode::Home).await;
    assert!(stage.screen().contains("› 1. option 1"));
}
