//! Keys and what comes of them.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use loopwright_core::event::{Decision, ExternalAction, Provided};
use serde_json::json;
use std::sync::Arc;

use super::*;

mod dialog;

fn press(state: &mut State, modifiers: KeyModifiers, code: KeyCode) -> Vec<Effect> {
    state.now += 1_000; // nobody types faster here
    state.key(KeyEvent::new(code, modifiers))
}

fn key(state: &mut State, code: KeyCode) -> Vec<Effect> {
    press(state, KeyModifiers::NONE, code)
}

fn control(state: &mut State, letter: char) -> Vec<Effect> {
    press(state, KeyModifiers::CONTROL, KeyCode::Char(letter))
}

fn types(state: &mut State, text: &str) {
    for letter in text.chars() {
        key(state, KeyCode::Char(letter));
    }
}

/// At rest, in a session.
fn at_rest() -> State {
    let mut state = State::new(1_000_000);
    state.resize(80, 24);
    state.run = Run::Rest;
    state
}

fn working() -> State {
    let mut state = at_rest();
    state.work();
    state
}

fn sent(effects: &[Effect]) -> &Effect {
    &effects[0]
}

fn action(call: &str, name: &str) -> ExternalAction {
    ExternalAction {
        call: call.into(),
        name: name.into(),
        arguments: Arc::new(json!({ "command": "ls" })),
        digest: "d".into(),
        request: None,
    }
}

fn asked(state: &mut State, actions: &[ExternalAction]) -> Vec<Effect> {
    state.now += 1_000;
    let typing = !state.prompt.is_empty();
    actions.iter().flat_map(|action| state.dialog.open(action, state.now, typing)).collect()
}

fn decided(effect: &Effect) -> &Decision {
    let Effect::Decide { decision, .. } = effect else { panic!("{effect:?}") };
    decision
}

/// C128: at rest Enter asks; while the agent works it steers, Alt+Enter queues a follow-up, Up on
/// an empty prompt takes back what waits, and Esc interrupts once.
#[test]
fn while_it_works_keys_steer_queue_take_back_and_interrupt() {
    let mut state = at_rest();
    types(&mut state, "begin");
    assert_eq!(sent(&key(&mut state, KeyCode::Enter)), &Effect::Prompt("begin".into()));
    assert!(state.is_working() && state.prompt.is_empty());
    types(&mut state, "not so");
    assert_eq!(sent(&key(&mut state, KeyCode::Enter)), &Effect::Steer("not so".into()));
    types(&mut state, "then rest");
    assert_eq!(
        sent(&press(&mut state, KeyModifiers::ALT, KeyCode::Enter)),
        &Effect::FollowUp("then rest".into())
    );
    assert_eq!(key(&mut state, KeyCode::Up), []); // nothing waits, and nothing was sent before
    state.queues.0.push("not so".into());
    assert_eq!(key(&mut state, KeyCode::Up), [Effect::TakeBack]);
    state.told(Told::TakenBack(vec!["not so".into(), "then rest".into()]));
    assert_eq!(state.prompt.text(), "not so\nthen rest");
    assert_eq!(key(&mut state, KeyCode::Esc), [Effect::Abort]);
    assert_eq!(key(&mut state, KeyCode::Esc), []);
}

/// C129: Ctrl-C clears what is written or else interrupts, and a second one soon after leaves;
/// later it does not.
#[test]
fn control_c_clears_interrupts_and_leaves() {
    let mut state = working();
    types(&mut state, "no");
    assert_eq!(control(&mut state, 'c'), []);
    assert!(state.prompt.is_empty());
    assert_eq!(control(&mut state, 'c'), [Effect::Quit]);
    let mut state = working();
    assert_eq!(control(&mut state, 'c'), [Effect::Abort]);
    assert!(state.tick(state.now + 2_000));
    assert_eq!(control(&mut state, 'c'), []);
    assert_eq!(control(&mut state, 'c'), [Effect::Quit]);
    assert_eq!(control(&mut at_rest(), 'd'), [Effect::Quit]);
}

