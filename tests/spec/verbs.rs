//! The methods of a pattern, `AgentContext`, and the results of a handle.

use crate::kit::*;

/// C42: An assistant message with calls is not remembered, because their results could not follow.
#[tokio::test(start_paused = true)]
async fn a_message_with_calls_is_not_remembered() {
    let repeating = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            let reply = step.ask().await?;
            step.call_tools(&reply).await?;
            let message = reply.message().unwrap().as_assistant().unwrap().clone();
            let refused = step.remember(message).await;
            assert!(matches!(refused, Err(StepError::CallsWithoutReply)), "{refused:?}");
            Ok(StepEnd::Done)
        })
    });
    let harness = Harness::new(repeating, [calls(&["x"])], |a| a.tool(TestTool::new("x"))).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Done);
    assert_eq!(harness.transcript().await.len(), 3);
    harness.check().await;
}

/// C42: A `custom` event has its own number and is in the log.
#[tokio::test(start_paused = true)]
async fn a_custom_event_is_an_entry_of_the_log() {
    let emitting = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            step.emit("progress", json!({"at": 1})).await?;
            Ok(StepEnd::Done)
        })
    });
    let mut harness = Harness::new(emitting, [], |a| a).await;
    send(&harness, "go").await;
    let events = harness.run_end().await;
    check_events(&events).unwrap();
    let at = events.iter().position(|e| matches!(e.event, AgentEvent::Custom { .. })).unwrap();
    assert_eq!(events[at].seq, events[at - 1].seq + 1);
    assert!(
        harness
            .memory
            .entries()
            .iter()
            .any(|i| matches!(i, LogEntry::Emitted { data, .. } if **data == json!({"at": 1})))
    );
}

fn tokens(n: u64) -> Usage {
    Usage::new(n, 0)
}

/// Sends a detached request to a critic, then replies.
async fn ask_critic(step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    step.take_input().await?;
    let ask = Ask::detached()
        .model("critic")
        .system("Criticise.")
        .messages([UserMessage::from("a draft").into()]);
    let verdict = step.ask_with(ask).await?.text();
    step.set_state("verdict", verdict)?;
    step.ask().await?.finish()
}

/// C67: The reply to a detached request is in neither the conversation nor the events. It counts
/// against the limits and is logged.
#[tokio::test(start_paused = true)]
async fn a_detached_request_is_counted_and_logged_and_emits_no_events() {
    let critic = ScriptedModel::new([Script::text("too long").usage(tokens(5))]);
    let replies = [Script::text("ok").usage(tokens(2))];
    let mut harness = Harness::new(does(|step| Box::pin(ask_critic(step))), replies, |a| {
        a.model_named("critic", critic.clone()).tool(TestTool::new("x"))
    })
    .await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!((outcome.usage, outcome.text.as_str()), (tokens(7), "ok"));
    assert_eq!(harness.transcript().await, ["U:go", "A:ok/Stop"]);
    assert!(!trace(&harness.drain_events()).contains("too long"));
    let request = critic.requests().remove(0);
    assert_eq!((&*request.system, request.messages[0].text().as_str()), ("Criticise.", "a draft"));
    assert_eq!(request.tools.len(), 0, "it offers no tools");
    let logged = |entry: &LogEntry| match entry {
        LogEntry::Detached { message, .. } => message.text() == "too long",
        _ => false,
    };
    assert!(harness.memory.entries().iter().any(logged));
}

/// C49 C67: A detached request counts as a turn, and its tokens count for the run. Either limit
/// ends the run before the next request.
#[tokio::test(start_paused = true)]
async fn a_detached_request_counts_against_the_limits() {
    for (limits, reached) in [
        (Budget::default().turns(1), Limit::Run(Resource::Turns)),
        (Budget::default().tokens(5), Limit::Run(Resource::Tokens)),
    ] {
        let critic = ScriptedModel::new([Script::text("too long").usage(tokens(5))]);
        let harness =
            Harness::new(does(|step| Box::pin(ask_critic(step))), [Script::text("ok")], |a| {
                a.model_named("critic", critic).limits(limits)
            })
            .await;
        let outcome = harness.handle.prompt("go").await.unwrap();
        assert_eq!((outcome.end, outcome.limit), (RunStatus::Limit, Some(reached)));
        assert_eq!(harness.model.requests().len(), 0);
    }
}

