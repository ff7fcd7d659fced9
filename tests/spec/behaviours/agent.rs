//! B10 to B27: an agent's state, queues and handle.

use crate::kit::*;

/// B10: a session of an agent without options has no prompt, tools or messages, does not think, and
/// is at rest.
#[tokio::test(start_paused = true)]
async fn a_new_session_is_empty_and_at_rest() {
    let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
    let handle = agent.session().await.unwrap();
    let state = handle.state().await.unwrap();
    assert_eq!((&*state.system_prompt, state.tools.len(), state.messages.len()), ("", 0, 0));
    assert_eq!(
        (state.thinking_level, state.is_streaming, state.is_running),
        (ThinkingLevel::Off, false, false)
    );
    assert_eq!(
        (state.pending_tool_calls.len(), state.error, state.streaming_message),
        (0, None, None)
    );
}

/// B11: the state shows the options of the agent. Initial messages come from the session's log.
#[tokio::test(start_paused = true)]
async fn the_state_is_as_it_was_given() {
    let before = pi([Script::text("hello")], &[]).await;
    before.handle.prompt("hi").await.unwrap();
    let log = InMemory::from_entries(before.memory.entries());
    let options = |a: AgentBuilder| {
        a.system("Be brief.").thinking(ThinkingLevel::Low).tool(TestTool::new("x"))
    };
    let harness =
        Harness::with_memory(PiPattern, [], options, log, |memory| Arc::new(memory)).await;
    let state = harness.handle.state().await.unwrap();
    assert_eq!(
        (&*state.system_prompt, state.thinking_level, &*state.model),
        ("Be brief.", ThinkingLevel::Low, "test/scripted")
    );
    assert_eq!(state.tools.iter().map(|t| &*t.name).collect::<Vec<_>>(), ["x"]);
    assert_eq!(harness.transcript().await, ["U:hi", "A:hello/Stop"]);
}

/// B12: subscribing and reading the state emit no event, and a dropped stream is forgotten.
#[tokio::test(start_paused = true)]
async fn subscribing_sends_nothing_and_dropping_unsubscribes() {
    let mut harness = pi([Script::text("1"), Script::text("2")], &[]).await;
    let mut second = harness.handle.subscribe();
    harness.handle.state().await.unwrap();
    assert!(second.try_next().is_none() && harness.drain_events().is_empty());
    let holders = |harness: &mut Harness| Arc::strong_count(harness.drain_events().last().unwrap());
    harness.handle.prompt("go").await.unwrap();
    let with_second = holders(&mut harness);
    drop(second);
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(holders(&mut harness), with_second - 1, "no events are kept for a dropped stream");
}

/// B13: options are fixed when an agent is built, and the session is a log, so there are no
/// setters. A snapshot does not change under its reader, and shares its messages with the session.
/// `reset` empties the conversation.
#[tokio::test(start_paused = true)]
async fn a_snapshot_does_not_change_and_shares_its_messages() {
    let harness = pi([Script::text("1"), Script::text("2")], &[]).await;
    harness.handle.prompt("a").await.unwrap();
    let before = harness.handle.state().await.unwrap();
    harness.handle.prompt("b").await.unwrap();
    let after = harness.handle.state().await.unwrap();
    assert_eq!((before.messages.len(), after.messages.len()), (2, 4));
    assert!(Arc::ptr_eq(&before.messages[1], &after.messages[1]));
    harness.handle.reset().await.unwrap();
    assert_eq!(harness.handle.state().await.unwrap().messages.len(), 0);
}

/// B14: a steer at rest is queued and not yet in the conversation.
#[tokio::test(start_paused = true)]
async fn a_steer_at_rest_is_queued() {
    let harness = pi([], &[]).await;
    harness.handle.steer("s").await.unwrap();
    let state = harness.handle.state().await.unwrap();
    assert_eq!((&*state.steering_queue[0].text, state.messages.len()), ("s", 0));
}

