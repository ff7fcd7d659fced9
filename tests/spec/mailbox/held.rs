//! Inputs that end each process that takes them: they wait for a person.

use super::*;

fn opened(epoch: u64) -> LogEntry {
    LogEntry::Opened { epoch, time: 1, parent: None, owner: None }
}

/// Returns a session with a waiting input whose two owners were killed when they took it.
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

/// C400: An owner at rest notes that it takes an input before it does. If two owners were lost
/// then, the mailbox keeps its inputs, in order, and the session reports that.
#[tokio::test(start_paused = true)]
async fn what_ends_every_process_that_takes_it_stays_in_the_mailbox() {
    let shared = with_pill();
    let agent = agent([Script::text("One."), Script::text("Two.")]);
    for _ in 0..2 {
        let (handle, _events) = run(&agent, shared.owner()).await;
        handle.wait_for_idle().await;
        handle.close().await;
    }
    let held = info(&shared, 1).held.unwrap();
    assert_eq!((held.owners, held.unread, info(&shared, 1).due), (2, 1, None));
    shared.post(request("later", "Hello"));
    assert_eq!(info(&shared, 2).due, Some(Due::Inbox));
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.wait_for_idle().await;
    handle.close().await;
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

/// C400: An abort refuses the inputs that waited before it, and the session works again.
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

/// C400: An abort does not refuse a copy of a logged input. Its sender learns that it was accepted.
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

/// C400: An abort does not refuse an input that a handle sends at the same time.
#[tokio::test(start_paused = true)]
async fn an_abort_does_not_refuse_what_a_handle_sends_too() {
    let shared = with_pill();
    let (handle, _events) = run(&agent([Script::text("Hi.")]), shared.owner()).await;
    handle.wait_for_idle().await;
    shared.post(
        PostedInput::new("stop", InputEvent::Abort(AbortRequest::new().run(RunId(0)))).unwrap(),
    );
    handle.send(request("pill", "Kill.").event.with_id("pill")).await.unwrap();
    sleep(Duration::from_secs(31)).await;
    handle.wait_for_idle().await;
    assert_eq!(
        (shared.receipts(), shared.inputs()),
        (vec![ACCEPTED; 2], vec!["stop".into(), "pill".into()])
    );
}

/// C400: An abort does not refuse a message to a sub-agent, whose log may have it. The message is
/// answered like any other.
#[tokio::test(start_paused = true)]
async fn an_abort_does_not_refuse_a_message_to_a_sub_agent() {
    let shared = with_pill();
    let steer = InputEvent::SteerTo { call: "a".into(), prompt: "Hurry.".into() };
    shared.post(PostedInput::new("hurry", steer).unwrap());
    let (handle, _events) = run(&agent([]), shared.owner()).await;
    handle.wait_for_idle().await;
    assert_eq!(info(&shared, 2).held.map(|held| held.unread), Some(2));
    handle.abort().await.unwrap();
    sleep(Duration::from_secs(31)).await;
    let late = refused(InputError::NoSubAgent("a".into()));
    assert_eq!(shared.receipts(), [refused(InputError::Dropped), late]);
}

/// C400: An abort fails if it cannot refuse the waiting inputs. They are held as before.
#[tokio::test(start_paused = true)]
async fn an_abort_that_cannot_refuse_what_is_held_fails() {
    let shared = with_pill();
    let agent = agent([Script::text("Hi.")]);
    let (handle, _events) = run(&agent, shared.owner().without_receipts()).await;
    let aborted = handle.send(InputEvent::Abort(AbortRequest::new())).await;
    assert!(matches!(aborted, Err(InputError::Memory(_))), "{aborted:?}");
    sleep(Duration::from_secs(31)).await;
    handle.wait_for_idle().await;
    handle.close().await;
    assert_eq!((shared.inputs(), shared.receipts()), (vec![], vec![None]));
    assert_eq!(info(&shared, 1).held.map(|held| held.unread), Some(1));

    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.abort().await.unwrap();
    assert_eq!(shared.receipts(), [refused(InputError::Dropped)]);
    assert_eq!(info(&shared, 0).held, None);
}

/// C397: An owner that cannot read whether work has to be held does none of it. The next owner
/// holds it.
#[tokio::test(start_paused = true)]
async fn nothing_is_taken_before_it_is_known_whether_it_is_held() {
    let shared = with_pill();
    let agent = agent([Script::text("Hi.")]);
    let (handle, mut events) = run(&agent, shared.owner().failing_reads(1)).await;
    while events.next().await.is_some() {}
    assert_eq!(handle.send(InputEvent::ClearQueues).await, Err(InputError::Gone));
    assert_eq!((shared.inputs(), info(&shared, 1).held), (vec![], None));
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.wait_for_idle().await;
    handle.close().await;
    assert_eq!(shared.inputs(), Vec::<String>::new());
    assert_eq!(info(&shared, 1).held.map(|held| held.unread), Some(1));
}

/// C400: The held state does not count decisions, so a later decision is due.
#[tokio::test(start_paused = true)]
async fn a_decision_that_changes_nothing_hides_no_later_one() {
    let shared = with_pill();
    let late = InputEvent::Abort(AbortRequest::new().run(RunId(7)));
    shared.post(PostedInput::new("late", late).unwrap());
    let agent = agent([Script::text("Hi.")]);
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.wait_for_idle().await;
    handle.close().await;
    assert_eq!(shared.receipts(), [None, refused(InputError::NothingToAbort(RunId(7)))]);
    assert_eq!((info(&shared, 1).due, info(&shared, 2).due), (None, Some(Due::Inbox)));
}

/// C400: A session whose log fails ends, although more inputs wait than it could note.
#[tokio::test(start_paused = true)]
async fn a_held_session_whose_log_fails_ends() {
    let shared = with_pill();
    let agent = agent([]);
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.wait_for_idle().await;
    handle.close().await;
    shared.post(request("later", "Hello"));
    let full = shared.entries().len() as u64 + 1; // it can be opened
    let (handle, _events) = run(&agent, shared.owner().failing_after(full)).await;
    handle.wait_for_idle().await;
    handle.close().await;
    assert_eq!((shared.inputs(), shared.receipts()), (vec![], vec![None, None]));
}

/// C400: While work is held, no deadline passes, because the default would continue it.
#[tokio::test(start_paused = true)]
async fn no_default_is_taken_while_work_is_held() {
    let (shared, pay) = (SharedSession::opened(), TestTool::new("pay"));
    let spec = |spec: ToolSpec| {
        let options = ActionOptions::new().deadline(ms(1_000));
        spec.approval(Approval::Always).action_options(options)
    };
    let agent = GenericAgent::builder(ScriptedModel::new([calls(&["pay"])]), PiPattern)
        .environment(shared.clock())
        .tool(pay.clone().spec(spec))
        .build()
        .unwrap();
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.prompt("go").await.unwrap();
    handle.close().await;
    let mut log = shared.entries();
    let takes = || LogEntry::Owner { note: OwnerNote::TakesMail };
    log.extend([opened(2), takes(), opened(3), takes()]);
    let shared = SharedSession::with(log);
    shared.post(request("pill", "Kill."));
    let (handle, _events) = run(&agent, shared.owner()).await;
    sleep(Duration::from_secs(60)).await;
    handle.wait_for_idle().await;
    handle.close().await;
    let info = info(&shared, 1);
    assert_eq!((info.held.map(|held| held.unread), info.pending.len()), (Some(1), 1));
    assert_eq!((info.due_at(u64::MAX), info.wakes_at()), (None, None));
    let is_decided = |entry: &LogEntry| matches!(entry, LogEntry::Decided { .. });
    assert!(!shared.entries().iter().any(is_decided) && shared.receipts() == [None]);
}

/// C400: An input that an owner has refused, and an owner that leaves, do not count as losses.
#[tokio::test(start_paused = true)]
async fn an_owner_that_leaves_after_a_refusal_is_no_loss() {
    let shared = SharedSession::opened();
    let agent = agent([Script::text("Hi.")]);
    for number in 0..4 {
        let stop = InputEvent::Abort(AbortRequest::new().run(RunId(7)));
        shared.post(PostedInput::new(format!("no {number}"), stop).unwrap());
        let (handle, _events) = run(&agent, shared.owner()).await;
        handle.wait_for_idle().await;
        handle.close().await;
    }
    assert_eq!(shared.receipts(), vec![refused(InputError::NothingToAbort(RunId(7))); 4]);
    assert!(!info(&shared, 0).has_lost_owner() && info(&shared, 0).held.is_none());
}
