//! Timers of patterns. A model checker found the rules necessary.

use async_trait::async_trait;
use loopwright_core::agent::attach;
use loopwright_core::log::Due;
use loopwright_core::testing::{Replay, TestClock};

use super::kit::SharedSession;
use super::run;
use crate::kit::*;

/// Answers the user. One second after the first answer, it asks for a report.
struct Later;

#[async_trait]
impl BehaviorPattern for Later {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        step.ask().await?.or_end()?;
        step.sleep_for("report", ms(1_000)).await?;
        if step.state("told") != Some(true) {
            step.set_state("told", true)?;
            step.remember(UserMessage::from("Report now.")).await?;
        }
        step.ask().await?.finish()
    }
}

fn later(shared: &SharedSession, replies: &[&str]) -> GenericAgent {
    let model = ScriptedModel::new(replies.iter().copied().map(Script::text));
    GenericAgent::builder(model, Later).environment(shared.clock()).build().unwrap()
}

/// Returns the times at which timers rang, as the causes of runs or during a run.
fn rings(shared: &SharedSession) -> Vec<u64> {
    let mut started = 0;
    let entries = shared.entries();
    let rang = entries.iter().filter_map(|entry| match entry {
        LogEntry::RunStarted { cause: RunCause::Timer(_), time, .. } => Some(*time),
        LogEntry::RunStarted { time, .. } => {
            started = *time;
            None
        }
        LogEntry::WaitEnded { .. } => Some(started),
        _ => None,
    });
    rang.collect()
}

/// Returns the texts of the conversation.
async fn texts(handle: &AgentHandle) -> Vec<String> {
    handle.state().await.unwrap().messages.iter().map(|message| message.text()).collect()
}

/// C504: an agent that sleeps continues when its timer rings: once, and not before.
#[tokio::test(start_paused = true)]
async fn an_agent_that_sleeps_continues_when_its_timer_rings() {
    let shared = SharedSession::opened();
    let agent = later(&shared, &["I will.", "The report."]);
    let (handle, _events) = run(&agent, shared.owner().without_hints()).await;
    let outcome = handle.prompt("Report later.").await.unwrap();
    assert_eq!((outcome.end, outcome.wakes_at), (RunStatus::Sleeping, Some(1_000)));
    assert_eq!((&*outcome.text, outcome.has_finished()), ("I will.", true));
    sleep(ms(999)).await;
    assert!(rings(&shared).is_empty());
    sleep(ms(2)).await;
    handle.wait_for_idle().await;
    assert_eq!(texts(&handle).await, ["Report later.", "I will.", "Report now.", "The report."]);
    sleep(ms(100_000)).await;
    assert_eq!(rings(&shared), [1_000]);
    check_log(&shared.entries()).unwrap();
    handle.close().await;
}

/// C504: a timer that passed while no process ran is due: the next opening rings it.
#[tokio::test(start_paused = true)]
async fn a_timer_that_passed_without_a_process_is_due() {
    let shared = SharedSession::opened();
    let agent = later(&shared, &["I will.", "The report."]);
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.prompt("Report later.").await.unwrap();
    handle.close().await;
    let info = SessionInfo::of("s", &shared.entries());
    assert_eq!((info.due, info.due_at(999), info.due_at(1_000)), (None, None, Some(Due::Wait)));
    assert_eq!((info.wakes_at(), &*info.waits[0].key), (Some(1_000), "report"));
    sleep(ms(60_000)).await;
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.wait_for_idle().await;
    assert_eq!(texts(&handle).await.last().unwrap(), "The report.");
    assert_eq!(rings(&shared), [60_000]);
    let info = SessionInfo::of("s", &shared.entries());
    assert_eq!((info.due_at(u64::MAX), info.wakes_at()), (None, None));
    handle.close().await;
}

/// C504: a timer rings once, wherever a crash cuts the log.
#[tokio::test(start_paused = true)]
async fn a_timer_rings_once_wherever_a_crash_cuts_the_log() {
    let whole = SharedSession::opened();
    let agent = later(&whole, &["I will.", "The report."]);
    let (handle, _events) = run(&agent, whole.owner()).await;
    handle.prompt("Report later.").await.unwrap();
    sleep(ms(1_001)).await;
    handle.wait_for_idle().await;
    handle.close().await;
    let entries = whole.entries();
    let set =
        entries.iter().position(|entry| matches!(entry, LogEntry::WaitStarted { .. })).unwrap();
    let is_report = |entry: &LogEntry| match entry {
        LogEntry::Replied { message, .. } => message.text() == "The report.",
        _ => false,
    };
    for cut in set + 1..=entries.len() {
        if matches!(entries[cut - 1], LogEntry::State { .. }) {
            continue; // is in one append with the next entry
        }
        let shared = SharedSession::with(entries[..cut].to_vec());
        let is_reported = entries[..cut].iter().any(is_report);
        let agent = later(&shared, if is_reported { &[] } else { &["The report."] });
        for _ in 0..3 {
            let context = RunContext::new().session("s").memory(shared.owner());
            let (handle, _events) = agent.run(context.continue_interrupted()).await.unwrap();
            sleep(ms(2_000)).await;
            handle.wait_for_idle().await;
            handle.close().await;
        }
        let log = shared.entries();
        check_log(&log).unwrap();
        let reports = log.iter().filter(|entry| is_report(entry)).count();
        assert_eq!((rings(&shared).len(), reports), (1, 1), "after a crash at entry {cut}");
    }
}

