//! Budgets of parts of a pattern's work.

use loopwright_core::testing::Replay;

use crate::kit::*;

/// Works as another pattern within a budget. When that is used up, asks once more for a summary,
/// without tools, and tells which limit it was.
struct Summed<P> {
    budget: PartBudget,
    then: P,
}

#[async_trait::async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Summed<P> {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        let worked = self.then.next_step(&mut step.with_budget(self.budget)).await;
        match worked {
            Err(StepError::Limit(reached)) if matches!(reached.limit, Limit::Part(_)) => {
                step.emit("reached", reached.to_string()).await?;
                let ask = Ask::new().tool_choice(ToolChoice::None);
                step.ask_with(ask.also(UserMessage::from("Sum up."))).await?.finish()
            }
            ended => ended,
        }
    }
}

fn summed(budget: impl Into<PartBudget>) -> Summed<PiPattern> {
    Summed { budget: budget.into(), then: PiPattern }
}

/// A model that calls `look` until it is asked to sum up. Each reply takes a second.
fn looks() -> ScriptedModel {
    let model = ScriptedModel::new([]).reply_with(|request| {
        let script = match request.tool_choice {
            ToolChoice::None => Script::text("Two of three."),
            _ => calls(&["look"]).wait(ms(1_000)),
        };
        script.usage(Usage::new(450, 50))
    });
    model.info(ModelInfo::new("test/priced").with_prices(Prices::new(1e3, 1e3)))
}

async fn run(
    model: ScriptedModel,
    pattern: impl BehaviorPattern + 'static,
    options: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Harness {
    let memory = InMemory::new();
    let agent = GenericAgent::builder(model.clone(), pattern);
    let agent = options(agent.tool(TestTool::new("look").answers("nothing"))).build().unwrap();
    let cx = RunContext::new().session("s").memory(memory.clone());
    let (handle, events) = agent.run(cx).await.unwrap();
    Harness { handle, events, model, agent, memory, clock: TestClock::default() }
}

/// Returns what the pattern has emitted.
fn reached(harness: &Harness) -> Vec<String> {
    let entries = harness.memory.entries();
    let data = entries.iter().filter_map(|entry| match entry {
        LogEntry::Emitted { data, .. } => data.as_str().map(str::to_owned),
        _ => None,
    });
    data.collect()
}

/// C488: A part ends at each limit of its budget with an error that names it, and what wraps it
/// goes on within the run's own budget.
#[tokio::test(start_paused = true)]
async fn what_wraps_a_part_goes_on_at_its_limit() {
    let budget = Budget::default;
    let cases = [
        (budget().turns(2), "the limit of turns of a part of the work is reached: 2 of 2", 3),
        (budget().tokens(1_070), "the limit of tokens of a part of the work is reached: ", 3),
        (budget().cost(1.07), "the cost limit of a part of the work is reached: $", 3),
        (budget().time(ms(2_500)), "the time limit of a part of the work is reached: 2.5s", 4),
    ];
    for (part, expected, requests) in cases {
        let harness = run(looks(), summed(part), |agent| agent).await;
        let outcome = harness.handle.prompt("Look at all three.").await.unwrap();
        assert_eq!((outcome.end, outcome.limit), (RunStatus::Done, None), "{outcome:?}");
        assert_eq!(&*outcome.text, "Two of three.");
        let reached = reached(&harness);
        assert!(reached[0].starts_with(expected), "{reached:?}");
        assert_eq!(harness.model.requests().len(), requests, "{:?}", harness.transcript().await);
        // The next request of the user gets a whole part again.
        harness.handle.prompt("Once more.").await.unwrap();
        assert_eq!(harness.model.requests().len(), 2 * requests, "{expected}");
        harness.check().await;
    }
}

/// C488: A part can leave room for requests behind it, of turns, tokens, cost and time, however
/// long the conversation grows.
#[tokio::test(start_paused = true)]
async fn a_part_leaves_room_for_what_follows() {
    struct Rest;

    #[async_trait::async_trait]
    impl BehaviorPattern for Rest {
        async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
            let whole = step.left();
            let part = step.with_budget(whole.keep(1));
            let inside = part.left();
            assert!(inside.turns < whole.turns || whole.turns.is_none(), "{inside:?}");
            assert!(inside.tokens < whole.tokens || whole.tokens.is_none(), "{inside:?}");
            assert!(inside.time < whole.time || whole.time.is_none(), "{inside:?}");
            summed(whole.keep(1)).next_step(step).await
        }
    }
    let long = || {
        let text = "a long answer ".repeat(40);
        ScriptedModel::new([]).reply_with(move |request| match request.tool_choice {
            ToolChoice::None => Script::text("Sum."),
            _ => calls(&["look"]).say(&text).wait(ms(10_000)),
        })
    };
    let budget = Budget::default;
    let budgets = [budget().turns(3), budget().tokens(4_000), budget().time(ms(95_000))];
    for budget in budgets {
        let harness = run(long(), Rest, |agent| agent.limits(budget)).await;
        let start = Instant::now();
        let outcome = harness.handle.prompt("go").await.unwrap();
        assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "Sum."), "{outcome:?}");
        assert!(budget.tokens.is_none_or(|max| outcome.usage.total() <= max), "{outcome:?}");
        assert!(budget.time.is_none_or(|max| start.elapsed() < max), "{:?}", start.elapsed());
        assert!(outcome.requests > 2, "{outcome:?}");
        harness.check().await;
    }
}

