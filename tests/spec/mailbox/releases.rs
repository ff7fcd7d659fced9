//! Owners that are asked to leave, paused or replaced, and owners without hints.

use loopwright_core::event::StreamEnd;
use tokio::sync::Notify;

use super::kit::SharedSession;
use super::{ACCEPTED, agent, refused, request, run, until_receipt};
use crate::compaction::KEEP;
use crate::kit::*;

fn release(id: &str, epoch: u64) -> PostedInput {
    PostedInput::new(id, InputEvent::Release { epoch }).unwrap()
}

fn epoch(shared: &SharedSession) -> u64 {
    SessionLog::of(&shared.entries()).epoch()
}

/// C274: an idle owner that is asked for its session leaves. Its streams end as moved, its handles
/// fail, and later posts wait for the next owner.
#[tokio::test(start_paused = true)]
async fn an_idle_owner_releases_its_session() {
    let shared = SharedSession::opened();
    let (handle, mut events) = run(&agent([]), shared.owner()).await;
    assert!(!handle.has_ended());
    shared.post(release("go", epoch(&shared)));
    shared.post(request("i", "one"));
    while events.next().await.is_some() {}
    assert!(events.end() == Some(StreamEnd::Moved) && handle.has_ended());
    let ended = handle.send(InputEvent::UserRequest("late".into())).await;
    assert_eq!(ended, Err(InputError::Gone));
    assert_eq!(shared.receipts(), [ACCEPTED, None]);
    let next = agent([Script::text("1")]);
    let (handle, _events) = run(&next, shared.owner()).await;
    handle.wait_for_idle().await;
    assert_eq!(
        (shared.inputs(), shared.receipts()),
        (vec!["go".into(), "i".into()], [ACCEPTED; 2].into())
    );
    handle.close().await;
}

/// C274: an owner that works, or is about to, keeps its session and reports that a run is in
/// progress. A request that names an earlier owner changes nothing.
#[tokio::test(start_paused = true)]
async fn an_owner_that_works_keeps_its_session() {
    let shared = SharedSession::opened();
    let gate = Gate::new();
    let agent = agent([Script::text("1").gate(&gate), Script::text("2")]);
    let (handle, mut events) = run(&agent, shared.owner()).await;
    shared.post(release("earlier", epoch(&shared) - 1));
    until_receipt(&shared, "earlier").await;
    assert_eq!(shared.receipt("earlier"), ACCEPTED);
    shared.post(request("i", "one"));
    shared.post(release("about to", epoch(&shared)));
    until(&mut events, |event| matches!(event, AgentEvent::TurnStart { .. })).await;
    shared.post(release("during", epoch(&shared)));
    for id in ["about to", "during"] {
        until_receipt(&shared, id).await;
        assert_eq!(shared.receipt(id), refused(InputError::Busy), "{id}");
    }
    gate.open();
    handle.wait_for_idle().await;
    handle.prompt("two").await.unwrap();
    handle.close().await;
}

/// C271: a posted compaction has its receipt when it is done. If it fails, it is refused with the
/// reason.
#[tokio::test(start_paused = true)]
async fn a_compaction_can_be_posted() {
    let shared = SharedSession::opened();
    let compact = |id: &str| PostedInput::new(id, InputEvent::Compact(Some(id.into()))).unwrap();
    let replies = [
        Script::text("1"),
        Script::text("2"),
        Script::text("3"),
        Script::error(ModelErrorKind::Overloaded, "too busy"),
        Script::text("sum"),
    ];
    let builder = GenericAgent::builder(ScriptedModel::new(replies), PiPattern);
    let agent = builder.compaction(KEEP).build().unwrap();
    let (handle, _events) = run(&agent, shared.owner()).await;
    for text in ["one", "two", "three"] {
        handle.prompt(text).await.unwrap();
    }
    for (id, receipt) in
        [("a", refused(InputError::NotCompacted("too busy".into()))), ("b", ACCEPTED)]
    {
        shared.post(compact(id));
        until_receipt(&shared, id).await;
        assert_eq!(shared.receipt(id), receipt);
    }
    let written = |entry: &&LogEntry| matches!(entry, LogEntry::Compacted { .. });
    assert_eq!(shared.entries().iter().filter(written).count(), 1);
    handle.close().await;
}

/// C271: if the owner of a compaction is killed, the next owner completes it.
#[tokio::test(start_paused = true)]
async fn a_posted_compaction_outlives_its_owner() {
    let shared = SharedSession::opened();
    let replies = [Script::text("1"), Script::text("2"), Script::text("3"), Script::new().hang()];
    let agent = |replies: Vec<Script>| {
        let builder = GenericAgent::builder(ScriptedModel::new(replies), PiPattern);
        builder.compaction(KEEP).build().unwrap()
    };
    let (handle, mut events) = run(&agent(replies.into()), shared.owner()).await;
    for text in ["one", "two", "three"] {
        handle.prompt(text).await.unwrap();
    }
    while events.try_next().is_some() {}
    shared.post(PostedInput::new("c", InputEvent::Compact(None)).unwrap());
    until(&mut events, |event| matches!(event, AgentEvent::AgentStart { .. })).await;
    let (next, _next_events) = run(&agent(vec![Script::text("sum")]), shared.owner()).await;
    until_receipt(&shared, "c").await;
    assert_eq!(shared.receipt("c"), ACCEPTED);
    let written = |entry: &&LogEntry| matches!(entry, LogEntry::Compacted { .. });
    assert_eq!(shared.entries().iter().filter(written).count(), 1);
    next.abort().await.unwrap();
    next.close().await;
    drop((handle, events));
}

