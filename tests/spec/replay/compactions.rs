//! Replays of logs with compactions.

use loopwright_memory::SummaryCompaction;

use super::*;
use crate::compaction::{KEEP, Keep, harness, harness_with, replies, talk};

fn overflow() -> Script {
    Script::error(ModelErrorKind::ContextOverflow, "too many tokens")
}

fn compacted(harness: &Harness) -> Vec<LogEntry> {
    harness
        .memory
        .entries()
        .iter()
        .filter(|item| matches!(item, LogEntry::Compacted { .. }))
        .cloned()
        .collect()
}

/// C89: compactions that the agent starts: at a threshold, and after requests that are too large,
/// with and without a summary.
#[tokio::test(start_paused = true)]
async fn compactions_of_the_agent() {
    let mut script = replies(1..4);
    script.extend([
        Script::text("sum"),
        Script::text("r4"),
        overflow(),
        Script::text("sum two"),
        Script::text("r5"),
    ]);
    script.extend([Script::text("r6")]);
    let harness = harness_with(script, |agent| agent).await;
    talk(&harness, 1..7).await;
    assert_eq!(compacted(&harness).len(), 2);
    replays_pi(&harness).await;

    let failures = [
        Script::error(ModelErrorKind::Overloaded, "too busy"),
        Script::text(" \n"),
        Script::text("half").cut(),
        Script::new().event(ModelEvent::Delta { block: 7, delta: "?".into() }),
    ];
    for failure in failures {
        let mut script = replies(1..4);
        script.extend([
            failure.clone(),
            Script::text("r4"),
            overflow(),
            failure,
            Script::text("r5"),
        ]);
        let harness = self::harness(script).await;
        talk(&harness, 1..6).await;
        assert_eq!(compacted(&harness).len(), 2);
        replays_pi(&harness).await;
    }

    let batches = (0..3).map(|i| Script::calls([(&*format!("c{i}"), "read", json!({}))]));
    let harness = harness_with(batches.chain([Script::text("done")]), |agent| {
        agent.limits(Budget::default().turns(4))
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    assert!(
        harness.memory.entries().iter().all(|item| !matches!(item, LogEntry::Detached { .. })),
        "no turn is left for the summary"
    );
    assert_eq!(compacted(&harness).len(), 1);
    replays(&harness, PiPattern, |agent| agent.limits(Budget::default().turns(4))).await;
}

/// C89: a plan of several steps.
#[tokio::test(start_paused = true)]
async fn compactions_of_many_steps() {
    struct OneByOne;
    impl CompactionPolicy for OneByOne {
        fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
            let len = context.messages.len();
            let summary = KEEP.plan(context)?.summary.filter(|_| len % 2 == 1);
            let plan = CompactionPlan::new(1..3).more(true);
            (len > 4).then(|| match summary {
                Some(request) => plan.summary(request),
                None => plan,
            })
        }

        fn finish(
            &self,
            _: &CompactionContext<'_>,
            plan: &CompactionPlan,
            summary: Option<&str>,
        ) -> Replacement {
            let message = format!("{} and {}", plan.replaces.len(), summary.unwrap_or_default());
            Replacement::new(message.as_str()).details(json!(message))
        }
    }
    let mut script: Vec<_> = (1..6)
        .map(|n| Script::text(&format!("r{n} {}", "and many more words ".repeat(9))))
        .collect();
    script.extend((0..6).map(|n| Script::text(&format!("sum {n}"))));
    let harness = pi_with(script, &[], |agent| agent.compaction(OneByOne)).await;
    for n in 1..6 {
        harness.handle.prompt(format!("p{n}")).await.unwrap();
    }
    harness.handle.compact(Some("all")).await.unwrap();
    assert!(compacted(&harness).len() > 4, "{:?}", harness.memory.entries());
    replays_pi(&harness).await;
}

/// C89: compactions requested at rest, with steers during them, and a compaction that failed.
#[tokio::test(start_paused = true)]
async fn compactions_requested_at_rest() {
    for urgency in [None, Some(Urgency::AfterTurn), Some(Urgency::Interrupt)] {
        let gate = Gate::new();
        let mut script = replies(1..4);
        script.push(Script::text("sum").gate(&gate));
        script.extend([Script::text("x"), Script::text("y"), Script::text("z")]);
        let mut harness = harness(script).await;
        talk(&harness, 1..4).await;
        let handle = harness.handle.clone();
        let asked = tokio::spawn(async move { handle.compact(Some("the names")).await });
        harness
            .until(|e| matches!(e, AgentEvent::AgentStart { cause: RunCause::Compact { .. }, .. }))
            .await;
        if let Some(urgency) = urgency {
            harness.handle.steer(Prompt::from("wait").urgency(urgency)).await.unwrap();
        }
        gate.open();
        harness.run_end().await;
        let _ = asked.await.unwrap();
        harness.handle.prompt("next").await.unwrap();
        harness.check().await;
        replays_pi(&harness).await;
    }

    let mut script = replies(1..4);
    script.extend([
        Script::error(ModelErrorKind::Overloaded, "too busy"),
        Script::new().hang(),
        Script::text("sum"),
    ]);
    script.push(Script::text("r4"));
    let mut harness = harness(script).await;
    talk(&harness, 1..4).await;
    assert_eq!(
        harness.handle.compact(None).await,
        Err(InputError::NotCompacted("too busy".into()))
    );
    harness.drain_events();
    let handle = harness.handle.clone();
    let asked = tokio::spawn(async move { handle.compact(None).await });
    harness.until(|e| matches!(e, AgentEvent::AgentStart { .. })).await;
    harness.handle.abort().await.unwrap();
    assert!(asked.await.unwrap().is_err());
    assert_eq!(harness.handle.compact(None).await.unwrap().len(), 1);
    talk(&harness, 4..5).await;
    replays_pi(&harness).await;
}

/// C89: compactions requested within a run: before a request, twice, without effect, and so late
/// that they follow the run.
#[tokio::test(start_paused = true)]
async fn compactions_requested_within_a_run() {
    let asks: [&[Option<&str>]; 3] =
        [&[None], &[Some("the names")], &[Some("first"), Some("second")]];
    let replies_to_them = [["sum", "more"], ["", ""], ["", "sum"]];
    for requests in asks {
        for summaries in replies_to_them {
            let (gate, last) = (Gate::new(), Gate::new());
            let mut script = replies(1..3);
            script.push(calls(&["slow"]));
            script.extend(summaries.iter().take(requests.len()).map(|text| Script::text(text)));
            script.extend([
                Script::text("a").gate(&last),
                Script::text("b"),
                Script::text("c"),
                Script::text("d"),
            ]);
            let tools = [TestTool::new("slow").waits(&gate)];
            let mut harness =
                pi_with(script, &tools, |agent| agent.compaction(Keep { at: 9, ..KEEP })).await;
            talk(&harness, 1..3).await;
            send(&harness, "p3").await;
            harness.until(starts).await;
            let ask = |instructions: Option<&'static str>| {
                let handle = harness.handle.clone();
                tokio::spawn(async move { handle.compact(instructions).await })
            };
            let mut asked: Vec<_> =
                requests.iter().map(|instructions| ask(*instructions)).collect();
            tokio::task::yield_now().await;
            harness.handle.steer(Prompt::from("and?").urgency(Urgency::AfterTurn)).await.unwrap();
            gate.open();
            harness.until(is_delta).await;
            let handle = harness.handle.clone();
            asked.push(tokio::spawn(async move { handle.compact(None).await }));
            tokio::task::yield_now().await;
            last.open();
            for asked in asked {
                let _ = asked.await.unwrap();
            }
            harness.handle.wait_for_idle().await;
            harness.handle.prompt("p4").await.unwrap();
            let items = harness.memory.entries();
            let run = items.split(|item| matches!(item, LogEntry::RunEnded { .. })).nth(2).unwrap();
            let why = |item: &LogEntry| {
                if let LogEntry::Compacted { why, .. } = item { Some(why.clone()) } else { None }
            };
            let asked = CompactionCause::Asked { instructions: requests[0].map(Into::into) };
            assert_eq!(
                run.iter().filter_map(why).any(|why| why == asked),
                summaries[0] == "sum",
                "{run:?}"
            );
            harness.check().await;
            replays_pi(&harness).await;
        }
    }
}

