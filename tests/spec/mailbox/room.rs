//! Messages of schedules that wait: for room in a queue, for the message before, for a person.

use std::future::ready;

use crate::kit::*;

fn request(text: &str) -> InputEvent {
    InputEvent::UserRequest(text.into())
}

/// C528: an input waits in the mailbox while the queue of its session is full.
#[tokio::test(start_paused = true)]
async fn a_message_waits_for_room_in_the_queue() {
    let store = InMemoryStore::new();
    store.open("s").await.unwrap().append(0, [LogEntry::Reset].into()).await.unwrap();
    let gate = Gate::new();
    let model = ScriptedModel::new((0..34).map(|n| match n {
        0 => Script::text("Busy.").gate(&gate),
        n => Script::text(&format!("Reply {n}.")),
    }));
    let agent = GenericAgent::builder(model, PiPattern).build().unwrap();
    let handle = agent.open(&store, "s").await.unwrap();
    for n in 0..33 {
        handle.send(request(&format!("Request {n}."))).await.unwrap();
        if n == 0 {
            sleep(ms(100)).await; // it leaves the queue
        }
    }
    assert_eq!(handle.send(request("Too much.")).await, Err(InputError::Full(32)));
    let report = Schedule::once("s", "report", 1, request("Report."));
    store.put(&report).await.unwrap();
    assert_eq!(post_due_schedules(&store, None, Interrupted::Left, |_| ready(())).await, Ok(1));
    sleep(ms(10_000)).await;
    assert_eq!(store.session("s").await.unwrap().unread, 1);
    gate.open();
    sleep(ms(10_000)).await;
    handle.wait_for_idle().await;
    let messages = replay_messages(&store.read("s", 0).await.unwrap());
    assert_eq!(messages.iter().filter(|message| message.text() == "Report.").count(), 1);
    assert_eq!(store.session("s").await.unwrap().unread, 0);
}

/// Lets a time of the only schedule come, and carries it out. Returns the number of messages.
async fn carry_out(store: &InMemoryStore, time: u64) -> usize {
    let before = store.of_session("s").await.unwrap().remove(0);
    let mut next = before.clone();
    (next.next, next.again_at) = (time, None);
    assert_eq!(store.advance(&before, Some(&next)).await, Ok(true));
    post_due_schedules(store, None, Interrupted::Left, |_| ready(())).await.unwrap()
}

/// C528: a time is skipped while the message of the time before it waits: unread, or in the queue
/// behind a run.
#[tokio::test(start_paused = true)]
async fn a_time_is_skipped_while_the_message_before_it_waits() {
    let store = InMemoryStore::new();
    store.open("s").await.unwrap().append(0, [LogEntry::Reset].into()).await.unwrap();
    let often = Schedule::repeat("s", "often", "* * * * * *", None, 1, request("Report."));
    store.put(&often.unwrap()).await.unwrap();
    assert_eq!(carry_out(&store, 1_000).await, 1);
    assert_eq!(carry_out(&store, 2_000).await, 0, "it is unread");
    let gate = Gate::new();
    let replies = [Script::text("One.").gate(&gate), Script::text("Two."), Script::text("Three.")];
    let agent = GenericAgent::builder(ScriptedModel::new(replies), PiPattern).build().unwrap();
    let handle = agent.open(&store, "s").await.unwrap();
    sleep(ms(1_000)).await; // its run has started
    assert_eq!(carry_out(&store, 3_000).await, 1);
    sleep(ms(1_000)).await;
    assert_eq!(carry_out(&store, 4_000).await, 0, "it is in the queue");
    gate.open();
    sleep(ms(1_000)).await;
    assert_eq!(carry_out(&store, 5_000).await, 1);
    sleep(ms(1_000)).await;
    handle.wait_for_idle().await;
    let messages = replay_messages(&store.read("s", 0).await.unwrap());
    assert_eq!(messages.iter().filter(|message| message.text() == "Report.").count(), 3);
}

