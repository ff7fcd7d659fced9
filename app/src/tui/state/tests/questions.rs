//! The keys that answer a question.

use loopwright_core::tool::Question;

use super::*;

/// Returns the action that asks the question.
fn asks(question: &Question) -> ExternalAction {
    let data = serde_json::to_value(question).unwrap();
    action("c1", "ask_user").request(Arc::new(ActionRequest::new("question", data)))
}

/// Returns a state in which the question is asked, and keys are no longer ignored.
fn asking(question: &Question) -> State {
    let mut state = working();
    asked(&mut state, &[asks(question)]);
    state.now += 1_000;
    state
}

fn provided(effects: &[Effect]) -> serde_json::Value {
    let [effect] = effects else { panic!("{effects:?}") };
    let Decision::Provide(Provided::Input(input)) = decided(effect) else { panic!("{effect:?}") };
    input.clone()
}

/// C157: An option is chosen with arrows or its number, and sent with Enter.
#[test]
fn one_option_is_chosen() {
    let question = Question::choice("Which?", ["red", "green", "blue"]);
    for (keys, expected) in [
        (vec![], "red"),
        (vec![KeyCode::Down, KeyCode::Down, KeyCode::Down, KeyCode::Up], "green"),
        (vec![KeyCode::End], "blue"),
        (vec![KeyCode::Char('2')], "green"),
        (vec![KeyCode::Char('3'), KeyCode::Char('9'), KeyCode::Char('0')], "blue"),
        (vec![KeyCode::Char('y'), KeyCode::Char(' ')], "red"),
    ] {
        let mut state = asking(&question);
        for code in keys {
            assert_eq!(key(&mut state, code), []);
        }
        assert_eq!(provided(&key(&mut state, KeyCode::Enter)), json!(expected));
        assert!(state.dialog.sent);
    }
}

/// C157: Several options are toggled with Space or their numbers.
#[test]
fn several_options_are_chosen() {
    let question = Question::several("Which?", ["red", "green", "blue"]);
    for (keys, expected) in [
        (vec![], json!([])),
        (vec![KeyCode::Char(' '), KeyCode::Down, KeyCode::Down, KeyCode::Char(' ')], {
            json!(["red", "blue"])
        }),
        (vec![KeyCode::Char('3'), KeyCode::Char('1'), KeyCode::Char('3')], json!(["red"])),
    ] {
        let mut state = asking(&question);
        for code in keys {
            assert_eq!(key(&mut state, code), []);
        }
        assert_eq!(provided(&key(&mut state, KeyCode::Enter)), expected);
    }
}

/// C157: JSON that does not fit, or no text, is not sent: the dialog says why.
#[test]
fn what_does_not_fit_is_not_sent() {
    let mut state = asking(&Question::json::<Vec<u32>>("Which?"));
    for (text, why) in [("[", "not valid JSON"), ("1, \"x\"]", "is not of type")] {
        types(&mut state, text);
        assert_eq!(key(&mut state, KeyCode::Enter), []);
        let problem = state.dialog.problem.clone().unwrap();
        assert!(problem.contains(why), "{problem}");
    }
    assert!(!state.dialog.sent);
    state.dialog.clear_input();
    types(&mut state, "[7]");
    assert_eq!(provided(&key(&mut state, KeyCode::Enter)), json!([7]));
    assert_eq!(state.dialog.problem, None);

    let mut state = asking(&Question::text("Which?"));
    assert_eq!(key(&mut state, KeyCode::Enter), []);
    let problem = state.dialog.problem.clone().unwrap();
    assert!(problem.contains("The answer is empty."), "{problem}");
    types(&mut state, " a dark one ");
    assert_eq!(provided(&key(&mut state, KeyCode::Enter)), json!("a dark one"));
}

/// C157: A secret is sent as it was typed, spaces included, and is recalled nowhere.
#[test]
fn a_secret_is_sent_as_typed() {
    let mut state = asking(&Question::secret("The password?"));
    types(&mut state, " hunter2 ");
    assert_eq!(provided(&key(&mut state, KeyCode::Enter)), json!(" hunter2 "));
    state.dialog.close(&"c1".into(), state.now);
    assert_eq!(state.dialog.input_mut().map(|input| input.text()), None);
    key(&mut state, KeyCode::Up);
    assert!(state.prompt.is_empty());
}

/// C157: A question is declined with a reason, or postponed; Esc returns from the reason to what
/// was chosen or typed.
#[test]
fn a_question_is_declined_with_a_reason_or_postponed() {
    let mut state = asking(&Question::choice("Which?", ["red", "green"]));
    key(&mut state, KeyCode::Down);
    key(&mut state, KeyCode::Char('n'));
    assert!(matches!(state.dialog.mode, Mode::Reason(_)));
    key(&mut state, KeyCode::Esc);
    assert_eq!(provided(&key(&mut state, KeyCode::Enter)), json!("green"));

    let mut state = asking(&Question::text("Which?"));
    types(&mut state, "now");
    assert_eq!(control(&mut state, 'x'), []);
    key(&mut state, KeyCode::Esc);
    assert_eq!(provided(&key(&mut state, KeyCode::Enter)), json!("now"));

    let mut state = asking(&Question::text("Which?"));
    control(&mut state, 'x');
    types(&mut state, "neither");
    let effects = key(&mut state, KeyCode::Enter);
    assert_eq!(decided(&effects[0]), &Decision::Deny("neither".into()));

    let mut state = asking(&Question::choice("Which?", ["red", "green"]));
    key(&mut state, KeyCode::Esc);
    assert!(!state.dialog.is_open() && state.dialog.waiting() == 1);
}

/// C157: Keys that were meant for something else answer nothing.
#[test]
fn early_keys_answer_nothing() {
    let mut state = working();
    asked(&mut state, &[asks(&Question::choice("Which?", ["red", "green"]))]);
    assert_eq!(state.key(KeyEvent::from(KeyCode::Enter)), []);
    assert!(!state.dialog.sent);
    assert_eq!(provided(&key(&mut state, KeyCode::Enter)), json!("red"));
}