/// C89: a steer that cuts off the summary for a request, whether or not the request was too large.
#[tokio::test(start_paused = true)]
async fn steers_during_the_summary_for_a_request() {
    for too_large in [false, true] {
        for urgency in [Urgency::AfterTurn, Urgency::Interrupt] {
            let gate = Gate::new();
            let talked = if too_large { 3 } else { 4 };
            let mut script = replies(1..talked);
            script.extend(too_large.then(overflow));
            script.extend([
                Script::new().say("sum").gate(&gate),
                Script::text("more"),
                Script::text("both"),
            ]);
            script.push(Script::text("well"));
            let mut harness = harness(script).await;
            talk(&harness, 1..talked).await;
            send(&harness, "next").await;
            harness
                .until(
                    |e| matches!(e, AgentEvent::MessageEnd { message } if message.text() == "next"),
                )
                .await;
            if too_large {
                harness
                    .until(|e| {
                        matches!(e, AgentEvent::MessageUpdate { update: Update::Withdrawn, .. })
                    })
                    .await;
            }
            harness.handle.steer(Prompt::from("and this").urgency(urgency)).await.unwrap();
            gate.open();
            harness.run_end().await;
            harness.check().await;
            replays_pi(&harness).await;
        }
    }
}

/// C89: a log with compactions that a crash cut off anywhere.
#[tokio::test(start_paused = true)]
async fn compactions_and_several_processes() {
    let mut script = replies(1..4);
    script.extend([Script::text("sum"), Script::text("r4"), Script::text("sum"), calls(&["read"])]);
    script.extend([Script::error(ModelErrorKind::Overloaded, "busy"), Script::text("r5")]);
    let whole = harness(script).await;
    talk(&whole, 1..5).await;
    assert_eq!(whole.handle.compact(Some("all")).await.unwrap().len(), 1);
    talk(&whole, 5..6).await;
    let log = whole.memory.entries();
    for cut in 1..=log.len() {
        let harness = harness((0..6).map(|n| Script::text(&format!("more {n}")))).await;
        let harness = harness.restart_from(log[..cut].to_vec()).await;
        if SessionLog::of(&log[..cut]).run().is_some() {
            harness.handle.continue_run().await.unwrap();
        }
        harness.handle.wait_for_idle().await;
        harness.handle.prompt("and now?").await.unwrap();
        let _ = harness.handle.compact(None).await;
        replays_pi(&harness).await;
    }
}

