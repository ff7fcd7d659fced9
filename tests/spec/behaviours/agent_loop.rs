//! B1 to B9, and the hooks of B28 and B29: one run of the loop.

use std::sync::Mutex;

use crate::kit::*;

/// B1: a text answer gives exactly two messages, and the events of the run, its turn and both
/// messages.
#[tokio::test(start_paused = true)]
async fn a_text_answer_gives_two_messages_and_the_events_of_one_turn() {
    let mut harness = pi([Script::text("hello")], &[]).await;
    send(&harness, "hi").await;
    let wanted = [
        "agent_start",
        "turn_start",
        "message_start",
        "message_end",
        "message_start",
        "message_update",
        "message_end",
        "turn_end",
        "agent_end",
    ];
    assert_eq!(kinds(&harness.run_end().await), wanted);
    assert_eq!(harness.transcript().await, ["U:hi", "A:hello/Stop"]);
}

/// A pattern that appends a custom message, then acts like pi.
struct Notes;

#[async_trait::async_trait]
impl BehaviorPattern for Notes {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        step.remember(CustomMessage::new("note", json!("seen"))).await?;
        PiPattern.next_step(step).await
    }
}

/// B2: `convert_to_llm` is called for every request. Only its result is sent, and the custom
/// message stays.
#[tokio::test(start_paused = true)]
async fn a_message_that_the_hook_leaves_out_is_kept_and_not_sent() {
    let asked = Arc::new(Mutex::new(0));
    let count = asked.clone();
    let replies = [calls(&["x"]), Script::text("ok")];
    let harness = Harness::new(Notes, replies, |a| {
        a.tool(TestTool::new("x")).convert_to_llm(move |_, messages| {
            *count.lock().unwrap() += 1;
            messages.into_iter().filter(|m| !matches!(m.body, MessageKind::Custom(_))).collect()
        })
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(*asked.lock().unwrap(), 2);
    assert_eq!(
        harness.transcript().await,
        ["U:go", "C:note", "A:[a]/ToolCalls", "R:a/Ok", "A:ok/Stop"]
    );
    assert_eq!(
        harness.model.requests().iter().map(|r| r.messages.len()).collect::<Vec<_>>(),
        [1, 3]
    );
}

/// B3: `transform_context` prunes first, and `convert_to_llm` sees the rest.
#[tokio::test(start_paused = true)]
async fn the_transform_hook_comes_before_the_convert_hook() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let harness = pi_with([Script::text("1"), Script::text("2")], &[], |a| {
        a.transform_context(async |_, messages| {
            messages[messages.len().saturating_sub(2)..].to_vec()
        })
        .convert_to_llm(move |_, messages| {
            log.lock().unwrap().push(messages.iter().map(|m| m.text()).collect::<Vec<_>>());
            messages
        })
    })
    .await;
    harness.handle.prompt("a").await.unwrap();
    harness.handle.prompt("b").await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [vec!["a"], vec!["1", "b"]]);
    assert_eq!(harness.model.requests()[1].messages.len(), 2);
}

/// B4: a call runs once with its arguments, its events report no error, and a second request
/// follows.
#[tokio::test(start_paused = true)]
async fn a_call_runs_once_and_a_second_request_follows() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Echo {
        value: String,
    }
    let echo = tool_fn("echo", "Echoes.", async |e: Echo, _| {
        Ok::<_, ToolError>(format!("echoed: {}", e.value))
    })
    .effect(Effect::ReadOnly);
    let replies = [Script::calls([("a", "echo", json!({"value": "hello"}))]), Script::text("done")];
    let mut harness = Harness::new(PiPattern, replies, |a| a.tool(echo)).await;
    send(&harness, "go").await;
    let events = harness.run_end().await;
    let started = events.iter().filter(|e| starts(&e.event)).count();
    let ended: Vec<bool> = events
        .iter()
        .filter_map(|e| {
            if let AgentEvent::ToolExecutionEnd { is_error, .. } = e.event {
                Some(is_error)
            } else {
                None
            }
        })
        .collect();
    assert_eq!((started, ended), (1, vec![false]));
    assert_eq!(result_of(&harness, "a").await, "echoed: hello");
    assert_eq!(harness.model.requests().len(), 2);
}

/// B5: calls of one reply run at the same time, and their results are emitted in the order of the
/// calls.
#[tokio::test(start_paused = true)]
async fn the_second_call_starts_before_the_slow_first_one_ends() {
    let tools = [TestTool::new("slow").takes(ms(50)), TestTool::new("fast")];
    let mut harness = pi([calls(&["slow", "fast"]), Script::text("ok")], &tools).await;
    send(&harness, "go").await;
    let order: Vec<String> = harness
        .run_end()
        .await
        .iter()
        .filter_map(|e| match &e.event {
            AgentEvent::ToolExecutionStart { call, .. } => Some(format!("start {call}")),
            AgentEvent::ToolExecutionEnd { call, .. } => Some(format!("end {call}")),
            AgentEvent::MessageEnd { message } => {
                message.as_tool_result().map(|r| format!("result {}", r.call))
            }
            _ => None,
        })
        .collect();
    assert_eq!(order, ["start a", "start b", "end b", "end a", "result a", "result b"]);
}

