//! Keys and their effects.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use loopwright_core::AgentEvent;
use loopwright_core::event::{
    Decision, Envelope, ExternalAction, Provided, QueueKind, QueuedText, RunCause,
};
use loopwright_core::message::{RunId, Usage};
use loopwright_core::model::ThinkingLevel;
use loopwright_core::tool::ActionRequest;
use serde_json::json;

use super::*;
use crate::facts::MemoryCommand;
use crate::slash::SlashReply;

mod dialog;
mod questions;

fn press(state: &mut State, modifiers: KeyModifiers, code: KeyCode) -> Vec<Effect> {
    state.now += 1_000; // slower than keys are ignored
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

/// Returns an idle state in a session.
fn idle() -> State {
    let mut state = State::new(1_000_000);
    state.resize(80, 24);
    (state.is_opening, state.run) = (false, Run::Idle);
    state
}

fn working() -> State {
    let mut state = idle();
    state.start_working();
    state
}

fn sent(effects: &[Effect]) -> &Effect {
    &effects[0]
}

fn action(call: &str, name: &str) -> ExternalAction {
    ExternalAction::new(call, name, json!({ "command": "ls" }), "d")
}

fn asked(state: &mut State, actions: &[ExternalAction]) -> Vec<Effect> {
    state.now += 1_000;
    let typing = !state.prompt.is_empty();
    actions.iter().flat_map(|action| state.dialog.open(action, state.now, typing)).collect()
}

/// Returns whether the only effect is a request for the diff of a call.
fn is_preview(effects: &[Effect]) -> bool {
    matches!(effects, [Effect::Preview(_)])
}

fn decided(effect: &Effect) -> &Decision {
    let Effect::Decide { decision, .. } = effect else { panic!("{effect:?}") };
    decision
}

/// C128: Enter sends a request; while the agent works it steers, Alt+Enter queues a follow-up, Up
/// on an empty prompt takes queued messages back, and Esc interrupts once.
#[test]
fn while_it_works_keys_steer_queue_take_back_and_interrupt() {
    let mut state = idle();
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
    assert_eq!(key(&mut state, KeyCode::Up), []); // the queue and the history are empty
    let added = QueuedText::new("input-1", QueueKind::Steering, "not so");
    state.queues.update(Some(&added), &[]);
    assert_eq!(key(&mut state, KeyCode::Up), [Effect::TakeBack]);
    state.outcome(Outcome::TakenBack(vec!["not so".into(), "then rest".into()]));
    assert_eq!(state.prompt.text(), "not so\nthen rest");
    assert_eq!(key(&mut state, KeyCode::Esc), [Effect::Abort(state.last_run)]);
    assert_eq!(key(&mut state, KeyCode::Esc), []);
}

/// C129: Ctrl-C clears the input, else interrupts. A second one soon after quits; a later one does
/// not.
#[test]
fn control_c_clears_interrupts_and_leaves() {
    let mut state = working();
    types(&mut state, "no");
    assert_eq!(control(&mut state, 'c'), []);
    assert!(state.prompt.is_empty());
    assert_eq!(control(&mut state, 'c'), [Effect::Quit]);
    let mut state = working();
    assert_eq!(control(&mut state, 'c'), [Effect::Abort(state.last_run)]);
    assert!(state.tick(state.now + 2_000));
    assert_eq!(control(&mut state, 'c'), []);
    assert_eq!(control(&mut state, 'c'), [Effect::Quit]);
    assert_eq!(control(&mut idle(), 'd'), [Effect::Quit]);
}

/// C130: a pending call is decided as it is shown: yes, no with a reason, other arguments, always.
/// Keys meant for the prompt decide nothing.
#[test]
fn a_call_is_decided_by_keys_that_were_meant_for_it() {
    let mut state = working();
    asked(
        &mut state,
        &[action("c1", "execute_command"), action("c2", "execute_command"), action("c3", "diff")],
    );
    assert_eq!(state.dialog.position(), (1, 3));
    key(&mut state, KeyCode::Char('n'));
    types(&mut state, "too early");
    let effects = key(&mut state, KeyCode::Enter);
    assert_eq!(decided(&effects[0]), &Decision::Deny("too early".into()));
    assert_eq!(key(&mut state, KeyCode::Char('y')), [], "a decision was sent");
    state.dialog.close(&"c1".into(), state.now);
    assert_eq!(state.dialog.position(), (2, 3));
    let effects = key(&mut state, KeyCode::Char('a'));
    assert_eq!(effects[0], Effect::Allow("execute_command".into()));
    assert_eq!((effects.len(), decided(&effects[1])), (2, &Decision::Approve));
    state.dialog.close(&"c2".into(), state.now);
    let effects = key(&mut state, KeyCode::Char('e'));
    assert!(
        matches!(&effects[0], Effect::Edit { json, .. } if json.contains("\"ls\"")),
        "{effects:?}"
    );
    assert_eq!(state.outcome(Outcome::Edited { call: "c3".into(), json: "{".into() }), []);
    assert!(state.dialog.problem.as_ref().unwrap().contains("not JSON"));
    key(&mut state, KeyCode::Char('e'));
    assert_eq!(state.dialog.problem, None, "it was about the arguments before");
    let changed = Decision::ApproveWith(json!({ "command": "pwd" }));
    let json = "{\"command\": \"pwd\"}".into();
    let effects = state.outcome(Outcome::Edited { call: "c3".into(), json });
    assert!(is_preview(&effects), "{effects:?}");
    assert_eq!(
        (state.dialog.problem.as_ref(), state.dialog.is_changed(&"c3".into())),
        (None, true)
    );
    assert_eq!(decided(&key(&mut state, KeyCode::Char('y'))[0]), &changed);
    state.outcome(Outcome::Refused { call: "c3".into(), why: "it does not fit".into() });
    assert_eq!(state.dialog.problem.as_deref(), Some("It does not fit."));
    assert_eq!(
        decided(&key(&mut state, KeyCode::Char('y'))[0]),
        &changed,
        "what is shown is what runs"
    );

    // While the user types, the dialog stays closed until it is opened.
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

    // A held key decides about one call.
    let mut state = working();
    asked(&mut state, &[action("c1", "diff"), action("c2", "diff")]);
    assert_eq!(decided(&key(&mut state, KeyCode::Char('y'))[0]), &Decision::Approve);
    state.dialog.close(&"c1".into(), state.now);
    for _ in 0..10 {
        state.now += 30;
        assert_eq!(state.key(KeyEvent::from(KeyCode::Char('y'))), []);
    }
    assert_eq!(decided(&key(&mut state, KeyCode::Char('y'))[0]), &Decision::Approve);

    // The user typed shortly before.
    let mut state = working();
    state.key(KeyEvent::from(KeyCode::Backspace));
    state.dialog.open(&action("c1", "diff"), state.now, false);
    assert_eq!(state.key(KeyEvent::from(KeyCode::Char('y'))), []);
    assert_eq!(decided(&key(&mut state, KeyCode::Char('y'))[0]), &Decision::Approve);
}

#[test]
fn the_input_of_a_suspended_tool_is_requested() {
    let mut state = working();
    let need = ActionRequest::new("login", json!("Enter the code."));
    asked(&mut state, &[action("c1", "mail").request(Arc::new(need))]);
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
    state.outcome(Outcome::NoEditor { call: "c1".into(), json: "{}".into() });
    key(&mut state, KeyCode::Left);
    types(&mut state, "\"a\": 1");
    assert!(is_preview(&control(&mut state, 's')));
    assert_eq!(
        decided(&key(&mut state, KeyCode::Char('y'))[0]),
        &Decision::ApproveWith(json!({ "a": 1 }))
    );
}

#[test]
fn several_keys_insert_a_new_line() {
    let mut state = idle();
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
fn the_history_is_recalled_at_the_edge() {
    let mut state = idle();
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
    let mut state = idle();
    types(&mut state, "/th");
    key(&mut state, KeyCode::Tab);
    assert_eq!(state.prompt.text(), "/thinking ");
    types(&mut state, "hi");
    assert_eq!(key(&mut state, KeyCode::Enter), [Effect::SwitchThinking(ThinkingLevel::High)]);
    let mut state = idle();
    types(&mut state, "look at ");
    assert_eq!(key(&mut state, KeyCode::Char('@')), [Effect::List(Source::Files)]);
    let files = ["README.md", "src/main.rs", "src/parser.rs"].map(|name| Choice::new(name, ""));
    state.outcome(Outcome::Listed(Source::Files, files.to_vec()));
    types(&mut state, "par");
    assert_eq!(state.popup.as_ref().unwrap().matches.len(), 1);
    key(&mut state, KeyCode::Tab);
    assert_eq!(state.prompt.text(), "look at src/parser.rs ");
    types(&mut state, "@zzz");
    assert_eq!(
        sent(&key(&mut state, KeyCode::Enter)),
        &Effect::Prompt("look at src/parser.rs @zzz".into())
    );
}

#[test]
fn a_plan_is_a_request_that_says_so() {
    let mut state = idle();
    types(&mut state, "/plan Tidy up.");
    assert_eq!(sent(&key(&mut state, KeyCode::Enter)), &Effect::Prompt("/plan Tidy up.".into()));
    let mut state = idle();
    types(&mut state, "/plan ");
    assert_eq!(key(&mut state, KeyCode::Enter), [Effect::Scroll(Scroll::Bottom)], "no request");
    let mut state = working();
    types(&mut state, "/plan Tidy up.");
    let effects = key(&mut state, KeyCode::Enter);
    assert_eq!(effects, [Effect::Scroll(Scroll::Bottom)], "not while it works");
}

#[test]
fn remembered_facts_are_listed_and_forgotten_also_while_it_works() {
    for (typed, command) in [
        ("/memory", MemoryCommand::List),
        ("/memory find cats", MemoryCommand::Find("cats".into())),
        ("/memory forget 7", MemoryCommand::Forget(7)),
    ] {
        let mut state = working();
        types(&mut state, typed);
        assert_eq!(key(&mut state, KeyCode::Enter), [Effect::Memory(command)], "{typed}");
    }
    let mut state = idle();
    types(&mut state, "/memory distil");
    assert_eq!(key(&mut state, KeyCode::Enter), [Effect::Scroll(Scroll::Bottom)], "it is off");
    state.distils = true;
    types(&mut state, "/memory distil");
    assert_eq!(sent(&key(&mut state, KeyCode::Enter)), &Effect::Prompt("/memory distil".into()));
    types(&mut state, "/memory distil");
    assert_eq!(key(&mut state, KeyCode::Enter), [Effect::Scroll(Scroll::Bottom)], "it works");
    let mut state = idle();
    types(&mut state, "/memory forget");
    assert_eq!(key(&mut state, KeyCode::Enter), [Effect::Scroll(Scroll::Bottom)], "no fact");
}

#[test]
fn a_model_that_is_not_listed_can_be_named() {
    let mut state = idle();
    types(&mut state, "/model");
    key(&mut state, KeyCode::Enter);
    assert_eq!(state.prompt.text(), "/model ");
    state.outcome(Outcome::Listed(Source::Models, vec![Choice::new("ollama/qwen3:8b-more", "")]));
    types(&mut state, "ollama/qwen3:8b");
    assert_eq!(key(&mut state, KeyCode::Enter), [Effect::SwitchModel("ollama/qwen3:8b".into())]);
    assert!(state.is_opening);
    types(&mut state, "/new");
    assert_eq!(key(&mut state, KeyCode::Enter), [Effect::Scroll(Scroll::Bottom)], "one at a time");
    let mut state = working();
    types(&mut state, "/model offline");
    assert_eq!(
        key(&mut state, KeyCode::Enter),
        [Effect::Scroll(Scroll::Bottom)],
        "not while it works"
    );
}

/// The session that is left may distil facts before the next one is open: what is typed meanwhile
/// is sent to the next one, and the run continues if that cannot be opened.
#[test]
fn runs_of_the_session_that_is_left_do_not_end_the_opening_of_the_next() {
    let event = |event| Envelope::new(0, "s", RunId(1), 0, event);
    let begin = || event(AgentEvent::AgentStart { cause: RunCause::Steer, trace: None });
    let outcome = json!({ "end": "done", "usage": Usage::default(), "cost": 0.0, "text": "" });
    let end = || event(AgentEvent::AgentEnd(serde_json::from_value(outcome.clone()).unwrap()));
    let opening = || {
        let mut state = idle();
        types(&mut state, "/new");
        assert_eq!(key(&mut state, KeyCode::Enter), [Effect::Open(None)]);
        state.event(&begin());
        state
    };

    let mut state = opening();
    state.event(&end());
    assert!(state.is_opening);
    types(&mut state, "What is my cat called?");
    assert_eq!(key(&mut state, KeyCode::Enter), []);
    assert!(state.submit_on_open);

    let mut state = opening();
    types(&mut state, "/plan it");
    assert_eq!(key(&mut state, KeyCode::Enter), [Effect::Scroll(Scroll::Bottom)], "wait");
    types(&mut state, "half a sentence");
    key(&mut state, KeyCode::Enter);
    state.outcome(Outcome::NotOpened { why: "The model is unknown.".into(), closed: false });
    assert!(state.is_working() && !state.submit_on_open);
    assert_eq!(key(&mut state, KeyCode::Esc), [Effect::Abort(Some(RunId(1)))]);
}

/// C490: A round that did not reach the goal, and the end of the work, are lines of the transcript.
#[test]
fn the_rounds_toward_a_goal_are_notices() {
    let mut state = working();
    let round = json!({ "goal": "goal", "round": 1, "rounds": 5, "why": "Exit code 1." });
    let end = json!({ "goal": "goal", "reached": true, "rounds": 2 });
    for (kind, data) in [("goal_progress", round), ("goal", end)] {
        let event = AgentEvent::Custom { kind: kind.into(), data: Arc::new(data) };
        state.event(&Envelope::new(0, "s", RunId(1), 0, event));
    }
    let notices = state.transcript.entries().iter().filter_map(|entry| match &entry.kind {
        Kind::Notice(_, text) => Some(text.as_str()),
        _ => None,
    });
    let notices: Vec<&str> = notices.collect();
    assert_eq!(notices, ["Round 1 of 5: Exit code 1.", "The goal is reached after 2 rounds."]);
}

/// C487: After an answer at a limit, late messages wait for the user.
#[test]
fn an_answer_at_a_limit_is_followed_by_the_limit() {
    for (limit, says, continues) in [
        (None, None, true),
        (
            Some("turns"),
            Some("The limit of turns is reached. A message continues the work."),
            false,
        ),
        (Some("session_cost"), Some("The session's cost limit is reached."), false),
    ] {
        let mut state = working();
        state.queues.update(Some(&QueuedText::new("input-1", QueueKind::Steering, "more")), &[]);
        let mut outcome =
            json!({ "end": "done", "usage": Usage::default(), "cost": 0.0, "text": "Half." });
        outcome["limit"] = limit.into();
        let end = AgentEvent::AgentEnd(serde_json::from_value(outcome).unwrap());
        let effects = state.event(&Envelope::new(0, "s", RunId(1), 0, end));
        assert_eq!(effects == [Effect::Continue], continues, "{limit:?}: {effects:?}");
        let notice = state.transcript.entries().last().and_then(|entry| match &entry.kind {
            Kind::Notice(_, text) => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(notice, says);
    }
}

#[test]
fn an_undelivered_message_returns_to_the_prompt() {
    let mut state = idle();
    types(&mut state, "hello");
    key(&mut state, KeyCode::Enter);
    types(&mut state, "more");
    state.outcome(Outcome::Undelivered {
        text: "hello".into(),
        why: "the disk is full".into(),
        ends: true,
    });
    assert_eq!((state.prompt.text().as_str(), &state.run), ("hello\nmore", &Run::Idle));
}

/// A slash command of the app is offered and run. Its message is sent in the conversation in which
/// it was typed, and otherwise put into the prompt.
#[test]
fn a_command_of_the_app_is_completed_and_its_message_sent() {
    let mut state = idle();
    state.own_commands = vec![Choice::new("report", "report what was paid")];
    state.status.session = Some("july".into());
    types(&mut state, "/rep");
    let popup = state.popup.as_ref().unwrap();
    assert_eq!(popup.matches, state.own_commands);
    types(&mut state, "ort June");
    let run = Effect::Slash { name: "report".into(), arguments: "June".into() };
    assert_eq!(key(&mut state, KeyCode::Enter), [run]);
    let reply = |session: &str| {
        Outcome::Replied(session.into(), Ok(SlashReply::Send("What was paid?".into())))
    };
    state.outcome(reply("june"));
    assert_eq!(state.prompt.text(), "What was paid?");
    state.prompt.take();
    let effects = state.outcome(reply("july"));
    assert_eq!(effects[0], Effect::Prompt("What was paid?".into()));
    let effects = state.outcome(reply("july"));
    assert_eq!(effects[0], Effect::Steer("What was paid?".into()));
}

/// Without an open session, the reason and the possible commands are shown each time an input needs
/// one.
#[test]
fn the_reason_why_no_conversation_is_open_is_shown_each_time() {
    let mut state = State::new(1_000_000);
    let why = "It is in use. `/sessions a` tries again.";
    state.outcome(Outcome::NotOpened { why: why.into(), closed: true });
    types(&mut state, "Hello");
    let count = |state: &State| {
        let is_reason =
            |entry: &&Entry| matches!(&entry.kind, Kind::Notice(Tone::Error, text) if text == why);
        state.transcript.entries().iter().filter(is_reason).count()
    };
    assert_eq!(count(&state), 1);
    for times in [2, 3] {
        assert_eq!(key(&mut state, KeyCode::Enter), [Effect::Scroll(Scroll::Bottom)]);
        assert_eq!((count(&state), state.prompt.text().as_str()), (times, "Hello"));
    }
}
