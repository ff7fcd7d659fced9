//! Requested compactions, compactions that are cut off, and crashes during them.

use super::*;
use loopwright_core::log::check_log;
use loopwright_core::testing::check_transcript;

/// C86: a compaction requested at rest is a separate run. If there is nothing to compact, no run
/// starts.
#[tokio::test(start_paused = true)]
async fn a_compaction_can_be_requested_at_rest() {
    let mut script = replies(1..4);
    script.extend([Script::text("sum"), Script::text("r4")]);
    let mut harness = harness(script).await;
    assert_eq!(harness.handle.compact(None).await, Ok(vec![]), "there is nothing yet");
    talk(&harness, 1..4).await;
    harness.drain_events();
    let done = harness.handle.compact(Some("mind the names")).await.unwrap();
    assert_eq!((done.len(), done[0].messages), (1, 3));
    assert_eq!(sent(&harness, 3), ["r1|p2|r2 (mind the names)"]);
    let emitted = harness.drain_events();
    assert_eq!(kinds(&emitted), ["agent_start", "compaction", "agent_end"]);
    let cause = RunCause::Compact { instructions: Some("mind the names".into()) };
    assert_eq!(
        (&emitted[0].event, end_of(&emitted)),
        (&AgentEvent::AgentStart { cause, trace: None }, RunStatus::Done)
    );
    let two = tokio::join!(harness.handle.compact(None), harness.handle.compact(Some("again")));
    assert_eq!(two, (Ok(vec![]), Ok(vec![])));
    assert_eq!(kinds(&harness.drain_events()), Vec::<String>::new());
    talk(&harness, 4..5).await;
    assert_eq!(sent(&harness, 4), ["p1", "Before: sum", "p3", "r3", "p4"]);
    harness.check().await;
}

/// C86: a compaction that fails, or an agent without a policy, changes nothing and returns an
/// error. A reply that does not match its schema is not retried.
#[tokio::test(start_paused = true)]
async fn a_requested_compaction_that_fails_changes_nothing() {
    let harness = pi([Script::text("r1")], &[]).await;
    assert_eq!(harness.handle.compact(None).await, Err(InputError::NoCompaction));

    let schema = OutputSchema::new("o", json!({ "type": "object" }));
    let mut script = replies(1..4);
    script.extend([Script::error(ModelErrorKind::Overloaded, "too busy"), Script::text("sum")]);
    let options = |agent: AgentBuilder| {
        agent.output_schema(schema).limits(Limits::default().output_retries(0))
    };
    let mut harness = harness_with(script, options).await;
    for prompt in ["p1", "p2", "p3"] {
        assert_eq!(harness.handle.prompt(prompt).await.unwrap().end, RunStatus::Error, "no object");
    }
    harness.drain_events();
    let refused = harness.handle.compact(None).await;
    assert_eq!(refused, Err(InputError::NotCompacted("too busy".into())));
    let emitted = harness.drain_events();
    assert_eq!((kinds(&emitted).len(), end_of(&emitted)), (2, RunStatus::Error));
    assert_eq!(harness.handle.compact(None).await.unwrap().len(), 1);
    assert_eq!(
        end_of(&harness.drain_events()),
        RunStatus::Done,
        "the last reply is not requested again"
    );
    harness.check().await;
}

