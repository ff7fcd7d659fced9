//! Compaction: a summary replaces older messages in requests and nowhere else.

mod asked;
mod roles;

use std::ops::Range;

use crate::kit::*;

/// A policy that keeps the first message and the last `keep`, and replaces the others if there are
/// at least `at` messages. The request for a summary contains the texts that it replaces.
pub(crate) struct Keep {
    pub(crate) at: usize,
    pub(crate) keep: usize,
    /// The number of messages below which a request fits without a compaction.
    pub(crate) full: usize,
}

pub(crate) const KEEP: Keep = Keep { at: 7, keep: 2, full: 0 };

impl CompactionPolicy for Keep {
    fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
        let len = context.messages.len();
        if matches!(context.why, CompactionCause::Threshold) && len < self.at || len < self.keep + 3
        {
            return None;
        }
        let mut end = len - self.keep;
        while context.messages[end].as_tool_result().is_some() {
            end -= 1;
        }
        let texts: Vec<String> = context.messages[1..end].iter().map(|m| m.text()).collect();
        let mut message = texts.join("|");
        if let CompactionCause::Asked { instructions: Some(instructions) } = context.why {
            message = format!("{message} ({instructions})");
        }
        let summary = SummaryRequest::new("Summarise.", message).max_tokens(100);
        Some(CompactionPlan::new(1..end).summary(summary).fits(len < self.full))
    }

    fn finish(
        &self,
        context: &CompactionContext<'_>,
        plan: &CompactionPlan,
        summary: Option<&str>,
    ) -> Replacement {
        let before = context.last.map_or(0, |(_, details)| details["replaced"].as_u64().unwrap());
        let replaced = before + plan.replaces.len() as u64;
        let text = summary.map_or(format!("({} left out)", plan.replaces.len()), |text| {
            format!("Before: {text}")
        });
        Replacement::new(text).details(json!({ "replaced": replaced }))
    }
}

pub(crate) async fn harness(replies: impl IntoIterator<Item = Script>) -> Harness {
    harness_with(replies, |agent| agent).await
}

pub(crate) async fn harness_with(
    replies: impl IntoIterator<Item = Script>,
    options: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Harness {
    let tools = [TestTool::new("read"), TestTool::new("mutate").effect(Effect::AtMostOnce)];
    pi_with(replies, &tools, |agent| options(agent.compaction(KEEP))).await
}

fn is_compaction(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::Compaction(_))
}

fn compactions(events: &[Arc<Envelope>]) -> Vec<Arc<Compaction>> {
    let of = |e: &Arc<Envelope>| {
        if let AgentEvent::Compaction(done) = &e.event { Some(done.clone()) } else { None }
    };
    events.iter().filter_map(of).collect()
}

fn detached(harness: &Harness) -> usize {
    harness.memory.entries().iter().filter(|item| matches!(item, LogEntry::Detached { .. })).count()
}

/// Sends prompts and checks their replies: U:p1 A:r1 U:p2 A:r2 …
pub(crate) async fn talk(harness: &Harness, prompts: Range<usize>) {
    for n in prompts {
        assert_eq!(harness.handle.prompt(format!("p{n}")).await.unwrap().text, format!("r{n}"));
    }
}

pub(crate) fn replies(n: Range<usize>) -> Vec<Script> {
    n.map(|n| Script::text(&format!("r{n}"))).collect()
}

/// C83: before a request that would be too long, the older messages are summarised. The summary
/// replaces them in requests, and the history keeps them.
#[tokio::test(start_paused = true)]
async fn older_messages_are_replaced_by_a_summary_in_the_requests_only() {
    let mut script = replies(1..4);
    script.extend([Script::text("r1 to p3"), Script::text("r4"), Script::text("r5")]);
    let mut harness = harness(script).await;
    talk(&harness, 1..4).await;
    harness.drain_events();
    harness.handle.prompt("p4").await.unwrap();
    let emitted = harness.drain_events();
    let [done] = &compactions(&emitted)[..] else { panic!("{}", trace(&emitted)) };
    assert_eq!((done.messages, done.summarised, &done.error), (4, true, &None));
    assert!(done.tokens_after < done.tokens_before, "{done:?}");
    assert_eq!(
        sent(&harness, 3),
        ["r1|p2|r2|p3"],
        "the request for the summary contains what it replaces"
    );
    assert!(harness.model.requests()[3].tools.is_empty());
    assert_eq!(sent(&harness, 4), ["p1", "Before: r1 to p3", "r3", "p4"]);
    assert_eq!(harness.model.requests()[4].compacted, Some(done.message.id));
    talk(&harness, 5..6).await;
    assert_eq!(sent(&harness, 5), ["p1", "Before: r1 to p3", "r3", "p4", "r4", "p5"]);
    let lines = harness.transcript().await;
    assert_eq!(
        (lines.len(), &*lines[3]),
        (10, "A:r2/Stop"),
        "the history has all of it: {lines:?}"
    );
    let log = harness.memory.entries();
    assert_eq!(
        SessionLog::of(&log).context().iter().map(|m| m.text()).nth(1).unwrap(),
        "Before: r1 to p3"
    );
    harness.check().await;
    check_events(&emitted).unwrap();
}