/// C130: a call that waits is answered with what was shown of it: yes, no with a reason, other
/// arguments, always. Keys that were meant for the prompt answer nothing.
#[test]
fn a_call_is_answered_by_keys_that_were_meant_for_it() {
    let mut state = working();
    asked(
        &mut state,
        &[action("c1", "execute_command"), action("c2", "execute_command"), action("c3", "diff")],
    );
    assert_eq!(state.dialog.place(), (1, 3));
    key(&mut state, KeyCode::Char('n'));
    types(&mut state, "too early");
    let effects = key(&mut state, KeyCode::Enter);
    assert_eq!(decided(&effects[0]), &Decision::Deny("too early".into()));
    assert_eq!(key(&mut state, KeyCode::Char('y')), [], "it is on its way");
    state.dialog.close(&"c1".into(), state.now);
    assert_eq!(state.dialog.place(), (2, 3));
    let effects = key(&mut state, KeyCode::Char('a'));
    assert_eq!(effects[0], Effect::Allow("execute_command".into()));
    assert_eq!((effects.len(), decided(&effects[1])), (2, &Decision::Approve));
    state.dialog.close(&"c2".into(), state.now);
    let effects = key(&mut state, KeyCode::Char('e'));
    assert!(
        matches!(&effects[0], Effect::Edit { json, .. } if json.contains("\"ls\"")),
        "{effects:?}"
    );
    assert_eq!(state.told(Told::Edited { call: "c3".into(), json: "{".into() }), []);
    assert!(state.dialog.problem.as_ref().unwrap().contains("not JSON"));
    let changed = Decision::ApproveWith(json!({ "command": "pwd" }));
    assert_eq!(
        state.told(Told::Edited { call: "c3".into(), json: "{\"command\": \"pwd\"}".into() }),
        []
    );
    assert_eq!(
        (state.dialog.problem.as_ref(), state.dialog.is_changed(&"c3".into())),
        (None, true)
    );
    assert_eq!(decided(&key(&mut state, KeyCode::Char('y'))[0]), &changed);
    state.told(Told::Refused { call: "c3".into(), why: "it does not fit".into() });
    assert_eq!(state.dialog.problem.as_deref(), Some("It does not fit."));
    assert_eq!(
        decided(&key(&mut state, KeyCode::Char('y'))[0]),
        &changed,
        "what is shown is what runs"
    );

    // Somebody types: the dialog waits until it is asked for.
    let mut state = working();
    types(&mut state, "wa");
    asked(&mut state, &[action("c1", "diff")]);
    types(&mut state, "y");
    assert_eq!(state.prompt.text(), "way");
    assert_eq!(sent(&key(&mut state, KeyCode::Enter)), &Effect::Steer("way".into()));
    key(&mut state, KeyCode::Tab);
    assert!(state.dialog.is_open());
    key(&mut state, KeyCode::Esc);
    assert!(!state.dialog.is_open() && state.dialog.waiting() == 1);

    // A key that is held down answers once.
    let mut state = working();
    asked(&mut state, &[action("c1", "diff"), action("c2", "diff")]);
    assert_eq!(decided(&key(&mut state, KeyCode::Char('y'))[0]), &Decision::Approve);
    state.dialog.close(&"c1".into(), state.now);
    for _ in 0..10 {
        state.now += 30;
        assert_eq!(state.key(KeyEvent::from(KeyCode::Char('y'))), []);
    }
    assert_eq!(decided(&key(&mut state, KeyCode::Char('y'))[0]), &Decision::Approve);

    // Somebody has typed a moment ago.
    let mut state = working();
    state.key(KeyEvent::from(KeyCode::Backspace));
    state.dialog.open(&action("c1", "diff"), state.now, false);
    assert_eq!(state.key(KeyEvent::from(KeyCode::Char('y'))), []);
    assert_eq!(decided(&key(&mut state, KeyCode::Char('y'))[0]), &Decision::Approve);
}

#[test]
fn what_a_suspended_tool_needs_is_asked_for() {
    let mut state = working();
    let need = loopwright_core::tool::ActionRequest {
        kind: "login".into(),
        data: json!("Enter the code."),
    };
    asked(&mut state, &[ExternalAction { request: Some(Arc::new(need)), ..action("c1", "mail") }]);
    types(&mut state, "1234");
    assert_eq!(
        decided(&key(&mut state, KeyCode::Enter)[0]),
        &Decision::Provide(Provided::Input(json!("1234")))
    );
}

#[test]
fn without_an_editor_arguments_are_edited_in_the_dialog() {
    let mut state = working();
    asked(&mut state, &[action("c1", "diff")]);
    state.told(Told::NoEditor { call: "c1".into(), json: "{}".into() });
    key(&mut state, KeyCode::Left);
    types(&mut state, "\"a\": 1");
    assert_eq!(control(&mut state, 's'), []);
    assert_eq!(
        decided(&key(&mut state, KeyCode::Char('y'))[0]),
        &Decision::ApproveWith(json!({ "a": 1 }))
    );
}

