//! Signals for which patterns wait. A model checker found the rules necessary.

use async_trait::async_trait;
use loopwright_core::agent::attach;
use loopwright_core::error::InputError;
use loopwright_core::log::Due;
use loopwright_core::testing::{ScriptedSession, crash_at_every_append};
use serde_json::Value;

use super::kit::SharedSession;
use super::run;
use crate::kit::*;

/// Waits for the payment of an order, for a second if it is in a hurry, and answers.
#[derive(Clone, Copy)]
struct Order {
    hurries: bool,
}

const PATIENT: Order = Order { hurries: false };
const HURRIED: Order = Order { hurries: true };

#[async_trait]
impl BehaviorPattern for Order {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let until = self.hurries.then(|| step.now() + 1_000);
        let paid = step.wait_for_event("paid", until).await?;
        if step.state("told") != Some(true) {
            step.set_state("told", true)?;
            let text = paid.map_or("Not paid.".into(), |paid| format!("Paid: {paid}"));
            step.remember(UserMessage::from(text)).await?;
        }
        step.ask().await?.finish()
    }
}

fn agent(shared: &SharedSession, order: Order) -> GenericAgent {
    let model = ScriptedModel::new(["Thanks.", "Thanks again."].map(Script::text));
    GenericAgent::builder(model, order).environment(shared.clock()).build().unwrap()
}

/// Returns the texts of the conversation.
async fn texts(handle: &AgentHandle) -> Vec<String> {
    handle.state().await.unwrap().messages.iter().map(|message| message.text()).collect()
}

fn signal(key: &str, value: i32) -> InputEvent {
    InputEvent::Signal { key: key.into(), value: value.into() }
}

/// Returns the causes of the runs.
fn causes(entries: &[LogEntry]) -> Vec<RunCause> {
    let causes = entries.iter().filter_map(|entry| match entry {
        LogEntry::RunStarted { cause, .. } => Some(cause.clone()),
        _ => None,
    });
    causes.collect()
}

/// C510: an agent that waits for an event continues when the signal arrives, with its value: once,
/// however often it is sent under one id.
#[tokio::test(start_paused = true)]
async fn an_agent_continues_when_its_signal_arrives() {
    let shared = SharedSession::opened();
    let agent = agent(&shared, PATIENT);
    let (handle, _events) = run(&agent, shared.owner()).await;
    let outcome = handle.prompt("A book.").await.unwrap();
    assert_eq!((outcome.end, outcome.wakes_at), (RunStatus::Sleeping, None));
    let info = SessionInfo::of("s", &shared.entries());
    assert_eq!((info.wakes_at(), info.due_at(u64::MAX), info.waits.len()), (None, None, 1));
    handle.signal("other", 7).await.unwrap();
    sleep(ms(100_000)).await;
    assert_eq!(texts(&handle).await, ["A book."]);
    for _ in 0..2 {
        handle.send(signal("paid", 20).with_id("click")).await.unwrap();
        handle.wait_for_idle().await;
    }
    assert_eq!(texts(&handle).await, ["A book.", "Paid: 20", "Thanks."]);
    let [_, RunCause::Signal(key)] = &causes(&shared.entries())[..] else { panic!() };
    assert_eq!(&**key, "paid");
    check_log(&shared.entries()).unwrap();
    handle.close().await;
}

/// C510: without a signal, the wait is over at its time. A signal that comes too late does not
/// reach the next request.
#[tokio::test(start_paused = true)]
async fn a_wait_is_over_at_its_time() {
    let shared = SharedSession::opened();
    let agent = agent(&shared, HURRIED);
    let (handle, _events) = run(&agent, shared.owner()).await;
    let outcome = handle.prompt("A book.").await.unwrap();
    assert_eq!((outcome.end, outcome.wakes_at), (RunStatus::Sleeping, Some(1_000)));
    sleep(ms(1_001)).await;
    handle.wait_for_idle().await;
    assert_eq!(texts(&handle).await[1..], ["Not paid.", "Thanks."]);
    handle.signal("paid", 20).await.unwrap();
    let outcome = handle.prompt("Another book.").await.unwrap();
    assert_eq!((outcome.end, outcome.wakes_at), (RunStatus::Sleeping, Some(2_001)));
    handle.signal("paid", 30).await.unwrap();
    handle.wait_for_idle().await;
    assert_eq!(texts(&handle).await[4..], ["Paid: 30", "Thanks again."]);
    check_log(&shared.entries()).unwrap();
    handle.close().await;
}

