//! The pattern that makes the model call a tool first.

use loopwright_patterns::{FirstCall, conformance};

use crate::kit::*;

async fn forced(replies: impl IntoIterator<Item = Script>, tool: TestTool) -> Harness {
    Harness::new(FirstCall::new(ToolChoice::Required, PiPattern), replies, |agent| agent.tool(tool))
        .await
}

fn choices(harness: &Harness) -> Vec<ToolChoice> {
    harness.model.requests().iter().map(|request| request.tool_choice.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn only_the_first_turn_of_each_request_is_forced() {
    let replies = [
        calls(&["look"]),
        calls(&["look"]),
        Script::text("one"),
        calls(&["look"]),
        Script::text("two"),
    ];
    let harness = forced(replies, TestTool::new("look")).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "one");
    assert_eq!(harness.handle.prompt("on").await.unwrap().text, "two");
    use ToolChoice::{Auto, Required};
    assert_eq!(choices(&harness), [Required, Auto, Auto, Required, Auto]);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_ignores_the_tool_choice_has_replied() {
    let harness = forced([Script::text("no")], TestTool::new("look")).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!(
        (outcome.end, outcome.text.as_str(), harness.model.requests().len()),
        (RunStatus::Done, "no", 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_that_a_decision_resumes_is_not_forced() {
    let tool = TestTool::new("write").effect(Effect::AtMostOnce);
    let harness = forced([calls(&["write"]), Script::text("done")], tool).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::AwaitingAction);
    let open = harness.handle.pending().await.unwrap().remove(0);
    harness.handle.approve(&open).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(choices(&harness), [ToolChoice::Required, ToolChoice::Auto]);
    assert_eq!(statuses(&harness).await, [ResultStatus::Ok]);
}

/// A pattern that rewinds the first branch to the request, and ends with the second.
struct TwoBranches<P>(P);

#[async_trait::async_trait]
impl<P: BehaviorPattern> BehaviorPattern for TwoBranches<P> {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let root: MessageId = step.state("root").unwrap_or(step.checkpoint());
        step.set_state("root", root)?;
        let end = self.0.next_step(step).await?;
        if end != StepEnd::Done || step.state("second").unwrap_or(false) {
            return Ok(end);
        }
        step.set_state("second", true)?;
        step.rewind(root).await?;
        self.0.next_step(step).await
    }
}

/// C166: Each branch begins with a forced turn, as if earlier branches had not existed.
#[tokio::test(start_paused = true)]
async fn the_first_turn_after_a_rewind_is_forced() {
    let branch = || [calls(&["look"]), Script::text("done")];
    let replies = branch().into_iter().chain(branch());
    let pattern = || TwoBranches(FirstCall::new(ToolChoice::Required, PiPattern));
    let tool = TestTool::new("look");
    let harness = Harness::new(pattern(), replies, |agent| agent.tool(tool)).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "done");
    use ToolChoice::{Auto, Required};
    assert_eq!(choices(&harness), [Required, Auto, Required, Auto]);
    // After a result that asks for the end, the pattern would continue. After a crash, the engine
    // closes the batch and ends the run.
    let scenarios = conformance::scenarios().into_iter();
    let scenarios =
        scenarios.filter(|scenario| scenario.name() != "a result that asks for the end");
    let report = conformance::check(pattern, scenarios.collect::<Vec<_>>()).await;
    assert!(report.unwrap_or_else(|why| panic!("{why}")).sessions > 100);
}
