//! Crashes: the log is cut at every item and opened again.

use crate::kit::*;

/// C50 C51: a cut at every item of a session; after `Continue` every call has one result, nothing is
/// delivered twice, and a once-only tool that had started is not run again.
#[tokio::test(start_paused = true)]
async fn a_session_cut_at_every_item_goes_on() {
    let tools = || {
        let seq = TestTool::new("once").effect(Effect::AtMostOnce).spec(|s| s.needs_approval(Approval::Never));
        [TestTool::new("read"), TestTool::new("ask").effect(Effect::Idempotent), seq]
    };
    let replies = || [calls(&["read", "once", "ask"]), Script::text("one"), Script::text("two"), Script::text("three")];
    let mut rig = pi(replies(), &tools()).await;
    send(&rig, "go").await;
    rig.run_end().await;
    let open = rig.pending().await;
    rig.handle.follow_up("more").await.unwrap();
    rig.handle.decide("c", open[0].digest.clone(), Decision::Approve).await.unwrap();
    rig.run_end().await;
    rig.check().await;
    let log = rig.memory.items();
    for cut in 1..=log.len() {
        let tools = tools();
        let started =
            |items: &[Item]| items.iter().any(|i| matches!(i, Item::CallStarted { call, .. } if **call == *"b"));
        let replied = log[..cut].iter().filter(|i| matches!(i, Item::Replied { .. })).count();
        let rig = pi(replies().into_iter().skip(replied), &tools).await;
        let mut rig = rig.restart_from(log[..cut].to_vec()).await;
        let state = rig.handle.state().await.unwrap();
        if state.interrupted_run.is_some() {
            rig.handle.continue_run().await.unwrap();
        }
        rig.handle.wait_for_idle().await;
        if let Some(open) = rig.pending().await.first() {
            rig.handle.decide(open.call.clone(), open.digest.clone(), Decision::Approve).await.unwrap();
        }
        rig.handle.wait_for_idle().await;
        rig.check().await;
        let lines = rig.transcript().await;
        let said = |text: &str| lines.iter().filter(|l| *l == text).count();
        let asked = log[..cut].iter().any(|i| matches!(i, Item::Queued { .. }));
        assert_eq!(said("U:go"), usize::from(asked), "cut at {cut}: {lines:?}");
        assert!(said("U:more") <= 1, "cut at {cut}: {lines:?}");
        assert!(
            tools[2].ran() == usize::from(asked && !started(&log[..cut])),
            "cut at {cut}: ran {} times, {lines:?}",
            tools[2].ran()
        );
        if started(&log[..cut])
            && !log[..cut].iter().any(
                |i| matches!(i, Item::CallFinished { result } if result.as_tool_result().unwrap().call == "b".into()),
            )
        {
            assert!(lines.contains(&"R:b/OutcomeUnknown".to_owned()), "cut at {cut}: {lines:?}");
        }
        assert_eq!(rig.model.refused(), Vec::<String>::new(), "cut at {cut}");
        let told = rig.told();
        assert!(told.windows(2).all(|w| w[1].seq == w[0].seq || w[1].seq == w[0].seq + 1));
    }
}

/// C55: event numbers are a function of the log, so they are the same after a restart.
#[tokio::test(start_paused = true)]
async fn event_numbers_go_on_after_a_restart() {
    let mut rig = pi([Script::text("one"), Script::text("two")], &[]).await;
    send(&rig, "go").await;
    let last = rig.run_end().await.last().unwrap().seq;
    let mut rig = rig.restart().await;
    send(&rig, "more").await;
    assert_eq!(rig.run_end().await[0].seq, last + 1);
}

/// C50: an interrupted run is reported; a new request settles it instead of going on.
#[tokio::test(start_paused = true)]
async fn an_interrupted_run_is_reported_and_a_new_request_settles_it() {
    let mut rig = pi([calls(&["x"]), Script::text("ok")], &[TestTool::new("x").hangs()]).await;
    send(&rig, "go").await;
    rig.until(starts).await;
    let mut rig = rig.restart().await;
    assert_eq!(rig.handle.state().await.unwrap().interrupted_run, Some(RunId(1)));
    send(&rig, "forget it").await;
    let outcome = outcome_of(&rig.run_end().await);
    assert!(outcome.error.as_deref().unwrap().contains("interrupted in the middle"));
    assert_eq!(end_of(&rig.run_end().await), EndKind::Done);
    assert_eq!(rig.transcript().await, ["U:go", "A:[a]/ToolCalls", "R:a/OutcomeUnknown", "U:forget it", "A:ok/Stop"]);
    rig.check().await;
}

/// C50: an abort that was acknowledged is finished at the restart; no request goes out.
#[tokio::test(start_paused = true)]
async fn a_restart_finishes_an_abort() {
    let mut rig = pi([calls(&["x"])], &[TestTool::new("x").hangs()]).await;
    send(&rig, "go").await;
    rig.until(starts).await;
    rig.handle.abort().await.unwrap();
    let mut log = rig.memory.items();
    let requested = log.iter().position(|i| matches!(i, Item::AbortRequested { .. })).unwrap();
    log.truncate(requested + 1);
    let mut rig = rig.restart_from(log).await;
    assert_eq!(end_of(&rig.run_end().await), EndKind::Aborted);
    assert_eq!(rig.model.requests().len(), 1);
    rig.check().await;
}

/// C51: two owners: the stale one's writes fail, and nothing runs twice.
#[tokio::test(start_paused = true)]
async fn a_stale_owner_cannot_write() {
    let rig = pi([Script::text("one")], &[]).await;
    let (other, _events) = rig.agent.run(RunContext::new().session("s").memory(rig.memory.clone())).await.unwrap();
    let refused = rig.handle.prompt("go").await;
    assert!(matches!(refused, Err(InputError::Memory(MemoryError::Conflict { .. }))), "{refused:?}");
    assert_eq!(other.prompt("go").await.unwrap().text, "one");
}

/// C37: the same input id again is acknowledged and changes nothing, also after a restart.
#[tokio::test(start_paused = true)]
async fn an_input_that_comes_twice_is_taken_once() {
    let rig = pi([Script::text("one")], &[]).await;
    let request = || InputEvent::UserRequest(Prompt::from("go").id("x1"));
    rig.handle.send(request()).await.unwrap();
    rig.handle.wait_for_idle().await;
    let rig = rig.restart().await;
    assert_eq!(rig.handle.send(request()).await, Ok("x1".into()));
    rig.handle.wait_for_idle().await;
    assert_eq!(rig.transcript().await, ["U:go", "A:one/Stop"]);
    assert_eq!(rig.handle.prompt(Prompt::from("go").id("x1")).await, Err(InputError::Known("x1".into())));
}