/// C510: a signal that arrives before the agent waits is kept for it.
#[tokio::test(start_paused = true)]
async fn an_early_signal_is_kept() {
    let shared = SharedSession::opened();
    let agent = agent(&shared, PATIENT);
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.signal("paid", 20).await.unwrap();
    assert_eq!(SessionInfo::of("s", &shared.entries()).due_at(u64::MAX), None);
    handle.close().await;
    let (handle, _events) = run(&agent, shared.owner()).await;
    let outcome = handle.prompt("A book.").await.unwrap();
    assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "Thanks."));
    assert_eq!(texts(&handle).await[1], "Paid: 20");
    handle.close().await;
}

/// Takes three signals under one key.
struct Three;

#[async_trait]
impl BehaviorPattern for Three {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let mut taken: Vec<Value> = step.state("taken").unwrap_or_default();
        while taken.len() < 3 {
            let until = step.now() + 1_000_000;
            taken.extend(step.wait_for_event("n", until).await?);
            step.set_state("taken", &taken)?; // is written with the cancellation
            step.cancel_wait("n").await?;
        }
        if step.state("told") != Some(true) {
            step.set_state("told", true)?;
            step.remember(UserMessage::from(json!(taken).to_string())).await?;
        }
        Ok(StepEnd::Done)
    }
}

/// C510: each wait takes one signal, in order of arrival, whatever a crash cuts off.
#[tokio::test(start_paused = true)]
async fn each_wait_takes_one_signal() {
    let session = ScriptedSession::new([]).signal("n", 1).signal("n", 2);
    let early = session.clone().signal("n", 3).request("Three.");
    let late = session.request("Three.").signal("n", 3);
    for session in [early, late] {
        let agent = |model| GenericAgent::builder(model, Three);
        let report = crash_at_every_append(agent, session.clone()).await.unwrap();
        assert!(report.appends > 10, "{report}");
        crash_at_every_append(agent, session.join_appends()).await.unwrap();
    }
    let shared = SharedSession::opened();
    let model = ScriptedModel::new([]);
    let agent = GenericAgent::builder(model, Three).environment(shared.clock()).build().unwrap();
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.prompt("Three.").await.unwrap();
    for n in 1..=3 {
        handle.signal("n", n).await.unwrap();
    }
    handle.wait_for_idle().await;
    assert_eq!(texts(&handle).await[1], "[1,2,3]");
    handle.close().await;
}

/// C510: a session whose signal has arrived is due, by any clock. One in a mailbox wakes it, too.
#[tokio::test(start_paused = true)]
async fn a_session_whose_signal_has_arrived_is_due() {
    let shared = SharedSession::opened();
    let agent = agent(&shared, PATIENT);
    let store = InMemoryStore::new();
    let handle = agent.open(&store, "s").await.unwrap();
    handle.prompt("A book.").await.unwrap();
    handle.close().await;
    assert_eq!(agent.run_due(&store).await, Ok(None));
    let info = store.session("s").await.unwrap();
    let mut log = store.read("s", 0).await.unwrap();
    let (input, key, value) = ("click".into(), "paid".into(), Arc::new(json!(20)));
    log.push(LogEntry::Signalled { input, key, value, time: 1_000 });
    let arrived = SessionInfo::of("s", &log);
    assert_eq!((info.due_at(0), arrived.due_at(0)), (None, Some(Due::Wait)));
    assert_eq!((info.wakes_at(), arrived.wakes_at()), (None, Some(1_000)));
    let brief = &arrived.brief().waits[0];
    assert_eq!(brief.signal.as_ref().unwrap().value, json!(null).into(), "lists are short");

    let posted = PostedInput::new("click", signal("paid", 20)).unwrap();
    store.post("s", &posted).await.unwrap();
    assert_eq!(store.session("s").await.unwrap().due, Some(Due::Inbox));
    assert_eq!(agent.run_due(&store).await, Ok(None));
    let handle = agent.open(&store, "s").await.unwrap();
    assert_eq!(texts(&handle).await, ["A book.", "Paid: 20", "Thanks."]);
}

