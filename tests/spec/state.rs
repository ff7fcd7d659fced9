//! Values that a pattern sets: the times of their writing, and their lifetime.

use crate::kit::*;

/// A memory that records the entries of each append.
struct Appends(InMemory, Arc<std::sync::Mutex<Vec<Vec<LogEntry>>>>);

#[async_trait::async_trait]
impl Memory for Appends {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.1.lock().unwrap().push(entries.to_vec());
        self.0.append(at, entries).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.0.load(from).await
    }
}

/// Returns the names of the entries of each append from the start of the run on.
async fn appends(pattern: impl BehaviorPattern + 'static, steer: bool) -> Vec<Vec<String>> {
    let appends = Arc::default();
    let wrap = |memory| Arc::new(Appends(memory, Arc::clone(&appends))) as Arc<dyn Memory>;
    let replies = [Script::text("ok")];
    let harness = Harness::with_memory(pattern, replies, |a| a, InMemory::new(), wrap).await;
    send(&harness, "go").await;
    if steer {
        harness.handle.send(InputEvent::Steer("wait".into())).await.unwrap();
    }
    harness.handle.wait_for_idle().await;
    let name = |entry: &LogEntry| {
        serde_json::to_value(entry).unwrap()["type"].as_str().unwrap().to_owned()
    };
    let appends = appends.lock().unwrap();
    let run = appends.iter().skip_while(|a| !matches!(a[0], LogEntry::RunStarted { .. }));
    run.map(|append| append.iter().map(name).collect()).collect()
}

/// C42: A value is in the same append as the next write of the step, whatever that is, so no crash
/// separates them.
#[tokio::test(start_paused = true)]
async fn a_value_and_the_next_write_are_one_append() {
    let writing = does(|step| {
        Box::pin(async {
            step.set_state("n", 1)?;
            step.take_input().await?;
            step.set_state("n", 2)?;
            step.set_state("n", 3)?;
            step.set_session_state("n", 3)?;
            step.remember(UserMessage::from("noted")).await?;
            step.set_state("n", 4)?;
            step.emit("progress", 1).await?;
            step.set_state("n", 5)?;
            step.ask().await?;
            step.set_state("n", 6)?;
            step.flush().await?;
            Ok(StepEnd::Done)
        })
    });
    let expected: [&[&str]; 5] = [
        &["run_started", "state", "delivered", "state", "state", "remembered"],
        &["state", "emitted"],
        &["state", "request_started"],
        &["replied", "state"],
        &["run_ended"],
    ];
    assert_eq!(appends(writing, false).await, expected);
}

/// C42: A value without a later write is in the append of the end of the run, even if the pattern
/// fails or is stopped.
#[tokio::test(start_paused = true)]
async fn a_value_and_the_end_of_the_run_are_one_append() {
    for fails in [false, true] {
        let ending = does(move |step| {
            Box::pin(async move {
                step.take_input().await?;
                step.set_state("n", 1)?;
                if fails {
                    Err(StepError::pattern(std::io::Error::other("it failed")))
                } else {
                    Ok(StepEnd::Done)
                }
            })
        });
        let expected: [&[&str]; 1] = [&["run_started", "delivered", "state", "run_ended"]];
        assert_eq!(appends(ending, false).await, expected);
    }
}

/// C42: An arriving input is written without the value, which does not belong to it.
#[tokio::test(start_paused = true)]
async fn a_value_is_not_in_the_append_of_an_input() {
    let waiting = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            step.set_state("n", 1)?;
            step.wait_for(sleep(ms(10))).await?;
            step.remember(UserMessage::from("noted")).await?;
            step.take_steering().await?;
            Ok(StepEnd::Done)
        })
    });
    let expected: [&[&str]; 4] = [
        &["run_started", "delivered"],
        &["queued"],
        &["state", "remembered"],
        &["delivered", "run_ended"],
    ];
    assert_eq!(appends(waiting, true).await, expected);
}

/// Counts the steps of a request and of the session, and ends as the message requests.
async fn count(step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    step.take_input().await?;
    let (of_request, of_session) = (step.state("n"), step.session_state("n"));
    let (request, session): (u32, u32) = (of_request.unwrap_or(0), of_session.unwrap_or(0));
    step.set_state("n", request + 1)?;
    step.set_session_state("n", session + 1)?;
    assert_eq!(step.state::<u32>("n"), Some(request + 1), "it is there at once");
    step.emit("counts", [request + 1, session + 1]).await?;
    match step.user_request().map(|message| message.text()).as_deref() {
        Some("fail") => Err(StepError::pattern(std::io::Error::other("as it was told"))),
        Some("hang") => {
            step.wait_for(std::future::pending::<()>()).await?;
            Ok(StepEnd::Done)
        }
        _ => Ok(StepEnd::Done),
    }
}

