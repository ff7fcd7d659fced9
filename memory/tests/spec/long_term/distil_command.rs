//! Distillation on request and at the end of a session.

use loopwright_core::event::{Decision, InputEvent, RunStatus};
use loopwright_core::log::LogEntry;
use loopwright_core::message::MessageKind;
use loopwright_core::model::{ChatRequest, ModelErrorKind};
use loopwright_core::testing::{
    Gate, Harness, ScriptedModel, ScriptedSession, crash_at_every_append,
};
use loopwright_core::tool::Approval;
use loopwright_core::{AgentBuilder, AgentHandle, GenericAgent, RunContext};
use loopwright_memory::long_term::{DISTIL_COMMAND, Distil, distil_session, is_distil_due};
use loopwright_patterns::{PiPattern, conformance};

use super::*;

fn facts(facts: &[&str]) -> Script {
    Script::text(&json!({ "facts": facts }).to_string())
}

const MINKA: &str = r#"{"facts": ["The user's cat is called Minka."]}"#;

fn minka() -> Script {
    Script::text(MINKA)
}

/// Builds an agent that remembers, with this model.
fn agent(memory: &LongTerm, model: &ScriptedModel) -> GenericAgent {
    let pattern = Distil::new(PiPattern, memory.clone()).on_command();
    GenericAgent::builder(model.clone(), pattern).hook(memory.hook()).build().unwrap()
}

/// Starts a session of a user.
async fn session(agent: &GenericAgent, user: &str) -> AgentHandle {
    agent.run(RunContext::new().with(Principal::new(user))).await.unwrap().0
}

fn text(request: &ChatRequest) -> String {
    request.messages.iter().map(|message| format!("{}\n", message.text())).collect()
}

/// C265: a fact of an ended session is used in another session of the same user only. A session
/// that ends twice sends one request and stores each fact once.
#[tokio::test]
async fn a_fact_of_an_ended_session_is_used_in_another() {
    let (_folder, memory) = open();
    let replies = [Script::text("What a name."), minka()];
    let model = ScriptedModel::new(replies.into_iter().chain(["Minka.", "Who?"].map(Script::text)));
    let agent = agent(&memory, &model);
    let first = session(&agent, "ann").await;
    assert!(distil_session(&first).await.unwrap().is_none(), "the user has written nothing");
    first.prompt("My cat is called Minka.").await.unwrap();
    assert!(memory.facts(&[ann()], 0, 9).await.unwrap().is_empty(), "nothing without a command");
    let ended = distil_session(&first).await.unwrap().unwrap();
    assert_eq!(
        (ended.end, &*ended.text),
        (RunStatus::Done, "1 fact was remembered: `/memory` lists it.")
    );
    assert!(distil_session(&first).await.unwrap().is_none());
    assert_eq!(model.requests().len(), 2);

    session(&agent, "ann").await.prompt("What is my cat called?").await.unwrap();
    session(&agent, "bob").await.prompt("What is Ann's cat called? Minka?").await.unwrap();
    let requests = model.requests();
    assert!(text(&requests[2]).contains("The user's cat is called Minka."));
    assert!(!text(&requests[3]).contains("The user's cat"), "{}", text(&requests[3]));
    assert_eq!(
        texts(&memory.facts(&[ann()], 0, 9).await.unwrap()),
        ["The user's cat is called Minka."]
    );
    assert!(memory.facts(&[bob()], 0, 9).await.unwrap().is_empty());
}

