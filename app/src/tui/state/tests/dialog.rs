//! The keys that decide about a call, and the display of the call.

use crossterm::event::KeyEventKind;
use loopwright_core::AgentEvent;
use loopwright_core::event::Envelope;
use loopwright_core::message::{ResultStatus, RunId};

use super::*;

/// Presses a key after a delay in milliseconds.
fn after(state: &mut State, wait: u64, code: KeyCode) -> Vec<Effect> {
    state.now += wait;
    state.key(KeyEvent::from(code))
}

fn edit(call: &str) -> ExternalAction {
    ExternalAction::new(call, "edit_file", json!({ "path": "a" }), "d")
}

/// Reports that a call has run.
fn ran(state: &mut State, call: &str) -> Vec<Effect> {
    let result = serde_json::from_value(json!({
        "id": "m9", "role": "tool_result", "call": call, "name": "edit_file", "status": "ok",
        "content": [],
    }));
    let (status, result) = (ResultStatus::Ok, Arc::new(result.unwrap()));
    let event = AgentEvent::ToolExecutionEnd {
        call: call.into(),
        name: "edit_file".into(),
        status,
        is_error: false,
        result,
    };
    state.event(&Envelope::new(0, "s", RunId(1), state.now, event))
}

const Y: KeyCode = KeyCode::Char('y');

/// C130: a draft started half a second after Enter decides nothing, however long it continues, and
/// is not lost.
#[test]
fn a_draft_started_while_a_call_is_presented_goes_into_the_prompt() {
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
    assert_eq!(after(&mut state, 699, Y), [], "it has just been presented");
    assert_eq!(decided(&after(&mut state, 700, Y)[0]), &Decision::Approve);
}

