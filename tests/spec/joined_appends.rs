//! Appends: a session writes everything between two waits in one append. Nobody learns of it before
//! it is written, and a failed append takes it back.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use crate::kit::*;

/// A memory that records its appends. An append fails if `fails` returns `Some`, and takes place
/// nevertheless for `Some(true)`.
struct Recorded<F> {
    log: InMemory,
    appends: Arc<Mutex<Vec<Vec<String>>>>,
    fails: Mutex<F>,
}

#[async_trait::async_trait]
impl<F: FnMut(&[LogEntry]) -> Option<bool> + Send> Memory for Recorded<F> {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let fails = (self.fails.lock().unwrap())(&entries);
        if fails != Some(false) {
            self.log.append(at, entries.clone()).await?;
            self.appends.lock().unwrap().push(entries.iter().map(name).collect());
        }
        match fails {
            None => Ok(()),
            Some(_) => Err(MemoryError::Failed("once".into())),
        }
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.log.load(from).await
    }
}

fn name(entry: &LogEntry) -> String {
    serde_json::to_value(entry).unwrap()["type"].as_str().unwrap().to_owned()
}

type Appends = Arc<Mutex<Vec<Vec<String>>>>;

async fn recorded(
    pattern: impl BehaviorPattern + 'static,
    replies: impl IntoIterator<Item = Script>,
    options: fn(AgentBuilder) -> AgentBuilder,
    fails: impl FnMut(&[LogEntry]) -> Option<bool> + Send + 'static,
) -> (Harness, Appends) {
    let appends = Appends::default();
    let recorded = appends.clone();
    let wrap = move |log| {
        let memory = Recorded { log, appends: recorded, fails: Mutex::new(fails) };
        Arc::new(memory) as Arc<dyn Memory>
    };
    (Harness::with_memory(pattern, replies, options, InMemory::new(), wrap).await, appends)
}

/// Returns a `fails` for the first append with this entry.
fn fails_at(wanted: &'static str, is_written: bool) -> impl FnMut(&[LogEntry]) -> Option<bool> {
    let mut has_failed = false;
    move |entries| {
        let fails = !has_failed && entries.iter().any(|entry| name(entry) == wanted);
        has_failed |= fails;
        fails.then_some(is_written)
    }
}

/// C344: A request whose reply has two calls is six appends. A turn has at most four.
#[tokio::test(start_paused = true)]
async fn a_run_with_two_tools_is_six_appends() {
    let tools: fn(AgentBuilder) -> AgentBuilder =
        |agent| agent.tool(TestTool::new("x").takes(ms(10))).tool(TestTool::new("y").takes(ms(20)));
    let replies = [calls(&["x", "y"]), Script::text("ok")];
    let (harness, appends) = recorded(PiPattern, replies, tools, |_| None).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "ok");
    let expected: [&[&str]; 7] = [
        &["opened"],
        &["queued"],
        &["run_started", "delivered", "request_started"],
        &["replied", "call_started", "call_started"],
        &["call_finished"],
        &["call_finished", "request_started"],
        &["replied", "run_ended"],
    ];
    assert_eq!(*appends.lock().unwrap(), expected);
    harness.check().await;
}

/// C344: Calls that wait for approval, and the end of their run, are one append with the reply.
/// Results that arrive at the same time are one append too.
#[tokio::test(start_paused = true)]
async fn a_question_and_the_end_of_its_run_are_one_append() {
    let tools: fn(AgentBuilder) -> AgentBuilder = |agent| {
        let asks = |name| TestTool::new(name).effect(Effect::AtMostOnce).takes(ms(10));
        agent.tool(asks("x")).tool(asks("y"))
    };
    let replies = [calls(&["x", "y"]), Script::text("ok")];
    let (harness, appends) = recorded(PiPattern, replies, tools, |_| None).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::AwaitingAction);
    let asked = ["replied", "call_awaiting", "call_awaiting", "run_ended"];
    assert_eq!(appends.lock().unwrap().last().unwrap(), &asked);
    harness.resolve(0, Decision::Deny("no".into())).await.unwrap();
    harness.handle.wait_for_idle().await;
    harness.resolve(0, Decision::Deny("no".into())).await.unwrap();
    harness.handle.wait_for_idle().await;
    let denied = ["run_started", "call_finished", "request_started"];
    assert!(appends.lock().unwrap().iter().any(|append| *append == denied), "{appends:?}");
    harness.check().await;
}

/// A pattern that waits for a gate of its own before and after its request.
struct Thinks {
    before: Gate,
    after: Gate,
}

#[async_trait::async_trait]
impl BehaviorPattern for Thinks {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        self.before.wait().await;
        let reply = step.ask().await?;
        self.after.wait().await;
        reply.finish()
    }
}

