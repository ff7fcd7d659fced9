//! Replays of a session's log. It is followed exactly, and the first difference is reported.

mod compactions;
mod newer;

use loopwright_core::testing::Replay;
use loopwright_patterns::GenericPattern;

use crate::kit::*;

/// Checks that an agent with this pattern and these options follows the log without a difference,
/// also if the log is given as text.
async fn replays(
    harness: &Harness,
    pattern: impl BehaviorPattern + Clone + 'static,
    options: fn(AgentBuilder) -> AgentBuilder,
) {
    let lines: Vec<String> =
        harness.memory.entries().iter().map(|item| serde_json::to_string(item).unwrap()).collect();
    for replay in [
        Replay::from_entries(harness.memory.entries()),
        Replay::from_jsonl(&lines.join("\n")).unwrap(),
    ] {
        let agent =
            options(GenericAgent::builder(replay.model(), pattern.clone()).tools(replay.tools()));
        let agent = agent.compaction(replay.compaction()).build().unwrap();
        let replayed = replay.run(&agent).await;
        assert!(replayed.is_ok(), "{}\n{}", replayed.unwrap_err(), lines.join("\n"));
        replay.compare(&agent, &agent).await.unwrap();
    }
}

async fn replays_pi(harness: &Harness) {
    replays(harness, PiPattern, |agent| agent).await;
}

fn asks(name: &str) -> TestTool {
    TestTool::new(name).effect(Effect::AtMostOnce)
}

/// C485: A replay sends decisions as they were sent: with their front end and the change that was
/// shown.
#[tokio::test(start_paused = true)]
async fn a_decision_is_replayed_with_all_that_it_named() {
    let mut harness = pi([calls(&["ask"]), Script::text("ok")], &[asks("ask")]).await;
    send(&harness, "go").await;
    harness.run_end().await;
    let action = harness.pending().await.remove(0);
    let approval = ActionResult::new(action.call, action.digest, Decision::Approve);
    let approval = approval.by("ann").source("terminal").change(change_digest("-1\n+2\n"));
    harness.handle.send(approval).await.unwrap();
    harness.run_end().await;
    replays_pi(&harness).await;
}

/// C89
#[tokio::test(start_paused = true)]
async fn text_thinking_and_parallel_tools() {
    let usage = Usage::new(5, 3);
    let look = Script::new()
        .think("Hm.", Some("sig"))
        .say("I look.")
        .call("a", "x", "{\"n\":1}")
        .call("b", "y", "{}");
    let tools = [
        TestTool::new("x").takes(ms(20)),
        TestTool::new("y").answers(ToolOutput::text("why").details(json!({"n": 2}))),
        TestTool::new("z").fails("no"),
        TestTool::new("p").panics(),
    ];
    let harness =
        pi([look.usage(usage), calls(&["z", "p", "x", "nope"]), Script::text("done")], &tools)
            .await;
    harness.handle.prompt("go").await.unwrap();
    harness.handle.prompt("again").await.unwrap();
    replays_pi(&harness).await;
}

/// C89: calls that are approved, denied, edited, provided with a result, and suspended.
#[tokio::test(start_paused = true)]
async fn confirmations() {
    let replies = [calls(&["w", "w", "w", "w", "s", "r"]), Script::text("done")];
    let tools = [asks("w"), TestTool::new("s").suspends("login"), TestTool::new("r")];
    let mut harness = pi(replies, &tools).await;
    send(&harness, "go").await;
    harness.run_end().await;
    let open = harness.pending().await;
    assert_eq!(open.len(), 5);
    let decisions = [
        Decision::Approve,
        Decision::Deny("no".into()),
        Decision::ApproveWith(json!({"edited": true})),
        Decision::Provide(Provided::Result("by hand".into())),
        Decision::Provide(Provided::Input(json!("yes"))),
    ];
    for action in &open {
        let n = ["a", "b", "c", "d", "e"].iter().position(|id| **id == *action.call).unwrap();
        harness.handle.resolve(action, decisions[n].clone()).await.unwrap();
        harness.handle.wait_for_idle().await;
    }
    harness.check().await;
    replays_pi(&harness).await;
}