/// C504: an owner that has lost the session while it rings does not ring: the new one does.
#[tokio::test(start_paused = true)]
async fn of_two_owners_one_rings() {
    let shared = SharedSession::opened();
    let agent = later(&shared, &["I will.", "The report."]);
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.prompt("Report later.").await.unwrap();
    handle.close().await;
    sleep(ms(2_000)).await;
    let resume = Arc::new(tokio::sync::Notify::new());
    let opens = shared.entries().len() as u64;
    let first = later(&shared, &[]);
    let (lost, _) = run(&first, shared.owner().paused_at(opens + 1, resume.clone())).await;
    while shared.paused() == 0 {
        sleep(ms(1)).await;
    }
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.wait_for_idle().await;
    resume.notify_one();
    lost.wait_for_idle().await;
    assert_eq!(rings(&shared).len(), 1);
    assert_eq!(texts(&handle).await.last().unwrap(), "The report.");
    check_log(&shared.entries()).unwrap();
}

/// C505: the user can talk to an agent that sleeps. The timer stays, and rings.
#[tokio::test(start_paused = true)]
async fn the_user_can_talk_to_an_agent_that_sleeps() {
    let shared = SharedSession::opened();
    let agent = later(&shared, &["I will.", "Yes.", "The report."]);
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.prompt("Report later.").await.unwrap();
    sleep(ms(500)).await;
    let outcome = handle.prompt("Still there?").await.unwrap();
    assert_eq!((&*outcome.text, outcome.wakes_at), ("Yes.", Some(1_000)));
    assert_eq!(handle.pending().await.unwrap(), []);
    sleep(ms(501)).await;
    handle.wait_for_idle().await;
    assert_eq!(texts(&handle).await[4..], ["Report now.", "The report."]);
    assert_eq!(rings(&shared), [1_000]);
    handle.close().await;
}

/// C505: a run that reaches the timer when it has passed rings it, and no run follows.
#[tokio::test(start_paused = true)]
async fn a_run_that_reaches_a_passed_timer_rings_it() {
    let shared = SharedSession::opened();
    let model = ScriptedModel::new([
        Script::text("I will."),
        slow(7, ms(100)),
        Script::text("The report."),
    ]);
    let agent = GenericAgent::builder(model, Later).environment(shared.clock()).build().unwrap();
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.prompt("Report later.").await.unwrap();
    sleep(ms(500)).await;
    let outcome = handle.prompt("Still there?").await.unwrap();
    assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "The report."));
    sleep(ms(10_000)).await;
    assert_eq!((rings(&shared), handle.state().await.unwrap().messages.len()), (vec![500], 6));
    // With the next request, the key is free.
    assert!(shared.entries().iter().any(|entry| matches!(entry, LogEntry::WaitEnded { .. })));
    handle.close().await;
}

/// C506: an abort of a sleeping session cancels its timers, and so does a reset. An abort of a run
/// leaves them.
#[tokio::test(start_paused = true)]
async fn an_abort_of_a_sleeping_session_cancels_its_timers() {
    for stop in ["abort", "reset", "abort a run"] {
        let shared = SharedSession::opened();
        let model = ScriptedModel::new([
            Script::text("I will."),
            slow(4, ms(100)),
            Script::text("Report."),
        ]);
        let agent =
            GenericAgent::builder(model, Later).environment(shared.clock()).build().unwrap();
        let (handle, _events) = run(&agent, shared.owner()).await;
        handle.prompt("Report later.").await.unwrap();
        match stop {
            "abort" => handle.abort().await.unwrap(),
            "reset" => drop(handle.reset().await.unwrap()),
            _ => {
                let talk = handle.prompt("Still there?");
                let abort = async {
                    sleep(ms(10)).await;
                    handle.abort().await.unwrap()
                };
                assert_eq!(tokio::join!(talk, abort).0.unwrap().end, RunStatus::Aborted);
            }
        }
        let info = SessionInfo::of("s", &shared.entries());
        let is_left = stop == "abort a run";
        assert_eq!(info.wakes_at(), is_left.then_some(1_000), "{stop}");
        sleep(ms(2_000)).await;
        handle.wait_for_idle().await;
        assert_eq!(rings(&shared).len(), usize::from(is_left), "{stop}");
        check_log(&shared.entries()).unwrap();
        handle.close().await;
    }
}