/// C511: signals are bounded: their keys, their values and their number.
#[tokio::test(start_paused = true)]
async fn signals_are_bounded() {
    let shared = SharedSession::opened();
    let (handle, _events) = run(&agent(&shared, PATIENT), shared.owner()).await;
    let refused = async |key: String, value: String| match handle.signal(key, value).await {
        Err(InputError::BadSignal(why)) => why,
        other => panic!("{other:?}"),
    };
    for key in ["k".repeat(257), "".into()] {
        let why = refused(key.clone(), "".into()).await;
        assert_eq!(why, format!("its key has {} bytes, and 1 to 256 are allowed", key.len()));
    }
    let why = refused("paid".into(), "v".repeat(64 * 1024)).await;
    assert_eq!(why, "its value has 65538 bytes, and at most 65536 are allowed");
    for n in 0..100 {
        handle.signal(format!("k{n}"), n).await.unwrap();
    }
    assert_eq!(handle.signal("paid", 20).await, Err(InputError::SignalsFull(100)));
    assert_eq!(handle.prompt("A book.").await.unwrap().end, RunStatus::Sleeping);
    handle.signal("paid", 20).await.expect("the agent waits for it");
    handle.wait_for_idle().await;
    assert_eq!(texts(&handle).await[1], "Paid: 20");
    handle.close().await;
    // A log from elsewhere cannot give a session more.
    let mut info = SessionInfo::of("s", &shared.entries());
    let known = info.clone();
    let (input, key, value) = ("click".into(), "paid".into(), Arc::new(json!(20)));
    info.apply(&LogEntry::Signalled { input, key, value, time: 1 });
    info.entries = known.entries;
    assert_eq!(info, known);
}

/// C512: an abort of a sleeping session and a reset drop its waits and signals, and a fork has
/// none.
#[tokio::test(start_paused = true)]
async fn waits_and_signals_end_with_an_abort() {
    for stop in ["abort", "reset", "fork"] {
        let shared = SharedSession::opened();
        let (handle, _events) = run(&agent(&shared, PATIENT), shared.owner()).await;
        handle.prompt("A book.").await.unwrap();
        handle.signal("other", 1).await.unwrap();
        match stop {
            "abort" => handle.abort().await.unwrap(),
            "reset" => drop(handle.reset().await.unwrap()),
            _ => {}
        }
        handle.close().await;
        let fork = || SessionLog::branch(&shared.entries(), None).log(shared.entries());
        let log = if stop == "fork" { fork() } else { shared.entries() };
        check_log(&log).unwrap();
        let mut info = SessionInfo::of("s", &log);
        info.apply(&LogEntry::WaitStarted { key: "other".into(), until: None, for_signal: true });
        let waits: Vec<&str> = info.waits.iter().map(|wait| &*wait.key).collect();
        assert_eq!((waits, info.waits[0].signal.is_none()), (vec!["other"], true), "{stop}");
    }
}

/// C510: a signal that comes between a request and its run is for that request.
#[tokio::test(start_paused = true)]
async fn a_signal_after_the_request_is_for_it() {
    let shared = SharedSession::opened();
    let agent = agent(&shared, PATIENT);
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.signal("paid", 20).await.unwrap();
    handle.prompt("A book.").await.unwrap();
    handle.signal("paid", 1).await.unwrap(); // late
    handle.close().await;
    shared.post(PostedInput::new("r", InputEvent::UserRequest("Another.".into())).unwrap());
    shared.post(PostedInput::new("s", signal("paid", 30)).unwrap());
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.wait_for_idle().await;
    assert_eq!(texts(&handle).await[3..], ["Another.", "Paid: 30", "Thanks again."]);
    handle.close().await;
}

/// Answers each message, and once more when the order is paid.
struct Talker;