/// C89: a steer of each urgency, during a reply, during a tool call, and at rest.
#[tokio::test(start_paused = true)]
async fn steers() {
    for urgency in [Urgency::AfterTurn, Urgency::SkipPending, Urgency::Interrupt] {
        for at in [0, 15, 45, 75, 500] {
            let tool = TestTool::new("x").takes(ms(30));
            let more = (0..4).map(|n| Script::text(&format!("more {n}")));
            let replies =
                [slow(3, ms(10)).call("a", "x", "{}").call("b", "w", "{}"), slow(2, ms(20))];
            let harness = pi(replies.into_iter().chain(more), &[tool, asks("w")]).await;
            send(&harness, "go").await;
            sleep(ms(at)).await;
            harness.handle.steer(Prompt::from("stop").urgency(urgency)).await.unwrap();
            harness.handle.wait_for_idle().await;
            harness.handle.follow_up("more").await.unwrap();
            send(&harness, "next").await;
            harness.handle.wait_for_idle().await;
            harness.check().await;
            replays_pi(&harness).await;
        }
    }
}

/// C89: an abort or a reset at several times of a run, with queued messages.
#[tokio::test(start_paused = true)]
async fn aborts_and_resets() {
    for reset in [false, true] {
        for at in [5, 15, 35, 65, 500] {
            let harness = pi(
                [
                    slow(3, ms(10)).call("a", "x", "{}"),
                    calls(&["w"]),
                    Script::text("one"),
                    Script::text("two"),
                ],
                &[TestTool::new("x").takes(ms(30)), asks("w")],
            )
            .await;
            send(&harness, "go").await;
            sleep(ms(at)).await;
            harness.handle.follow_up("more").await.unwrap();
            match reset {
                true => drop(harness.handle.reset().await.unwrap()),
                false => harness.handle.abort().await.unwrap(),
            }
            harness.handle.wait_for_idle().await;
            send(&harness, "next").await;
            harness.handle.wait_for_idle().await;
            replays_pi(&harness).await;
        }
    }
}

/// C89: an output schema, a detached request, failed requests, messages and events of a pattern,
/// hooks.
#[tokio::test(start_paused = true)]
async fn detached_requests_failures_schemas_and_hooks() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code, reason = "only its schema is wanted")]
    struct Answer {
        n: u32,
    }
    let replies = [
        Script::text("not JSON"),
        Script::new().say("half").fail(ModelErrorKind::Overloaded, "too much to do"),
        Script::text("{\"n\": 1}"),
    ];
    let harness = pi_with(replies, &[], |agent| agent.output::<Answer>()).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Error);
    harness.handle.continue_run().await.unwrap();
    replays(&harness, PiPattern, |agent| agent.output::<Answer>()).await;

    #[derive(Clone)]
    struct Critic;
    #[async_trait::async_trait]
    impl BehaviorPattern for Critic {
        async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
            step.take_input().await?;
            step.emit("started", 1).await?;
            step.set_state("n", 2)?;
            step.remember(UserMessage::from("noted")).await?;
            let reply = step
                .ask_with(Ask::detached().messages([UserMessage::from("Good?").into()]))
                .await?;
            if reply.error().is_some() {
                step.ask_with(Ask::detached().also(UserMessage::from("Really?"))).await?;
            }
            step.ask().await?;
            Ok(StepEnd::Done)
        }
    }
    let replies =
        [Script::error(ModelErrorKind::Network, "gone"), Script::text("yes"), Script::text("well")];
    let harness = Harness::new(Critic, replies, |agent| agent).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "well");
    replays(&harness, Critic, |agent| agent).await;

    let hooked = |agent: AgentBuilder| {
        let agent = agent.before_end(async |_, reply| match reply.text().as_str() {
            "one" => BeforeEnd::Continue("go on".into()),
            _ => BeforeEnd::Default,
        });
        let agent = agent.offers_tool(|_, info, spec| info.turn > 1 || &*spec.name != "y");
        agent.before_tool_call(async |_, call| match &*call.tool.name {
            "x" => BeforeToolCall::Block("not x".into()),
            _ => BeforeToolCall::Proceed,
        })
    };
    let tools = [TestTool::new("x"), TestTool::new("y")];
    let replies = [calls(&["x"]), Script::text("one"), calls(&["y"]), Script::text("two")];
    let harness = pi_with(replies, &tools, hooked).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "two");
    replays(&harness, PiPattern, hooked).await;
}

