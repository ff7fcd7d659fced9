//! The answer of a run at its limit.

use loopwright_core::testing::Replay;

use crate::kit::*;

/// Returns a tool `look` that finds nothing.
fn look() -> TestTool {
    TestTool::new("look").answers("nothing")
}

fn wraps_up(agent: AgentBuilder, run: Budget) -> AgentBuilder {
    agent.limits(Limits::default().run(run).wrap_up(WrapUp::new()))
}

async fn with_model(
    model: ScriptedModel,
    options: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Harness {
    let memory = InMemory::new();
    let agent = options(GenericAgent::builder(model.clone(), PiPattern)).build().unwrap();
    let cx = RunContext::new().session("s").memory(memory.clone());
    let (handle, events) = agent.run(cx).await.unwrap();
    Harness { handle, events, model, agent, memory, clock: TestClock::default() }
}

fn turns(count: u32) -> Budget {
    Budget::default().turns(count)
}

/// C487: At each limit, one last request without tools asks how far the agent came, within the
/// budget. The run ends well, with the limit.
#[tokio::test(start_paused = true)]
async fn a_run_answers_at_each_limit() {
    let budget = Budget::default;
    let each = Usage::new(90, 10);
    let cases = [
        (turns(3), budget(), Limit::Run(Resource::Turns), 2),
        (budget().tokens(800), budget(), Limit::Run(Resource::Tokens), 2),
        (budget().cost(0.8), budget(), Limit::Run(Resource::Cost), 2),
        (budget().time(ms(4_000)), budget(), Limit::Run(Resource::Time), 3),
        (budget(), turns(3), Limit::Session(Resource::Turns), 2),
        (budget(), budget().tokens(800), Limit::Session(Resource::Tokens), 2),
    ];
    for (run, session, limit, at_least) in cases {
        let model = ScriptedModel::new([]).reply_with(move |request| {
            let script = match request.tool_choice {
                ToolChoice::None => Script::text("Two of three."),
                _ => calls(&["look"]).wait(ms(1_000)),
            };
            script.usage(each)
        });
        let model = model.info(ModelInfo::new("test/priced").with_prices(Prices::new(1e3, 1e3)));
        let limits = Limits::default().run(run).session(session).wrap_up(WrapUp::new());
        let harness = with_model(model, |agent| agent.tool(look()).limits(limits)).await;
        let start = Instant::now();
        let outcome = harness.handle.prompt("Look at all three.").await.unwrap();
        assert!(run.time.is_none_or(|most| start.elapsed() <= most), "{:?}", start.elapsed());
        assert_eq!((outcome.end, outcome.limit), (RunStatus::Done, Some(limit)), "{outcome:?}");
        assert_eq!((&*outcome.text, &outcome.error), ("Two of three.", &None), "{limit:?}");
        assert!(!outcome.has_finished());
        let requests = harness.model.requests();
        assert!(requests.len() > at_least, "{limit:?} {:?}", harness.transcript().await);
        let last = requests.last().unwrap();
        let asked = last.messages.last().unwrap().text();
        assert!(asked.starts_with(&format!("[{limit} is reached.")), "{asked}");
        assert!(asked.contains("what is left to do"), "{asked}");
        let [allowed, of_session] = [run, session];
        let most = allowed.min(&of_session);
        assert!(most.tokens.is_none_or(|max| outcome.usage.total() <= max), "{outcome:?}");
        assert!(most.cost.is_none_or(|max| outcome.cost <= max), "{outcome:?}");
        assert!(most.turns.is_none_or(|max| outcome.requests <= max), "{outcome:?}");
        harness.check().await;
    }
}

/// C487: The instruction is the last request's only: later requests have the answer, but not the
/// question. Late messages wait for the user.
#[tokio::test(start_paused = true)]
async fn the_user_goes_on_after_the_answer() {
    let last = Script::new().wait(ms(50)).say("Half of it.");
    let replies = [calls(&["look"]), last, Script::text("The rest.")];
    let harness = pi_with(replies, &[look()], |agent| wraps_up(agent, turns(2))).await;
    let running = harness.handle.prompt("go");
    let steer = async {
        sleep(ms(20)).await;
        harness.handle.steer("Also this.").await.unwrap();
    };
    let (outcome, ()) = tokio::join!(running, steer);
    let outcome = outcome.unwrap();
    assert_eq!((&*outcome.text, outcome.requests), ("Half of it.", 2));
    let state = harness.handle.state().await.unwrap();
    assert_eq!((state.steering_queue.len(), state.is_running), (1, false));
    let outcome = harness.handle.prompt("Go on.").await.unwrap();
    assert_eq!((&*outcome.text, outcome.limit), ("The rest.", None));
    let texts: Vec<String> =
        harness.model.requests()[2].messages.iter().map(|m| m.text()).collect();
    assert!(texts.iter().all(|text| !text.contains("is reached")), "{texts:?}");
    assert!(texts.iter().any(|text| text == "Half of it."), "{texts:?}");
    harness.check().await;
}

/// C487: Without room for it, and if it fails, the run ends at its limit as without the option.
#[tokio::test(start_paused = true)]
async fn without_an_answer_the_run_ends_at_its_limit() {
    let instant = |agent| wraps_up(agent, turns(2));
    let failing = Script::error(ModelErrorKind::Network, "gone");
    let endless = Script::new().say("Half of").hang();
    let [one, two] = [1, 2].map(turns);
    let in_time = two.time(ms(60_000));
    let cases = [(one, None, 1), (two, Some(failing), 2), (in_time, Some(endless), 2)];
    for (budget, last, sent) in cases {
        let replies = [Some(calls(&["look"])), last].into_iter().flatten();
        let harness = pi_with(replies, &[look()], |agent| wraps_up(agent, budget)).await;
        let outcome = harness.handle.prompt("go").await.unwrap();
        let limit = Limit::Run(Resource::Turns);
        assert_eq!((outcome.end, outcome.limit), (RunStatus::Limit, Some(limit)), "{outcome:?}");
        assert!(outcome.error.unwrap().starts_with("the limit of turns is reached: 1 of"));
        assert_eq!(harness.model.requests().len(), sent);
        harness.check().await;
    }
    // Its calls do not run.
    let replies = [calls(&["look"]), Script::new().say("Half.").call("z", "look", "{}")];
    let harness = pi_with(replies, &[look()], instant).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "Half."));
    let transcript = harness.transcript().await.join("\n");
    assert!(transcript.ends_with("R:z/Skipped"), "{transcript}");
    harness.check().await;
}