/// A request to an unknown model ends the run with an error that lists the known ones.
#[tokio::test(start_paused = true)]
async fn an_unknown_model_is_named_in_the_error() {
    let harness = Harness::new(does(|step| Box::pin(ask_critic(step))), [], |a| {
        a.model_named("cheap", ScriptedModel::new([]))
    })
    .await;
    let error = harness.handle.prompt("go").await.unwrap().error.unwrap();
    assert!(error.contains("`critic`") && error.contains("cheap"), "{error}");
}

/// C68: `AgentContext` returns the next request, appends messages, validates calls and runs them
/// one by one.
#[tokio::test(start_paused = true)]
async fn the_agent_context_does_step_by_step_what_the_methods_do() {
    let by_hand = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            step.context().update_memory(UserMessage::from("and quickly")).await?;
            let next = step.context().generate(&Ask::new()).await?;
            assert_eq!(
                next.messages.iter().map(|m| m.text()).collect::<Vec<_>>(),
                ["go", "and quickly"]
            );
            assert_eq!((&*next.system, next.tools.len()), ("Be brief.", 2));
            let reply = step.ask().await?;
            let message = reply.message().unwrap().clone();
            let calls: Vec<&ToolCall> = message.as_assistant().unwrap().calls().collect();
            let mut context = step.context();
            assert_eq!(context.validate_tool_call(calls[0]), Ok(json!({"n": 1})));
            assert!(context.validate_tool_call(calls[2]).unwrap_err().contains("/n"));
            assert_eq!([0, 1, 2].map(|i| context.approves(calls[i])), [true, false, false]);
            let first = context.call_tool(&calls[0].id).await?;
            assert_eq!(first.map(|m| m.text()), Some("n is 1".into()));
            assert_eq!(context.call_tool(&calls[1].id).await?, None, "it waits for the user");
            let added = step.context().update_memory(UserMessage::from("x")).await;
            for refused in [
                step.ask().await.map(drop),
                step.remember(UserMessage::from("x")).await.map(drop),
                added.map(drop),
                step.take_steering().await,
                step.take_messages().await,
                step.take_follow_ups().await.map(drop),
            ] {
                assert!(matches!(refused, Err(StepError::BatchOpen(_))), "{refused:?}");
            }
            assert!(step.call_tools(&reply).await?.awaits_user());
            Ok(StepEnd::AwaitingAction)
        })
    });
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Number {
        n: u32,
    }
    let count = tool_fn("count", "Counts.", async |c: Number, _| {
        Ok::<_, ToolError>(format!("n is {}", c.n))
    });
    let replies = [Script::new()
        .call("a", "count", r#"{"n": "1"}"#)
        .call("b", "ask", "{}")
        .call("c", "count", "{}")];
    let harness = Harness::new(by_hand, replies, |a| {
        let ask = TestTool::new("ask").effect(Effect::AtMostOnce);
        a.system("Be brief.").tool(count.effect(Effect::ReadOnly)).tool(ask)
    })
    .await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!((outcome.end, outcome.error), (RunStatus::AwaitingAction, None));
    assert_eq!(harness.pending().await.iter().map(|p| &*p.call).collect::<Vec<_>>(), ["b"]);
}

/// C47: A pattern that takes no input is called once. The request is in the conversation.
#[tokio::test(start_paused = true)]
async fn a_pattern_that_takes_no_input_is_called_once() {
    let harness = Harness::new(does(|_| Box::pin(async { Ok(StepEnd::Done) })), [], |a| a).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Done);
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.transcript().await, ["U:go"]);
    assert_eq!(
        harness
            .memory
            .entries()
            .iter()
            .filter(|i| matches!(i, LogEntry::RunStarted { .. }))
            .count(),
        1
    );
}

