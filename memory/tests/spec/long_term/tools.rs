//! The tools of models.

use loopwright_core::event::Decision;
use loopwright_core::testing::{Harness, ScriptedSession, crash_at_every_append};
use loopwright_core::tool::Approval;
use loopwright_core::{AgentBuilder, GenericAgent};
use loopwright_patterns::PiPattern;

use super::*;

async fn results(harness: &Harness) -> Vec<String> {
    let state = harness.handle.state().await.unwrap();
    state.messages.iter().filter_map(|m| m.as_tool_result()).map(|r| r.text()).collect()
}

/// C189: a model remembers, recalls and forgets facts of its user; forgetting needs an approval.
#[tokio::test]
async fn a_model_remembers_recalls_and_forgets() {
    let (_folder, memory) = open();
    memory.remember(&bob(), "Bob has a cat.").await.unwrap();
    let replies = [
        call("remember_fact", fact("The user has a cat.")),
        call("recall_facts", json!({"query": "cats"})),
        call("forget_fact", json!({"id": 2})),
        call("recall_facts", json!({"query": "cats"})),
        call("forget_fact", json!({"id": 2})),
        Script::text("Done."),
    ];
    let options = |agent: AgentBuilder| agent.tools(memory.tools());
    let harness = Harness::new(PiPattern, replies, options).await;
    harness.handle.prompt(by("ann", "I have a cat.")).await.unwrap();
    for _ in 0..2 {
        assert_eq!(&*harness.pending().await[0].name, "forget_fact");
        harness.resolve(0, Decision::Approve).await.unwrap();
        harness.handle.wait_for_idle().await;
    }
    harness.check().await;
    let results = results(&harness).await;
    let expected = [
        r#"{"id":2}"#,
        r#"{"facts":[{"fact":"The user has a cat.","id":2}]}"#,
        r#"{"forgotten":2}"#,
        r#"{"facts":[]}"#,
    ];
    assert_eq!(results[..4], expected);
    assert!(results[4].contains("There is no fact 2"), "{}", results[4]);
    assert_eq!(memory.facts(&[ann(), bob()], 0, 9).await.unwrap().len(), 1);
}

/// C189: the host decides which tools need an approval, and whether facts are shared.
#[tokio::test]
async fn approvals_and_shared_facts_are_up_to_the_host() {
    let (_folder, memory) = open();
    let scope = Scope::project("ark");
    let has_shared = |tools: loopwright_memory::long_term::FactTools| {
        let schemas = tools.into_iter().map(|tool| tool.spec().schema.to_string());
        schemas.filter(|schema| schema.contains("shared")).count()
    };
    assert_eq!(has_shared(memory.tools()), 0);
    let tools = memory.tools().shared(scope.clone());
    assert_eq!(has_shared(tools.clone()), 2);
    let tools = tools.approve_remember(Approval::Always).approve_recall(Approval::Always);
    let replies = [
        call("remember_fact", json!({"fact": "The ark floats.", "shared": true})),
        call("recall_facts", json!({"query": "ark"})),
        Script::text("It floats."),
    ];
    let harness = Harness::new(PiPattern, replies, |agent| agent.tools(tools)).await;
    harness.handle.prompt("Does it float?").await.unwrap();
    for tool in ["remember_fact", "recall_facts"] {
        assert_eq!(&*harness.pending().await[0].name, tool);
        harness.resolve(0, Decision::Approve).await.unwrap();
        harness.handle.wait_for_idle().await;
    }
    assert!(results(&harness).await[1].contains("The ark floats."));
    assert_eq!(memory.facts(&[scope], 0, 9).await.unwrap()[0].session.as_deref(), Some("s"));
}

/// C189: an overlong fact is refused with advice, and the run continues.
#[tokio::test]
async fn a_fact_that_is_too_long_is_refused() {
    let (_folder, memory) = open();
    let replies = [call("remember_fact", fact(&"x".repeat(5000))), Script::text("Too long.")];
    let harness = Harness::new(PiPattern, replies, |agent| agent.tools(memory.tools())).await;
    harness.handle.prompt(by("ann", "Remember this.")).await.unwrap();
    assert!(results(&harness).await[0].contains("5000 bytes, and at most 4096 are stored"));
}

/// C189: calls that run again after a crash change nothing twice and return the same results.
#[tokio::test(start_paused = true)]
async fn calls_survive_every_crash() {
    let (_folder, memory) = open();
    let scope = Scope::project("ark");
    let tools = memory.tools().shared(scope.clone()).approve_forget(Approval::Never);
    let remember = |text: &str| call("remember_fact", json!({"fact": text, "shared": true}));
    let replies = [
        remember("The ark has three decks."),
        remember("The ark is of oak."),
        call("forget_fact", json!({"id": 2, "shared": true})),
        remember("The ark is of gopher wood."),
        Script::text("Done."),
    ];
    let scenario = ScriptedSession::new(replies).request("Remember the ark.");
    let agent = |model| GenericAgent::builder(model, PiPattern).tools(tools.clone());
    let report = crash_at_every_append(agent, scenario).await.unwrap();
    assert_eq!((report.calls, report.compared), (4, report.appends));
    let facts = memory.facts(&[scope], 0, 9).await.unwrap();
    assert_eq!(texts(&facts), ["The ark has three decks.", "The ark is of gopher wood."]);
    assert_eq!(facts.iter().map(|fact| fact.id).collect::<Vec<_>>(), [1, 3]);
}