/// C488: When the time of a part is up, a reply is cut off and keeps its text, tools are cancelled,
/// calls that have not started are skipped, requests beside each other and other work end.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_part_ends_what_is_in_progress() {
    let in_time = || Budget::default().time(ms(1_000));
    let replies = [Script::new().say("Half of").hang(), Script::text("Half.")];
    let harness = Harness::new(summed(in_time()), replies, |agent| agent).await;
    let start = Instant::now();
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "Half.");
    assert_eq!(start.elapsed(), ms(1_000));
    let texts = sent(&harness, 1);
    assert_eq!(
        texts[1..],
        ["Half of", "[The reply above was stopped; it is incomplete.]\n\nSum up."]
    );
    harness.check().await;

    // Half a reply is no answer: another pattern goes on, also after a crash.
    let then_pi = does(|step| {
        Box::pin(async move {
            let part = Budget::default().time(ms(1_000));
            match PiPattern.next_step(&mut step.with_budget(part)).await {
                Err(StepError::Limit(_)) => PiPattern.next_step(step).await,
                ended => ended,
            }
        })
    });
    let replies = || [Script::new().say("Half of").hang(), Script::text("Whole.")];
    let harness = Harness::new(then_pi.clone(), replies(), |agent| agent).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "Whole.");
    harness.check().await;
    let log = harness.memory.entries();
    let cut_off = log.iter().position(|entry| matches!(entry, LogEntry::Replied { .. }));
    let harness = Harness::new(then_pi, [Script::text("Whole.")], |agent| agent).await;
    let harness = harness.restart_from(log[..=cut_off.unwrap()].to_vec()).await;
    assert_eq!(harness.handle.continue_run().await.unwrap().text, "Whole.");
    harness.check().await;

    let hang = TestTool::new("hang").hangs().spec(|spec| spec.uninterruptible());
    let look = TestTool::new("look");
    let replies = [calls(&["hang", "look"]), Script::text("None.")];
    let options = |agent: AgentBuilder| agent.tool(hang).tool(look).limits(one_at_a_time());
    let harness = Harness::new(summed(in_time()), replies, options).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "None.");
    assert_eq!(statuses(&harness).await, [ResultStatus::Aborted, ResultStatus::Skipped]);
    assert!(result_of(&harness, "a").await.contains("the time for this part of the work is up"));
    harness.check().await;

    let together = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let mut part = step.with_budget(Budget::default().time(ms(1_000)));
            let ask = |n| Ask::detached().also(UserMessage::from(format!("{n}")));
            let replies = part.ask_all((0..3).map(ask)).at_most(2).await?;
            let limits = replies.iter().map(|reply| reply.limit().map(|reached| reached.limit));
            let limits: Vec<Option<Limit>> = limits.collect();
            let up = Some(Limit::Part(Resource::Time));
            assert_eq!(limits, [None, up, up]);
            let waited = part.wait_for(sleep(ms(1))).await;
            assert!(matches!(waited, Err(StepError::Limit(_))), "{waited:?}");
            let again = part.ask_all([ask(4)]).await;
            assert!(matches!(again, Err(StepError::Limit(_))), "{again:?}");
            step.ask().await?.finish()
        })
    });
    let hang = || Script::new().say("slow").hang();
    let replies = [Script::text("fast"), hang(), hang(), Script::text("One.")];
    let harness = Harness::new(together, replies, |agent| agent).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "One.");
    harness.check().await;
}