/// C86: a compaction requested within a run is done before the next request, or right after the
/// run. It is refused while actions are pending.
#[tokio::test(start_paused = true)]
async fn a_compaction_can_be_requested_within_a_run() {
    let (gate, last) = (Gate::new(), Gate::new());
    let mut script = replies(1..3);
    script.extend([
        calls(&["slow"]),
        Script::text("sum"),
        Script::text("a").gate(&last),
        Script::text("sum two"),
    ]);
    script.push(calls(&["mutate"]));
    let tools =
        [TestTool::new("slow").waits(&gate), TestTool::new("mutate").effect(Effect::AtMostOnce)];
    let mut harness = pi_with(script, &tools, |agent| agent.compaction(KEEP)).await;
    talk(&harness, 1..3).await;
    send(&harness, "p3").await;
    harness.until(starts).await;
    let asked = harness.handle.compact(None);
    let open = async {
        harness.handle.state().await.unwrap();
        gate.open();
    };
    let (done, ()) = tokio::join!(asked, open);
    assert_eq!((done.unwrap()[0].messages, sent(&harness, 3)), (4, vec!["r1|p2|r2|p3".to_owned()]));
    assert_eq!(harness.model.requests()[4].messages.len(), 4);

    let handle = harness.handle.clone();
    let asked = tokio::spawn(async move { handle.compact(None).await });
    harness.until(is_delta).await;
    last.open();
    assert_eq!(asked.await.unwrap().unwrap().len(), 1, "no request came after it");
    let emitted = harness.drain_events();
    let runs: Vec<_> = emitted
        .iter()
        .filter(|e| matches!(e.event, AgentEvent::AgentEnd(_)))
        .map(|e| e.run_id)
        .collect();
    assert_eq!(runs, [RunId(3), RunId(4)]);

    harness.handle.prompt("p4").await.unwrap();
    let refused = harness.handle.compact(None).await;
    let Err(InputError::NotCompacted(why)) = &refused else { panic!("{refused:?}") };
    assert!(why.message().contains("resolve them first"), "{why}");
    harness.handle.abort().await.unwrap();
    harness.check().await;
}

/// C86: a steer during a compaction is answered in the same run. An interrupt cuts off the summary.
#[tokio::test(start_paused = true)]
async fn a_steer_during_a_compaction_is_answered() {
    for (urgency, replaced) in [(Urgency::AfterTurn, 3), (Urgency::Interrupt, 0)] {
        let gate = Gate::new();
        let mut script = replies(1..4);
        script.push(Script::text("sum").gate(&gate));
        if replaced == 0 {
            script.push(Script::text("sum for the request"));
        }
        script.push(Script::text("yes"));
        let mut harness = harness(script).await;
        talk(&harness, 1..4).await;
        let handle = harness.handle.clone();
        let asked = tokio::spawn(async move { handle.compact(None).await });
        harness
            .until(|e| matches!(e, AgentEvent::AgentStart { cause: RunCause::Compact { .. }, .. }))
            .await;
        harness.handle.steer(Prompt::from("wait").urgency(urgency)).await.unwrap();
        gate.open();
        let emitted = harness.run_end().await;
        assert_eq!(
            (outcome_of(&emitted).text.as_str(), end_of(&emitted)),
            ("yes", RunStatus::Done),
            "{}",
            trace(&emitted)
        );
        assert_eq!(asked.await.unwrap().map_or(0, |done| done[0].messages), replaced);
        let why = if replaced > 0 {
            CompactionCause::Asked { instructions: None }
        } else {
            CompactionCause::Threshold
        };
        assert_eq!(
            compactions(&emitted).iter().map(|done| done.why.clone()).collect::<Vec<_>>(),
            [why]
        );
        assert_eq!(
            detached(&harness),
            if replaced > 0 { 1 } else { 2 },
            "a summary that is cut off is counted"
        );
        harness.check().await;
    }
}

/// C86: an interrupt during the summary for a request cuts off the summary and leaves out no
/// message. The steer is in the next request.
#[tokio::test(start_paused = true)]
async fn an_interrupt_during_the_summary_of_a_request_leaves_nothing_out() {
    let gate = Gate::new();
    let mut script = replies(1..4);
    script.extend([Script::new().gate(&gate), Script::text("sum"), Script::text("both")]);
    let mut harness = harness(script).await;
    talk(&harness, 1..4).await;
    send(&harness, "p4").await;
    harness
        .until(|e| matches!(e, AgentEvent::MessageEnd { message } if message.text() == "p4"))
        .await;
    harness.handle.steer(Prompt::from("and this").urgency(Urgency::Interrupt)).await.unwrap();
    let emitted = harness.run_end().await;
    assert_eq!(sent(&harness, 5), ["p1", "Before: sum", "p4", "and this"], "{}", trace(&emitted));
    assert_eq!((detached(&harness), end_of(&emitted)), (2, RunStatus::Done));
    check_emitted(&mut harness);
    harness.check().await;
}

