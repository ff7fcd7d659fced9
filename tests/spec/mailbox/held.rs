//! Inputs that end each process that takes them: they wait for a person.

use super::*;

fn opened(epoch: u64) -> LogEntry {
    LogEntry::Opened { epoch, time: 1, parent: None, owner: None }
}

/// The session of two owners that were killed when they took an input, which waits.
fn with_pill() -> SharedSession {
    let takes = || LogEntry::Owner { note: OwnerNote::TakesMail };
    let shared = SharedSession::with(vec![opened(1), takes(), opened(2), takes()]);
    shared.post(request("pill", "Kill."));
    shared
}

fn info(shared: &SharedSession, unread: u64) -> SessionInfo {
    let mut info = SessionInfo::of("s", &shared.entries());
    info.set_unread(unread);
    info
}

/// C400: An owner at rest notes that it takes an input before it does. After two owners that were
/// lost then, what is in the mailbox stays there, in its order, and the session says so.
#[tokio::test(start_paused = true)]
async fn what_ends_every_process_that_takes_it_stays_in_the_mailbox() {
    let shared = with_pill();
    let agent = agent([Script::text("One."), Script::text("Two.")]);
    for _ in 0..2 {
        let (handle, events) = run(&agent, shared.owner()).await;
        handle.wait_for_idle().await;
        end(handle, events).await;
    }
    let held = info(&shared, 1).held.unwrap();
    assert_eq!((held.owners, held.unread, info(&shared, 1).due), (2, 1, None));
    shared.post(request("later", "Hello"));
    assert_eq!(info(&shared, 2).due, Some(Due::Inbox));
    let (handle, events) = run(&agent, shared.owner()).await;
    handle.wait_for_idle().await;
    end(handle, events).await;
    let held = info(&shared, 2).held.unwrap();
    assert_eq!((held.owners, held.unread, info(&shared, 2).due), (2, 2, None));
    assert!(shared.inputs().is_empty() && shared.receipts() == [None, None]);

    let (handle, _events) = run(&agent, shared.owner()).await;
    shared.post(PostedInput::new("go", InputEvent::Continue(None)).unwrap());
    sleep(Duration::from_secs(31)).await;
    handle.wait_for_idle().await;
    assert_eq!(shared.inputs(), ["go", "pill", "later"]);
    assert_eq!(shared.receipts(), [ACCEPTED, ACCEPTED, ACCEPTED]);
    assert_eq!(info(&shared, 0).held, None);
}

/// C400: An abort refuses what waits before it, and the session works again.
#[tokio::test(start_paused = true)]
async fn an_abort_refuses_what_is_held() {
    let shared = with_pill();
    let agent = agent([Script::text("Hi.")]);
    let (handle, _events) = run(&agent, shared.owner()).await;
    shared.post(
        PostedInput::new("stop", InputEvent::Abort(AbortRequest::new().run(RunId(0)))).unwrap(),
    );
    shared.post(request("later", "Hello"));
    sleep(Duration::from_secs(31)).await;
    handle.wait_for_idle().await;
    let dropped = refused(InputError::Dropped);
    assert_eq!(shared.receipts(), [dropped, ACCEPTED, ACCEPTED]);
    assert_eq!(
        (shared.inputs(), info(&shared, 0).held),
        (vec!["stop".into(), "later".into()], None)
    );
}

/// C400: An abort does not refuse a copy of an input that the log has: its sender learns that.
#[tokio::test(start_paused = true)]
async fn an_abort_does_not_refuse_a_copy_of_what_was_accepted() {
    let pill = request("pill", "Kill.");
    let InputEvent::UserRequest(prompt) = &pill.event else { unreachable!() };
    let queued = LogEntry::Queued {
        input: "pill".into(),
        kind: QueueKind::Request,
        urgency: Urgency::default(),
        message: Message::new(MessageId(1), prompt.message.clone()).into(),
        output: None,
        principal: None,
    };
    let shared = SharedSession::with(vec![opened(1), queued, opened(2), opened(3)]);
    shared.post(pill);
    let (handle, _events) = run(&agent([]), shared.owner()).await;
    handle.wait_for_idle().await;
    assert_eq!(info(&shared, 1).held.map(|held| (held.owners, held.unread)), Some((3, 1)));
    handle.abort().await.unwrap();
    sleep(Duration::from_secs(31)).await;
    assert_eq!((shared.receipts(), info(&shared, 0).held), (vec![ACCEPTED], None));
    let withdrawn = LogEntry::Withdrawn { inputs: vec!["pill".into()] };
    assert!(shared.entries().contains(&withdrawn));
}

/// C400: Nor what a handle sends at the same time.
#[tokio::test(start_paused = true)]
async fn an_abort_does_not_refuse_what_a_handle_sends_too() {
    let shared = with_pill();
    let (handle, _events) = run(&agent([Script::text("Hi.")]), shared.owner()).await;
    handle.wait_for_idle().await;
    shared.post(
        PostedInput::new("stop", InputEvent::Abort(AbortRequest::new().run(RunId(0)))).unwrap(),
    );
    handle.send_as("pill", request("pill", "Kill.").event).await.unwrap();
    sleep(Duration::from_secs(31)).await;
    handle.wait_for_idle().await;
    assert_eq!(
        (shared.receipts(), shared.inputs()),
        (vec![ACCEPTED; 2], vec!["stop".into(), "pill".into()])
    );
}

/// C400: An input that an owner has refused, and an owner that leaves, are no loss.
#[tokio::test(start_paused = true)]
async fn an_owner_that_leaves_after_a_refusal_is_no_loss() {
    let shared = SharedSession::opened();
    let agent = agent([Script::text("Hi.")]);
    for number in 0..4 {
        let stop = InputEvent::Abort(AbortRequest::new().run(RunId(7)));
        shared.post(PostedInput::new(format!("no {number}"), stop).unwrap());
        let (handle, events) = run(&agent, shared.owner()).await;
        handle.wait_for_idle().await;
        end(handle, events).await;
    }
    assert_eq!(shared.receipts(), vec![refused(InputError::NothingToAbort(RunId(7))); 4]);
    assert!(!info(&shared, 0).has_lost_owner() && info(&shared, 0).held.is_none());
}
