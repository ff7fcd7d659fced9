//! Schedules: inputs that are posted at certain times, without a server.

use std::future::{pending, ready};

use futures::FutureExt;
use tokio::sync::Notify;

use crate::kit::*;

fn request(text: &str) -> InputEvent {
    InputEvent::UserRequest(text.into())
}

/// Answers, and signals the end of the second answer.
#[derive(Default)]
struct Answers(Arc<Notify>);

#[async_trait::async_trait]
impl BehaviorPattern for Answers {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        let end = PiPattern.next_step(step).await;
        if step.messages().count() == 4 {
            self.0.notify_one();
        }
        end
    }
}

fn agent(replies: &[&str], pattern: Answers) -> GenericAgent {
    let model = ScriptedModel::new(replies.iter().copied().map(Script::text));
    GenericAgent::builder(model, pattern).build().unwrap()
}

/// Returns a store with a session.
async fn store() -> InMemoryStore {
    let store = InMemoryStore::new();
    store.open("s").await.unwrap().append(0, [LogEntry::Reset].into()).await.unwrap();
    store
}

async fn put(store: &InMemoryStore, schedule: Schedule) {
    Schedules::put(store, &schedule).await.unwrap();
}

/// Returns the texts of the conversation.
async fn texts(store: &InMemoryStore) -> Vec<String> {
    let messages = replay_messages(&store.read("s", 0).await.unwrap());
    messages.iter().map(|message| message.text()).collect()
}

/// C528: each time of a schedule is posted once, although a process is killed after it has posted,
/// and two others carry it out at the same time.
#[tokio::test]
async fn each_time_of_a_schedule_is_posted_once() {
    let store = store().await;
    put(&store, Schedule::once("s", "soon", 1, request("Wake up."))).await;
    let killed =
        post_due_schedules(&store, None, Interrupted::Left, |_| pending::<()>()).now_or_never();
    assert!(killed.is_none(), "it is dropped before the next time is set");
    assert_eq!(store.due(9).await.unwrap().len(), 1);
    let agent = agent(&["Good morning."], Answers::default());
    let ends = tokio::join!(agent.run_due(&store), agent.run_due(&store));
    assert_eq!(ends, (Ok(None), Ok(None)));
    assert_eq!(texts(&store).await, ["Wake up.", "Good morning."]);
    assert!(store.of_session("s").await.unwrap().is_empty());
}

/// C528: a process without a server carries schedules out at their times; times that have passed
/// are made up for once.
#[tokio::test]
async fn a_process_without_a_server_carries_schedules_out() {
    let store = store().await;
    let now = SystemEnvironment.now();
    let daily = |id: &str| {
        Schedule::repeat("s", id, "0 9 * * *", Some("Europe/Berlin"), 1, request("Report."))
    };
    put(&store, daily("daily").unwrap()).await; // its time was on the first day of 1970
    let answered = Arc::new(Notify::new());
    let agent = agent(&["All is well.", "Good morning."], Answers(answered.clone()));
    let next = agent.run_due(&store).await.unwrap().unwrap();
    assert!(next > now && next <= now + 25 * 3600 * 1000, "{next}");
    assert_eq!(store.of_session("s").await.unwrap()[0].next, next);

    put(&store, Schedule::once("s", "soon", SystemEnvironment.now() + 200, request("Hello"))).await;
    tokio::select! {
        () = answered.notified() => {}
        never = agent.keep_running_due(&store) => match never {},
    }
    assert_eq!(texts(&store).await, ["Report.", "All is well.", "Hello", "Good morning."]);
}

/// C528: a schedule that replaces another for the same time has its own message.
#[tokio::test]
async fn a_schedule_that_replaces_another_has_its_own_message() {
    let store = store().await;
    put(&store, Schedule::once("s", "a", 1, request("The first."))).await;
    let due = store.due(9).await.unwrap();
    put(&store, Schedule::once("s", "a", 1, request("The second."))).await;
    store.post("s", &due[0].input().unwrap()).await.unwrap();
    assert_eq!(store.advance(&due[0], None).await, Ok(false));
    assert_eq!(post_due_schedules(&store, None, Interrupted::Left, |_| ready(())).await, Ok(1));
    assert_eq!(store.session("s").await.unwrap().unread, 2);
}

/// C528: what becomes due meanwhile waits for the next look.
#[tokio::test]
async fn schedules_that_come_due_meanwhile_wait() {
    let store = store().await;
    for n in 0..64 {
        put(&store, Schedule::once("s", format!("{n}"), 1, request("Report."))).await;
    }
    let n = std::sync::atomic::AtomicUsize::new(0);
    let posted = post_due_schedules(&store, None, Interrupted::Left, |_| {
        let id = format!("{}", n.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 64);
        let again = Schedule::once("s", id, SystemEnvironment.now() + 1, request("Again."));
        let store = store.clone();
        async move { put(&store, again).await }
    });
    assert_eq!(posted.await, Ok(64));
}

/// C528: a schedule that fails stays and does not delay the others.
#[tokio::test]
async fn a_schedule_that_fails_does_not_delay_the_others() {
    let store = store().await;
    let mut bad = Schedule::once("s", "a", 1, request("Never."));
    bad.cron = Some("never".into());
    put(&store, bad).await;
    put(&store, Schedule::once("s", "b", 2, request("Wake up."))).await;
    assert_eq!(post_due_schedules(&store, None, Interrupted::Left, |_| ready(())).await, Ok(1));
    assert_eq!(
        post_due_schedules(&store, Some("s"), Interrupted::Left, |_| ready(())).await,
        Ok(0)
    );
    let left = store.of_session("s").await.unwrap();
    assert_eq!(left.iter().map(|it| &*it.id).collect::<Vec<_>>(), ["a"]);
    assert_eq!(left[0].next, 1);
    let in_a_minute = left[0].due_at().saturating_sub(SystemEnvironment.now());
    assert!((1..=60_000).contains(&in_a_minute), "it is tried again in a minute: {left:?}");
}

/// C529: a schedule that could never be carried out is refused, with the reason.
#[test]
fn a_schedule_that_could_never_be_carried_out_is_refused() {
    let repeat = |cron: &str, zone| Schedule::repeat("s", "a", cron, zone, 1, request("Report."));
    for (schedule, expected) in [
        (repeat("nine", None), "`nine` is no cron expression"),
        (repeat(&"0,".repeat(200), None), "the cron expression has 400 bytes"),
        (repeat("0 9 * * *", Some("Moon/Base")), "there is no time zone `Moon/Base`"),
        (repeat("0 0 30 2 *", None), "`0 0 30 2 *`"),
    ] {
        let why = schedule.unwrap_err().to_string();
        assert!(why.starts_with(expected), "{why}");
    }
    let once = |id: &str, event| Schedule::once("s", id, 1, event).check();
    assert_eq!(once("a", request("Report.")), Ok(()));
    assert_eq!(once("", request("Report.")), Err(InvalidSchedule::Id { bytes: 0, max: 200 }));
    assert!(matches!(once("a", InputEvent::Reset), Err(InvalidSchedule::Input(_))));
    let long = once("a", request(&"x".repeat(300_000))).unwrap_err();
    assert!(long.to_string().starts_with("the input has 300"), "{long}");
    let mut schedule = Schedule::once("s", "a", 1, request("Report."));
    schedule.time_zone = Some("Europe/Berlin".into());
    assert_eq!(schedule.check(), Err(InvalidSchedule::NeedsCron));
}