/// C62: `prompt_stream` yields the events of its run, from `agent_start` to `agent_end`, and is
/// refused during another run.
#[tokio::test(start_paused = true)]
async fn a_prompt_stream_is_one_run() {
    let harness = pi([slow(2, ms(10)), Script::text("2")], &[]).await;
    let mut run = harness.handle.prompt_stream("go").await.unwrap();
    assert_eq!(harness.handle.prompt_stream("go").await.err(), Some(InputError::Busy));
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        events.push(event);
    }
    check_events(&events).unwrap();
    let kinds = kinds(&events);
    assert_eq!((kinds[0].as_str(), kinds.last().unwrap().as_str()), ("agent_start", "agent_end"));
    assert_eq!(kinds.iter().filter(|kind| *kind == "agent_end").count(), 1);
}

/// C39: `clear_queues` removes the messages of both queues, returns their texts and emits an event.
/// None of them is delivered.
#[tokio::test(start_paused = true)]
async fn queues_can_be_cleared() {
    let mut harness = pi([Script::text("ok")], &[]).await;
    harness.handle.steer("s").await.unwrap();
    harness.handle.follow_up("f").await.unwrap();
    assert_eq!(harness.handle.clear_queues().await.unwrap(), ["s", "f"]);
    assert!(harness.memory.entries().last().unwrap().must_be_durable(), "it was acknowledged");
    let last = harness.drain_events().pop().unwrap();
    let AgentEvent::QueueUpdate { added: None, removed } = &last.event else {
        panic!("{last:?}");
    };
    assert_eq!(removed.len(), 2);
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(harness.transcript().await, ["U:go", "A:ok/Stop"]);
    assert_eq!(harness.handle.clear_queues().await.unwrap(), Vec::<String>::new());
}

/// C69: `state()` has the fields of an agent's state in pi: prompt, model, thinking, messages,
/// tools, the streaming message, pending calls, the last error, both queues with their modes, and
/// the session.
#[tokio::test(start_paused = true)]
async fn a_snapshot_has_every_field() {
    let gate = Gate::new();
    let replies = [calls(&["x"]), slow(1, ms(10)), Script::error(ModelErrorKind::Auth, "no key")];
    let mut harness = pi_with(replies, &[TestTool::new("x").waits(&gate)], |a| {
        a.system("Be brief.")
            .thinking(ThinkingLevel::High)
            .steering_mode(QueueMode::OneAtATime)
            .follow_up_mode(QueueMode::All)
    })
    .await;
    send(&harness, "go").await;
    harness.until(starts).await;
    harness.handle.steer(Prompt::from("s").urgency(Urgency::AfterTurn)).await.unwrap();
    harness.handle.follow_up("f").await.unwrap();
    let state = harness.handle.state().await.unwrap();
    assert_eq!(
        (&*state.session_key, &*state.system_prompt, &*state.model),
        ("s", "Be brief.", "test/scripted")
    );
    assert_eq!(
        (state.thinking_level, state.messages.len(), state.tools.len()),
        (ThinkingLevel::High, 2, 1)
    );
    assert_eq!(
        (state.is_running, state.is_streaming, state.streaming_message),
        (true, false, None)
    );
    assert_eq!((&*state.pending_tool_calls, state.pending_actions.len()), (&["a".into()][..], 0));
    assert_eq!(
        (state.steering_mode, state.follow_up_mode),
        (QueueMode::OneAtATime, QueueMode::All)
    );
    assert_eq!((&*state.steering_queue[0].text, &*state.follow_up_queue[0].text), ("s", "f"));
    assert_eq!((state.error, state.interrupted_run), (None, None));
    gate.open();
    harness.until(is_delta).await;
    let state = harness.handle.state().await.unwrap();
    assert_eq!(
        (state.is_streaming, state.streaming_message.unwrap().text().as_str()),
        (true, "w0 ")
    );
    assert_eq!(state.pending_tool_calls, Vec::<CallId>::new());
    harness.handle.wait_for_idle().await;
    let state = harness.handle.state().await.unwrap();
    assert_eq!((state.error.as_deref(), state.is_running), (Some("no key"), false));
}

