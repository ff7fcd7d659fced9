//! Which keys answer a call, and what is shown of it when.

use crossterm::event::KeyEventKind;
use loopwright_core::event::Envelope;
use loopwright_core::message::{ResultStatus, RunId};
use loopwright_core::tool::ActionRequest;

use super::*;

/// After so many milliseconds.
fn after(state: &mut State, wait: u64, code: KeyCode) -> Vec<Effect> {
    state.now += wait;
    state.key(KeyEvent::from(code))
}

fn edit(call: &str) -> ExternalAction {
    ExternalAction { arguments: Arc::new(json!({ "path": "a" })), ..action(call, "edit_file") }
}

/// This call has run.
fn ran(state: &mut State, call: &str) -> Vec<Effect> {
    let result = serde_json::from_value(json!({
        "id": "m9", "role": "tool_result", "call": call, "name": "edit_file", "status": "ok", "content": [] }));
    let (status, result) = (ResultStatus::Ok, Arc::new(result.unwrap()));
    let event = AgentEvent::ToolExecutionEnd {
        call: call.into(),
        name: "edit_file".into(),
        status,
        is_error: false,
        result,
    };
    let (session_id, run_id) = ("s".into(), RunId(1));
    state.event(&Envelope { seq: 0, session_id, run_id, parent: None, time: state.now, event })
}

const Y: KeyCode = KeyCode::Char('y');

/// C130: a draft that is begun half a second after Enter answers nothing, however long it goes on,
/// and is not lost.
#[test]
fn a_draft_that_is_begun_while_a_call_is_put_goes_into_the_prompt() {
    let mut state = working();
    types(&mut state, "go on");
    key(&mut state, KeyCode::Enter);
    state.dialog.open(&action("c1", "diff"), state.now + 400, false);
    state.now += 500;
    for letter in "half a draft, yes".chars() {
        assert_eq!(after(&mut state, 120, KeyCode::Char(letter)), []);
    }
    assert_eq!(state.prompt.text(), "half a draft, yes");
    assert!(!state.dialog.is_open() && state.dialog.waiting() == 1);
    key(&mut state, KeyCode::Tab);
    assert_eq!(after(&mut state, 699, Y), [], "it has just come back");
    assert_eq!(decided(&after(&mut state, 700, Y)[0]), &Decision::Approve);
}

/// C130: a key that is held answers one call, also where the terminal repeats it late; so does a
/// double tap.
#[test]
fn a_key_that_is_held_or_tapped_twice_answers_one_call() {
    for first in [10, 250, 500, 650] {
        let mut state = working();
        asked(&mut state, &[action("c1", "diff"), action("c2", "diff")]);
        assert_eq!(decided(&after(&mut state, 1_000, Y)[0]), &Decision::Approve);
        assert_eq!(state.dialog.close(&"c1".into(), state.now), []);
        assert_eq!(after(&mut state, first, Y), [], "{first}");
        for _ in 0..100 {
            assert_eq!(after(&mut state, 33, Y), []);
        }
        assert!(state.dialog.is_open() && state.prompt.is_empty());
        assert_eq!(decided(&after(&mut state, 701, Y)[0]), &Decision::Approve);
    }
    let mut state = working();
    asked(&mut state, &[action("c1", "diff")]);
    let held = KeyEvent::new_with_kind(Y, KeyModifiers::NONE, KeyEventKind::Repeat);
    state.now += 5_000;
    assert_eq!(state.key(held), [], "the terminal tells that it is held");
}

#[test]
fn what_a_tool_needs_is_not_answered_by_an_early_enter() {
    let mut state = working();
    let need = ActionRequest { kind: "login".into(), data: json!(null) };
    asked(&mut state, &[ExternalAction { request: Some(Arc::new(need)), ..action("c1", "mail") }]);
    assert_eq!(after(&mut state, 300, KeyCode::Enter), []);
    assert_eq!(after(&mut state, 300, KeyCode::Char('7')), []);
    assert_eq!(after(&mut state, 300, KeyCode::Enter), []);
    assert_eq!(
        decided(&after(&mut state, 800, KeyCode::Enter)[0]),
        &Decision::Provide(Provided::Input(json!("7")))
    );
}

#[test]
fn that_answers_are_taken_again_is_shown_in_time() {
    let mut state = at_rest();
    asked(&mut state, &[action("c1", "diff")]);
    assert!(state.moves() && state.dialog.is_deaf(state.now));
    assert!(!state.tick(state.now + 650));
    assert!(state.tick(state.now + 60));
    assert!(!state.moves() && !state.dialog.is_deaf(state.now));
}