/// C344: While a pattern waits for its own work, its actions so far are written and their events
/// emitted. An input of this time is handled with the next method of the step.
#[tokio::test(start_paused = true)]
async fn what_a_pattern_has_done_is_written_while_it_waits() {
    let (before, after) = (Gate::new(), Gate::new());
    let pattern = Thinks { before: before.clone(), after: after.clone() };
    let (mut harness, appends) = recorded(pattern, [Script::text("ok")], |a| a, |_| None).await;
    let last = || appends.lock().unwrap().last().unwrap().clone();
    send(&harness, "go").await;
    let is_message = |event: &AgentEvent| match event {
        AgentEvent::MessageEnd { message } => message.text() == "go",
        _ => false,
    };
    let mut events = harness.until(is_message).await;
    assert_eq!(last(), ["run_started", "delivered"]);
    before.open();
    events.extend(harness.until(|event| matches!(event, AgentEvent::TurnEnd { .. })).await);
    assert_eq!(last(), ["replied"]);
    after.open();
    events.extend(harness.run_end().await);
    check_events(&events).unwrap();
    harness.check().await;
}

/// C56: A failed append takes everything in it back, so the state stays equal to the log. Wherever
/// it fails, the run ends with an error, once, and the user's messages are answered afterwards.
#[tokio::test(start_paused = true)]
async fn a_failed_append_is_taken_back() {
    let tools: fn(AgentBuilder) -> AgentBuilder =
        |agent| agent.tool(TestTool::new("x").takes(ms(10)));
    for (entry, starts) in [
        ("request_started", 0),
        ("call_started", 1),
        ("call_finished", 1),
        ("replied", 1),
        ("run_ended", 1),
    ] {
        let replies = [calls(&["x"]), Script::text("a"), Script::text("b"), Script::text("c")];
        let (mut harness, _) = recorded(PiPattern, replies, tools, fails_at(entry, false)).await;
        let outcome = harness.handle.prompt("go").await.unwrap();
        assert_eq!(outcome.end, RunStatus::Error, "{entry}");
        assert!(outcome.error.as_deref().unwrap_or_default().contains("once"), "{outcome:?}");
        let events = harness.run_end().await;
        let is_start = |e: &&Arc<Envelope>| matches!(e.event, AgentEvent::AgentStart { .. });
        assert_eq!(events.iter().filter(is_start).count(), starts, "{entry}");
        harness.check().await;
        let next = harness.handle.prompt("again").await.unwrap();
        assert_eq!(next.end, RunStatus::Done, "{entry}: {next:?}");
        harness.check().await;
        let users = harness.transcript().await;
        let count = |text: &str| users.iter().filter(|line| **line == format!("U:{text}")).count();
        assert_eq!((count("go"), count("again")), (1, 1), "{entry}: {users:?}");
    }
}

/// C56: An append whose failure was reported although it was written is found in the log. Nothing
/// is written twice, and its events are emitted once.
#[tokio::test(start_paused = true)]
async fn an_append_whose_success_was_not_reported_is_found() {
    for entry in ["request_started", "call_started", "replied", "run_ended"] {
        let replies = [calls(&["x"]), Script::text("a"), Script::text("b"), Script::text("c")];
        let tools: fn(AgentBuilder) -> AgentBuilder = |agent| agent.tool(TestTool::new("x"));
        let (mut harness, _) = recorded(PiPattern, replies, tools, fails_at(entry, true)).await;
        let outcome = harness.handle.prompt("go").await.unwrap();
        let expected = if entry == "run_ended" { RunStatus::Done } else { RunStatus::Error };
        assert_eq!(outcome.end, expected, "{entry}");
        let next = harness.handle.prompt("again").await.unwrap();
        assert_eq!(next.end, RunStatus::Done, "{entry}: {next:?}");
        harness.check().await;
        let (events, mut last) = (harness.drain_events(), 0);
        for event in &events {
            assert!(event.seq == last || event.seq == last + 1, "{entry}: {}", event.seq);
            last = event.seq;
        }
        let ends = events.iter().filter(|e| matches!(e.event, AgentEvent::AgentEnd(_))).count();
        assert_eq!(ends, 2, "{entry}");
    }
}

/// C56: Writes while the pattern waits for its own work can fail, too.
#[tokio::test(start_paused = true)]
async fn a_write_that_fails_while_the_pattern_waits_is_taken_back() {
    for (entry, messages) in [("run_started", 0), ("replied", 1)] {
        let (before, after) = (Gate::new(), Gate::new());
        let pattern = Thinks { before: before.clone(), after: after.clone() };
        let replies = [Script::text("a"), Script::text("b"), Script::text("c")];
        let (harness, _) = recorded(pattern, replies, |a| a, fails_at(entry, false)).await;
        let prompted = tokio::spawn({
            let handle = harness.handle.clone();
            async move { handle.prompt("go").await }
        });
        sleep(ms(10)).await;
        before.open();
        sleep(ms(10)).await;
        after.open();
        let outcome = prompted.await.unwrap().unwrap();
        assert_eq!(outcome.end, RunStatus::Error, "{entry}: {outcome:?}");
        harness.check().await;
        assert_eq!(harness.transcript().await.len(), messages, "{entry}");
        assert_eq!(harness.handle.prompt("again").await.unwrap().end, RunStatus::Done);
        harness.check().await;
    }
}