/// C49 C67: a detached request that fails is logged and counted too, so a pattern that repeats it
/// forever reaches the limit.
#[tokio::test(start_paused = true)]
async fn a_detached_request_that_fails_is_counted() {
    let pattern = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            while step.ask_with(Ask::detached()).await?.error().is_some() {}
            Ok(StepEnd::Done)
        })
    });
    let replies = (0..9).map(|_| Script::error(ModelErrorKind::Overloaded, "busy"));
    let harness = Harness::new(pattern, replies, |a| a.limits(Budget::default().turns(4))).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().limit, Some(Limit::Run(Resource::Turns)));
    assert!(harness.model.requests().len() <= 4);
    harness.check().await;
}

/// C16: a request with an invalid output schema is refused at once.
#[tokio::test(start_paused = true)]
async fn a_request_with_a_bad_schema_is_refused() {
    let harness = pi([Script::text("ok")], &[]).await;
    let mut prompt = Prompt::from("go");
    prompt.output = Some(Arc::new(OutputSchema::new("x", json!({"type": 5}))));
    assert!(matches!(harness.handle.prompt(prompt).await, Err(InputError::OutputSchema(_))));
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "ok");
}

/// C4: after a crash, a reply to a request with its own messages is returned like a reply to the
/// conversation: the request is not sent again. If it is repeated in the same run, it is sent.
#[tokio::test(start_paused = true)]
async fn a_reply_to_other_messages_is_requested_once_despite_a_crash() {
    for with_messages in [false, true] {
        let rag = does(move |step| {
            Box::pin(async move {
                step.take_input().await?;
                let found = UserMessage::from("Sheep eat grass.");
                let ask = || match with_messages {
                    false => Ask::new().also(found.clone()),
                    true => Ask::new().messages([found.clone().into()]),
                };
                step.ask_with(ask()).await?;
                step.ask_with(ask().system("Be brief.")).await?;
                step.ask_with(ask().system("Be brief.")).await?.finish()
            })
        });
        let replies = ["one", "two", "three", "four"].map(Script::text);
        let mut harness = Harness::new(rag, replies, |a| a).await;
        send(&harness, "What do sheep eat?").await;
        harness.run_end().await;
        assert_eq!(harness.model.requests().len(), 3);
        // The crash comes after the first reply.
        let mut log = harness.memory.entries();
        let first = log.iter().position(|e| matches!(e, LogEntry::Replied { .. })).unwrap();
        log.truncate(first + 1);
        let harness = harness.restart_from(log).await;
        harness.handle.continue_run().await.unwrap();
        let transcript = harness.transcript().await;
        assert_eq!(transcript[1..3], ["A:one/Stop", "A:four/Stop"], "{transcript:?}");
        assert_eq!(harness.model.requests().len(), 5);
    }
}

/// A message that a pattern has written itself needs no deltas.
#[tokio::test(start_paused = true)]
async fn a_remembered_reply_is_a_valid_sequence_of_events() {
    let greeting = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            let mut reply = AssistantMessage::default();
            reply.parts.push(ContentPart::Text { text: "Hello.".into(), signature: None });
            step.remember(reply).await?;
            Ok(StepEnd::Done)
        })
    });
    let mut harness = Harness::new(greeting, [], |a| a).await;
    send(&harness, "go").await;
    check_events(&harness.run_end().await).unwrap();
    assert_eq!(harness.transcript().await, ["U:go", "A:Hello./Stop"]);
}

/// The events of a sub-agent name its parent, live and from the log.
#[tokio::test(start_paused = true)]
async fn the_log_of_a_sub_agent_names_its_parent() {
    let harness = pi([Script::text("one"), Script::text("two")], &[]).await;
    let memory = InMemory::new();
    let parent = Parent::new("top", "c1");
    let open = || RunContext::new().session("sub").memory(memory.clone());
    let (handle, mut events) = harness.agent.run(open().parent(parent.clone())).await.unwrap();
    handle.prompt("go").await.unwrap();
    let live: Vec<_> = std::iter::from_fn(|| events.try_next()).collect();
    assert!(live.iter().all(|e| e.parent.as_deref() == Some(&parent)));
    let logged = SessionLog::events("sub", &memory.entries());
    assert!(!logged.is_empty() && logged.iter().all(|e| e.parent.as_deref() == Some(&parent)));
    // A session that is opened on its own no longer has a parent.
    drop((handle, events));
    let (handle, _events) = harness.agent.run(open()).await.unwrap();
    handle.prompt("more").await.unwrap();
    let later = SessionLog::events_after("sub", &memory.entries(), logged.len() as u64);
    assert!(!later.is_empty() && later.iter().all(|e| e.parent.is_none()));
}