/// C133: the diff of a call is made when its turn comes, when a call before it has run, and when
/// the user turns to it.
#[test]
fn what_an_edit_would_do_is_looked_at_when_its_turn_comes() {
    let mut state = working();
    let (first, second) = (edit("c1"), edit("c2"));
    let look = |action: &ExternalAction| [Effect::Preview(Box::new(action.clone()))];
    assert_eq!(asked(&mut state, &[first.clone(), second.clone()]), look(&first));
    state.told(Told::Preview(first.clone(), Ok("one".into())));
    key(&mut state, Y);
    assert_eq!(state.dialog.close(&"c1".into(), state.now), look(&second));
    assert_eq!(state.dialog.preview(), None);
    state.told(Told::Preview(first, Ok("one".into())));
    assert_eq!(state.dialog.preview(), None, "that was the other's");
    state.told(Told::Preview(second.clone(), Ok("old".into())));
    assert_eq!(ran(&mut state, "c1"), look(&second));
    state.now += 1_000;
    state.told(Told::Preview(second.clone(), Ok("new".into())));
    assert_eq!(after(&mut state, 100, Y), [], "it was meant for the diff that was there");
    key(&mut state, KeyCode::Esc);
    assert_eq!(key(&mut state, KeyCode::Tab), look(&second));
}

/// C129: Ctrl-C clears what is written in the dialog, not the draft that is aside; what it clears
/// of the prompt comes back by Up.
#[test]
fn control_c_clears_what_is_seen() {
    let mut state = working();
    types(&mut state, "draft");
    asked(&mut state, &[action("c1", "diff")]);
    key(&mut state, KeyCode::Tab);
    key(&mut state, KeyCode::Char('n'));
    types(&mut state, "because");
    assert_eq!(control(&mut state, 'c'), []);
    assert_eq!(
        (state.dialog.writing().unwrap().text(), state.prompt.text()),
        (String::new(), "draft".into())
    );
    key(&mut state, KeyCode::Esc);
    assert_eq!(control(&mut state, 'c'), [Effect::Abort]);
    assert_eq!(state.prompt.text(), "draft");
    state.tick(state.now + 2_000);
    key(&mut state, KeyCode::Esc);
    assert_eq!(control(&mut state, 'c'), []);
    assert!(state.prompt.is_empty());
    key(&mut state, KeyCode::Up);
    assert_eq!(state.prompt.text(), "draft");
}

#[test]
fn a_dialog_whose_answer_is_on_its_way_can_be_left() {
    let mut state = working();
    asked(&mut state, &[action("c1", "diff")]);
    key(&mut state, Y);
    assert!(state.dialog.sent);
    key(&mut state, KeyCode::Esc);
    assert!(!state.dialog.is_open());
    types(&mut state, "and");
    state.told(Told::Refused { call: "c1".into(), why: "no".into() });
    assert!(!state.dialog.is_open(), "the user writes something else");
    let mut state = working();
    asked(&mut state, &[action("c1", "diff")]);
    key(&mut state, Y);
    state.told(Told::NotOpened { why: "The session has ended.".into(), closed: true });
    assert_eq!(state.dialog.waiting(), 0);
    types(&mut state, "x");
    assert_eq!(state.prompt.text(), "x");
}

#[test]
fn escape_closes_a_popup_that_has_nothing_to_offer() {
    let mut state = working();
    types(&mut state, "@");
    assert!(state.popup.as_ref().unwrap().waits);
    assert_eq!(key(&mut state, KeyCode::Esc), []);
    assert!(state.popup.is_none());
    types(&mut state, "zzz");
    state.told(Told::Listed(Source::Files, vec![Choice::new("a", "")]));
    assert!(state.popup.as_ref().unwrap().is_shown());
    assert_eq!(key(&mut state, KeyCode::Esc), []);
    assert!(state.popup.is_none());
    assert_eq!(key(&mut state, KeyCode::Esc), [Effect::Abort]);
}

#[test]
fn a_line_that_looks_like_a_command_is_kept() {
    let mut state = at_rest();
    types(&mut state, "/tmp is full, clean it");
    assert_eq!(key(&mut state, KeyCode::Enter), [Effect::Scroll(Scroll::Bottom)]);
    assert_eq!(state.prompt.text(), "/tmp is full, clean it");
    let said = state.transcript.entries().last().unwrap();
    assert!(
        matches!(&said.kind, Kind::Notice(_, text) if text.contains("`/tmp` is no command")),
        "{said:?}"
    );
    state.prompt.set(" /tmp is full, clean it");
    assert_eq!(
        sent(&key(&mut state, KeyCode::Enter)),
        &Effect::Prompt("/tmp is full, clean it".into())
    );
}