/// C528: no message takes a decision away from a person: while an action is pending it waits, and
/// it is sent once afterwards.
#[tokio::test(start_paused = true)]
async fn a_message_waits_while_a_person_has_to_decide() {
    let store = InMemoryStore::new();
    let pay = TestTool::new("pay").spec(|spec| spec.approval(Approval::Always));
    let replies = [calls(&["pay"]), Script::text("Paid."), Script::text("All is well.")];
    let builder = GenericAgent::builder(ScriptedModel::new(replies), PiPattern);
    let agent = builder.tool(pay).build().unwrap();
    let handle = agent.open(&store, "s").await.unwrap();
    let outcome = handle.prompt("Pay.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    store.put(&Schedule::once("s", "report", 1, request("Report."))).await.unwrap();
    assert_eq!(post_due_schedules(&store, None, Interrupted::Left, |_| ready(())).await, Ok(0));
    let waits = store.of_session("s").await.unwrap().remove(0);
    assert!(waits.next == 1 && waits.again_at.is_some_and(|time| time > 1), "{waits:?}");
    let action = handle.state().await.unwrap().pending_actions[0].clone();
    handle.approve(&action).await.unwrap();
    handle.wait_for_idle().await;
    assert_eq!(carry_out(&store, 1).await, 1);
    sleep(ms(1_000)).await;
    handle.wait_for_idle().await;
    let messages = replay_messages(&store.read("s", 0).await.unwrap());
    assert_eq!(messages.last().unwrap().text(), "All is well.");
    assert!(store.of_session("s").await.unwrap().is_empty());
}

/// C528: a message does not end a run that a crash has interrupted: a person decides about it.
#[tokio::test(start_paused = true)]
async fn a_message_waits_while_a_run_is_interrupted() {
    let store = InMemoryStore::new();
    let started = LogEntry::RunStarted {
        run: RunId(1),
        cause: RunCause::UserRequest("i".into()),
        time: 1,
        trace: None,
    };
    let owner = store.open("s").await.unwrap();
    owner.append(0, [started].into()).await.unwrap();
    store.put(&Schedule::once("s", "report", 1, request("Report."))).await.unwrap();
    let post = async || post_due_schedules(&store, None, Interrupted::Left, |_| ready(())).await;
    drop(owner);
    assert_eq!(post().await, Ok(0));
    let _owner = store.open("s").await.unwrap();
    assert_eq!(carry_out(&store, 1).await, 1, "a process works on it");
}

/// A store that counts how often its sessions are listed.
struct Counted(InMemoryStore, std::sync::atomic::AtomicUsize);

#[async_trait::async_trait]
impl SessionStore for Counted {
    fn inner(&self) -> Option<&dyn SessionStore> {
        Some(&self.0)
    }

    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        self.0.open(session).await
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.0.read(session, from).await
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        self.0.delete(session).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        self.0.sessions().await
    }

    async fn sessions_page(&self, query: &SessionQuery) -> Result<SessionPage, MemoryError> {
        self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.0.sessions_page(query).await
    }
}

/// C528: a session whose work is left over is opened again at growing intervals, and the store is
/// not searched without a pause.
#[tokio::test(start_paused = true)]
async fn work_that_is_left_over_is_tried_at_growing_intervals() {
    let inner = InMemoryStore::new();
    inner.open("s").await.unwrap().append(0, [LogEntry::Reset].into()).await.unwrap();
    let store = Arc::new(Counted(inner, Default::default()));
    let too_long = InputEvent::Signal { key: "k".into(), value: 1.into() };
    for n in 0..101 {
        let signal = PostedInput::new(format!("{n}"), too_long.clone()).unwrap();
        store.post("s", &signal.waits_for_room()).await.unwrap();
    }
    let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
    tokio::select! {
        never = agent.keep_running_due(&store) => match never {},
        () = sleep(ms(3_600_000)) => {}
    }
    assert_eq!(store.session("s").await.unwrap().unread, 1, "there is no room for it");
    let log = store.read("s", 0).await.unwrap();
    let openings = log.iter().filter(|entry| matches!(entry, LogEntry::Opened { .. })).count();
    assert!((5..20).contains(&openings), "{openings}");
    let lists = store.1.load(std::sync::atomic::Ordering::Relaxed);
    assert!(lists < 500, "{lists}"); // once in ten seconds, and for each opening
}