/// C148: A steer that interrupts ends a wait; other inputs do not.
#[tokio::test(start_paused = true)]
async fn an_interrupt_cuts_a_wait_short() {
    let waiting = || {
        does(|step| {
            Box::pin(async {
                step.take_input().await?;
                let waited = step.wait_for(sleep(ms(60_000))).await?;
                step.emit("waited", waited.is_some()).await?;
                step.take_steering().await?;
                step.ask().await?.finish()
            })
        })
    };
    for (urgency, time) in [(Urgency::SkipPending, 60_000), (Urgency::Interrupt, 10)] {
        let harness = Harness::new(waiting(), [Script::text("ok")], |a| a).await;
        let start = Instant::now();
        send(&harness, "go").await;
        sleep(ms(10)).await;
        harness
            .handle
            .send(InputEvent::Steer(Prompt::from("hurry").urgency(urgency)))
            .await
            .unwrap();
        harness.handle.wait_for_idle().await;
        assert_eq!((start.elapsed(), sent(&harness, 0).len()), (ms(time), 2));
    }
}

/// C148: A pattern that is entered again knows whether it has answered. The error of a reply that
/// does not match a type contains the paths.
#[tokio::test(start_paused = true)]
async fn a_reply_says_what_does_not_fit() {
    #[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
    struct Person {
        #[allow(dead_code, reason = "only its absence matters")]
        name: String,
        age: u8,
    }
    let reading = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            assert!(!step.is_answered());
            let wrong = step.ask_with(Ask::detached().output::<Person>()).await?;
            let why = wrong.output::<Person>().unwrap_err().to_string();
            assert!(why.contains("/name") && why.contains("/age"), "{why}");
            let right = step.ask().await?;
            assert_eq!(right.output::<Person>()?.age, 36);
            assert!(step.is_answered());
            right.finish()
        })
    });
    let replies = [
        Script::text("{\"age\": -1}"),
        Script::text("```json\n{\"name\": \"Ada\", \"age\": 36}\n```"),
    ];
    let harness = Harness::new(reading, replies, |a| a).await;
    assert_eq!(harness.handle.prompt("Who?").await.unwrap().end, RunStatus::Done);
}

/// C491: A pattern that writes its answers itself answers what is queued behind them, too.
#[tokio::test(start_paused = true)]
async fn what_is_queued_behind_an_answer_is_answered() {
    let pattern = does(|step| {
        Box::pin(async move {
            while !step.all_answered().await? {
                let reply = step.ask_with(Ask::detached().key("answer")).await?.or_end()?;
                step.remember(AssistantMessage::from(reply.text())).await?;
            }
            Ok(StepEnd::Done)
        })
    });
    let replies = [Script::text("One.").wait(ms(50)), Script::text("Two.")];
    let mut harness = Harness::new(pattern, replies, |agent| agent).await;
    send(&harness, "1?").await;
    sleep(ms(10)).await;
    harness.handle.follow_up("2?").await.unwrap();
    let events = harness.run_end().await;
    assert_eq!(end_of(&events), RunStatus::Done);
    assert_eq!(harness.transcript().await, ["U:1?", "A:One./Stop", "U:2?", "A:Two./Stop"]);
    harness.check().await;
}

/// C488: A reply to a request that forbids calls has none that run.
#[tokio::test(start_paused = true)]
async fn calls_that_the_request_forbids_are_skipped() {
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let reply = step.ask_with(Ask::new().tool_choice(ToolChoice::None)).await?.or_end()?;
            step.call_tools(&reply).await?;
            step.remember(UserMessage::from("And now?")).await?;
            step.ask().await?.finish()
        })
    });
    let replies = [calls(&["look"]), Script::text("Nothing.")];
    let look = TestTool::new("look");
    let harness = Harness::new(pattern, replies, |agent| agent.tool(look.clone())).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "Nothing.");
    assert_eq!((statuses(&harness).await, look.ran()), (vec![ResultStatus::Skipped], 0));
    harness.check().await;
}