/// C130: a held key decides about one call, even where the terminal repeats it late, and so does a
/// double tap.
#[test]
fn a_key_that_is_held_or_tapped_twice_answers_one_call() {
    for first in [10, 250, 500, 650] {
        let mut state = working();
        asked(&mut state, &[action("c1", "diff"), action("c2", "diff")]);
        assert_eq!(decided(&after(&mut state, 1_000, Y)[0]), &Decision::Approve);
        assert!(is_preview(&state.dialog.close(&"c1".into(), state.now)));
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
    assert_eq!(state.key(held), [], "the terminal reports a held key");
}

#[test]
fn an_early_enter_does_not_submit_the_input_of_a_tool() {
    let mut state = working();
    let need = ActionRequest::new("login", json!(null));
    asked(&mut state, &[action("c1", "mail").request(Arc::new(need))]);
    assert_eq!(after(&mut state, 300, KeyCode::Enter), []);
    assert_eq!(after(&mut state, 300, KeyCode::Char('7')), []);
    assert_eq!(after(&mut state, 300, KeyCode::Enter), []);
    assert_eq!(
        decided(&after(&mut state, 800, KeyCode::Enter)[0]),
        &Decision::Provide(Provided::Input(json!("7")))
    );
}

#[test]
fn the_end_of_ignoring_keys_is_shown_in_time() {
    let mut state = idle();
    asked(&mut state, &[action("c1", "diff")]);
    assert!(state.needs_ticks() && state.dialog.ignores_keys(state.now));
    assert!(!state.tick(state.now + 650));
    assert!(state.tick(state.now + 60));
    assert!(!state.needs_ticks() && !state.dialog.ignores_keys(state.now));
}

/// C133: the diff of a call is computed when it is presented, when a previous call has run, and
/// when the user returns to it.
#[test]
fn the_diff_of_an_edit_is_computed_when_its_turn_comes() {
    let mut state = working();
    let (first, second) = (edit("c1"), edit("c2"));
    let preview = |action: &ExternalAction| [Effect::Preview(Box::new(action.clone()))];
    assert_eq!(asked(&mut state, &[first.clone(), second.clone()]), preview(&first));
    state.outcome(Outcome::Preview(first.clone(), Ok("one".into())));
    key(&mut state, Y);
    assert_eq!(state.dialog.close(&"c1".into(), state.now), preview(&second));
    assert_eq!(state.dialog.preview(), None);
    state.outcome(Outcome::Preview(first, Ok("one".into())));
    assert_eq!(state.dialog.preview(), None, "it belongs to the other call");
    state.outcome(Outcome::Preview(second.clone(), Ok("old".into())));
    assert_eq!(ran(&mut state, "c1"), preview(&second));
    state.now += 1_000;
    state.outcome(Outcome::Preview(second.clone(), Ok("new".into())));
    assert_eq!(after(&mut state, 100, Y), [], "it was meant for the previous diff");
    key(&mut state, KeyCode::Esc);
    assert_eq!(key(&mut state, KeyCode::Tab), preview(&second));
}

/// C129: Ctrl-C clears the input of the dialog, not the draft in the prompt; Up restores what it
/// clears from the prompt.
#[test]
fn control_c_clears_the_visible_input() {
    let mut state = working();
    types(&mut state, "draft");
    asked(&mut state, &[action("c1", "diff")]);
    key(&mut state, KeyCode::Tab);
    key(&mut state, KeyCode::Char('n'));
    types(&mut state, "because");
    assert_eq!(control(&mut state, 'c'), []);
    assert_eq!(
        (state.dialog.input_mut().unwrap().text(), state.prompt.text()),
        (String::new(), "draft".into())
    );
    key(&mut state, KeyCode::Esc);
    assert_eq!(control(&mut state, 'c'), [Effect::Abort(state.last_run)]);
    assert_eq!(state.prompt.text(), "draft");
    state.tick(state.now + 2_000);
    key(&mut state, KeyCode::Esc);
    assert_eq!(control(&mut state, 'c'), []);
    assert!(state.prompt.is_empty());
    key(&mut state, KeyCode::Up);
    assert_eq!(state.prompt.text(), "draft");
}

#[test]
fn a_dialog_can_be_closed_after_a_decision_was_sent() {
    let mut state = working();
    asked(&mut state, &[action("c1", "diff")]);
    key(&mut state, Y);
    assert!(state.dialog.sent);
    key(&mut state, KeyCode::Esc);
    assert!(!state.dialog.is_open());
    types(&mut state, "and");
    state.outcome(Outcome::Refused { call: "c1".into(), why: "no".into() });
    assert!(!state.dialog.is_open(), "the user writes something else");
    let mut state = working();
    asked(&mut state, &[action("c1", "diff")]);
    key(&mut state, Y);
    state.outcome(Outcome::NotOpened { why: "The session has ended.".into(), closed: true });
    assert_eq!(state.dialog.waiting(), 0);
    types(&mut state, "x");
    assert_eq!(state.prompt.text(), "x");
}

#[test]
fn escape_closes_a_popup_without_choices() {
    let mut state = working();
    types(&mut state, "@");
    assert!(state.popup.as_ref().unwrap().is_loading);
    assert_eq!(key(&mut state, KeyCode::Esc), []);
    assert!(state.popup.is_none());
    types(&mut state, "zzz");
    state.outcome(Outcome::Listed(Source::Files, vec![Choice::new("a", "")]));
    assert!(state.popup.as_ref().unwrap().is_visible());
    assert_eq!(key(&mut state, KeyCode::Esc), []);
    assert!(state.popup.is_none());
    assert_eq!(key(&mut state, KeyCode::Esc), [Effect::Abort(state.last_run)]);
}

#[test]
fn an_unknown_command_stays_in_the_prompt() {
    let mut state = idle();
    types(&mut state, "/tmp is full, clean it");
    assert_eq!(key(&mut state, KeyCode::Enter), [Effect::Scroll(Scroll::Bottom)]);
    assert_eq!(state.prompt.text(), "/tmp is full, clean it");
    let entry = state.transcript.entries().last().unwrap();
    assert!(
        matches!(&entry.kind, Kind::Notice(_, text) if text.contains("`/tmp` is not a command")),
        "{entry:?}"
    );
    state.prompt.set(" /tmp is full, clean it");
    assert_eq!(
        sent(&key(&mut state, KeyCode::Enter)),
        &Effect::Prompt("/tmp is full, clean it".into())
    );
}

/// C130: "always" does not decide about a protected file that the user has not seen.
#[test]
fn always_leaves_calls_open_that_change_a_protected_file() {
    let edit = |call: &str, path: &str| {
        ExternalAction::new(call, "write_file", json!({ "path": path, "content": "" }), "d")
    };
    let hook = ".git/hooks/pre-commit";
    let mut state = working();
    asked(&mut state, &[edit("c1", "a"), edit("c2", hook), edit("c3", "b")]);
    let effects = key(&mut state, KeyCode::Char('a'));
    assert_eq!(effects.len(), 3, "{effects:?}");
    for call in ["c1", "c3"] {
        state.dialog.close(&call.into(), state.now);
    }
    state.now += 700;
    assert_eq!(state.dialog.current().unwrap().call, "c2".into());
    let effects = key(&mut state, KeyCode::Char('a'));
    assert_eq!(effects.len(), 2, "it is the one that is shown: {effects:?}");
}
