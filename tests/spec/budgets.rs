//! Budgets: the usage of failed requests, charges before a request is sent, the budget of a
//! session, and the texts of refusals.

use std::sync::Mutex;

use crate::kit::*;

/// Returns a model that costs a cent per thousand tokens.
fn priced(id: &str, dollars_per_million: f64) -> ModelInfo {
    let each = dollars_per_million;
    ModelInfo::new(id).with_prices(Prices::new(each, each).cache(each, each))
}

async fn with_model(model: ScriptedModel, options: fn(AgentBuilder) -> AgentBuilder) -> Harness {
    let memory = InMemory::new();
    let builder = GenericAgent::builder(model.clone(), PiPattern);
    let agent = options(builder).build().unwrap();
    let cx = RunContext::new().session("s").memory(memory.clone());
    let (handle, events) = agent.run(cx).await.unwrap();
    Harness { handle, events, model, agent, memory, clock: TestClock::default() }
}

/// Returns the session's spending, according to the log.
fn spent(harness: &Harness) -> Spent {
    SessionLog::of(&harness.memory.entries()).spent()
}

fn charges(harness: &Harness) -> Vec<(Usage, Option<f64>, bool)> {
    let entries = harness.memory.entries();
    let charge = |entry: &LogEntry| match entry {
        LogEntry::Charged { usage, cost, ended, .. } => Some((*usage, *cost, *ended)),
        _ => None,
    };
    entries.iter().filter_map(charge).collect()
}

/// C149: A reply that fails after some text keeps the text, with the usage reported by then. A
/// reply that fails before any text is charged without a message. The last report counts.
#[tokio::test(start_paused = true)]
async fn a_failed_reply_counts_what_was_reported() {
    let (first, last) = (Usage::new(900, 1), Usage::new(900, 100));
    let failing = |text: Option<&str>| {
        let script = Script::new().used(first);
        let script = text.into_iter().fold(script, |script, text| script.say(text));
        script.used(last).fail(ModelErrorKind::Network, "gone")
    };
    for text in [Some("Hel"), None] {
        let model = ScriptedModel::new([failing(text)]).info(priced("test/priced", 1000.0));
        let harness = with_model(model, |agent| agent).await;
        let outcome = harness.handle.prompt("go").await.unwrap();
        assert_eq!((outcome.end, outcome.usage), (RunStatus::Error, last));
        assert!((outcome.cost - 1.0).abs() < 1e-9, "{outcome:?}");
        let info = SessionInfo::of("s", &harness.memory.entries());
        assert_eq!((info.usage, info.cost), (outcome.usage, outcome.cost));
        assert_eq!((spent(&harness).turns, spent(&harness).tokens), (1, 1000));
        let charged = charges(&harness);
        match text {
            Some(_) => assert_eq!(charged, []),
            None => assert_eq!(charged, [(last, Some(1.0), true)]),
        }
        harness.check().await;
    }
}

/// C149: A withdrawn attempt stays counted, at the prices of the model that made it. The reply has
/// the usage of the last attempt.
#[tokio::test(start_paused = true)]
async fn a_withdrawn_attempt_counts_at_the_prices_of_its_model() {
    let dear = Arc::new(priced("test/dear", 1000.0));
    let cheap = Arc::new(priced("test/cheap", 1.0));
    let script = Script::new()
        .event(ModelEvent::AnsweredBy(dear))
        .used(Usage::new(500, 0))
        .say("no")
        .withdraw()
        .event(ModelEvent::AnsweredBy(cheap))
        .say("yes")
        .usage(Usage::new(600, 400));
    let harness = pi([script], &[]).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!((&*outcome.text, outcome.usage), ("yes", Usage::new(1100, 400)));
    assert!((outcome.cost - 0.501).abs() < 1e-9, "{outcome:?}");
    assert_eq!(charges(&harness), [(Usage::new(500, 0), Some(0.5), false)]);
    assert_eq!(spent(&harness).turns, 1);
    let state = harness.handle.state().await.unwrap();
    let reply = state.messages.last().unwrap().as_assistant().unwrap();
    assert_eq!(reply.usage, Usage::new(600, 400));
    harness.check().await;
}

/// C149: A reply that the user interrupts or aborts counts the usage reported by then, before and
/// after its first text.
#[tokio::test(start_paused = true)]
async fn a_reply_that_is_cut_off_counts_what_was_reported() {
    let used = Usage::new(70, 7);
    for (abort, text) in [(true, Some("Hel")), (true, None), (false, Some("Hel")), (false, None)] {
        let script = text.into_iter().fold(Script::new().used(used), |s, text| s.say(text));
        let replies = [script.hang(), Script::text("ok").usage(Usage::new(1, 1))];
        let harness = pi(replies, &[]).await;
        send(&harness, "go").await;
        sleep(ms(1)).await;
        if abort {
            harness.handle.abort().await.unwrap();
        } else {
            let steer = Prompt::from("stop").urgency(Urgency::Interrupt);
            harness.handle.send(InputEvent::Steer(steer)).await.unwrap();
        }
        harness.handle.wait_for_idle().await;
        let more = if abort { 0 } else { 2 };
        assert_eq!(spent(&harness).tokens, 77 + more, "abort {abort}, {text:?}");
        assert_eq!(charges(&harness).len(), usize::from(text.is_none()));
        harness.check().await;
    }
}