/// C86: an abort or the time limit cuts off a compaction. Nothing has changed, and the session is
/// usable.
#[tokio::test(start_paused = true)]
async fn an_abort_or_the_time_limit_cuts_off_a_compaction() {
    for asked in [true, false] {
        let mut script = replies(1..4);
        script.extend([Script::new().hang(), Script::text("sum"), Script::text("r5")]);
        let limits = Budget::default().time(Duration::from_secs(60));
        let mut harness =
            harness_with(script, |agent| if asked { agent } else { agent.limits(limits) }).await;
        talk(&harness, 1..4).await;
        harness.drain_events();
        if asked {
            let handle = harness.handle.clone();
            let request = tokio::spawn(async move { handle.compact(None).await });
            harness.until(|e| matches!(e, AgentEvent::AgentStart { .. })).await;
            harness.handle.abort().await.unwrap();
            assert_eq!(
                request.await.unwrap(),
                Err(InputError::NotCompacted("the run was aborted".into()))
            );
            assert_eq!(end_of(&harness.drain_events()), RunStatus::Aborted);
        } else {
            assert_eq!(
                harness.handle.prompt("p4").await.unwrap().limit,
                Some(Limit::Run(Resource::Time))
            );
        }
        assert_eq!((detached(&harness), compactions(&harness.drain_events()).len()), (0, 0));
        assert_eq!(harness.handle.prompt("p5").await.unwrap().text, "r5");
        assert_eq!(sent(&harness, 5)[1], "Before: sum");
        harness.check().await;
    }
}

/// C86 C87: a steer during a compaction is answered completely in its run: with a batch of calls,
/// and with a retry if the reply does not match its schema. This also holds after a crash at any
/// entry.
#[tokio::test(start_paused = true)]
async fn a_steer_during_a_compaction_is_answered_completely_also_after_a_crash() {
    let schema = || OutputSchema::new("o", json!({ "type": "object" }));
    let options =
        |agent: AgentBuilder| agent.output_schema(schema()).compaction(Keep { at: 99, ..KEEP });
    let (gate, fits) = (Gate::new(), || Script::text("{}"));
    let script = [
        fits(),
        fits(),
        fits(),
        Script::text("sum").gate(&gate),
        calls(&["ask"]),
        Script::text("no"),
        fits(),
    ];
    let tools = [TestTool::new("ask").effect(Effect::AtMostOnce)];
    let mut harness = pi_with(script, &tools, options).await;
    for prompt in ["p1", "p2", "p3"] {
        assert_eq!(harness.handle.prompt(prompt).await.unwrap().end, RunStatus::Done);
    }
    let handle = harness.handle.clone();
    let asked = tokio::spawn(async move { handle.compact(None).await });
    harness
        .until(|e| matches!(e, AgentEvent::AgentStart { cause: RunCause::Compact { .. }, .. }))
        .await;
    harness.handle.steer("wait").await.unwrap();
    gate.open();
    harness.until(|e| matches!(e, AgentEvent::AgentEnd(_))).await;
    assert_eq!(asked.await.unwrap().unwrap().len(), 1);
    harness.resolve(0, Decision::Approve).await.unwrap();
    let emitted = harness.run_end().await;
    let lines = harness.transcript().await;
    let end = (end_of(&emitted), lines.len(), lines.last().unwrap().as_str());
    assert_eq!(end, (RunStatus::Done, 12, "A:{}/Stop"), "{lines:#?}");
    let log = harness.memory.entries();
    for cut in 1..=log.len() {
        let harness = pi_with((0..9).map(|_| fits()), &tools, options)
            .await
            .restart_from(log[..cut].to_vec())
            .await;
        if SessionLog::of(&log[..cut]).run().is_none() {
            continue;
        }
        harness.handle.continue_run().await.unwrap();
        if let [action] = &harness.pending().await[..] {
            harness.handle.approve(action).await.unwrap();
        }
        harness.handle.wait_for_idle().await;
        assert_eq!(harness.transcript().await.last().unwrap(), "A:{}/Stop", "cut at {cut}");
        let steered = log[..cut]
            .iter()
            .filter(|i| matches!(i, LogEntry::Queued { kind: QueueKind::Steering, .. }))
            .count();
        assert_eq!(
            harness.transcript().await.iter().filter(|line| *line == "U:wait").count(),
            steered,
            "cut at {cut}"
        );
        harness.check().await;
    }
}

