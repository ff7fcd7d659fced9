//! Runs that end each process that continues them: they are held for a person.

use crate::kit::*;

/// The log that a killed process has left, with its agent and tool.
struct Killed {
    agent: GenericAgent,
    tool: TestTool,
    log: Vec<LogEntry>,
}

impl Killed {
    /// Returns a run whose call kills the process.
    async fn new() -> Self {
        let tool = TestTool::new("x").effect(Effect::ReadOnly).hangs();
        let replies = [calls(&["x"]), Script::text("Let me try once more.")];
        let agent = GenericAgent::builder(ScriptedModel::new(replies), PiPattern);
        let agent = agent.tool(tool.clone()).build().unwrap();
        let memory = InMemory::new();
        let (handle, _events) = agent.run(RunContext::new().memory(memory.clone())).await.unwrap();
        handle.send(InputEvent::UserRequest("go".into())).await.unwrap();
        sleep(ms(10)).await;
        let log = memory.entries();
        Killed { agent, tool, log }
    }

    /// Opens the session in another process.
    async fn open(&self, continues: bool) -> (InMemory, AgentHandle, EventStream) {
        let memory = InMemory::from_entries(self.log.clone());
        let cx = RunContext::new().memory(memory.clone());
        let cx = if continues { cx.continue_interrupted() } else { cx };
        let (handle, events) = self.agent.run(cx).await.unwrap();
        sleep(ms(10)).await;
        (memory, handle, events)
    }

    /// Opens the session in a process that continues it, and is killed. Returns whether the run was
    /// continued.
    async fn once_more(&mut self) -> bool {
        let before = self.tool.ran();
        let (memory, handle, _events) = self.open(true).await;
        let state = handle.state().await.unwrap();
        self.log = memory.entries();
        assert_eq!(state.is_running, state.held.is_none());
        assert_eq!(self.tool.ran() - before, usize::from(state.is_running));
        state.is_running
    }

    fn info(&self) -> SessionInfo {
        SessionInfo::of("s", &self.log)
    }
}

/// C397: A run that has lost two owners without progress stays interrupted, whoever opens it. Its
/// session reports the reason, in lists and to subscribers, and has nothing to do.
#[tokio::test(start_paused = true)]
async fn a_run_that_ends_every_process_is_held_after_two() {
    let mut killed = Killed::new().await;
    assert!(killed.info().has_lost_owner());
    assert!(killed.once_more().await);
    assert_eq!((killed.info().held, killed.info().due), (None, Some(Due::Interrupted)));
    for _ in 0..3 {
        assert!(!killed.once_more().await);
        let held = killed.info().held.unwrap();
        assert_eq!((held.owners, held.unread, killed.info().due), (2, 0, None));
        assert_eq!(held, SessionLog::of(&killed.log).held().unwrap());
    }
    assert_eq!(killed.tool.ran(), 2);
    let is_held = |event: &&Envelope| matches!(event.event, AgentEvent::Held(_));
    assert_eq!(SessionLog::events("s", &killed.log).iter().filter(is_held).count(), 1);
    let why = killed.info().held.unwrap().to_string();
    assert!(why.starts_with("2 processes ended while they worked on this session"), "{why}");
}

/// C397: A process that opens the session without continuing its run reports the same.
#[tokio::test(start_paused = true)]
async fn a_process_that_continues_nothing_says_why_too() {
    let mut killed = Killed::new().await;
    assert!(killed.once_more().await);
    let (_memory, handle, _events) = killed.open(false).await;
    let state = handle.state().await.unwrap();
    assert_eq!(state.held.map(|held| held.owners), Some(2));
    assert!(state.interrupted_run.is_some());
}

/// C398: A person continues a held run, for two more owners, or ends it with an abort or another
/// request.
#[tokio::test(start_paused = true)]
async fn a_person_continues_or_ends_what_is_held() {
    let mut killed = Killed::new().await;
    while killed.once_more().await {}
    let (memory, handle, _events) = killed.open(true).await;
    let continued = tokio::spawn(async move { handle.continue_run().await });
    sleep(ms(10)).await;
    assert_eq!(killed.tool.ran(), 3);
    continued.abort();
    killed.log = memory.entries();
    assert!(killed.info().held.is_none() && killed.info().has_lost_owner());
    assert!(killed.once_more().await);
    assert!(!killed.once_more().await);

    let (memory, handle, _events) = killed.open(true).await;
    handle.abort().await.unwrap();
    let info = SessionInfo::of("s", &memory.entries());
    assert_eq!((info.held, info.run, info.has_lost_owner()), (None, None, false));

    let (memory, handle, _events) = killed.open(true).await;
    assert_eq!(handle.prompt("again").await.unwrap().text, "Let me try once more.");
    let info = SessionInfo::of("s", &memory.entries());
    assert_eq!((info.held, info.run), (None, None));
}