/// C275: an owner at rest reads its mailbox from time to time, because a hint can be lost.
#[tokio::test(start_paused = true)]
async fn an_idle_owner_reads_its_mailbox_without_a_hint() {
    let shared = SharedSession::opened();
    let agent = agent([Script::text("1"), Script::text("2")]);
    let (handle, _events) = run(&agent, shared.owner().without_hints()).await;
    for id in ["i", "j"] {
        sleep(ms(100_000)).await;
        shared.post(request(id, "one"));
        sleep(ms(31_000)).await;
        assert_eq!(shared.receipt(id), ACCEPTED);
    }
    handle.close().await;
}

/// C276: a row that two owners have read is delivered once, because the paused one cannot append.
#[tokio::test(start_paused = true)]
async fn a_row_that_two_owners_read_is_delivered_once() {
    let shared = SharedSession::opened();
    let resume = Arc::new(Notify::new());
    let model = ScriptedModel::new([Script::text("never")]);
    let paused = GenericAgent::builder(model.clone(), PiPattern).build().unwrap();
    let (old, _old_events) = run(&paused, shared.owner().paused_at(2, resume.clone())).await;
    shared.post(request("i", "one"));
    sleep(ms(10)).await;
    assert_eq!((shared.inputs().len(), shared.paused()), (0, 1), "it has read the row");
    let (handle, _events) = run(&agent([Script::text("1")]), shared.owner()).await;
    handle.wait_for_idle().await;
    resume.notify_one();
    old.close().await;
    assert_eq!((shared.inputs(), shared.receipts()), (vec!["i".to_owned()], vec![ACCEPTED]));
    assert_eq!(model.requests().len(), 0);
    handle.close().await;
}

/// C276: an owner that is replaced while it writes a refusal has refused nothing, at rest and
/// during a run. The next owner can accept the input.
#[tokio::test(start_paused = true)]
async fn an_owner_that_is_replaced_while_it_refuses_has_refused_nothing() {
    for is_running in [false, true] {
        let shared = SharedSession::opened();
        let old = agent([Script::new().hang()]);
        let (handle, events) = run(&old, shared.owner().slow(ms(100))).await;
        if is_running {
            handle.send(InputEvent::UserRequest("hang".into())).await.unwrap();
        }
        let sender = handle.clone();
        let nothing = InputEvent::Continue(None);
        let copy = nothing.clone();
        let sent = tokio::spawn(async move { sender.send(copy.with_id("d")).await });
        sleep(ms(50)).await;
        let (next, _next_events) =
            run(&agent([Script::text("1"), Script::text("2")]), shared.owner()).await;
        let answer = sent.await.unwrap();
        let is_loss = matches!(&answer, Err(InputError::Memory(error)) if error.is_lost());
        assert!(is_loss, "{answer:?}");
        assert_eq!(shared.receipt("d"), None);
        if !is_running {
            next.prompt("go").await.unwrap();
            next.steer("so that there is something to continue").await.unwrap();
        }
        assert_eq!(next.send(nothing.with_id("d")).await, Ok("d".into()));
        next.wait_for_idle().await;
        next.close().await;
        drop((handle, events));
    }
}

/// C273: a prompt that was logged, but whose owner was killed before it could start, is due. An
/// interrupted run is not due, nor are the requests behind it. It waits for `Continue`.
#[tokio::test(start_paused = true)]
async fn a_prompt_that_was_logged_and_not_started_is_due() {
    let shared = SharedSession::opened();
    let (handle, _events) = run(&agent([]), shared.owner().failing_after(4)).await;
    shared.post(request("i", "one"));
    handle.wait_for_idle().await;
    handle.close().await;
    assert_eq!((shared.inputs(), shared.receipts()), (vec!["i".to_owned()], vec![ACCEPTED]));
    let due = || SessionInfo::of("s", &shared.entries()).due;
    assert_eq!(due(), Some(Due::Request));
    let (handle, mut events) = run(&agent([Script::new().hang()]), shared.owner()).await;
    until(&mut events, |event| matches!(event, AgentEvent::TurnStart { .. })).await;
    handle.send(InputEvent::UserRequest("two".into())).await.unwrap();
    assert_eq!(due(), Some(Due::Interrupted));
    handle.abort().await.unwrap();
    handle.close().await;
}