#[test]
fn lines_are_written_by_several_keys() {
    let mut state = at_rest();
    types(&mut state, "a\\");
    assert_eq!(key(&mut state, KeyCode::Enter), []);
    types(&mut state, "b");
    control(&mut state, 'j');
    types(&mut state, "c");
    press(&mut state, KeyModifiers::SHIFT, KeyCode::Enter);
    state.paste("d\r\ne\rf");
    assert_eq!(state.prompt.text(), "a\nb\nc\nd\ne\nf");
    assert_eq!(sent(&key(&mut state, KeyCode::Enter)), &Effect::Prompt("a\nb\nc\nd\ne\nf".into()));
}

#[test]
fn what_was_sent_comes_back_at_the_edge() {
    let mut state = at_rest();
    state.prompt.remember("first".into());
    state.prompt.remember("two\nlines".into());
    types(&mut state, "new");
    key(&mut state, KeyCode::Up);
    assert_eq!(state.prompt.text(), "two\nlines");
    key(&mut state, KeyCode::Up); // within it
    key(&mut state, KeyCode::Up);
    assert_eq!(state.prompt.text(), "first");
    key(&mut state, KeyCode::Up);
    assert_eq!(state.prompt.text(), "first");
    key(&mut state, KeyCode::Down);
    assert_eq!(state.prompt.text(), "two\nlines");
    key(&mut state, KeyCode::Down);
    assert_eq!(state.prompt.text(), "new");
}

#[test]
fn commands_and_files_are_completed() {
    let mut state = at_rest();
    types(&mut state, "/th");
    key(&mut state, KeyCode::Tab);
    assert_eq!(state.prompt.text(), "/thinking ");
    types(&mut state, "hi");
    assert_eq!(
        key(&mut state, KeyCode::Enter),
        [Effect::SwitchThinking(loopwright_core::model::ThinkingLevel::High)]
    );
    let mut state = at_rest();
    types(&mut state, "look at ");
    assert_eq!(key(&mut state, KeyCode::Char('@')), [Effect::List(Source::Files)]);
    let files = ["README.md", "src/main.rs", "src/parser.rs"].map(|name| Choice::new(name, ""));
    state.told(Told::Listed(Source::Files, files.to_vec()));
    types(&mut state, "par");
    assert_eq!(state.popup.as_ref().unwrap().found.len(), 1);
    key(&mut state, KeyCode::Tab);
    assert_eq!(state.prompt.text(), "look at src/parser.rs ");
    types(&mut state, "@zzz");
    assert_eq!(
        sent(&key(&mut state, KeyCode::Enter)),
        &Effect::Prompt("look at src/parser.rs @zzz".into())
    );
}

#[test]
fn a_model_that_is_in_no_list_can_be_named() {
    let mut state = at_rest();
    types(&mut state, "/model");
    key(&mut state, KeyCode::Enter);
    assert_eq!(state.prompt.text(), "/model ");
    state.told(Told::Listed(Source::Models, vec![Choice::new("ollama/qwen3:8b-more", "")]));
    types(&mut state, "ollama/qwen3:8b");
    assert_eq!(key(&mut state, KeyCode::Enter), [Effect::SwitchModel("ollama/qwen3:8b".into())]);
    assert_eq!(state.run, Run::Opening);
    types(&mut state, "/new");
    assert_eq!(
        key(&mut state, KeyCode::Enter),
        [Effect::Scroll(Scroll::Bottom)],
        "one after the other"
    );
    let mut state = working();
    types(&mut state, "/model offline");
    assert_eq!(
        key(&mut state, KeyCode::Enter),
        [Effect::Scroll(Scroll::Bottom)],
        "not while it works"
    );
}

#[test]
fn what_could_not_be_delivered_is_not_lost() {
    let mut state = at_rest();
    types(&mut state, "hello");
    key(&mut state, KeyCode::Enter);
    types(&mut state, "more");
    state.told(Told::Undelivered {
        text: "hello".into(),
        why: "the disk is full".into(),
        ends: true,
    });
    assert_eq!((state.prompt.text().as_str(), &state.run), ("hello\nmore", &Run::Rest));
}

/// Where no conversation is open, that and what can be done is said each time that something is to
/// be sent.
#[test]
fn why_no_conversation_is_open_is_said_each_time() {
    let mut state = State::new(1_000_000);
    let why = "It is in use. `/sessions a` tries again.";
    state.told(Told::NotOpened { why: why.into(), closed: true });
    types(&mut state, "Hello");
    let count = |state: &State| {
        let said =
            |entry: &&Entry| matches!(&entry.kind, Kind::Notice(Tone::Error, text) if text == why);
        state.transcript.entries().iter().filter(said).count()
    };
    assert_eq!(count(&state), 1);
    for times in [2, 3] {
        assert_eq!(key(&mut state, KeyCode::Enter), [Effect::Scroll(Scroll::Bottom)]);
        assert_eq!((count(&state), state.prompt.text().as_str()), (times, "Hello"));
    }
}