/// C83: a plan that separates a call from its result, or that replaces the last message, ends the
/// run with an error and changes nothing.
#[tokio::test(start_paused = true)]
async fn an_illegal_plan_is_refused() {
    struct Splits(Range<usize>);
    impl CompactionPolicy for Splits {
        fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
            let plan = CompactionPlan::new(self.0.clone());
            (context.messages.len() > 2).then_some(plan)
        }

        fn finish(
            &self,
            _: &CompactionContext<'_>,
            _: &CompactionPlan,
            _: Option<&str>,
        ) -> Replacement {
            Replacement::new("cut")
        }
    }
    for (range, why) in [
        (0..2, "without their results"),
        (2..3, "without their results"),
        (0..4, "the last message must stay"),
        (1..1, "are not a range of"),
        (1..9, "are not a range of"),
    ] {
        let script = [calls(&["read", "read"]), Script::text("never")];
        let mut harness = pi_with(script, &[TestTool::new("read")], |agent| {
            agent.compaction(Splits(range.clone()))
        })
        .await;
        send(&harness, "go").await;
        let outcome = outcome_of(&harness.run_end().await);
        assert!(outcome.error.as_deref().unwrap().contains(why), "{range:?}: {outcome:?}");
        assert_eq!(
            (harness.model.requests().len(), harness.transcript().await.len()),
            (1, 4),
            "{range:?}"
        );
        harness.check().await;
    }
}

/// C83: hooks get the compacted history, with custom messages in their positions.
#[tokio::test(start_paused = true)]
async fn hooks_get_the_compacted_history() {
    let mut script = replies(1..4);
    script.extend([Script::text("sum"), Script::text("r4")]);
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let record = seen.clone();
    let note = |n: u64| CustomMessage::new(format!("c{n}"), json!(n));
    let pattern = does(move |step| {
        Box::pin(async move {
            step.take_input().await?;
            let n = step.history().len() as u64;
            step.remember(note(n)).await?;
            step.ask().await?;
            Ok(StepEnd::Done)
        })
    });
    let harness = Harness::new(pattern, script, |agent| {
        agent.compaction(KEEP).transform_context(move |_, messages| {
            record.lock().unwrap().push(
                messages
                    .iter()
                    .map(|m| match &m.body {
                        MessageKind::Custom(custom) => custom.kind.clone(),
                        _ => m.text(),
                    })
                    .collect::<Vec<_>>(),
            );
            async move { messages }
        })
    })
    .await;
    talk(&harness, 1..5).await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen[2], ["p1", "c1", "r1", "p2", "c4", "r2", "p3", "c7"]);
    assert_eq!(seen[3], ["p1", "Before: sum", "c1", "c4", "c7", "r3", "p4", "c10"]);
    assert_eq!(sent(&harness, 4), ["p1", "Before: sum", "r3", "p4"]);
}

/// C84: without a summary, a marker replaces the messages. The log contains the reason, and the run
/// continues.
#[tokio::test(start_paused = true)]
async fn without_a_summary_messages_are_replaced_by_a_marker() {
    let failures = [
        (Script::error(ModelErrorKind::Overloaded, "too busy"), "too busy"),
        (Script::text(" \n"), "without a summary"),
        (Script::text("half").cut(), "ended before"),
        (Script::new().event(ModelEvent::Delta { block: 7, delta: "?".into() }), "block 7"),
    ];
    for (failure, why) in failures {
        let mut script = replies(1..4);
        script.extend([failure, Script::text("r4")]);
        let mut harness = harness(script).await;
        talk(&harness, 1..5).await;
        let emitted = harness.drain_events();
        let done = compactions(&emitted).remove(0);
        assert!(!done.summarised && done.error.as_deref().unwrap().contains(why), "{done:?}");
        assert_eq!(sent(&harness, 4), ["p1", "(4 left out)", "r3", "p4"]);
        assert_eq!(
            (detached(&harness), harness.transcript().await.len()),
            (1, 8),
            "the call is counted, and nothing is lost"
        );
        harness.check().await;
    }
}