/// C89: a log that several processes wrote, with runs that a crash cut off and every way to
/// continue.
#[tokio::test(start_paused = true)]
async fn several_processes() {
    let tools = || [asks("w"), TestTool::new("r").effect(Effect::Idempotent), TestTool::new("o")];
    let replies =
        || [calls(&["o", "w"]), Script::text("one"), Script::text("two"), Script::text("three")];
    let mut harness = pi(replies(), &tools()).await;
    send(&harness, "go").await;
    harness.run_end().await;
    let open = harness.pending().await.remove(0);
    harness.handle.approve(&open).await.unwrap();
    harness.handle.wait_for_idle().await;
    let log = harness.memory.entries();
    for cut in 1..=log.len() {
        for way in 0..4 {
            let replied =
                log[..cut].iter().filter(|i| matches!(i, LogEntry::Replied { .. })).count();
            let harness = pi(replies().into_iter().skip(replied), &tools())
                .await
                .restart_from(log[..cut].to_vec())
                .await;
            let interrupted = harness.handle.state().await.unwrap().interrupted_run.is_some();
            match way {
                0 if interrupted => drop(harness.handle.continue_run().await.unwrap()),
                1 => send(&harness, "something else").await,
                2 => harness.handle.abort().await.unwrap(),
                3 => drop(harness.handle.reset().await.unwrap()),
                _ => {}
            }
            harness.handle.wait_for_idle().await;
            for open in harness.pending().await {
                harness.handle.approve(&open).await.unwrap();
            }
            harness.handle.wait_for_idle().await;
            replays_pi(&harness).await;
        }
    }
}

/// C90: a request that differs, is not in the log or is not sent is reported. If all requests are
/// equal, a differing entry is reported.
#[tokio::test(start_paused = true)]
async fn the_first_request_that_differs_is_reported() {
    let tools = [TestTool::new("x"), TestTool::new("y")];
    let harness = pi([calls(&["x", "y"]), Script::text("one"), Script::text("two")], &tools).await;
    harness.handle.prompt("go").await.unwrap();
    harness.handle.prompt("on").await.unwrap();
    let replay = Replay::from_entries(harness.memory.entries());
    let like = || GenericAgent::builder(replay.model(), PiPattern).tools(replay.tools());
    replay.run(&like().build().unwrap()).await.unwrap();

    let prunes = like().transform_context(async |_, messages| match messages.len() {
        0..5 => messages,
        _ => messages[5..].to_vec(),
    });
    let found = replay.run(&prunes.build().unwrap()).await.unwrap_err();
    assert_eq!(found.request(), Some(3));
    assert_eq!(
        found.to_string(),
        "request 3: message 1 differs: the log has `user: go`, now it is `user: on`"
    );

    let fewer = like().offers_tool(|_, info, spec| info.messages.len() < 2 || &*spec.name != "y");
    let found = replay.run(&fewer.build().unwrap()).await.unwrap_err();
    assert_eq!(
        found.to_string(),
        "request 2: the offered tools differs: it was `all`, now it is `[x]`",
    );

    let found =
        replay.run(&like().limits(Budget::default().turns(1)).build().unwrap()).await.unwrap_err();
    assert_eq!(found.request(), Some(2));
    assert!(
        found.to_string().starts_with("request 2 was not sent: instead `{\"end\":\"limit\""),
        "{found}"
    );

    let more = like().before_end(async |_, reply| match reply.text().as_str() {
        "two" => BeforeEnd::Continue("and?".into()),
        _ => BeforeEnd::Default,
    });
    let found = replay.run(&more.build().unwrap()).await.unwrap_err();
    assert_eq!(found.entry(), Some(harness.memory.entries().len() - 1), "{found}");

    let asks_twice = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            step.ask_with(Ask::detached()).await?;
            Ok(StepEnd::Done)
        })
    });
    let agent = GenericAgent::builder(replay.model(), asks_twice).build().unwrap();
    let found = replay.run(&agent).await.unwrap_err();
    assert!(found.to_string().starts_with("request 1 is not in the log"), "{found}");

    let emits = does(|step| {
        Box::pin(async move {
            step.emit("started", 1).await?;
            PiPattern.next_step(step).await
        })
    });
    let agent = GenericAgent::builder(replay.model(), emits).tools(replay.tools()).build().unwrap();
    let found = replay.run(&agent).await.unwrap_err();
    assert_eq!((found.request(), found.entry()), (None, Some(3)), "{found}");

    let found = replay
        .compare(&like().build().unwrap(), &like().system("Be brief.").build().unwrap())
        .await
        .unwrap_err();
    assert_eq!(
        found.to_string(),
        "request 1: the system prompt differs: it was ``, now it is `Be brief.`"
    );
    let blocks = like().before_tool_call(async |_, _| BeforeToolCall::Block("no".into()));
    let found = replay.run(&blocks.build().unwrap()).await.unwrap_err();
    assert!(found.to_string().contains("call_started"), "{found}");
}

