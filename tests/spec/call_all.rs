//! Calls of a pattern that are made together: how many at once, and how many are enough.

use crate::kit::*;

/// C493: A pattern may run fewer calls at once than the limits allow, also after a crash.
#[tokio::test(start_paused = true)]
async fn a_pattern_runs_fewer_calls_at_once() {
    let calling = || {
        does(|step| {
            Box::pin(async {
                step.take_input().await?;
                let calls = ["a", "b", "c"].map(|name| Call::new(name, json!({})).key(name));
                let called = step.call_all(calls).at_most(1).await?;
                assert_eq!(called.map(|results| results.len()), Some(3));
                Ok(StepEnd::Done)
            })
        })
    };
    let tools = || ["a", "b", "c"].map(|name| TestTool::new(name).takes(ms(10)));
    let add = |agent| tools().into_iter().fold(agent, AgentBuilder::tool);
    let start = Instant::now();
    let harness = Harness::new(calling(), [], add).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(start.elapsed(), ms(30));
    harness.check().await;
    let log = harness.memory.entries();
    let called = log.iter().position(|entry| matches!(entry, LogEntry::Called { .. })).unwrap();
    let harness = Harness::new(calling(), [], add).await;
    let harness = harness.restart_from(log[..=called].to_vec()).await;
    let start = Instant::now();
    harness.handle.continue_run().await.unwrap();
    assert_eq!(start.elapsed(), ms(30));
    harness.check().await;
}

/// C493: The first call that succeeds makes the others unnecessary, wherever a crash cuts the log.
#[tokio::test(start_paused = true)]
async fn the_first_call_that_succeeds_ends_the_others() {
    let calling = || {
        does(|step| {
            Box::pin(async {
                step.take_input().await?;
                let calls = ["slow", "broken", "fast", "late"];
                let calls = calls.map(|name| Call::new(name, json!({})).key(name).hidden());
                let results = step.call_all(calls).at_most(3).first().await?;
                let results = results.ok_or(StepEnd::AwaitingAction)?;
                let ok = results.iter().filter(|result| result.status == ResultStatus::Ok);
                let names: Vec<&str> = ok.map(|result| &*result.name).collect();
                assert_eq!((names, results.len()), (vec!["fast"], 4), "{results:?}");
                let late = &results[3];
                assert_eq!(late.text(), "Skipped: another of these calls has succeeded.");
                step.remember(AssistantMessage::from("Done.")).await?;
                Ok(StepEnd::Done)
            })
        })
    };
    let tools = || {
        [
            TestTool::new("slow").takes(ms(90)),
            TestTool::new("broken").fails("It is broken."),
            TestTool::new("fast").takes(ms(20)),
            TestTool::new("late").spec(|spec| spec.approval(Approval::Always)),
        ]
    };
    let open = async || {
        let tools = tools();
        let added = tools.clone();
        let add = |agent| added.into_iter().fold(agent, AgentBuilder::tool);
        (Harness::new(calling(), [], add).await, tools)
    };
    let start = Instant::now();
    let (whole, tools) = open().await;
    assert_eq!(whole.handle.prompt("go").await.unwrap().text, "Done.");
    assert_eq!((start.elapsed(), tools[3].ran()), (ms(20), 0));
    whole.check().await;
    let log = whole.memory.entries();
    let first = log.iter().position(|entry| matches!(entry, LogEntry::Called { .. })).unwrap();
    let has_won = |log: &[LogEntry]| {
        log.iter().any(|entry| match entry {
            LogEntry::CallFinished { result } => {
                result.as_tool_result().is_some_and(|result| result.status == ResultStatus::Ok)
            }
            _ => false,
        })
    };
    for cut in first + 1..log.len() {
        let (harness, tools) = open().await;
        let harness = harness.restart_from(log[..cut].to_vec()).await;
        assert_eq!(harness.handle.continue_run().await.unwrap().text, "Done.", "after {cut}");
        let ran: usize = tools.iter().map(TestTool::ran).sum();
        assert!(!has_won(&log[..cut]) || ran == 0, "after {cut}: {ran}");
        harness.check().await;
    }
}