/// B15: a follow-up at rest is queued and not yet in the conversation.
#[tokio::test(start_paused = true)]
async fn a_follow_up_at_rest_is_queued() {
    let harness = pi([], &[]).await;
    harness.handle.follow_up("f").await.unwrap();
    let state = harness.handle.state().await.unwrap();
    assert_eq!((&*state.follow_up_queue[0].text, state.messages.len()), ("f", 0));
}

/// B16: an abort at rest is no error, starts no run, and does no harm.
#[tokio::test(start_paused = true)]
async fn an_abort_at_rest_does_nothing() {
    let mut harness = pi([Script::text("ok")], &[]).await;
    assert_eq!(harness.handle.abort().await, Ok(()));
    assert!(harness.drain_events().is_empty());
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Done);
}

/// Returns a session during its reply, and the gate that lets the reply end.
async fn in_a_run() -> (Harness, Gate, tokio::task::JoinHandle<RunOutcome>) {
    let gate = Gate::new();
    let mut harness = pi([Script::text("first").gate(&gate), Script::text("more")], &[]).await;
    let handle = harness.handle.clone();
    let run = tokio::spawn(async move { handle.prompt("go").await.unwrap() });
    harness.until(is_delta).await;
    (harness, gate, run)
}

/// B17: a prompt during a run is refused with an error that names the alternatives. The run is
/// undisturbed.
#[tokio::test(start_paused = true)]
async fn a_prompt_during_a_run_is_refused() {
    let (harness, gate, run) = in_a_run().await;
    let refused = harness.handle.prompt("me too").await.unwrap_err();
    assert_eq!(refused, InputError::Busy);
    assert!(refused.to_string().contains("steer") && refused.to_string().contains("follow-up"));
    gate.open();
    assert_eq!(run.await.unwrap().text, "first");
    assert_eq!(harness.transcript().await, ["U:go", "A:first/Stop"]);
}

/// B18: `continue_run` during a run is refused too.
#[tokio::test(start_paused = true)]
async fn continue_during_a_run_is_refused() {
    let (harness, gate, run) = in_a_run().await;
    assert_eq!(harness.handle.continue_run().await.unwrap_err(), InputError::Busy);
    gate.open();
    assert_eq!((run.await.unwrap().end, harness.model.requests().len()), (RunStatus::Done, 1));
}

/// B19: continuing after the assistant takes a waiting follow-up, and answers it.
#[tokio::test(start_paused = true)]
async fn continue_takes_a_follow_up_that_waits() {
    let harness = pi([Script::text("1"), Script::text("2")], &[]).await;
    harness.handle.prompt("go").await.unwrap();
    harness.handle.follow_up("f").await.unwrap();
    harness.handle.continue_run().await.unwrap();
    assert_eq!(harness.transcript().await, ["U:go", "A:1/Stop", "U:f", "A:2/Stop"]);
}

/// B20: with one message at a time, two waiting steers are answered by two requests.
#[tokio::test(start_paused = true)]
async fn continue_answers_two_steers_one_at_a_time() {
    let replies = [Script::text("1"), Script::text("2"), Script::text("3")];
    let harness = pi_with(replies, &[], |a| a.steering_mode(QueueMode::OneAtATime)).await;
    harness.handle.prompt("go").await.unwrap();
    harness.handle.steer("x").await.unwrap();
    harness.handle.steer("y").await.unwrap();
    harness.handle.continue_run().await.unwrap();
    assert_eq!(harness.transcript().await[2..], ["U:x", "A:2/Stop", "U:y", "A:3/Stop"]);
}

/// B21: the session's id is in every request; another id is another session of the same agent.
#[tokio::test(start_paused = true)]
async fn the_session_id_is_in_every_request() {
    let harness =
        pi([calls(&["x"]), Script::text("1"), Script::text("2")], &[TestTool::new("x")]).await;
    harness.handle.prompt("go").await.unwrap();
    let (other, _events) = harness.agent.run(RunContext::new().session("other")).await.unwrap();
    other.prompt("go").await.unwrap();
    let sent: Vec<String> =
        harness.model.requests().iter().map(|r| r.session.to_string()).collect();
    assert_eq!(sent, ["s", "s", "other"]);
}