/// C90: if an agent does not use the replay's models and tools, the error names the missing one.
#[tokio::test(start_paused = true)]
async fn an_agent_with_another_model_or_other_tools_is_reported() {
    let harness = pi([calls(&["x"]), Script::text("one")], &[TestTool::new("x")]).await;
    harness.handle.prompt("go").await.unwrap();
    let replay = Replay::from_entries(harness.memory.entries());
    let model = ScriptedModel::new([calls(&["x"]), Script::text("one")]);
    let agent = GenericAgent::builder(model, PiPattern).tools(replay.tools()).build().unwrap();
    let found = replay.run(&agent).await.unwrap_err();
    assert!(found.to_string().contains("replay.model()"), "{found}");
    let own = TestTool::new("x");
    let agent = GenericAgent::builder(replay.model(), PiPattern).tool(own.clone()).build().unwrap();
    let found = replay.run(&agent).await.unwrap_err();
    assert!(found.to_string().contains("replay.stand_in"), "{found}");
    let agent = GenericAgent::builder(replay.model(), GenericPattern)
        .tool(replay.stand_in(&own))
        .build()
        .unwrap();
    replay.run(&agent).await.unwrap();
}

/// C89: a log as text has one entry per line and optionally a header. The error names an invalid
/// line.
#[test]
fn a_log_is_read_from_text() {
    let opened = "{\"type\":\"opened\",\"epoch\":1}";
    assert!(Replay::from_jsonl(&format!("{{\"loopwright\":1}}\n\n{opened}\n")).is_ok());
    let wrong = Replay::from_jsonl(&format!("{opened}\n\n{{\"loopwright\":1}}\n")).err().unwrap();
    assert!(wrong.starts_with("line 3 is not an entry of a session's log: "), "{wrong}");
}

/// C89: A pattern's calls and questions are followed like a model's.
#[tokio::test(start_paused = true)]
async fn calls_and_questions_of_the_pattern() {
    #[derive(Clone)]
    struct Asking;
    #[async_trait::async_trait]
    impl BehaviorPattern for Asking {
        async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
            step.take_input().await?;
            let calls = ["x", "pay"].map(|name| Call::new(name, json!({"n": 1})).key(name));
            if step.call_all(calls).await?.is_none() {
                return Ok(StepEnd::AwaitingAction);
            }
            if step.question("why", Question::text("Why?")).await? == QuestionStatus::Waiting {
                return Ok(StepEnd::AwaitingAction);
            }
            step.ask().await?.finish()
        }
    }
    let tools = [TestTool::new("x"), asks("pay")];
    let harness = Harness::new(Asking, [Script::text("done")], |agent| {
        tools.into_iter().fold(agent, AgentBuilder::tool)
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    for decision in [Decision::Approve, Decision::Provide(Provided::Input("so".into()))] {
        harness.resolve(0, decision).await.unwrap();
        harness.handle.wait_for_idle().await;
    }
    assert_eq!(harness.transcript().await.last().unwrap(), "A:done/Stop");
    replays(&harness, Asking, |agent| agent).await;
}
