//! Distillation of facts from conversations.

use loopwright_core::event::RunStatus;
use loopwright_core::message::{AssistantMessage, MessageId, UserMessage};
use loopwright_core::model::{ChatRequest, ModelErrorKind};
use loopwright_core::retrieval::{Passage, RetrievalError, Retriever};
use loopwright_core::session::Profile;
use loopwright_core::testing::{Harness, ScriptedModel, ScriptedSession, crash_at_every_append};
use loopwright_core::{BehaviorPattern, GenericAgent, Message, StepContext, StepEnd, StepError};
use loopwright_memory::long_term::{Distil, LongTermError};
use loopwright_patterns::{Handoff, PiPattern, Rag, conformance};

use super::*;

fn facts(facts: &[&str]) -> Script {
    Script::text(&json!({ "facts": facts }).to_string())
}

/// C190: after a request the facts that its user has stated are stored, with their source.
#[tokio::test]
async fn facts_are_distilled_after_a_request() {
    let (_folder, memory) = open();
    let replies = [
        Script::text("What a name."),
        facts(&["The user has a cat.", "", "The cat is called Minka."]),
        Script::text("And now?"),
        facts(&[]),
    ];
    let pattern = Distil::new(PiPattern, memory.clone());
    let harness = Harness::new(pattern, replies, |agent| agent).await;
    let first = harness.handle.prompt(by("ann", "My cat is called Minka.")).await.unwrap();
    assert_eq!((first.end, &*first.text), (RunStatus::Done, "What a name."));
    harness.handle.prompt(by("ann", "Thanks.")).await.unwrap();
    harness.check().await;
    let stored = memory.facts(&[ann()], 0, 9).await.unwrap();
    assert_eq!(texts(&stored), ["The user has a cat.", "The cat is called Minka."]);
    assert_eq!((stored[0].session.as_deref(), stored[0].message), (Some("s"), Some(MessageId(1))));
    let asked: Vec<String> =
        harness.model.requests().iter().map(|request| request.messages[0].text()).collect();
    assert!(
        asked[1].contains("<user>\"My cat is called Minka.\"</user>\n<assistant>\"What a name.")
    );
    assert!(asked[3].contains("Thanks.") && !asked[3].contains("Minka"), "only what is new");
    assert_eq!(harness.transcript().await.len(), 4, "the requests are detached");
}

/// C190: nothing is distilled without a principal, and only every few messages if so configured.
#[tokio::test]
async fn facts_are_distilled_when_configured() {
    let (_folder, memory) = open();
    let replies = ["1", "2", "3"].map(Script::text);
    let pattern = Distil::new(PiPattern, memory.clone()).every(3).model("small");
    let small = ScriptedModel::new([facts(&["The user counts."])]);
    let named = small.clone();
    let harness = Harness::new(pattern, replies, |agent| agent.model_named("small", named)).await;
    harness.handle.prompt(by("ann", "One.")).await.unwrap();
    harness.handle.prompt(by("ann", "Two.")).await.unwrap();
    assert!(small.requests().is_empty());
    harness.handle.prompt(by("ann", "Three.")).await.unwrap();
    assert_eq!(small.requests().len(), 1);
    assert!(small.requests()[0].messages[0].text().contains("One."));
    assert_eq!(memory.facts(&[ann()], 0, 9).await.unwrap().len(), 1);
}

/// A pattern that removes its first reply and asks again.
struct SecondThought;

#[async_trait::async_trait]
impl BehaviorPattern for SecondThought {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let request = step.checkpoint();
        step.ask().await?;
        step.rewind(request).await?;
        step.ask().await?.finish()
    }
}

/// C190: nothing is distilled from what the pattern has removed.
#[tokio::test]
async fn removed_messages_are_left_out() {
    let (_folder, memory) = open();
    let replies = [
        Script::text("You have a dog."),
        Script::text("You have a cat."),
        facts(&["The user has a cat."]),
    ];
    let pattern = Distil::new(SecondThought, memory.clone());
    let harness = Harness::new(pattern, replies, |agent| agent).await;
    harness.handle.prompt(by("ann", "What animal is Minka?")).await.unwrap();
    let asked = harness.model.requests()[2].messages[0].text();
    assert!(asked.contains("a cat") && !asked.contains("a dog"), "{asked}");
    assert_eq!(texts(&memory.facts(&[ann()], 0, 9).await.unwrap()), ["The user has a cat."]);
}

/// C185: in a session of several principals, a message of one is no source of facts about another,
/// even if a run failed, and nothing is distilled without a principal.
#[tokio::test]
async fn what_one_user_wrote_is_no_fact_about_another() {
    let (_folder, memory) = open();
    let busy = || Script::error(ModelErrorKind::Overloaded, "busy");
    let replies = [Script::text("1"), busy(), Script::text("2"), Script::text("3")];
    let pattern = Distil::new(PiPattern, memory.clone()).every(2).model("small");
    let small = ScriptedModel::new([facts(&["The user is Bob."])]);
    let named = small.clone();
    let harness = Harness::new(pattern, replies, |agent| agent.model_named("small", named)).await;
    harness.handle.prompt("Nobody.").await.unwrap();
    let failed = harness.handle.prompt(by("ann", "Secret.")).await.unwrap();
    assert_eq!(failed.end, RunStatus::Error);
    for text in ["I am Bob.", "Bob it is."] {
        assert!(small.requests().is_empty());
        harness.handle.prompt(by("bob", text)).await.unwrap();
    }
    let text = small.requests()[0].messages[0].text();
    assert!(text.contains("I am Bob.") && text.contains("Bob it is."), "{text}");
    assert!(!text.contains("Secret") && !text.contains("Nobody"), "{text}");
    assert_eq!(memory.facts(&[bob()], 0, 9).await.unwrap().len(), 1);
    assert!(memory.facts(&[ann()], 0, 9).await.unwrap().is_empty());
}