/// C56: If a reply is taken back, its prepared calls are forgotten. A later call with the same id
/// has its own arguments, and needs its own approval.
#[tokio::test(start_paused = true)]
async fn a_call_of_a_reply_that_was_taken_back_is_forgotten() {
    let tools: fn(AgentBuilder) -> AgentBuilder = |agent| {
        let pay = TestTool::new("pay").effect(Effect::AtMostOnce);
        agent.tool(TestTool::new("x").spec(ToolSpec::sequential)).tool(TestTool::new("y")).tool(pay)
    };
    let replies = [calls(&["x", "y"]), calls(&["x", "pay"]), Script::text("ok")];
    let (harness, _) = recorded(PiPattern, replies, tools, fails_at("call_started", false)).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Error);
    let next = harness.handle.prompt("again").await.unwrap();
    assert_eq!(next.end, RunStatus::AwaitingAction, "{next:?}");
    assert_eq!(*harness.pending().await[0].name, *"pay");
    harness.check().await;
}

/// C43 C56: An abort whose start cannot be written is refused, and can be sent again.
#[tokio::test(start_paused = true)]
async fn an_abort_that_could_not_be_written_is_refused() {
    let tools: fn(AgentBuilder) -> AgentBuilder =
        |agent| agent.tool(TestTool::new("pay").effect(Effect::AtMostOnce));
    let replies = [calls(&["pay"]), Script::text("ok")];
    let fails = fails_at("abort_requested", false);
    let (harness, _) = recorded(PiPattern, replies, tools, fails).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::AwaitingAction);
    let abort = || InputEvent::Abort(AbortRequest::new()).with_id("stop");
    let refused = harness.handle.send(abort()).await;
    assert!(matches!(refused, Err(InputError::Memory(_))), "{refused:?}");
    assert_eq!(harness.pending().await.len(), 1);
    harness.handle.send(abort()).await.unwrap();
    assert_eq!(harness.pending().await.len(), 0);
    harness.check().await;
}

/// C56: While the log cannot even be read, every input is refused with the reason. Afterwards the
/// session continues.
#[tokio::test(start_paused = true)]
async fn a_session_continues_when_its_log_is_readable() {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = is_down.clone();
    let wrap = move |log| Arc::new(Down(log, down)) as Arc<dyn Memory>;
    let replies = [Script::text("ok"), Script::text("ok")];
    let harness = Harness::with_memory(PiPattern, replies, |a| a, InMemory::new(), wrap).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!(outcome.end, RunStatus::Error);
    assert!(matches!(harness.handle.prompt("more").await, Err(InputError::Memory(_))));
    is_down.store(false, SeqCst);
    harness.handle.wait_for_idle().await;
    let next = harness.handle.prompt("again").await.unwrap();
    assert_eq!(next.end, RunStatus::Done, "{next:?}");
    harness.check().await;
    assert_eq!(harness.transcript().await, ["U:go", "A:ok/Stop", "U:again", "A:ok/Stop"]);
}

/// A memory whose server goes down after the first request of the user.
struct Down(InMemory, Arc<AtomicBool>);

#[async_trait::async_trait]
impl Memory for Down {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.is_up()?;
        self.1.store(at == 1, SeqCst);
        self.0.append(at, entries).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.is_up()?;
        self.0.load(from).await
    }
}

impl Down {
    fn is_up(&self) -> Result<(), MemoryError> {
        match self.1.load(SeqCst) {
            true => Err(MemoryError::Failed("the server is down".into())),
            false => Ok(()),
        }
    }
}

/// C43 C56: An abort of an interrupted run whose end cannot be written is refused, too.
#[tokio::test(start_paused = true)]
async fn an_abort_whose_end_could_not_be_written_is_refused() {
    let tool = TestTool::new("x").hangs();
    let agent = |memory: Arc<dyn Memory>| {
        let model = ScriptedModel::new([calls(&["x"])]);
        let agent = GenericAgent::builder(model, PiPattern).tool(tool.clone()).build().unwrap();
        async move { agent.run(RunContext::new().shared_memory(memory)).await.unwrap() }
    };
    let log = InMemory::new();
    let (handle, _events) = agent(Arc::new(log.clone())).await;
    handle.send(InputEvent::UserRequest("go".into())).await.unwrap();
    sleep(ms(10)).await;
    let log = InMemory::from_entries(log.entries()); // the process was killed
    let fails = Mutex::new(fails_at("run_ended", false));
    let memory = Recorded { log: log.clone(), appends: Appends::default(), fails };
    let (handle, _events) = agent(Arc::new(memory)).await;
    let abort = || InputEvent::Abort(AbortRequest::new()).with_id("stop");
    let refused = handle.send(abort()).await;
    assert!(matches!(refused, Err(InputError::Memory(_))), "{refused:?}");
    assert!(handle.state().await.unwrap().interrupted_run.is_some());
    handle.send(abort()).await.unwrap();
    assert_eq!(handle.state().await.unwrap().interrupted_run, None);
    check_log(&log.entries()).unwrap();
}