/// C487: With an output schema, the answer has its value, or the run ends at its limit.
#[tokio::test(start_paused = true)]
async fn the_answer_has_the_value_that_was_asked_for() {
    let schema = OutputSchema::new(
        "count",
        json!({
            "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"],
        }),
    );
    let schema = || schema.clone();
    for (answer, expected) in [(r#"{"n": 2}"#, Some(json!({ "n": 2 }))), ("Two.", None)] {
        let replies = [calls(&["look"]), Script::text(answer)];
        let options = |agent| wraps_up(agent, turns(2)).output_schema(schema());
        let harness = pi_with(replies, &[look()], options).await;
        let outcome = harness.handle.prompt("go").await.unwrap();
        let end = if expected.is_some() { RunStatus::Done } else { RunStatus::Limit };
        assert_eq!((outcome.end, outcome.limit.is_some()), (end, true), "{outcome:?}");
        assert_eq!(outcome.value.as_deref(), expected.as_ref());
        harness.check().await;
    }
}

/// C487: An abort stops it. After a crash at any entry, the run ends with the answer and the limit,
/// and a reply that is in the log is not asked for again.
#[tokio::test(start_paused = true)]
async fn aborts_and_crashes_do_not_repeat_the_answer() {
    let endless = [calls(&["look"]), Script::new().say("Half of").hang()];
    let harness = pi_with(endless, &[look()], |agent| wraps_up(agent, turns(2))).await;
    let handle = harness.handle.clone();
    let running = tokio::spawn(async move { handle.prompt("go").await.unwrap() });
    sleep(ms(20)).await;
    harness.handle.abort().await.unwrap();
    assert_eq!(running.await.unwrap().end, RunStatus::Aborted);
    harness.check().await;

    // A model that ignores that no tool may be called, or not.
    let answers = [Script::text("Half."), Script::new().say("Half.").call("z", "look", "{}")];
    for (answer, tokens) in answers.iter().flat_map(|answer| [(answer, false), (answer, true)]) {
        let usage = Usage::new(90, 10);
        let answer = answer.clone().usage(usage);
        let reply = move |request: &ChatRequest| match request.tool_choice {
            ToolChoice::None => answer.clone(),
            _ => calls(&["look"]).usage(usage),
        };
        // A lost request stays charged, so that the budget has no room for another one.
        let budget = if tokens { Budget::default().tokens(350) } else { turns(2) };
        let open = async || {
            let model = ScriptedModel::new([]).reply_with(reply.clone());
            with_model(model, |agent| wraps_up(agent.tool(look()), budget)).await
        };
        let whole = open().await;
        let outcome = whole.handle.prompt("go").await.unwrap();
        let limit = outcome.limit;
        assert_eq!(
            (outcome.end, &*outcome.text, limit.is_some()),
            (RunStatus::Done, "Half.", true)
        );
        let log = whole.memory.entries();
        let last =
            |entry: &LogEntry| matches!(entry, LogEntry::RequestStarted { wrap_up: Some(_), .. });
        let announced = log.iter().position(last).unwrap();
        let replied = log[announced..].iter().position(|e| matches!(e, LogEntry::Replied { .. }));
        let replied = announced + replied.unwrap();
        let began = log.iter().position(|entry| matches!(entry, LogEntry::RunStarted { .. }));
        for cut in began.unwrap() + 1..log.len() {
            let harness = open().await.restart_from(log[..cut].to_vec()).await;
            let outcome = harness.handle.continue_run().await.unwrap();
            let at = format!("{cut} of {}: {outcome:?}", log.len());
            assert_eq!(outcome.limit, limit, "{at}");
            let count = |of: fn(&&LogEntry) -> bool| log[..cut].iter().filter(of).count();
            let lost = count(|entry| matches!(entry, LogEntry::RequestStarted { .. }))
                > count(|entry| matches!(entry, LogEntry::Replied { .. }));
            let end = if lost { RunStatus::Limit } else { RunStatus::Done };
            // A lost request may leave enough tokens for another one.
            assert!(outcome.end == end || tokens && lost, "{at}");
            assert!(outcome.end == RunStatus::Limit || &*outcome.text == "Half.", "{at}");
            if cut > replied {
                assert_eq!(harness.model.requests().len(), 0, "{at}");
            }
            harness.check().await;
        }
    }
}