/// B6: in a sequential batch a steer skips the calls that have not started, with a result that
/// reports it. The steer is in the next request.
#[tokio::test(start_paused = true)]
async fn a_steer_after_the_first_of_two_tools_skips_the_second() {
    let tool = TestTool::new("x").takes(ms(10)).spec(ToolSpec::sequential);
    let mut harness =
        pi([calls(&["x", "x"]), Script::text("ok")], std::slice::from_ref(&tool)).await;
    send(&harness, "go").await;
    harness.until(starts).await;
    harness.handle.steer("interrupt").await.unwrap();
    let events = harness.run_end().await;
    assert_eq!(tool.ran(), 1);
    assert_eq!(statuses(&harness).await, [ResultStatus::Ok, ResultStatus::Skipped]);
    assert!(result_of(&harness, "b").await.contains("the user steered"));
    let emitted = events.iter().any(
        |e| matches!(&e.event, AgentEvent::MessageEnd { message } if message.text() == "interrupt"),
    );
    assert!(
        emitted && harness.model.requests()[1].messages.iter().any(|m| m.text() == "interrupt")
    );
}

/// B7: an empty session has nothing to continue, and the error says so before a request is sent.
#[tokio::test(start_paused = true)]
async fn continue_on_an_empty_history_is_refused() {
    let harness = pi([Script::text("never")], &[]).await;
    let refused = harness.handle.continue_run().await.unwrap_err();
    assert_eq!(refused, InputError::NothingToContinue);
    assert!(refused.to_string().contains("empty"));
    assert_eq!(harness.model.requests().len(), 0);
}

/// B8: continuing after the user's message emits only the new reply, not the old message a second
/// time.
#[tokio::test(start_paused = true)]
async fn continue_after_a_user_message_emits_only_the_new_reply() {
    let replies = [Script::error(ModelErrorKind::Overloaded, "busy"), Script::text("hello")];
    let mut harness = pi(replies, &[]).await;
    assert_eq!(harness.handle.prompt("hi").await.unwrap().end, RunStatus::Error);
    harness.drain_events();
    assert_eq!(harness.handle.continue_run().await.unwrap().text, "hello");
    let emitted: Vec<Role> = harness
        .drain_events()
        .iter()
        .filter_map(|e| {
            if let AgentEvent::MessageEnd { message } = &e.event {
                Some(message.role())
            } else {
                None
            }
        })
        .collect();
    assert_eq!(emitted, [Role::Assistant]);
    assert_eq!(harness.transcript().await, ["U:hi", "A:hello/Stop"]);
}

/// A pattern that replies, then appends a note. It behaves like pi when the run is continued.
struct NotesLast;

#[async_trait::async_trait]
impl BehaviorPattern for NotesLast {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        if !matches!(step.cause(), RunCause::UserRequest(_)) {
            return PiPattern.next_step(step).await;
        }
        step.take_input().await?;
        let reply = step.ask().await?;
        step.remember(CustomMessage::new("note", json!("look again"))).await?;
        reply.finish()
    }
}

/// B9: a custom message at the end can be continued if a hook turns it into a user's. Without the
/// hook it cannot.
#[tokio::test(start_paused = true)]
async fn continue_after_a_custom_message_needs_a_hook_that_converts_it() {
    let replies = || [Script::text("1"), Script::text("2")];
    let as_user = |m: Arc<Message>| match &m.body {
        MessageKind::Custom(note) => {
            Arc::new(Message::new(m.id, UserMessage::from(note.data.as_str().unwrap())))
        }
        _ => m,
    };
    let harness = Harness::new(NotesLast, replies(), |a| {
        a.convert_to_llm(move |_, all| all.into_iter().map(as_user).collect())
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(harness.handle.continue_run().await.unwrap().text, "2");
    assert_eq!(harness.transcript().await, ["U:go", "A:1/Stop", "C:note", "A:2/Stop"]);
    assert_eq!(harness.model.requests()[1].messages[2].text(), "look again");

    let harness = Harness::new(NotesLast, replies(), |a| a).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(harness.handle.continue_run().await.unwrap_err(), InputError::NothingToContinue);
}

/// B28: a hook before the call blocks it with a reason for the model. A hook after it may replace
/// the result.
#[tokio::test(start_paused = true)]
async fn hooks_before_and_after_a_call_block_it_and_replace_its_result() {
    let (bad, good) = (TestTool::new("bad"), TestTool::new("good"));
    let harness =
        pi_with([calls(&["bad", "good"]), Script::text("ok")], &[bad.clone(), good.clone()], |a| {
            a.before_tool_call(async |_, info| match &*info.tool.name {
                "bad" => BeforeToolCall::Block("not on Sundays".into()),
                _ => BeforeToolCall::Proceed,
            })
            .around_tool_call(|_, _, next| {
                Box::pin(async move {
                    let mut result = next.run().await;
                    result.content = vec![Content::text("replaced")];
                    result
                })
            })
        })
        .await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!((bad.ran(), good.ran()), (0, 1));
    assert_eq!(
        (&*result_of(&harness, "a").await, &*result_of(&harness, "b").await),
        ("not on Sundays", "replaced")
    );
    let sent = harness.model.requests()[1].messages[2].as_tool_result().unwrap().is_error();
    assert!(sent, "the block reason is an error result");
}

/// B29: parallel is the default. The hooks before the calls run in source order, one at a time.
#[tokio::test(start_paused = true)]
async fn hooks_are_asked_one_after_the_other_and_tools_run_together() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = log.clone();
    let harness = pi_with(
        [calls(&["x", "x"]), Script::text("ok")],
        &[TestTool::new("x").takes(ms(50))],
        |a| {
            a.before_tool_call(move |_, info| {
                let seen = seen.clone();
                async move {
                    seen.lock().unwrap().push(format!("{} in", info.call));
                    sleep(ms(10)).await;
                    seen.lock().unwrap().push(format!("{} out", info.call));
                    BeforeToolCall::Proceed
                }
            })
        },
    )
    .await;
    let t = Instant::now();
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(*log.lock().unwrap(), ["a in", "a out", "b in", "b out"]);
    assert_eq!(t.elapsed().as_millis(), 70, "10 + 10 for the hooks, 50 for both tools together");
}