/// B22: after a text prompt there are two messages, and no message streams.
#[tokio::test(start_paused = true)]
async fn nothing_streams_once_a_run_has_ended() {
    let (harness, gate, run) = in_a_run().await;
    assert!(harness.handle.state().await.unwrap().is_streaming);
    gate.open();
    run.await.unwrap();
    let state = harness.handle.state().await.unwrap();
    assert_eq!((state.messages.len(), state.is_streaming, state.is_running), (2, false, false));
}

/// B23: a calculator's result reaches the model with the right number, before the answer.
#[tokio::test(start_paused = true)]
async fn a_calculators_result_is_in_the_next_request() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Multiply {
        a: i64,
        b: i64,
    }
    let times = tool_fn("multiply", "Multiplies.", async |m: Multiply, _| {
        Ok::<_, ToolError>((m.a * m.b).to_string())
    })
    .effect(Effect::ReadOnly);
    let replies = [
        Script::calls([("a", "multiply", json!({"a": 123, "b": 456}))]),
        Script::text("It is 56088."),
    ];
    let harness = Harness::new(PiPattern, replies, |a| a.tool(times)).await;
    let outcome = harness.handle.prompt("123 * 456?").await.unwrap();
    assert_eq!(harness.model.requests()[1].messages[2].text(), "56088");
    assert_eq!(outcome.text, "It is 56088.");
}

/// B24: an abort during a run ends it. The last message has the status `aborted`, and the session
/// continues.
#[tokio::test(start_paused = true)]
async fn an_aborted_run_leaves_a_usable_session() {
    let mut harness = pi([slow(9, ms(10)), Script::text("ok")], &[]).await;
    send(&harness, "go").await;
    harness.until(is_delta).await;
    harness.handle.abort().await.unwrap();
    assert_eq!(end_of(&harness.run_end().await), RunStatus::Aborted);
    assert_eq!(harness.transcript().await.last().unwrap(), "A:w0 /Aborted");
    assert_eq!(harness.handle.prompt("again").await.unwrap().text, "ok");
}

/// B25: the state shows the message that streams, as it grows.
#[tokio::test(start_paused = true)]
async fn the_state_shows_the_message_as_it_grows() {
    let mut harness = pi([slow(3, ms(10))], &[]).await;
    send(&harness, "go").await;
    let mut grown = Vec::new();
    for _ in 0..3 {
        harness.until(is_delta).await;
        grown.push(harness.handle.state().await.unwrap().streaming_message.unwrap().text());
    }
    assert_eq!(grown, ["w0 ", "w0 w1 ", "w0 w1 w2 "]);
}

/// B26: with the second prompt, the model sees the first turn.
#[tokio::test(start_paused = true)]
async fn the_model_sees_earlier_turns() {
    let harness = pi([Script::text("Hello, Ann."), Script::text("Ann.")], &[]).await;
    harness.handle.prompt("I am Ann.").await.unwrap();
    harness.handle.prompt("Who am I?").await.unwrap();
    let sent: Vec<String> = harness.model.requests()[1].messages.iter().map(|m| m.text()).collect();
    assert_eq!(sent, ["I am Ann.", "Hello, Ann.", "Who am I?"]);
}

/// B27: after an answer with empty queues there is nothing to continue. After a tool's result there
/// is.
#[tokio::test(start_paused = true)]
async fn continue_needs_something_to_answer() {
    let replies =
        [calls(&["x"]), Script::error(ModelErrorKind::Network, "cut"), Script::text("ok")];
    let harness = pi(replies, &[TestTool::new("x")]).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Error);
    assert_eq!(harness.transcript().await.last().unwrap(), "R:a/Ok");
    assert_eq!(harness.handle.continue_run().await.unwrap().text, "ok");
    assert_eq!(harness.handle.continue_run().await.unwrap_err(), InputError::NothingToContinue);
}