/// C398: Clearing the queues decides nothing about held work.
#[tokio::test(start_paused = true)]
async fn clearing_the_queues_continues_nothing() {
    let mut killed = Killed::new().await;
    while killed.once_more().await {}
    let (memory, handle, _events) = killed.open(true).await;
    handle.send(InputEvent::Steer("Hurry.".into())).await.unwrap();
    handle.send(InputEvent::ClearQueues).await.unwrap();
    let entries = memory.entries();
    assert!(entries.iter().any(|entry| matches!(entry, LogEntry::Withdrawn { .. })));
    assert_eq!(SessionInfo::of("s", &entries).held.map(|held| held.owners), Some(2));
}

/// C399: Only owners that were lost without progress count. Owners before the run's last progress,
/// owners that left in order, and owners that lived for a second do not. A queued message is not
/// progress.
#[tokio::test(start_paused = true)]
async fn only_owners_that_were_lost_without_progress_count() {
    let mut killed = Killed::new().await;
    for _ in 0..3 {
        assert!(killed.once_more().await);
        let message = Message::new(MessageId(90), AssistantMessage::default());
        let message = Arc::new(message);
        killed.log.push(LogEntry::Detached {
            message,
            cost: None,
            key: None,
            request_digest: None,
            speaker: None,
        });
    }
    for _ in 0..3 {
        let (memory, handle, _events) = killed.open(false).await;
        handle.close().await;
        killed.log = memory.entries();
    }
    assert!(killed.once_more().await);
    assert!(!killed.once_more().await);

    let mut killed = Killed::new().await;
    for _ in 0..3 {
        let (memory, handle, _events) = killed.open(true).await;
        handle.note_end();
        sleep(ms(10)).await;
        killed.log = memory.entries();
    }
    assert!(killed.once_more().await);
    assert!(!killed.once_more().await);

    let mut killed = Killed::new().await;
    for _ in 0..5 {
        let (memory, _handle, _events) = killed.open(true).await;
        sleep(Duration::from_secs(1)).await;
        killed.log = memory.entries();
    }
    assert!(killed.info().held.is_none());
    while killed.once_more().await {}
    assert_eq!(killed.info().held.unwrap().owners, 2);

    let mut killed = Killed::new().await;
    let (memory, handle, _events) = killed.open(true).await;
    handle.steer("Faster.").await.unwrap();
    killed.log = memory.entries();
    assert!(matches!(killed.log.last(), Some(LogEntry::Queued { .. })));
    assert!(!killed.once_more().await);
}

/// C346: A run whose owners live for longer than a second is not continued forever either.
#[tokio::test(start_paused = true)]
async fn a_run_that_slowly_ends_every_process_is_held_after_ten() {
    let mut killed = Killed::new().await;
    for opening in 1..=10 {
        let (memory, handle, _events) = killed.open(true).await;
        sleep(Duration::from_secs(2)).await;
        assert_eq!(handle.state().await.unwrap().is_running, opening < 10, "{opening}");
        killed.log = memory.entries();
    }
    assert_eq!(killed.info().held.unwrap().owners, 10);
}

/// C397: A request that ends each process before its run is in the log is held as well.
#[tokio::test(start_paused = true)]
async fn a_request_that_ends_every_process_is_held() {
    let killed = Killed::new().await;
    let queued = killed.log.iter().position(|entry| matches!(entry, LogEntry::Queued { .. }));
    let opened = |epoch| LogEntry::Opened { epoch, time: 1, parent: None, owner: None };
    let mut log = killed.log[..=queued.unwrap()].to_vec();
    log.push(opened(2));
    let killed = Killed { log, ..killed };
    let (memory, handle, _events) = killed.open(false).await;
    assert_eq!(handle.state().await.unwrap().held.map(|held| held.owners), Some(2));
    assert_eq!((killed.tool.ran(), SessionInfo::of("s", &memory.entries()).due), (1, None));
    assert_eq!(handle.continue_run().await.unwrap().text, "Let me try once more.");
    assert_eq!(SessionInfo::of("s", &memory.entries()).held, None);
}