/// C487: A whole answer that is there when the pattern reaches the limit stands.
#[tokio::test(start_paused = true)]
async fn an_answer_before_the_limit_stands() {
    struct Judged;

    #[async_trait::async_trait]
    impl BehaviorPattern for Judged {
        async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
            step.take_input().await?;
            step.ask().await?.or_end()?;
            step.ask_with(Ask::detached().also(UserMessage::from("Is it good?"))).await?.finish()
        }
    }
    let options = |agent: AgentBuilder| wraps_up(agent, turns(1));
    let harness = Harness::new(Judged, [Script::text("Four.")], options).await;
    let outcome = harness.handle.prompt("2 + 2?").await.unwrap();
    assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "Four."));
    assert_eq!((outcome.limit, outcome.requests), (Some(Limit::Run(Resource::Turns)), 1));
    harness.check().await;
}

/// C487: The request has the tools of the last one, since some models take none, and goes through
/// the agent's hooks, whose wish to go on is not granted.
#[tokio::test(start_paused = true)]
async fn the_answer_has_the_tools_and_the_hooks_of_the_loop() {
    struct Toolless;

    #[async_trait::async_trait]
    impl BehaviorPattern for Toolless {
        async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
            step.take_input().await?;
            for _ in 0..3 {
                let ask = Ask::new().tools([""; 0]).also(UserMessage::from("More."));
                step.ask_with(ask).await?.or_end()?;
                step.remember(UserMessage::from("Noted.")).await?;
            }
            Ok(StepEnd::Done)
        }
    }
    let on = FnHandleBeforeEnd::new(|_, _| async { BeforeEnd::Continue("Go on.".into()) });
    let options = |agent: AgentBuilder| wraps_up(agent.tool(look()), turns(2)).hook(on);
    let replies = [Script::text("One."), Script::text("One of three.")];
    let harness = Harness::new(Toolless, replies, options).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "One of three."));
    let requests = harness.model.requests();
    assert_eq!(requests.iter().map(|request| request.tools.len()).collect::<Vec<_>>(), [0, 0]);
    harness.check().await;
}