/// C87: a session with compactions continues after a crash at any entry. At most a summary is lost,
/// which is requested again. The log yields the emitted events.
#[tokio::test(start_paused = true)]
async fn a_session_with_compactions_cut_after_every_entry_continues() {
    let mut script = replies(1..4);
    script.extend([Script::text("sum"), Script::text("r4"), Script::text("sum"), calls(&["read"])]);
    script.extend([Script::error(ModelErrorKind::Overloaded, "busy"), Script::text("r5")]);
    let mut harness = harness(script).await;
    talk(&harness, 1..5).await;
    assert_eq!(harness.handle.compact(Some("all")).await.unwrap().len(), 1);
    talk(&harness, 5..6).await;
    let emitted = harness.drain_events();
    check_events(&emitted).unwrap();
    harness.check().await;
    let log = harness.memory.entries();
    let numbered = |event: &AgentEvent| {
        !matches!(event, AgentEvent::MessageUpdate { .. })
            && !matches!(event, AgentEvent::MessageStart { role: Role::Assistant, .. })
    };
    let logged: Vec<_> =
        SessionLog::events("s", &log).into_iter().map(|e| (e.seq, e.event)).collect();
    let emitted: Vec<_> =
        emitted.iter().filter(|e| numbered(&e.event)).map(|e| (e.seq, e.event.clone())).collect();
    assert_eq!(logged, emitted);
    assert_eq!(logged.iter().filter(|(_, event)| is_compaction(event)).count(), 3);
    for cut in 1..=log.len() {
        let harness = self::harness((0..4).map(|_| Script::text("more"))).await;
        let harness = harness.restart_from(log[..cut].to_vec()).await;
        let past = SessionLog::of(&log[..cut]);
        let asked = matches!(
            log[..cut].iter().rfind(|i| matches!(i, LogEntry::RunStarted { .. })),
            Some(LogEntry::RunStarted { cause: RunCause::Compact { .. }, .. })
        );
        if past.run().is_some() {
            harness.handle.continue_run().await.unwrap();
        }
        harness.handle.wait_for_idle().await;
        harness.check().await;
        let items = harness.memory.entries();
        if past.run().is_some() && asked {
            let done = items.iter().filter(|i| {
                matches!(i, LogEntry::Compacted { why: CompactionCause::Asked { .. }, .. })
            });
            assert_eq!(done.count(), 1, "cut at {cut}");
        }
        let before: Vec<_> = past.messages().iter().map(|m| m.id).collect();
        let after: Vec<_> = SessionLog::of(&items).messages().iter().map(|m| m.id).collect();
        assert_eq!(after[..before.len()], before, "cut at {cut}: nothing is lost");
        assert_eq!(harness.model.refused(), Vec::<String>::new(), "cut at {cut}");
        check_log(&items).unwrap();
        check_transcript(&SessionLog::of(&items).context()).unwrap();
    }
}