/// C149: A detached request that fails, or whose run is aborted, counts the usage reported by then.
#[tokio::test(start_paused = true)]
async fn a_detached_request_that_fails_counts_what_was_reported() {
    let asking = || {
        does(|step| {
            Box::pin(async {
                step.take_input().await?;
                step.ask_all([Ask::detached().model("other"), Ask::detached().model("hangs")])
                    .await?;
                Ok(StepEnd::Done)
            })
        })
    };
    let failing = Script::new().used(Usage::new(5, 5)).fail(ModelErrorKind::Network, "gone");
    let hanging = Script::new().used(Usage::new(20, 2)).hang();
    let harness = Harness::new(asking(), [], |agent| {
        agent
            .model_named("other", ScriptedModel::new([failing]))
            .model_named("hangs", ScriptedModel::new([hanging]))
    })
    .await;
    send(&harness, "go").await;
    sleep(ms(1)).await;
    let before = spent(&harness);
    assert_eq!(before.turns, 2);
    assert!(before.tokens > 10, "the estimate of the one that hangs: {before:?}");
    harness.handle.abort().await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!((spent(&harness).turns, spent(&harness).tokens), (2, 32));
    assert_eq!(charges(&harness), [(Usage::new(20, 2), None, true)]);
    harness.check().await;
}

/// Kills the session after each request that it sends, until it sends no more. Returns the number
/// of kills.
async fn kill_at_each_request(
    mut harness: Harness,
    sends: fn(&LogEntry) -> bool,
) -> (usize, Harness) {
    send(&harness, "go").await;
    for kills in 0..20 {
        sleep(ms(1)).await;
        let entries = harness.memory.entries();
        if entries.iter().filter(|entry| sends(entry)).count() == kills {
            return (kills, harness);
        }
        harness = harness.restart().await;
        harness.handle.send(InputEvent::Continue(None)).await.unwrap();
    }
    panic!("each crash gets a free request");
}

/// C150: A request is charged before it is sent. If it is killed before each reply, a session sends
/// no more requests than its budget of turns, tokens or cost allows, of the run or of the session.
#[tokio::test(start_paused = true)]
async fn a_request_whose_reply_is_lost_stays_charged() {
    let (run, session) = (Budget::default, Budget::default);
    // The input is estimated at nine tokens.
    let cases = [
        (run().turns(3), session(), Limit::Run(Resource::Turns)),
        (run().tokens(35), session(), Limit::Run(Resource::Tokens)),
        (run().cost(0.035), session(), Limit::Run(Resource::Cost)),
        (run(), session().turns(3), Limit::Session(Resource::Turns)),
        (run(), session().tokens(35), Limit::Session(Resource::Tokens)),
        (run(), session().cost(0.035), Limit::Session(Resource::Cost)),
    ];
    for (run, session, limit) in cases {
        let model = ScriptedModel::new([]).default_reply(Script::new().hang());
        let model = model.info(priced("test/priced", 1000.0));
        let builder = GenericAgent::builder(model.clone(), PiPattern);
        let agent = builder.limits(Limits::default().run(run).session(session)).build().unwrap();
        let memory = InMemory::new();
        let cx = RunContext::new().session("s").memory(memory.clone());
        let (handle, events) = agent.run(cx).await.unwrap();
        let harness = Harness { handle, events, model, agent, memory, clock: TestClock::default() };
        let sends = |entry: &LogEntry| matches!(entry, LogEntry::RequestStarted { .. });
        let (kills, mut harness) = kill_at_each_request(harness, sends).await;
        assert_eq!((kills, harness.model.requests().len()), (3, 3), "{limit:?}");
        let outcome = outcome_of(&harness.run_end().await);
        assert_eq!((outcome.end, outcome.limit), (RunStatus::Limit, Some(limit)));
        let spent = spent(&harness);
        assert_eq!((spent.turns, spent.tokens), (3, 27), "{limit:?}");
        assert_eq!(outcome.usage.total(), 0, "no provider reported any");
        harness.check().await;
    }
}