/// Returns the counts that were emitted since the last read.
fn counts(harness: &mut Harness) -> Vec<String> {
    let events = harness.drain_events();
    let counts = events.iter().filter_map(|e| match &e.event {
        AgentEvent::Custom { data, .. } => Some(data.to_string()),
        _ => None,
    });
    counts.collect()
}

/// C139: The values of a request still exist when it is continued, also after a restart. The next
/// request begins without them, also after an abort. The values of the session stay until it is
/// reset.
#[tokio::test(start_paused = true)]
async fn values_of_a_request_end_with_it_and_values_of_the_session_with_a_reset() {
    let mut harness = Harness::new(does(|step| Box::pin(count(step))), [], |a| a).await;
    assert_eq!(harness.handle.prompt("fail").await.unwrap().end, RunStatus::Error);
    let mut harness = {
        let seen = counts(&mut harness);
        assert_eq!(seen, ["[1,1]"]);
        harness.restart().await
    };
    assert_eq!(harness.handle.continue_run().await.unwrap().end, RunStatus::Error);
    assert_eq!(counts(&mut harness), ["[2,2]"], "the same request");
    send(&harness, "hang").await;
    tokio::task::yield_now().await;
    harness.handle.abort().await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(counts(&mut harness), ["[1,3]"], "another request");
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(counts(&mut harness), ["[1,4]"], "another request after an abort");
    harness.handle.send(InputEvent::Reset).await.unwrap();
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(counts(&mut harness), ["[1,1]"]);
    let mut harness = harness.restart().await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(counts(&mut harness), ["[1,2]"]);
}

/// C139: The values of the last request are dropped in the append that begins the next one, so no
/// crash leaves the new request with them.
#[tokio::test(start_paused = true)]
async fn no_crash_leaves_a_request_with_the_values_of_the_one_before() {
    let harness = Harness::new(does(|step| Box::pin(count(step))), [], |a| a).await;
    for _ in 0..2 {
        harness.handle.prompt("go").await.unwrap();
    }
    let entries = harness.memory.entries();
    let starts = |e: &LogEntry| matches!(e, LogEntry::RunStarted { .. });
    let second = entries.iter().rposition(starts).unwrap();
    let state = |to: usize| SessionLog::of(&entries[..to]).state::<u32>(StateScope::Request, "n");
    assert_eq!((state(second), state(second + 1)), (Some(1), None));
    let mut harness = harness.restart_from(entries[..=second].to_vec()).await;
    harness.handle.continue_run().await.unwrap();
    assert_eq!(counts(&mut harness), ["[1,2]"]);
}

/// C139: Setting a value to `null` removes it.
#[tokio::test(start_paused = true)]
async fn null_removes_a_value() {
    let removing = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            step.set_state("n", 1)?;
            step.flush().await?;
            step.set_state("n", ())?;
            assert_eq!(step.state::<u32>("n"), None, "staged");
            step.flush().await?;
            assert_eq!(step.state::<u32>("n"), None, "written");
            Ok(StepEnd::Done)
        })
    });
    let harness = Harness::new(removing, [], |a| a).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Done);
}

/// C139: A run that a decision or `Continue` resumes works on its original request.
#[tokio::test(start_paused = true)]
async fn a_resumed_run_knows_its_request() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = seen.clone();
    let asking = does(move |step| {
        log.lock().unwrap().push(step.user_request().map(|message| message.text()));
        Box::pin(PiPattern.next_step(step))
    });
    let ask = TestTool::new("ask").effect(Effect::AtMostOnce);
    let replies = [calls(&["ask"]), Script::text("ok"), Script::text("later")];
    let harness = Harness::new(asking, replies, |a| a.tool(ask)).await;
    harness.handle.prompt("go").await.unwrap();
    let harness = harness.restart().await;
    let digest = harness.pending().await[0].digest.clone();
    harness.handle.send(ActionResult::new("a", digest, Decision::Approve)).await.unwrap();
    harness.handle.wait_for_idle().await;
    harness.handle.prompt("again").await.unwrap();
    let seen: Vec<_> = seen.lock().unwrap().iter().flatten().cloned().collect();
    assert_eq!(seen, ["go", "go", "again"]);
}