/// C506: a fork does not inherit timers.
#[tokio::test(start_paused = true)]
async fn a_fork_does_not_sleep() {
    let shared = SharedSession::opened();
    let agent = later(&shared, &["I will."]);
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.prompt("Report later.").await.unwrap();
    handle.close().await;
    let fork = SessionLog::branch(&shared.entries(), None).log(shared.entries());
    check_log(&fork).unwrap();
    assert_eq!(SessionInfo::of("t", &fork).wakes_at(), None);
}

/// C506: a timer does not ring while a call waits for a decision. It rings after it.
#[tokio::test(start_paused = true)]
async fn a_timer_waits_for_a_decision() {
    let shared = SharedSession::opened();
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            if step.wait("t").is_none() {
                step.sleep_for("t", ms(1_000)).await.unwrap_err();
            }
            let asked = step.question("q", Question::choice("Go on?", ["yes"])).await?;
            if asked.answer()?.is_some() {
                step.sleep_for("t", ms(1)).await?;
            }
            Ok(StepEnd::Done)
        })
    });
    let agent = GenericAgent::builder(ScriptedModel::new([]), pattern)
        .environment(shared.clock())
        .build()
        .unwrap();
    let (handle, _events) = run(&agent, shared.owner()).await;
    let outcome = handle.prompt("Go.").await.unwrap();
    assert_eq!((outcome.end, outcome.wakes_at), (RunStatus::AwaitingAction, None));
    sleep(ms(5_000)).await;
    assert!(rings(&shared).is_empty());
    let action = handle.pending().await.unwrap().remove(0);
    let yes = Decision::Provide(Provided::Input("yes".into()));
    handle.resolve(&action, yes).await.unwrap();
    handle.wait_for_idle().await;
    assert!(matches!(
        shared.entries().last(),
        Some(LogEntry::RunEnded { end: RunStatus::Done, .. })
    ));
    assert_eq!(rings(&shared).len(), 1);
    handle.close().await;
}

/// C506: a timer that is cancelled does not ring, and its key is free. A step that sleeps without a
/// timer fails, and so does the timer after the 1,000th.
#[tokio::test(start_paused = true)]
async fn a_cancelled_timer_does_not_ring() {
    let shared = SharedSession::opened();
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            if step.wait("t").is_some_and(|wait| wait.ended) {
                return Ok(StepEnd::Sleeping);
            }
            step.cancel_wait("t").await?;
            for n in 0..1_000 {
                step.sleep_for(&n.to_string(), ms(100)).await.unwrap_err();
            }
            let full = step.sleep_for("t", ms(1)).await.unwrap_err();
            assert!(matches!(full, StepError::InvalidWait(_)), "{full}");
            for n in 0..1_000 {
                step.cancel_wait(&n.to_string()).await?;
            }
            step.sleep_for("t", ms(1_000)).await?;
            Ok(StepEnd::Done)
        })
    });
    let agent = GenericAgent::builder(ScriptedModel::new([]), pattern)
        .environment(shared.clock())
        .build()
        .unwrap();
    let (handle, mut events) = run(&agent, shared.owner()).await;
    assert_eq!(handle.prompt("Go.").await.unwrap().wakes_at, Some(1_000));
    sleep(ms(500)).await;
    assert_eq!(handle.prompt("Later.").await.unwrap().wakes_at, Some(1_500));
    sleep(ms(5_000)).await;
    handle.wait_for_idle().await;
    assert_eq!(rings(&shared), [1_500]);
    handle.close().await;
    let mut last = None;
    while let Some(event) = events.next().await {
        if let AgentEvent::AgentEnd(outcome) = &event.event {
            last = outcome.error.clone();
        }
    }
    assert!(last.unwrap().contains("waits for nothing"));
}

/// C506: a sub-agent cannot sleep.
#[tokio::test(start_paused = true)]
async fn a_sub_agent_cannot_sleep() {
    let child = GenericAgent::builder(ScriptedModel::new([Script::text("I will.")]), Later)
        .build()
        .unwrap();
    let call = Script::calls([("a", "child", json!({ "task": "Report later." }))]);
    let model = ScriptedModel::new([call, Script::text("Oh.")]);
    let agent = GenericAgent::builder(model, PiPattern).child("child", "A helper.", child);
    let handle = agent.build().unwrap().open(&InMemoryStore::new(), "s").await.unwrap();
    handle.prompt("Go.").await.unwrap();
    let messages = handle.state().await.unwrap().messages;
    let result = messages.iter().find(|message| message.as_tool_result().is_some()).unwrap().text();
    assert!(result.contains("a sub-agent cannot sleep"), "{result}");
}