/// C150: Detached requests are charged in one entry before the first is sent. Charges for requests
/// that an abort or an interrupt prevented are given back.
#[tokio::test(start_paused = true)]
async fn detached_requests_are_charged_before_they_are_sent() {
    let asking = || {
        does(|step| {
            Box::pin(async {
                step.take_input().await?;
                step.ask_all((0..3).map(|n| Ask::detached().key(n.to_string()))).await?;
                Ok(StepEnd::Done)
            })
        })
    };
    let sends = |entry: &LogEntry| matches!(entry, LogEntry::DetachedStarted { .. });
    let model = || (0..20).map(|_| Script::new().hang());
    let harness =
        Harness::new(asking(), model(), |agent| agent.limits(Budget::default().turns(8))).await;
    let (kills, mut harness) = kill_at_each_request(harness, sends).await;
    let outcome = outcome_of(&harness.run_end().await);
    assert_eq!((kills, outcome.limit), (2, Some(Limit::Run(Resource::Turns))));
    assert_eq!(harness.model.requests().len(), 6);
    let error = outcome.error.as_deref().unwrap();
    assert_eq!(error, "the limit of turns is reached: 3 turns are needed, and 2 of 8 are left");
    harness.check().await;

    for abort in [true, false] {
        let limits = |agent: AgentBuilder| agent.limits(Limits::default().parallel_requests(2));
        let harness = Harness::new(asking(), model(), limits).await;
        send(&harness, "go").await;
        sleep(ms(1)).await;
        assert_eq!(spent(&harness).turns, 3);
        if abort {
            harness.handle.abort().await.unwrap();
        } else {
            let steer = Prompt::from("stop").urgency(Urgency::Interrupt);
            harness.handle.send(InputEvent::Steer(steer)).await.unwrap();
        }
        harness.handle.wait_for_idle().await;
        assert_eq!((spent(&harness).turns, spent(&harness).tokens), (2, 0), "abort: {abort}");
        harness.check().await;
    }
}

/// C150: A failed request counts as a turn, so a pattern that keeps asking ends.
#[tokio::test(start_paused = true)]
async fn failed_requests_count_as_turns() {
    let stubborn = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            while step.ask().await?.error().is_some() {}
            Ok(StepEnd::Done)
        })
    });
    let replies = (0..9).map(|_| Script::error(ModelErrorKind::Network, "gone"));
    let harness =
        Harness::new(stubborn, replies, |agent| agent.limits(Budget::default().turns(4))).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!(
        (outcome.limit, harness.model.requests().len()),
        (Some(Limit::Run(Resource::Turns)), 4)
    );
    harness.check().await;
}

/// C151: The budget of a session counts the requests of all runs, including runs before a reset and
/// of an earlier process. The outcome names the exceeded budget.
#[tokio::test(start_paused = true)]
async fn the_budget_of_a_session_continues_over_runs_and_resets() {
    let budgets = [
        (Budget::default().turns(3), Limit::Session(Resource::Turns), "3 of 3 turns are used"),
        (
            Budget::default().tokens(310),
            Limit::Session(Resource::Tokens),
            "300 of 310 tokens are used, and about 109 more are needed",
        ),
        (
            Budget::default().cost(0.31),
            Limit::Session(Resource::Cost),
            "$0.3000 of $0.3100 are spent, and about $0.1090 more is needed",
        ),
        (
            Budget::default().time(ms(35)),
            Limit::Session(Resource::Time),
            "35.0ms of 35ms have passed",
        ),
    ];
    for (budget, limit, details) in budgets {
        let reply = Script::new().wait(ms(10)).say("ok").usage(Usage::new(90, 10));
        let model = ScriptedModel::new([]).default_reply(reply).info(priced("test/priced", 1000.0));
        let agent = GenericAgent::builder(model.clone(), PiPattern)
            .environment(PausedClock(Instant::now()))
            .limits(Limits::default().session(budget))
            .build()
            .unwrap();
        let memory = InMemory::new();
        let cx = RunContext::new().session("s").memory(memory.clone());
        let (handle, events) = agent.run(cx).await.unwrap();
        let mut harness =
            Harness { handle, events, model, agent, memory, clock: TestClock::default() };
        for n in 0..3 {
            let outcome = harness.handle.prompt("go").await.unwrap();
            assert_eq!(outcome.end, RunStatus::Done, "{limit:?} {n}: {outcome:?}");
            assert_eq!(outcome.usage.total(), 100, "that of the request of the user");
            match n {
                0 => harness.handle.reset().await.map(drop).unwrap(),
                1 => harness = harness.restart().await,
                _ => {}
            }
        }
        let outcome = harness.handle.prompt("go").await.unwrap();
        assert_eq!((outcome.end, outcome.limit), (RunStatus::Limit, Some(limit)));
        let error = outcome.error.unwrap();
        assert_eq!(*error, *format!("{limit} is reached: {details}"));
        assert!(error.starts_with("the session's "), "{error}");
        let sent = if limit == Limit::Session(Resource::Time) { 4 } else { 3 };
        assert_eq!(harness.model.requests().len(), sent);
        harness.check().await;
    }
}

