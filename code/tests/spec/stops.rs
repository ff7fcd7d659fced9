//! Scripts that the user stops.

use loopwright_core::AgentEvent;
use loopwright_core::event::{InputEvent, Prompt, RunStatus, Urgency};
use loopwright_core::testing::{Gate, Harness, Script, TestTool};
use loopwright_core::tool::{Approval, Effect};

use crate::kit::{code_mode, script};

fn starts(event: &AgentEvent, tool: &str) -> bool {
    matches!(event, AgentEvent::ToolExecutionStart { name, .. } if **name == *tool)
}

const TWO: &str = "await look()\nawait pay()\nawait look()";

/// C549: A steer that skips a call stops the script; its output says which calls were made.
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
    harness.until(|event| starts(event, "look")).await;
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

/// C549: Another request while a call waits ends the script: it is not run again.
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
    let ended = "The script was stopped after these calls: look × 1.";
    assert_eq!(texts[2..], [ended, "No, forget it."]);
    harness.handle.prompt("And now?").await.unwrap();
    let request = harness.model.requests()[2].clone();
    assert_eq!((request.messages.len(), request.messages[2].text().as_str()), (6, ended));
    harness.check().await;
}

/// C549: After an abort, another request does not run the script again, and the model learns which
/// calls were made.
#[tokio::test]
async fn an_aborted_script_is_not_run_again() {
    let look = TestTool::new("look").waits(&Gate::new());
    let pay =
        TestTool::new("pay").effect(Effect::Idempotent).spec(|spec| spec.approval(Approval::Never));
    let replies = [script("await pay()\nawait look()"), Script::text("As you like.")];
    let options = |agent: loopwright_core::AgentBuilder| agent.tool(look.clone()).tool(pay.clone());
    let mut harness = Harness::new(code_mode(), replies, options).await;
    harness.handle.send(InputEvent::UserRequest("Pay.".into())).await.unwrap();
    harness.until(|event| starts(event, "look")).await;
    harness.handle.abort().await.unwrap();
    harness.run_end().await;
    assert_eq!(harness.handle.prompt("Thanks.").await.unwrap().text, "As you like.");
    assert_eq!((look.ran(), pay.ran()), (1, 1));
    let ended = "The script was stopped after these calls: look × 1 (aborted), pay × 1.";
    let requests = harness.model.requests();
    let texts: Vec<String> = requests[1].messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts[2..], [ended, "Thanks."]);
    harness.check().await;
}

/// C549: A steer also keeps the reply's other scripts from making calls.
#[tokio::test]
async fn a_steer_stops_all_scripts_of_a_reply() {
    let gate = Gate::new();
    let look = TestTool::new("look").waits(&gate);
    let pay =
        TestTool::new("pay").effect(Effect::Idempotent).spec(|spec| spec.approval(Approval::Never));
    let run = |id, code| (id, "run_script", serde_json::json!({ "code": code }));
    let scripts = Script::calls([
        run("1", "await look()\nawait pay()"),
        run("2", "await pay()\nawait pay()"),
    ]);
    let options = |agent: loopwright_core::AgentBuilder| agent.tool(look.clone()).tool(pay.clone());
    let mut harness = Harness::new(code_mode(), [scripts, Script::text("Stopped.")], options).await;
    harness.handle.send(InputEvent::UserRequest("Go.".into())).await.unwrap();
    harness.until(|event| starts(event, "look")).await;
    harness.handle.steer("Wait.").await.unwrap();
    gate.open();
    harness.run_end().await;
    assert_eq!(pay.ran(), 0);
    let requests = harness.model.requests();
    let texts: Vec<String> = requests[1].messages.iter().map(|message| message.text()).collect();
    let outputs =
        ["The script was stopped after these calls: look × 1.", "The script was stopped."];
    assert_eq!(texts[4..6], outputs, "{texts:?}");
    harness.check().await;
}

/// C549: An abort ends the process of a script that computes.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_abort_ends_the_process() {
    let is_running = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines =
            processes.filter_map(|p| std::fs::read_to_string(p.path().join("cmdline")).ok());
        lines.into_iter().any(|line| line.contains("loopwright-script\0of-the-abort"))
    };
    let interpreter =
        crate::kit::interpreter().arg("of-the-abort").time(std::time::Duration::from_secs(600));
    let pattern = loopwright_code::CodeMode::new(interpreter);
    let mut harness = Harness::new(pattern, [script("while True: pass")], |agent| agent).await;
    harness.handle.send(InputEvent::UserRequest("Go.".into())).await.unwrap();
    while !is_running() {
        tokio::task::yield_now().await;
    }
    harness.handle.abort().await.unwrap();
    harness.run_end().await;
    assert!(!is_running());
    harness.check().await;
}

/// C549: The process of a script ends with the process of its agent.
#[test]
fn the_process_ends_with_its_agent() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwright-script"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let start = serde_json::json!({
        "code": "await look()", "functions": ["look"], "seconds": 600, "memory_bytes": 64 << 20,
    });
    writeln!(child.stdin.as_mut().unwrap(), "{start}").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains(r#""function":"look""#), "{line}");
    drop(child.stdin.take());
    assert!(!child.wait().unwrap().success());
}