/// C487: A sub-agent answers at its share, within it.
#[tokio::test(start_paused = true)]
async fn a_sub_agent_answers_at_its_share() {
    let found = [calls(&["look"]), Script::text("One of two.")];
    let model = ScriptedModel::new(found);
    let child = GenericAgent::builder(model, PiPattern)
        .tool(look())
        .limits(Limits::default().wrap_up(WrapUp::new()))
        .build()
        .unwrap();
    let model = ScriptedModel::new([
        Script::calls([("a", "look_up", json!({ "task": "Look." }))]),
        Script::text("It found one."),
    ]);
    let parent = GenericAgent::builder(model.clone(), PiPattern)
        .child("look_up", "Looks things up.", child)
        .limits(Limits::default().run(turns(4)).wrap_up(WrapUp::new()))
        .build()
        .unwrap();
    let store = InMemoryStore::new();
    let (handle, _) =
        parent.run(RunContext::new().stored(&store, "s").await.unwrap()).await.unwrap();
    let outcome = handle.prompt("go").await.unwrap();
    assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "It found one."), "{outcome:?}");
    assert_eq!((outcome.limit, outcome.requests), (Some(Limit::Run(Resource::Turns)), 4));
    let asked = model.requests().pop().unwrap().messages;
    assert!(asked.last().unwrap().text().starts_with("[the limit of turns is reached."));
    let result = asked[asked.len() - 2].text();
    assert!(result.contains("has reached its limit before it was done"), "{result}");
    assert!(result.contains("One of two."), "{result}");
}

/// C487: The log of a run that answered at its limit is replayed, also if the answer failed.
#[tokio::test(start_paused = true)]
async fn an_answer_at_a_limit_is_replayed() {
    for answer in [Script::text("Half."), Script::error(ModelErrorKind::Network, "gone")] {
        let replies = [calls(&["look"]), answer];
        let harness = pi_with(replies, &[look()], |agent| wraps_up(agent, turns(2))).await;
        harness.handle.prompt("go").await.unwrap();
        let replay = Replay::from_entries(harness.memory.entries());
        let agent = GenericAgent::builder(replay.model(), PiPattern).tools(replay.tools());
        let agent = wraps_up(agent, turns(2)).build().unwrap();
        replay.run(&agent).await.unwrap();
    }
}

/// C487: The first reply to a request may use up the budget; a summary that the user asks for needs
/// no room for an answer.
#[tokio::test(start_paused = true)]
async fn what_needs_no_answer_keeps_no_room() {
    let replies = ["One.", "Two."].map(Script::text);
    let harness = pi_with(replies, &[], |agent| wraps_up(agent, turns(1))).await;
    for expected in ["One.", "Two."] {
        let outcome = harness.handle.prompt("go").await.unwrap();
        assert_eq!((outcome.end, outcome.limit, &*outcome.text), (RunStatus::Done, None, expected));
    }
    harness.check().await;

    let limits = Limits::default().session(turns(3)).wrap_up(WrapUp::new());
    let replies = ["One.", "Two.", "A summary."].map(Script::text);
    let policy = loopwright_memory::SummaryCompaction::new().keep_turns(1);
    let options = |agent: AgentBuilder| agent.limits(limits).compaction(policy);
    let harness = pi_with(replies, &[], options).await;
    harness.handle.prompt("go").await.unwrap();
    harness.handle.prompt("on").await.unwrap();
    let compacted = harness.handle.compact(None).await.unwrap();
    assert!(compacted.first().is_some_and(|done| done.summarised), "{compacted:?}");
    harness.check().await;
}