/// C152: A refusal states the usage and the need, and sends nothing.
#[tokio::test(start_paused = true)]
async fn a_refusal_says_what_is_left() {
    let limits = [
        (Budget::default().turns(1), "the limit of turns is reached: 1 of 1 turns are used"),
        (
            Budget::default().tokens(1000),
            "the limit of tokens is reached: 900 of 1000 tokens are used, and about 910 more are \
             needed",
        ),
        (
            Budget::default().cost(1.5),
            "the cost limit is reached: $0.9000 of $1.50 are spent, and about $0.9100 more is \
             needed",
        ),
    ];
    for (limits, expected) in limits {
        let reply = calls(&["x"]).usage(Usage::new(890, 10));
        let model = ScriptedModel::new([]).default_reply(reply).info(priced("test/priced", 1000.0));
        let agent = GenericAgent::builder(model.clone(), PiPattern)
            .tool(TestTool::new("x"))
            .limits(limits)
            .build()
            .unwrap();
        let handle = agent.session().await.unwrap();
        let outcome = handle.prompt("go").await.unwrap();
        assert_eq!(outcome.error.as_deref(), Some(expected));
        assert_eq!(model.requests().len(), 1);
    }
}

/// C152: A pattern can read the spending and the rest, of the run or of the session, whichever is
/// less. The current run is included.
#[tokio::test(start_paused = true)]
async fn a_pattern_knows_what_was_spent_and_what_is_left() {
    let seen: Arc<Mutex<Vec<(Spent, Spent, Budget)>>> = Arc::default();
    let looking = {
        let seen = seen.clone();
        does(move |step| {
            let seen = seen.clone();
            Box::pin(async move {
                let look = |step: &StepContext<'_>| {
                    let all = (step.spent(), step.session_spent(), step.left());
                    seen.lock().unwrap().push(all);
                };
                step.take_input().await?;
                look(step);
                step.ask().await?;
                look(step);
                Ok(StepEnd::Done)
            })
        })
    };
    let reply = || Script::new().wait(ms(10)).say("ok").usage(Usage::new(60, 40));
    let run = Budget::default().turns(4).tokens(1000).time(Duration::MAX);
    let session = Budget::default().turns(10).tokens(250).time(ms(100));
    let limits = Limits::from(run).session(session);
    let harness = Harness::new(looking, [reply(), reply()], |agent| {
        agent.limits(limits).environment(PausedClock(Instant::now()))
    })
    .await;
    for _ in 0..2 {
        assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Done);
    }
    let spent = |spent: &Spent| (spent.turns, spent.tokens, spent.time);
    let left = |left: &Budget| (left.turns, left.tokens, left.cost, left.time);
    let seen = seen.lock().unwrap();
    let seen: Vec<_> = seen.iter().map(|(a, b, c)| (spent(a), spent(b), left(c))).collect();
    let [none, half, all] = [0, 10, 20].map(ms);
    assert_eq!(
        seen,
        [
            ((0, 0, none), (0, 0, none), (Some(4), Some(250), None, Some(ms(100)))),
            ((1, 100, half), (1, 100, half), (Some(3), Some(150), None, Some(ms(90)))),
            ((0, 0, none), (1, 100, half), (Some(4), Some(150), None, Some(ms(90)))),
            ((1, 100, half), (2, 200, all), (Some(3), Some(50), None, Some(ms(80)))),
        ]
    );
}

/// C150: A log of a version that did not charge in advance is read. Its requests count as before.
#[test]
fn logs_without_estimates_are_read() {
    let lines = [
        r#"{"type":"opened","epoch":1}"#,
        r#"{"type":"run_started","run":"r1","cause":"steer","time":1}"#,
        r#"{"type":"request_started","message":"m1","model":"m"}"#,
        r#"{"type":"detached","message":{"id":"m2","role":"assistant","parts":[],"stop":"stop",
            "model":"m","usage":{"input":5,"output":2}},"cost":0.5}"#,
        r#"{"type":"opened","epoch":2}"#,
        r#"{"type":"request_started","message":"m3","model":"m"}"#,
    ];
    let read = |line: &&str| serde_json::from_str::<LogEntry>(line).unwrap();
    let entries: Vec<LogEntry> = lines.iter().map(read).collect();
    check_log(&entries).unwrap();
    let spent = SessionLog::of(&entries).spent();
    assert_eq!((spent.turns, spent.tokens, spent.cost), (3, 7, 0.5));
    let old = r#"{"type":"request_started","message":"m1","model":"m"}"#;
    assert_eq!(serde_json::to_string(&entries[2]).unwrap(), old, "zero is not written");
}