/// C265: on request all messages since the last time are distilled, by a detached request in the
/// log that counts against the limits. Neither the command nor its answer is sent to a model.
#[tokio::test]
async fn facts_are_distilled_on_request() {
    let (_folder, memory) = open();
    let replies = [
        Script::text("What a name."),
        Script::text("And a boat."),
        facts(&["The user's cat is called Minka.", "The user has a boat."]),
        Script::text("Blue."),
        facts(&["The boat is blue."]),
    ];
    let pattern = Distil::new(PiPattern, memory.clone()).on_command();
    let harness = Harness::new(pattern, replies, |agent| agent).await;
    for prompt in ["My cat is called Minka.", "I have a boat."] {
        harness.handle.prompt(by("ann", prompt)).await.unwrap();
    }
    let done = harness.handle.prompt(by("ann", " /memory distil ")).await.unwrap();
    assert_eq!(done.text, "2 facts were remembered: `/memory` lists them.");
    let repeated = harness.handle.prompt(by("ann", DISTIL_COMMAND)).await.unwrap();
    assert_eq!(
        (&*repeated.text, harness.model.requests().len()),
        ("There was nothing new to remember.", 3)
    );
    harness.handle.prompt(by("ann", "It is blue.")).await.unwrap();
    harness.handle.prompt(by("ann", DISTIL_COMMAND)).await.unwrap();
    harness.check().await;
    let requests = harness.model.requests();
    let [.., blue, last] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(
        text(blue),
        "My cat is called Minka.\nWhat a name.\nI have a boat.\nAnd a boat.\nIt is blue.\n"
    );
    let last = text(last);
    assert!(last.contains("It is blue.") && !last.contains("cat"), "only what is new: {last}");
    assert!(!last.contains("distil") && !last.contains("remembered"), "{last}");
    let detached =
        harness.memory.entries().iter().filter(|e| matches!(e, LogEntry::Detached { .. })).count();
    assert_eq!(detached, 2);
    let stored = memory.facts(&[ann()], 0, 9).await.unwrap();
    assert_eq!(stored.len(), 3);
    assert_eq!(stored[2].message.map(|id| id.0), Some(10), "the message that the user wrote");
}

/// C265: nothing is distilled without a principal, and the answer says so. With several principals,
/// no one gets a fact from messages of another one.
#[tokio::test]
async fn facts_of_a_command_are_those_of_its_principal() {
    let (_folder, memory) = open();
    let replies = [Script::text("1"), Script::text("2"), facts(&["The user is Bob."])];
    let pattern = Distil::new(PiPattern, memory.clone()).on_command();
    let harness = Harness::new(pattern, replies, |agent| agent).await;
    harness.handle.prompt(by("ann", "I am Ann, a secret.")).await.unwrap();
    let nobody = harness.handle.prompt(DISTIL_COMMAND).await.unwrap();
    assert!(nobody.text.contains("not known who you are"), "{}", nobody.text);
    harness.handle.prompt(by("bob", "I am Bob.")).await.unwrap();
    harness.handle.prompt(by("bob", DISTIL_COMMAND)).await.unwrap();
    let requests = harness.model.requests();
    assert_eq!(requests.len(), 3);
    assert!(text(&requests[2]).contains("I am Bob.") && !text(&requests[2]).contains("secret"));
    assert!(memory.facts(&[ann()], 0, 9).await.unwrap().is_empty());
    assert_eq!(memory.facts(&[bob()], 0, 9).await.unwrap().len(), 1);
}

/// C265: a session with a pending action is left alone when it ends. A failed request is sent again
/// at the next end.
#[tokio::test]
async fn an_end_denies_no_action_and_a_failure_is_repeated() {
    let (_folder, memory) = open();
    memory.remember(&ann(), "The user has a dog.").await.unwrap();
    let replies = [
        call("forget_fact", json!({ "id": 1 })),
        Script::text("It is forgotten."),
        Script::error(ModelErrorKind::Overloaded, "busy"),
        minka(),
    ];
    let tools = memory.tools().approve_forget(Approval::Always);
    let pattern = Distil::new(PiPattern, memory.clone()).on_command();
    let options = |agent: AgentBuilder| agent.tools(tools);
    let harness = Harness::new(pattern, replies, options).await;
    harness.handle.prompt(by("ann", "Forget the dog; my cat is Minka.")).await.unwrap();
    assert!(distil_session(&harness.handle).await.unwrap().is_none());
    assert_eq!(harness.pending().await.len(), 1);
    harness.resolve(0, Decision::Approve).await.unwrap();
    harness.handle.wait_for_idle().await;
    let failed = harness.handle.prompt(by("ann", DISTIL_COMMAND)).await.unwrap();
    assert_eq!(failed.end, RunStatus::Error);
    assert!(is_distil_due(&harness.handle.state().await.unwrap()));
    harness.handle.prompt(by("ann", DISTIL_COMMAND)).await.unwrap();
    assert!(!is_distil_due(&harness.handle.state().await.unwrap()));
    assert_eq!(memory.facts(&[ann()], 0, 9).await.unwrap().len(), 1);
}

