//! Sub-agents: each is folded under its call with its activity, and its actions bear its name.

use insta::assert_snapshot;
use loopwright_core::GenericAgent;
use loopwright_core::event::ExternalAction;
use loopwright_core::message::ResultStatus;
use loopwright_core::testing::{ScriptedModel, TestTool};
use loopwright_core::tool::{ActionRequest, Question};
use serde_json::json;

use super::*;

fn call_ends(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::ToolExecutionEnd { .. })
}

/// C169: A sub-agent is folded under its call, with its activity. Its actions bear its name, and
/// mark no other call.
#[tokio::test]
async fn sub_agents_are_folded_under_their_calls() {
    let is_turn = |event: &AgentEvent| matches!(event, AgentEvent::ToolExecutionUpdate { .. });
    let mut stage = Stage::recorded(USUAL, "sub_agents", is_turn).await;
    assert_snapshot!("a_sub_agent_that_works", stage.screen());
    let is_asking = |event: &AgentEvent| matches!(event, AgentEvent::AgentEnd(_));
    for (size, name) in [(USUAL, "sub_agents_that_ask"), (NARROW, "sub_agents_that_ask_narrow")] {
        let mut stage = Stage::recorded(size, "sub_agents", is_asking).await;
        stage.wait(Duration::from_secs(1));
        assert_snapshot!(name, stage.screen());
    }
    let mut ended = 0;
    let mut stage = Stage::recorded(USUAL, "sub_agents", |event| {
        ended += usize::from(call_ends(event));
        ended == 1
    })
    .await;
    stage.wait(Duration::from_secs(1));
    assert_snapshot!("one_has_ended_and_one_asks", stage.screen());
    let mut stage = Stage::recorded(USUAL, "sub_agents", |_| false).await;
    assert_snapshot!("sub_agents_that_have_ended", stage.screen());
    stage.control('o').await;
    assert_snapshot!("sub_agents_that_have_ended_open", stage.styled());
}

/// Returns an agent that pays once, after it was asked.
fn payer(amount: u32) -> GenericAgent {
    let model = [Script::calls([("p", "pay", json!({ "amount": amount }))]), Script::text("Paid.")];
    let pay =
        TestTool::new("pay").answers("paid").effect(loopwright_core::tool::Effect::AtMostOnce);
    GenericAgent::builder(ScriptedModel::new(model), PiPattern).tool(pay).build().unwrap()
}

/// C169: Decisions of the dialog reach the sub-agent that asked.
#[tokio::test]
async fn a_decision_goes_to_the_sub_agent_that_asked() {
    let task = |what: &str| json!({ "task": what });
    let calls = [("a", "alice", task("Pay the baker.")), ("b", "bob", task("Pay the butcher."))];
    let replies = [Script::calls(calls), Script::text("Both have done their part.")];
    let mut stage = Stage::stored(USUAL, replies, |agent| {
        agent.child("alice", "Pays.", payer(3)).child("bob", "Pays.", payer(5))
    })
    .await;
    stage.enter("Let them pay").await;
    stage.run_end().await;
    stage.open(ModelInfo::new("test/scripted")).await;
    let screen = stage.screen();
    assert_eq!(screen.matches("waits for you: pay").count(), 2, "as after a restart: {screen}");
    for (who, key) in [("alice", 'y'), ("bob", 'n')] {
        stage.wait(Duration::from_secs(1));
        let screen = stage.screen();
        assert!(screen.contains(&format!("{who}: Run pay?")), "{screen}");
        assert!(!screen.contains("always"), "the tool is not the agent's own: {screen}");
        stage.press(KeyCode::Char('a')).await;
        stage.press(KeyCode::Char(key)).await;
        if key == 'n' {
            stage.enter("too much").await;
        }
        stage.until(|event| matches!(event, AgentEvent::ExternalActionEnd { .. })).await;
        stage.run_end().await;
    }
    assert!(!stage.wanted.iter().any(|effect| matches!(effect, Effect::Allow(_))));
    let state = stage.harness.handle.state().await.unwrap();
    let results: Vec<_> = state.messages.iter().filter_map(|m| m.as_tool_result()).collect();
    assert!(results.iter().all(|result| result.status == ResultStatus::Ok));
    let calls = stage.state.transcript.entries().iter().filter(|entry| entry.folds()).count();
    assert_eq!(calls, 2, "{}", stage.screen());
    assert!(stage.screen().contains("Both have done their part."), "{}", stage.screen());
}

/// A question names the agent that asks, and control characters in names are not obeyed. When the
/// call ends, so do its questions.
#[tokio::test]
async fn a_question_of_a_sub_agent_names_it() {
    let mut stage = Stage::new(USUAL, [], |agent| agent).await;
    let question = serde_json::to_value(Question::choice("Which?", ["red", "blue"])).unwrap();
    let request = Arc::new(ActionRequest::new("question", question));
    let mut action = ExternalAction::new("e~x~q", "ask_user", json!(null), "d").request(request);
    action.path = vec!["erin".into(), "al\u{1b}[2Jice".into()];
    stage.state.dialog.open(&action, BEGIN, false);
    stage.wait(Duration::from_secs(1));
    let screen = stage.screen();
    assert!(screen.contains("erin/al") && screen.contains("ice asks"), "{screen}");
    assert!(!screen.contains('\x1b'), "{screen}");
    let other = ExternalAction::new("e2", "pay", json!({}), "d");
    stage.state.dialog.open(&other, BEGIN, false);
    let left = |stage: &Stage| {
        let actions = stage.state.dialog.actions();
        actions.map(|action| action.call.to_string()).collect::<Vec<_>>()
    };
    stage.state.dialog.close(&"e".into(), BEGIN);
    assert_eq!(left(&stage), ["e2"]);
}