/// Answers requests for facts with one fact, and other requests as the conformance suite needs it.
fn reply(request: &ChatRequest) -> Script {
    match request.output {
        Some(_) => facts(&["The user asks for an ark."]),
        None => Script::text("Done."),
    }
}

/// C190: the pattern keeps the contract of patterns.
#[tokio::test(start_paused = true)]
async fn the_pattern_conforms() {
    let (_folder, memory) = open();
    let pattern = || Distil::new(PiPattern, memory.clone()).scope(Scope::project("ark"));
    let scenario = |name: &str| conformance::Scenario::new(name, []).reply_with(reply);
    let is_request = |entry: &loopwright_core::log::LogEntry| {
        use loopwright_core::log::LogEntry;
        matches!(entry, LogEntry::RequestStarted { .. } | LogEntry::DetachedStarted { .. })
    };
    let scenarios = [
        scenario("two requests").request("Build an ark.").request("Is it dry?"),
        scenario("a steer").request("Build an ark.").steer("Of wood.").when(is_request),
        scenario("a follow-up").request("Build an ark.").follow_up("Of wood.").when(is_request),
    ];
    let report = conformance::check(pattern, scenarios).await.unwrap();
    assert!(report.sessions > 50, "{report:?}");
    let stored = memory.facts(&[Scope::project("ark")], 0, 99).await.unwrap();
    assert_eq!(texts(&stored), ["The user asks for an ark."]);
}

/// C190: a crash at any point neither loses facts nor stores them twice.
#[tokio::test(start_paused = true)]
async fn facts_are_stored_once_whatever_crashes() {
    let scope = Scope::project("ark");
    let replies = || {
        let first = facts(&["The ark has three decks."]);
        [Script::text("Yes."), first, Script::text("Dry."), facts(&["The ark is dry."])]
    };
    let (_folder, memory) = open();
    let scenario = ScriptedSession::new(replies()).request("Build an ark.").request("Is it dry?");
    let agent = |model| {
        let pattern = Distil::new(PiPattern, memory.clone()).scope(scope.clone());
        GenericAgent::builder(model, pattern)
    };
    let report = crash_at_every_append(agent, scenario).await.unwrap();
    assert_eq!((report.requests, report.compared), (4, report.appends));
    let stored = memory.facts(std::slice::from_ref(&scope), 0, 9).await.unwrap();
    assert_eq!(texts(&stored), ["The ark has three decks.", "The ark is dry."]);

    // A fact that was forgotten after a crash is not stored again.
    let (_folder, memory) = open();
    let pattern = || Distil::new(PiPattern, memory.clone()).scope(scope.clone());
    let harness = Harness::new(pattern(), replies(), |agent| agent).await;
    harness.handle.prompt("Build an ark.").await.unwrap();
    let mut log = harness.memory.entries();
    memory.forget_all(&scope).await.unwrap();
    log.pop(); // the end of the run, with the note that the facts are stored
    let harness = harness.restart_from(log).await;
    harness.handle.send(loopwright_core::event::InputEvent::Continue(None)).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(memory.facts(&[scope], 0, 9).await.unwrap(), []);
    assert_eq!(harness.model.requests().len(), 2, "no request is sent again");
}

/// A retriever that finds nothing.
struct Nothing;

#[async_trait::async_trait]
impl Retriever for Nothing {
    async fn retrieve(&self, _: &str, _: usize) -> Result<Vec<Passage>, RetrievalError> {
        Ok(Vec::new())
    }
}

/// C194: the pattern provides the tools and the prompt of the pattern that it wraps.
#[tokio::test]
async fn a_wrapped_pattern_keeps_its_tools() {
    let (_folder, memory) = open();
    let roles = Handoff::new(PiPattern).role("cook", "Cooks.", Profile::new());
    let pattern = Distil::new(Rag::new(Nothing, roles), memory.clone());
    let agent = GenericAgent::builder(ScriptedModel::new([]), pattern).build().unwrap();
    let names: Vec<&str> = agent.tool_specs().map(|spec| &*spec.name).collect();
    assert_eq!(names, ["hand_over", "search"]);
}

fn message(id: u64, body: impl Into<loopwright_core::message::MessageKind>) -> Arc<Message> {
    Arc::new(Message::new(MessageId(id), body))
}

/// C190: a host distils the facts of a session, with any model.
#[tokio::test]
async fn a_host_distils_a_session() {
    let (_folder, memory) = open();
    let messages = [
        message(1, UserMessage::from("My cat is called Minka.")),
        message(2, AssistantMessage::from("What a name.")),
    ];
    let fenced = Script::text("```json\n{\"facts\": [\"The user's cat is called Minka.\"]}\n```");
    let model = ScriptedModel::new([fenced]);
    let stored = memory.distil(&model, &ann(), &messages).await.unwrap();
    assert_eq!(texts(&stored), ["The user's cat is called Minka."]);
    assert!(model.requests()[0].output.is_some());
    let repeated = memory.distil(&model, &ann(), &[messages[1].clone()]).await.unwrap();
    assert_eq!((repeated.len(), model.requests().len()), (0, 1), "the user wrote nothing");

    let broken = Script::error(ModelErrorKind::Overloaded, "busy");
    let model = ScriptedModel::new([Script::text("No facts."), broken]);
    let error = memory.distil(&model, &ann(), &messages).await.unwrap_err();
    assert!(matches!(error, LongTermError::Reply(_)), "{error}");
    let error = memory.distil(&model, &ann(), &messages).await.unwrap_err();
    assert!(matches!(error, LongTermError::Model(_)), "{error}");
}