/// C84: without a summary, a request that still fits is sent unchanged. Another summary is
/// requested once the conversation has grown. When the request no longer fits, the messages are
/// left out.
#[tokio::test(start_paused = true)]
async fn a_request_that_fits_is_sent_without_a_summary() {
    let busy = || Script::error(ModelErrorKind::Overloaded, "too busy");
    let long = "r5 ".repeat(99);
    let mut script = replies(1..4);
    script.extend([
        busy(),
        Script::text("r4"),
        Script::text(&long),
        busy(),
        Script::text("r6"),
        busy(),
    ]);
    script.extend([Script::text("r7"), Script::text("r8")]);
    let keep = Keep { full: 13, ..KEEP };
    let mut harness = pi_with(script, &[], |agent| agent.compaction(keep)).await;
    harness.handle.prompt("p1 ".repeat(500)).await.unwrap();
    talk(&harness, 2..5).await;
    assert_eq!(sent(&harness, 4).len(), 7, "all of it");
    harness.handle.prompt("a word").await.unwrap();
    assert_eq!(
        (detached(&harness), sent(&harness, 5).len()),
        (1, 9),
        "it has grown too little for another summary"
    );
    talk(&harness, 6..7).await;
    assert_eq!((detached(&harness), sent(&harness, 7).len()), (2, 11));
    assert_eq!(compactions(&harness.drain_events()).len(), 0);
    talk(&harness, 7..8).await;
    let done = compactions(&harness.drain_events()).remove(0);
    assert_eq!(
        (detached(&harness), done.messages, done.summarised),
        (3, 10, false),
        "it does not fit"
    );
    assert_eq!(sent(&harness, 9)[1..], ["(10 left out)", "r6", "p7"]);
    talk(&harness, 8..9).await;
    harness.check().await;
}

/// C84: a summary that was cut off at its length is used and marked. It may be as long as the
/// model's output limit.
#[tokio::test(start_paused = true)]
async fn a_summary_that_is_cut_off_is_marked() {
    let info = ModelInfo::new("test/m").with_max_output(60);
    let mut script = replies(1..4);
    script.extend([Script::text("half").stop(StopReason::Length), Script::text("r4")]);
    let model = ScriptedModel::new(script).info(info);
    let agent = GenericAgent::builder(model.clone(), PiPattern).compaction(KEEP).build().unwrap();
    let handle = agent.session().await.unwrap();
    for prompt in ["p1", "p2", "p3", "p4"] {
        handle.prompt(prompt).await.unwrap();
    }
    let requests = model.requests();
    assert_eq!(
        (requests[3].max_tokens, &*requests[4].messages[1].text()),
        (Some(60), "Before: half […]")
    );
}

/// C84: a summary counts against the limits, and never uses the last turn, which its request needs.
#[tokio::test(start_paused = true)]
async fn a_summary_is_counted_and_leaves_the_last_turn_to_the_request() {
    let batches = |n: usize| {
        (0..n).map(|i| Script::calls([(&*format!("c{i}"), "read", json!({}))])).collect::<Vec<_>>()
    };
    let mut script = batches(3);
    script.push(Script::text("done"));
    let mut harness = harness_with(script, |agent| agent.limits(Budget::default().turns(4))).await;
    send(&harness, "go").await;
    let emitted = harness.run_end().await;
    assert_eq!(end_of(&emitted), RunStatus::Done, "{}", trace(&emitted));
    assert!(compactions(&emitted)[0].error.as_deref().unwrap().contains("limit of turns"));
    assert_eq!(detached(&harness), 0);

    let mut script = batches(3);
    script.extend([
        Script::text("sum"),
        Script::calls([("d", "read", json!({}))]),
        Script::text("never"),
    ]);
    let mut harness = harness_with(script, |agent| agent.limits(Budget::default().turns(5))).await;
    send(&harness, "go").await;
    let outcome = outcome_of(&harness.run_end().await);
    assert_eq!(
        (outcome.limit, detached(&harness), harness.model.requests().len()),
        (Some(Limit::Run(Resource::Turns)), 1, 5)
    );

    let usage = Usage::new(600, 0);
    let mut script = replies(1..4);
    script.extend([Script::text("sum").usage(usage), Script::text("never")]);
    let harness = harness_with(script, |agent| agent.limits(Budget::default().tokens(500))).await;
    talk(&harness, 1..4).await;
    let outcome = harness.handle.prompt("p4").await.unwrap();
    assert_eq!(
        (outcome.limit, harness.model.requests().len()),
        (Some(Limit::Run(Resource::Tokens)), 4),
        "{outcome:?}"
    );
    assert_eq!(outcome.usage.input, 600);
    harness.check().await;
}