/// C506: a log with a timer is not replayed, since a replay has no clock.
#[tokio::test(start_paused = true)]
async fn a_replay_refuses_a_timer() {
    let shared = SharedSession::opened();
    let agent = later(&shared, &["I will."]);
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.prompt("Report later.").await.unwrap();
    handle.close().await;
    let replay = Replay::from_entries(shared.entries());
    let again = GenericAgent::builder(replay.model(), Later).build().unwrap();
    let refused = replay.run(&again).await.unwrap_err().to_string();
    assert!(refused.contains("the pattern waits in entry"), "{refused}");
}

/// C504: a steer that comes too late for the run that a timer has started begins another request,
/// in which the key is free.
#[tokio::test(start_paused = true)]
async fn a_late_steer_begins_another_request() {
    let timers = |cause: RunCause| {
        let (run, trace) = (RunId(2), None);
        let entries = [
            LogEntry::WaitStarted { key: "t".into(), until: Some(1), for_signal: false },
            LogEntry::WaitStarted { key: "u".into(), until: Some(9), for_signal: false },
            LogEntry::WaitEnded { key: "t".into() },
            LogEntry::RunStarted { run, cause, time: 2, trace },
        ];
        let timers = SessionInfo::of("s", &entries).waits;
        timers.iter().map(|timer| timer.key.to_string()).collect::<String>()
    };
    let kept = [
        RunCause::Steer,
        RunCause::UserRequest("i".into()),
        RunCause::Abort,
        RunCause::Continue(None),
        RunCause::Timer("u".into()),
    ];
    assert_eq!(kept.map(timers), ["u", "u", "t", "tu", "tu"]);
}

/// C506: an abort through a handle of another process ends the sleep, too.
#[tokio::test(start_paused = true)]
async fn an_attached_handle_ends_the_sleep() {
    let clock = TestClock::default();
    let model = ScriptedModel::new([Script::text("I will.")]);
    let builder = GenericAgent::builder(model, Later).environment(clock.clone());
    let (agent, store) = (builder.build().unwrap(), InMemoryStore::new());
    let owner = agent.open(&store, "s").await.unwrap();
    owner.prompt("Report later.").await.unwrap();
    let (guest, _events) = attach(&store, "s").await.unwrap();
    guest.abort().await.unwrap();
    clock.advance(ms(2_000)).await;
    owner.wait_for_idle().await;
    assert_eq!(owner.state().await.unwrap().messages.len(), 2);
    let info = store.session("s").await.unwrap();
    assert_eq!((info.wakes_at(), info.waits), (None, vec![]));
}

/// C504: a clock that jumps, forward or back, rings a timer once, and only after its time.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_rings_once() {
    let clock = TestClock::default();
    clock.advance_to(10_000).await;
    let memory = InMemory::new();
    let model = ScriptedModel::new(["I will.", "The report."].map(Script::text));
    let builder = GenericAgent::builder(model, Later).environment(clock.clone());
    let agent = builder.build().unwrap();
    let context = || RunContext::new().session("s").memory(memory.clone());
    let (handle, _events) = agent.run(context()).await.unwrap();
    handle.prompt("Report later.").await.unwrap();
    handle.close().await;
    // The next process has an earlier clock.
    let early = TestClock::default();
    let model = ScriptedModel::new([Script::text("The report.")]);
    let builder = GenericAgent::builder(model, Later).environment(early.clone());
    let agent = builder.build().unwrap();
    let (handle, _events) = agent.run(context()).await.unwrap();
    for (jump, rang) in [(10_999, false), (1, true), (1_000_000, true)] {
        early.advance(ms(jump)).await;
        sleep(ms(10)).await;
        handle.wait_for_idle().await;
        let messages = handle.state().await.unwrap().messages;
        assert_eq!(messages.len() == 4, rang, "{jump}");
    }
    check_log(&memory.entries()).unwrap();
}

/// C506: a log from elsewhere cannot give a session more timers than it may set.
#[test]
fn the_timers_of_a_log_are_bounded() {
    let set = |n: u64| LogEntry::WaitStarted {
        key: n.to_string().into(),
        until: Some(n),
        for_signal: false,
    };
    let entries: Vec<LogEntry> = (0..2_000).map(set).collect();
    let info = SessionInfo::of("s", &entries);
    assert_eq!((info.waits.len(), info.wakes_at()), (1_000, Some(0)));
}