/// Answers requests for facts with one fact, and other requests as the conformance suite needs it.
fn reply(request: &ChatRequest) -> Script {
    match request.output {
        Some(_) => facts(&["The user asks for an ark."]),
        None => Script::text("Done."),
    }
}

/// C265: the pattern with commands keeps the contract of patterns, and a crash at any point neither
/// loses facts nor stores them twice.
#[tokio::test(start_paused = true)]
async fn the_pattern_with_commands_conforms() {
    let (_folder, memory) = open();
    let scope = Scope::project("ark");
    let pattern =
        || Distil::new(PiPattern, memory.clone()).scope(Scope::project("ark")).on_command();
    let scenario = |name: &str| conformance::Scenario::new(name, []).reply_with(reply);
    let is_request = |entry: &LogEntry| {
        matches!(entry, LogEntry::RequestStarted { .. } | LogEntry::DetachedStarted { .. })
    };
    let ark = |name: &str| scenario(name).request("Build an ark.");
    let scenarios = [
        ark("a command").request(DISTIL_COMMAND).request("Is it dry?"),
        ark("a steer").request(DISTIL_COMMAND).steer("Of wood.").when(is_request),
        ark("a follow-up").request(DISTIL_COMMAND).follow_up("Of wood.").when(is_request),
    ];
    let report = conformance::check(pattern, scenarios).await.unwrap();
    assert!(report.sessions > 50, "{report:?}");

    let (_folder, memory) = open();
    let replies =
        [Script::text("Yes."), facts(&["The ark has three decks."]), Script::text("Dry.")];
    let scenario = ScriptedSession::new(replies)
        .request("Build an ark.")
        .request(DISTIL_COMMAND)
        .request("Is it dry?");
    let agent = |model| {
        let pattern = Distil::new(PiPattern, memory.clone()).scope(scope.clone()).on_command();
        GenericAgent::builder(model, pattern)
    };
    let report = crash_at_every_append(agent, scenario).await.unwrap();
    assert_eq!((report.requests, report.compared), (3, report.appends));
    let stored = memory.facts(&[scope], 0, 9).await.unwrap();
    assert_eq!(texts(&stored), ["The ark has three decks."]);
}

/// C265: a message that arrives while facts are distilled is answered, without the command.
#[tokio::test]
async fn a_message_during_the_command_is_answered() {
    let (_folder, memory) = open();
    let gate = Gate::new();
    let replies = [Script::text("1"), Script::new().gate(&gate).say(MINKA), Script::text("Blue.")];
    let pattern = Distil::new(PiPattern, memory.clone()).on_command();
    let harness = Harness::new(pattern, replies, |agent| agent).await;
    harness.handle.prompt(by("ann", "My cat is called Minka.")).await.unwrap();
    let command = InputEvent::UserRequest(by("ann", DISTIL_COMMAND));
    harness.handle.send(command).await.unwrap();
    harness.handle.follow_up("My boat is blue.").await.unwrap();
    gate.open();
    harness.handle.wait_for_idle().await;
    let state = harness.handle.state().await.unwrap();
    let last = state.messages.last().unwrap();
    assert!(matches!(last.body, MessageKind::Assistant(_)) && last.text() == "Blue.", "{last:?}");
    let sent = text(harness.model.requests().last().unwrap());
    assert!(sent.contains("My boat is blue.") && !sent.contains("distil"), "{sent}");
    assert_eq!(memory.facts(&[ann()], 0, 9).await.unwrap().len(), 1);
}