/// C85: a request that is refused as too large is withdrawn, compacted and retried, at most twice
/// in a row.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_too_large_is_compacted_and_retried() {
    let overflow = || Script::error(ModelErrorKind::ContextOverflow, "too many tokens");
    let mut script = replies(1..3);
    script.extend([overflow(), Script::text("sum"), Script::text("r3")]);
    let mut harness = harness(script).await;
    talk(&harness, 1..3).await;
    harness.drain_events();
    harness.handle.prompt("p3").await.unwrap();
    let emitted = harness.drain_events();
    let (withdrawn, done) = (kinds(&emitted), compactions(&emitted).remove(0));
    assert!(
        withdrawn.contains(&"message_update".into()) && done.why == CompactionCause::Overflow,
        "{withdrawn:?}"
    );
    assert_eq!(sent(&harness, 4), ["p1", "Before: sum", "r2", "p3"]);
    check_events(&emitted).unwrap();
    harness.check().await;

    struct Always;
    impl CompactionPolicy for Always {
        fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
            let plan = CompactionPlan::new(0..1);
            (matches!(context.why, CompactionCause::Overflow)).then_some(plan)
        }

        fn finish(
            &self,
            _: &CompactionContext<'_>,
            _: &CompactionPlan,
            _: Option<&str>,
        ) -> Replacement {
            Replacement::new("cut")
        }
    }
    let mut script = replies(1..2);
    script.extend([overflow(), overflow(), overflow(), Script::text("never")]);
    let mut harness = pi_with(script, &[], |agent| agent.compaction(Always)).await;
    talk(&harness, 1..2).await;
    let outcome = harness.handle.prompt("p2").await.unwrap();
    assert_eq!(
        (outcome.model_error, harness.model.requests().len()),
        (Some(ModelErrorKind::ContextOverflow), 4)
    );
    assert_eq!(compactions(&harness.drain_events()).len(), 2);

    let script = [
        Script::text("r1"),
        Script::text("words").fail(ModelErrorKind::ContextOverflow, "full"),
        overflow(),
    ];
    let mut harness = pi_with(script, &[], |agent| agent.compaction(Always)).await;
    talk(&harness, 1..2).await;
    assert_eq!(
        harness.handle.prompt("p2").await.unwrap().end,
        RunStatus::Error,
        "some text was streamed"
    );
    assert_eq!(compactions(&harness.drain_events()).len(), 0);
}

/// C83: the size of a conversation is the provider's last count, plus an estimate of the rest.
#[tokio::test(start_paused = true)]
async fn the_size_of_a_request_is_what_was_counted_and_an_estimate_of_the_rest() {
    #[derive(Clone, Default)]
    struct Sizes(Arc<std::sync::Mutex<Vec<(u64, u64)>>>);
    impl CompactionPolicy for Sizes {
        fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
            self.0.lock().unwrap().push((context.tokens, context.overhead));
            assert_eq!(
                (context.window(None), context.window(Some("other"))),
                (Some(1000), Some(77))
            );
            assert_eq!((context.window(Some("unknown")), context.max_output), (None, Some(50)));
            None
        }

        fn finish(
            &self,
            _: &CompactionContext<'_>,
            _: &CompactionPlan,
            _: Option<&str>,
        ) -> Replacement {
            unreachable!()
        }
    }
    let usage = |input, output| Usage::new(input, output);
    let reply = |text: &str, usage| Script::text(text).usage(usage);
    let model = ScriptedModel::new([
        reply("aaa", usage(300, 10)),
        reply("bbb", usage(3, 1)),
        Script::text("ccc"),
    ])
    .info(ModelInfo::new("test/m").with_context_window(1000).with_max_output(50));
    let other = ScriptedModel::new([]).info(ModelInfo::new("test/o").with_context_window(77));
    let sizes = Sizes::default();
    let agent = GenericAgent::builder(model, PiPattern)
        .system("a system prompt of 32 characters")
        .compaction(sizes.clone());
    let agent = agent.model_named("other", other).build().unwrap();
    let handle = agent.session().await.unwrap();
    for prompt in ["123456", &"x".repeat(300), "1"] {
        handle.prompt(prompt).await.unwrap();
    }
    let seen = sizes.0.lock().unwrap().clone();
    let overhead = 11;
    let [one, two] = [8 + 2, 8 + 100];
    assert_eq!(seen[0], (one + overhead, overhead), "nothing was counted yet");
    assert_eq!(seen[1], (310 + two, overhead), "the first request and its reply were counted");
    let three = 8 + 1;
    assert_eq!(seen[2], (310 + two + three + three, overhead), "an impossible count is ignored");
}
