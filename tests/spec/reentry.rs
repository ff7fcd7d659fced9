//! Re-entry: a pattern is called from its start and continues from the state of the conversation.

use std::sync::Mutex;

use crate::kit::*;

/// C4 C5: After a decision, the engine closes the open batch. The pattern is then called from its
/// start, and the input is not taken a second time.
#[tokio::test(start_paused = true)]
async fn the_batch_is_closed_before_the_pattern_is_reentered() {
    let entered = Arc::new(Mutex::new(Vec::new()));
    let log = entered.clone();
    let pattern = does(move |step| {
        let results = step.history().iter().filter(|m| m.as_tool_result().is_some()).count();
        log.lock().unwrap().push(results);
        Box::pin(PiPattern.next_step(step))
    });
    let ask = TestTool::new("ask").effect(Effect::AtMostOnce);
    let harness =
        Harness::new(pattern, [calls(&["ask"]), Script::text("ok")], |a| a.tool(ask)).await;
    harness.handle.prompt("go").await.unwrap();
    let harness = harness.restart().await;
    let open = harness.pending().await;
    harness
        .handle
        .send(ActionResult::new("a", open[0].digest.clone(), Decision::Approve))
        .await
        .unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(*entered.lock().unwrap(), [0, 1]);
    assert_eq!(harness.transcript().await, ["U:go", "A:[a]/ToolCalls", "R:a/Ok", "A:ok/Stop"]);
    harness.check().await;
}

/// C7: If all results of a batch ask for the end, a run that a crash interrupted before its end
/// sends no further request either. The pattern sees the outcome of the batch.
#[tokio::test(start_paused = true)]
async fn results_that_ask_for_the_end_end_the_run_after_a_crash() {
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let seen = outcomes.clone();
    let pattern = does(move |step| {
        let seen = seen.clone();
        Box::pin(async move {
            step.take_input().await?;
            let reply = step.ask().await?;
            let batch = step.call_tools(&reply).await?;
            seen.lock().unwrap().push(batch);
            Ok(StepEnd::Done)
        })
    });
    let finish = TestTool::new("finish").answers(ToolOutput::text("bye").terminate());
    let replies = [calls(&["finish"]), Script::text("more")];
    let harness = Harness::new(pattern, replies, |a| a.tool(finish.clone())).await;
    harness.handle.prompt("go").await.unwrap();
    let mut log = harness.memory.entries();
    assert!(matches!(log.pop(), Some(LogEntry::RunEnded { .. })));
    let harness = harness.restart_from(log).await;
    harness.handle.continue_run().await.unwrap();
    assert_eq!(harness.transcript().await, ["U:go", "A:[a]/ToolCalls", "R:a/Ok"]);
    assert_eq!(*outcomes.lock().unwrap(), [BatchOutcome::Terminated; 2]);
    assert_eq!((harness.model.requests().len(), finish.ran()), (1, 1));

    // `Continue` is another run, which asks the model, also in another process.
    let harness = harness.restart().await;
    harness.handle.continue_run().await.unwrap();
    assert_eq!(harness.transcript().await.last().unwrap(), "A:more/Stop");
    harness.check().await;
}

/// C5: An input is added to the conversation once, however often `take_input` is called.
#[tokio::test(start_paused = true)]
async fn an_input_is_taken_once() {
    let greedy = does(|step| {
        Box::pin(async {
            for _ in 0..3 {
                step.take_input().await?;
            }
            step.ask().await?.finish()
        })
    });
    let harness = Harness::new(greedy, [Script::text("ok")], |a| a).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(harness.transcript().await, ["U:go", "A:ok/Stop"]);
}

/// C4: A conversation that ends with a complete reply returns that reply. After a crash it is not
/// requested again.
#[tokio::test(start_paused = true)]
async fn a_complete_reply_is_returned_without_a_request() {
    let harness = pi([Script::text("ok")], &[]).await;
    harness.handle.prompt("go").await.unwrap();
    let items = harness.memory.entries();
    let replied = items.iter().position(|i| matches!(i, LogEntry::Replied { .. })).unwrap();
    let harness = harness.restart_from(items[..=replied].to_vec()).await;
    let outcome = harness.handle.continue_run().await.unwrap();
    assert_eq!(
        (outcome.end, outcome.text.as_str(), harness.model.requests().len()),
        (RunStatus::Done, "ok", 1)
    );
    assert_eq!(harness.transcript().await, ["U:go", "A:ok/Stop"]);
}