fn one_at_a_time() -> Limits {
    Limits::default().parallel_calls(1)
}

/// C488: A steer that interrupts a part begins the pattern anew; it is answered in the part.
/// Requests beside each other leave room for what follows, and sub-agents get shares of the part.
#[tokio::test(start_paused = true)]
async fn steers_and_requests_beside_each_other_keep_to_the_part() {
    let replies = [Script::new().say("A long").hang(), Script::text("Short.")];
    let pattern = summed(Budget::default().turns(2));
    let mut harness = Harness::new(pattern, replies, |agent| agent).await;
    send(&harness, "go").await;
    harness.until(|event| is_text_delta(event, "A long")).await;
    harness.handle.steer(Prompt::from("Short!").urgency(Urgency::Interrupt)).await.unwrap();
    let events = harness.run_end().await;
    assert_eq!((end_of(&events), &*outcome_of(&events).text), (RunStatus::Done, "Short."));
    harness.check().await;

    let beside = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let whole = Budget::default().tokens(9_000);
            let mut part = step.with_budget(whole.keep(1));
            let ask = |n| Ask::detached().also(UserMessage::from(format!("{n}"))).max_tokens(2_000);
            let replies = part.ask_all((0..4).map(ask)).await?;
            assert!(replies[3].limit().is_some() && replies[0].limit().is_none(), "{replies:?}");
            let spent = step.spent().tokens;
            assert!(spent + 1_024 < 9_000, "{spent} are used");
            step.ask().await?.finish()
        })
    });
    let reply = || Script::text("yes").usage(Usage::new(500, 2_000));
    let replies = [reply(), reply(), reply(), Script::text("Done.")];
    let harness = Harness::new(beside, replies, |agent| agent).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "Done.");
    harness.check().await;

    let with_child = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let mut part = step.with_budget(Budget::default().turns(1));
            let result = part.call(Call::child("looker", "Look.")).await?.unwrap();
            assert!(result.text().contains("share"), "{}", result.text());
            step.ask().await?.finish()
        })
    });
    let looker = GenericAgent::builder(looks(), PiPattern).tool(TestTool::new("look"));
    let looker = looker.build().unwrap();
    let model = ScriptedModel::new([Script::text("Done.")]);
    let agent = GenericAgent::builder(model, with_child).child("looker", "Looks.", looker);
    let handle = agent.build().unwrap().session().await.unwrap();
    assert_eq!(handle.prompt("go").await.unwrap().text, "Done.");
}