#[async_trait]
impl BehaviorPattern for Talker {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        step.ask().await?.or_end()?;
        step.wait_for_event("paid", None).await?;
        if step.state("told") != Some(true) {
            step.set_state("told", true)?;
            step.remember(UserMessage::from("It is paid.")).await?;
        }
        step.ask().await?.finish()
    }
}

/// C510: the user can talk to an agent that waits for an event, and an attached handle that sends
/// the signal waits for the run.
#[tokio::test(start_paused = true)]
async fn the_user_can_talk_to_an_agent_that_waits() {
    let store = InMemoryStore::new();
    let model = ScriptedModel::new(["Please pay.", "Still here.", "Thanks."].map(Script::text));
    let agent = GenericAgent::builder(model, Talker).build().unwrap();
    let owner = agent.open(&store, "s").await.unwrap();
    let guest = attach(&store, "s").await.unwrap().0;
    assert_eq!(owner.prompt("A book.").await.unwrap().text, "Please pay.");
    let outcome = owner.prompt("Hello?").await.unwrap();
    assert_eq!((outcome.end, &*outcome.text), (RunStatus::Sleeping, "Still here."));
    assert_eq!(owner.pending().await.unwrap(), []);
    guest.signal("paid", 20).await.unwrap();
    guest.wait_for_idle().await;
    assert_eq!(texts(&owner).await[4..], ["It is paid.", "Thanks."]);
}

/// Cancels its wait and waits again whenever the user writes.
struct Restless;

#[async_trait]
impl BehaviorPattern for Restless {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        if step.state("asked") != Some(true) {
            step.set_state("asked", true)?; // until the next request
            step.cancel_wait("paid").await?;
        }
        let paid = step.wait_for_event("paid", None).await?;
        step.remember(UserMessage::from(format!("Paid: {}", paid.unwrap_or_default()))).await?;
        Ok(StepEnd::Done)
    }
}

/// C512: a wait that is cancelled before it has ended gives its signal back, and a fork keeps the
/// waits that have ended.
#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_gives_its_signal_back() {
    let shared = SharedSession::opened();
    let model = ScriptedModel::new([]);
    let agent = GenericAgent::builder(model, Restless).environment(shared.clock()).build().unwrap();
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.prompt("A book.").await.unwrap();
    handle.close().await;
    for (id, event) in [("s", signal("paid", 20)), ("t", signal("paid", 30))] {
        shared.post(PostedInput::new(id, event).unwrap());
    }
    shared.post(PostedInput::new("r", InputEvent::UserRequest("Hurry.".into())).unwrap());
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.wait_for_idle().await;
    assert_eq!(texts(&handle).await[2..], ["Paid: 20"]);
    handle.close().await;

    let fork = SessionLog::branch(&shared.entries(), None).log(shared.entries());
    let info = SessionInfo::of("t", &fork);
    assert_eq!((info.waits.len(), info.waits[0].ended, info.signals.len()), (1, true, 0));
}

/// C510: a signal waits for the decision on a call, like a timer.
#[tokio::test(start_paused = true)]
async fn a_signal_waits_for_a_decision() {
    let shared = SharedSession::opened();
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            if step.wait("paid").is_none() {
                step.wait_for_event("paid", None).await.unwrap_err();
            }
            step.question("q", Question::choice("Go on?", ["yes"])).await?;
            step.wait_for_event("paid", None).await?;
            Ok(StepEnd::Done)
        })
    });
    let model = ScriptedModel::new([]);
    let agent = GenericAgent::builder(model, pattern).environment(shared.clock()).build().unwrap();
    let (handle, _events) = run(&agent, shared.owner()).await;
    assert_eq!(handle.prompt("Go.").await.unwrap().end, RunStatus::AwaitingAction);
    handle.signal("paid", 20).await.unwrap();
    handle.wait_for_idle().await;
    assert_eq!(causes(&shared.entries()).len(), 1);
    let action = handle.pending().await.unwrap().remove(0);
    handle.answer(&action, "yes").await.unwrap();
    handle.wait_for_idle().await;
    let info = SessionInfo::of("s", &shared.entries());
    assert_eq!((info.waits[0].ended, info.run, info.pending.len()), (true, None, 0));
    check_log(&shared.entries()).unwrap();
    handle.close().await;
}
