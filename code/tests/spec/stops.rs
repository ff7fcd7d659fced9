//! Scripts that the user stops.

use loopwright_core::AgentEvent;
use loopwright_core::event::{Prompt, RunStatus, Urgency};
use loopwright_core::testing::{Gate, Harness, Script, TestTool};
use loopwright_core::tool::{Approval, Effect};

use crate::kit::{code_mode, script};

const TWO: &str = "await look()\nawait pay()\nawait look()";

/// C530: A steer that skips a call stops the script; its output says which calls were made.
#[tokio::test]
async fn a_steer_stops_the_script() {
    let gate = Gate::new();
    let look = TestTool::new("look").waits(&gate);
    let pay =
        TestTool::new("pay").effect(Effect::Idempotent).spec(|spec| spec.approval(Approval::Never));
    let replies = [script("await look()\nawait pay()"), Script::text("Stopped.")];
    let options = |agent: loopwright_core::AgentBuilder| agent.tool(look.clone()).tool(pay.clone());
    let mut harness = Harness::new(code_mode(), replies, options).await;
    let handle = harness.handle.clone();
    let running = tokio::spawn(async move { handle.prompt("Go.").await.unwrap() });
    let looks = |event: &AgentEvent| match event {
        AgentEvent::ToolExecutionStart { name, .. } => **name == *"look",
        _ => false,
    };
    harness.until(looks).await;
    let steer = Prompt::from("Wait.").urgency(Urgency::Interrupt);
    harness.handle.steer(steer).await.unwrap();
    gate.open();
    assert_eq!(running.await.unwrap().text, "Stopped.");
    let requests = harness.model.requests();
    let texts: Vec<String> = requests[1].messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts.last().unwrap(), "Wait.");
    assert!(texts[3].contains("look × 1"), "{texts:?}");
    assert_eq!(pay.ran(), 0);
    harness.check().await;
}

/// C530: Another request while a call waits ends the script: it is not run again.
#[tokio::test]
async fn another_request_ends_a_script_that_waits() {
    let (look, pay) = (TestTool::new("look"), TestTool::new("pay").effect(Effect::Idempotent));
    let replies = [script(TWO), Script::text("As you like.")];
    let options = |agent: loopwright_core::AgentBuilder| agent.tool(look.clone()).tool(pay.clone());
    let harness = Harness::new(code_mode(), replies, options).await;
    let outcome = harness.handle.prompt("Pay.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    let outcome = harness.handle.prompt("No, forget it.").await.unwrap();
    assert_eq!(outcome.text, "As you like.");
    assert_eq!((look.ran(), pay.ran()), (1, 0));
    let requests = harness.model.requests();
    let texts: Vec<String> = requests[1].messages.iter().map(|message| message.text()).collect();
    assert!(texts[2].contains("which has stopped it"), "{texts:?}");
    assert_eq!(texts[3..], ["No, forget it."]);
    harness.check().await;
}