/// C488: Parts can be nested, and each holds. A part that is over no longer counts. A limit that
/// nothing catches ends the run, with an answer if the agent's limits say so.
#[tokio::test(start_paused = true)]
async fn parts_are_nested_and_end() {
    let turns = |count| Budget::default().turns(count);
    let outer = Summed { budget: turns(3).into(), then: summed(turns(2)) };
    let harness = run(looks(), outer, |agent| agent).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!((&*outcome.text, outcome.requests), ("Two of three.", 3));
    let outer = Summed { budget: turns(2).into(), then: summed(turns(3)) };
    let harness = run(looks(), outer, |agent| agent).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().requests, 3);
    assert_eq!(reached(&harness).len(), 2, "the inner one has no turn for its summary");

    let two = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let left = step.left().turns;
            let mut first = step.with_budget(Budget::default().turns(1));
            first.ask().await?;
            assert_eq!(first.left().turns, Some(0));
            assert_eq!(step.left().turns, left.map(|turns| turns - 1));
            step.remember(UserMessage::from("On.")).await?;
            let mut second = step.with_budget(Budget::default().turns(1));
            assert_eq!(second.left().turns, Some(1));
            second.ask().await?;
            second.remember(UserMessage::from("On.")).await?;
            second.ask().await?.finish()
        })
    });
    let harness = Harness::new(two, ["a", "b", "c"].map(Script::text), |agent| agent).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    let limit = Some(Limit::Part(Resource::Turns));
    assert_eq!((outcome.end, outcome.limit), (RunStatus::Limit, limit), "{outcome:?}");
    harness.check().await;
    let wraps_up = |agent: AgentBuilder| agent.limits(Limits::default().wrap_up(WrapUp::new()));
    let part = does(|step| {
        Box::pin(async move {
            PiPattern.next_step(&mut step.with_budget(Budget::default().turns(1))).await
        })
    });
    let harness = run(looks(), part, wraps_up).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!(
        (outcome.end, outcome.limit, &*outcome.text),
        (RunStatus::Done, limit, "Two of three.")
    );
    harness.check().await;
}

/// C488: What was used of a fixed budget is remembered over decisions and restarts, for one request
/// of the user.
#[tokio::test(start_paused = true)]
async fn the_rest_of_a_fixed_budget_is_remembered() {
    #[derive(Clone)]
    struct Fixed;

    #[async_trait::async_trait]
    impl BehaviorPattern for Fixed {
        async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
            let rest = step.rest_of("look", Budget::default().turns(3))?;
            summed(rest).next_step(step).await
        }
    }
    let whole = run(looks(), Fixed, |agent| agent).await;
    assert_eq!(whole.handle.prompt("go").await.unwrap().requests, 4);
    let log = whole.memory.entries();
    let is_reply = |entry: &LogEntry| matches!(entry, LogEntry::Replied { .. });
    for cut in 0..log.len() {
        if !is_reply(&log[cut]) {
            continue;
        }
        let harness = run(looks(), Fixed, |agent| agent).await;
        let harness = harness.restart_from(log[..=cut].to_vec()).await;
        let outcome = harness.handle.continue_run().await.unwrap();
        assert_eq!((&*outcome.text, outcome.requests), ("Two of three.", 4), "{cut}");
        harness.check().await;
    }
    assert_eq!(whole.handle.prompt("again").await.unwrap().requests, 4, "it begins anew");
    // A steer instead of a decision begins the run's count anew, but not the part's.
    let pay = || TestTool::new("pay").spec(|spec| spec.approval(Approval::Always));
    let replies = [calls(&["look"]), calls(&["pay"]), calls(&["look"]), Script::text("Enough.")];
    let options = |agent: AgentBuilder| agent.tool(TestTool::new("look")).tool(pay());
    let harness = Harness::new(Fixed, replies, options).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    harness.handle.steer("Do not pay.").await.unwrap();
    harness.handle.wait_for_idle().await;
    let last = &harness.model.requests()[3];
    assert_eq!(
        (last.messages.last().unwrap().text(), harness.model.requests().len()),
        ("Sum up.".into(), 4)
    );
    harness.check().await;
    // The time at which the part began differs from run to run.
    let fixed = does(|step| {
        Box::pin(async move {
            let rest = step.rest_of("look", Budget::default().turns(3))?;
            PiPattern.next_step(&mut step.with_budget(rest)).await
        })
    });
    let replies = [calls(&["look"]), Script::text("Seen.")];
    let look = TestTool::new("look");
    let harness = Harness::new(fixed.clone(), replies, |agent| agent.tool(look)).await;
    sleep(ms(10)).await;
    harness.handle.prompt("go").await.unwrap();
    let replay = Replay::from_entries(harness.memory.entries());
    let agent = GenericAgent::builder(replay.model(), fixed).tools(replay.tools());
    sleep(ms(10)).await;
    replay.run(&agent.build().unwrap()).await.unwrap();
}