/// C90: a policy that deviates from the log is a difference. A policy with the same result is not.
#[tokio::test(start_paused = true)]
async fn another_policy_is_a_difference() {
    let mut script = replies(1..4);
    script.extend([Script::text("sum"), Script::text("r4"), Script::text("r5")]);
    let harness = harness(script).await;
    talk(&harness, 1..6).await;
    let replay = Replay::from_entries(harness.memory.entries());
    let like = || GenericAgent::builder(replay.model(), PiPattern).tools(replay.tools());
    let with = |policy: Keep| like().compaction(policy).build().unwrap();
    replay.run(&with(KEEP)).await.unwrap();
    replay.compare(&with(KEEP), &with(KEEP)).await.unwrap();

    let found = replay.run(&like().build().unwrap()).await.unwrap_err();
    assert!(
        found.to_string().starts_with("request 4 was not sent: instead `{\"model\""),
        "{found}"
    );
    let found = replay.run(&with(Keep { at: 5, ..KEEP })).await.unwrap_err();
    assert!(found.to_string().starts_with("request 3 is not in the log"), "{found}");
    let found = replay.run(&with(Keep { keep: 3, ..KEEP })).await.unwrap_err();
    assert_eq!(found.request(), Some(5), "{found}");

    // No request follows the compaction, so the entry differs.
    let mut script = replies(1..4);
    script.push(Script::text("sum"));
    let harness = self::harness(script).await;
    talk(&harness, 1..4).await;
    harness.handle.compact(None).await.unwrap();
    let replay = Replay::from_entries(harness.memory.entries());
    let agent = |policy| {
        GenericAgent::builder(replay.model(), PiPattern).compaction(policy).build().unwrap()
    };
    replay.run(&agent(KEEP)).await.unwrap();
    struct Further;
    impl CompactionPolicy for Further {
        fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
            let mut plan = KEEP.plan(context)?;
            plan.replaces.start = 2;
            Some(plan)
        }

        fn finish(
            &self,
            context: &CompactionContext<'_>,
            plan: &CompactionPlan,
            summary: Option<&str>,
        ) -> Replacement {
            let mut as_before = plan.clone();
            as_before.replaces.start = 1;
            KEEP.finish(context, &as_before, summary)
        }
    }
    let further =
        GenericAgent::builder(replay.model(), PiPattern).compaction(Further).build().unwrap();
    let found = replay.run(&further).await.unwrap_err();
    assert!(found.to_string().contains("\"first\":\"m3\"") && found.entry().is_some(), "{found}");
    let never = GenericAgent::builder(replay.model(), PiPattern).build().unwrap();
    let found = replay.run(&never).await.unwrap_err();
    assert!(found.to_string().contains("AgentBuilder::compaction"), "{found}");
}

/// C89: with a context window, a policy that depends on it can be tried with a log.
#[tokio::test(start_paused = true)]
async fn a_policy_is_tried_with_a_log() {
    let policy = || SummaryCompaction::new().keep_turns(1).keep_tokens(0);
    let words = |n: usize| Script::text(&format!("r{n} {}", "and many more words ".repeat(60)));
    let mut script: Vec<_> = (1..5).map(words).collect();
    script.extend([Script::text("sum"), words(5)]);
    let model = ScriptedModel::new(script).info(ModelInfo::new("test/m").with_context_window(2600));
    let memory = InMemory::new();
    let agent = GenericAgent::builder(model, PiPattern).compaction(policy()).build().unwrap();
    let (handle, _events) = agent.run(RunContext::new().memory(memory.clone())).await.unwrap();
    for n in 1..6 {
        handle.prompt(format!("p{n}")).await.unwrap();
    }
    assert_eq!(
        memory.entries().iter().filter(|item| matches!(item, LogEntry::Compacted { .. })).count(),
        1
    );
    for (window, same) in [(2600, true), (100_000, false)] {
        let replay = Replay::from_entries(memory.entries()).window(window);
        let agent =
            GenericAgent::builder(replay.model(), PiPattern).compaction(policy()).build().unwrap();
        let replayed = replay.run(&agent).await;
        assert_eq!(replayed.is_ok(), same, "{window}: {replayed:?}");
    }
}