/// C8: A request shares its messages with the session, without copies.
#[tokio::test(start_paused = true)]
async fn a_request_shares_the_history() {
    let harness = pi([calls(&["x"]), Script::text("ok")], &[TestTool::new("x")]).await;
    harness.handle.prompt("go").await.unwrap();
    let (kept, requests) =
        (harness.handle.state().await.unwrap().messages, harness.model.requests());
    for request in &requests {
        assert!(
            request.messages.iter().zip(kept.iter()).all(|(sent, kept)| Arc::ptr_eq(sent, kept))
        );
    }
    assert_eq!(requests[1].messages.len(), 3);
}

/// C70: The scripted model refuses a malformed request: an orphan result, an orphan call, nothing
/// to answer, no messages.
#[tokio::test(start_paused = true)]
async fn the_scripted_model_refuses_a_malformed_request() {
    let result = || MessageKind::from(ToolResult::new("a", "x", ResultStatus::Ok, vec![]));
    let call = || {
        let call = ToolCall::new("a", "x", "{}");
        MessageKind::from(AssistantMessage::new(vec![ContentPart::ToolCall(call)]))
    };
    let user = || MessageKind::from(UserMessage::from("hi"));
    let reply = || MessageKind::from(AssistantMessage::default());
    let malformed = [
        (vec![user(), result()], "no call before it"),
        (vec![user(), call(), user()], "not followed by its result"),
        (vec![user(), call(), result(), result()], "no call before it"),
        (vec![user(), reply()], "nothing to answer"),
        (vec![], "no messages"),
    ];
    for (messages, why) in malformed {
        let pattern = does(move |step| {
            let ask = Ask::new().messages(messages.clone());
            Box::pin(async {
                step.take_input().await?;
                step.ask_with(ask).await?.finish()
            })
        });
        let harness = Harness::new(pattern, [Script::text("never")], |a| a).await;
        let outcome = harness.handle.prompt("go").await.unwrap();
        assert_eq!(outcome.model_error, Some(ModelErrorKind::InvalidRequest));
        assert!(harness.model.refused()[0].contains(why), "{:?}", harness.model.refused());
    }
}

/// C53: a run that failed in a detached request continues, although the conversation ends with a
/// reply.
#[tokio::test(start_paused = true)]
async fn a_run_that_failed_in_a_detached_request_continues() {
    let pattern = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            step.ask().await?;
            let question = UserMessage::from("Is it right?");
            step.ask_with(Ask::detached().also(question)).await?.finish()
        })
    });
    let failure = Script::error(ModelErrorKind::Overloaded, "busy");
    let replies = [Script::text("ok"), failure, Script::text("yes")];
    let harness = Harness::new(pattern, replies, |a| a).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Error);
    assert_eq!(harness.handle.continue_run().await.unwrap().end, RunStatus::Done);
    assert_eq!(harness.transcript().await, ["U:go", "A:ok/Stop"]);
    assert_eq!(harness.model.requests().len(), 3);
    let refused = harness.handle.continue_run().await.unwrap_err();
    assert_eq!(refused, InputError::NothingToContinue);
    harness.check().await;
}

/// C141: If a steer supersedes a question, a later call of the pattern is not superseded by that
/// steer, even if a crash comes before the call. The turns of both runs nest.
#[tokio::test(start_paused = true)]
async fn a_call_after_a_superseded_question_runs() {
    let pattern = || {
        does(|step| {
            Box::pin(async {
                step.take_input().await?;
                let question = Question::choice("Which?", ["red", "blue"]);
                if step.question("colour", question).await? == QuestionStatus::Waiting {
                    return Ok(StepEnd::AwaitingAction);
                }
                step.call(Call::new("look", json!({})).key("look")).await?;
                PiPattern.next_step(step).await
            })
        })
    };
    let look = TestTool::new("look");
    let options = |agent: AgentBuilder| agent.tool(look.clone());
    let mut harness = Harness::new(pattern(), [Script::text("ok")], options).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::AwaitingAction);
    harness.handle.steer("no").await.unwrap();
    harness.handle.wait_for_idle().await;
    check_events(&harness.drain_events()).unwrap();
    let transcript = harness.transcript().await;
    assert!(transcript.contains(&"R:look/Ok".to_owned()), "{transcript:?}");

    let log = harness.memory.entries();
    let is_look = |entry: &LogEntry| match entry {
        LogEntry::Called { keys, .. } => keys.values().any(|key| **key == *"look"),
        _ => false,
    };
    let called = log.iter().position(is_look).unwrap();
    let harness = Harness::new(pattern(), [Script::text("ok")], options).await;
    let harness = harness.restart_from(log[..=called].to_vec()).await;
    harness.handle.continue_run().await.unwrap();
    assert_eq!(harness.transcript().await, transcript);
    harness.check().await;
}
