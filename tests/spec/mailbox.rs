//! The durable mailbox: inputs that other processes post to a session.
//!
//! A model checker found the rules necessary. Each test fails without its rule.

mod deadlines;
mod due;
mod held;
mod kit;
mod releases;
mod room;
mod signals;
mod waits;

use async_trait::async_trait;

use crate::kit::*;
use kit::{Owner, SharedSession};

fn request(id: &str, text: &str) -> PostedInput {
    PostedInput::new(id, InputEvent::UserRequest(text.into())).unwrap()
}

fn steer(id: &str, text: &str) -> PostedInput {
    PostedInput::new(id, InputEvent::Steer(text.into())).unwrap()
}

fn decision(id: &str, action: &ExternalAction, decision: Decision) -> PostedInput {
    let result = ActionResult::new(action.call.clone(), action.digest.clone(), decision);
    PostedInput::new(id, InputEvent::ExternalActionResult(result.by("bob"))).unwrap()
}

fn refused(why: InputError) -> Option<InputReceipt> {
    Some(InputReceipt::Refused(why))
}

const ACCEPTED: Option<InputReceipt> = Some(InputReceipt::Accepted);

fn agent(replies: impl IntoIterator<Item = Script>) -> GenericAgent {
    GenericAgent::builder(ScriptedModel::new(replies), PiPattern).build().unwrap()
}

async fn run(agent: &GenericAgent, owner: Owner) -> (AgentHandle, EventStream) {
    agent.run(RunContext::new().session("s").memory(owner)).await.unwrap()
}

/// C212: inputs posted while nobody had opened the session are handled at the next opening, in the
/// order of posting. Each input has a receipt.
#[tokio::test(start_paused = true)]
async fn an_opening_takes_what_was_posted_in_the_order_of_posting() {
    let shared = SharedSession::opened();
    for input in [request("z", "one"), steer("a", "two"), request("m", "three")] {
        shared.post(input);
    }
    let agent = agent([Script::text("1"), Script::text("2")]);
    let (handle, _events) = run(&agent, shared.owner().without_hints()).await;
    handle.wait_for_idle().await;
    assert_eq!(shared.inputs(), ["z", "a", "m"]);
    assert_eq!(shared.receipts(), [ACCEPTED, ACCEPTED, ACCEPTED]);
    handle.close().await;
}

/// C212: the log comes first, then the receipt. An input that could not be logged has no receipt,
/// and the next owner takes it.
#[tokio::test(start_paused = true)]
async fn the_append_comes_before_the_receipt() {
    let shared = SharedSession::opened();
    let agent = agent([Script::text("1")]);
    let owner = shared.owner().failing_after(2);
    let (handle, _events) = run(&agent, owner).await;
    shared.post(request("i", "one"));
    handle.wait_for_idle().await;
    assert_eq!(shared.receipts(), [None]);
    handle.close().await;
    assert_eq!(shared.receipts(), [None]);
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.wait_for_idle().await;
    assert_eq!((shared.inputs(), shared.receipts()), (vec!["i".to_owned()], vec![ACCEPTED]));
    handle.close().await;
}

/// C212: an owner that was killed, or lost the session, between the append and the receipt has
/// delivered the input. Its id is accepted, and nothing is appended for it.
#[tokio::test(start_paused = true)]
async fn an_id_that_the_log_has_is_accepted_and_appends_nothing() {
    let shared = SharedSession::opened();
    shared.post(request("i", "one"));
    let (first, second) = (agent([Script::text("1")]), agent([Script::text("never")]));
    let (handle, _events) = run(&first, shared.owner().without_receipts()).await;
    handle.wait_for_idle().await;
    assert_eq!(shared.receipts(), [None]);
    handle.close().await;
    let before = shared.entries().len();
    let (handle, _events) = run(&second, shared.owner()).await;
    handle.wait_for_idle().await;
    assert_eq!((shared.inputs(), shared.receipts()), (vec!["i".to_owned()], vec![ACCEPTED]));
    assert_eq!(shared.entries().len(), before + 2, "only that it was opened, and reads its mail");
    handle.close().await;
}

/// C213: an owner that was replaced writes no refusal, and its own client learns of the loss.
#[tokio::test(start_paused = true)]
async fn a_replaced_owner_refuses_nothing() {
    for is_posted in [false, true] {
        let shared = SharedSession::opened();
        let (handle, _events) = run(&agent([]), shared.owner().without_hints()).await;
        if is_posted {
            shared.post(PostedInput::new("posted", InputEvent::Continue(None)).unwrap());
        }
        let _other = shared.owner();
        let direct = handle.send(InputEvent::Continue(None).with_id("direct")).await.unwrap_err();
        let is_loss = match &direct {
            InputError::Memory(error) => error.is_lost(),
            error => *error == InputError::Moved,
        };
        assert!(is_loss, "{direct:?}");
        handle.close().await;
        assert_eq!((shared.receipt("posted"), shared.receipt("direct")), (None, None));
    }
}

/// C213: an id has one answer. A refusal of an input that was sent directly to the owner is
/// recorded, and a direct input gets the recorded answer of its id.
#[tokio::test(start_paused = true)]
async fn direct_and_posted_inputs_of_one_id_have_one_answer() {
    let shared = SharedSession::opened();
    let agent = agent([Script::text("1")]);
    let (handle, _events) = run(&agent, shared.owner()).await;
    let nothing = InputEvent::Continue(None);
    let why = InputError::NothingToContinue;
    assert_eq!(handle.send(nothing.clone().with_id("a")).await, Err(why.clone()));
    assert_eq!(shared.receipt("a"), refused(why.clone()));

    shared.post(PostedInput::new("b", nothing.clone()).unwrap());
    handle.wait_for_idle().await;
    assert_eq!(shared.receipt("b"), refused(why.clone()));
    handle.prompt("go").await.unwrap();
    handle.steer("so that there is something to continue").await.unwrap();
    for id in ["a", "b"] {
        let copy = handle.send(nothing.clone().with_id(id)).await;
        let why = Box::new(why.clone());
        assert_eq!(copy, Err(InputError::AlreadyRefused { id: id.into(), why }));
    }
    handle.send(nothing.with_id("c")).await.unwrap();
    handle.close().await;
}

/// C213: copies of one input that are posted and sent to the owner at the same time are accepted
/// once.
#[tokio::test(start_paused = true)]
async fn a_posted_input_and_its_direct_copy_are_one() {
    let shared = SharedSession::opened();
    let agent = agent([Script::text("1"), Script::text("never")]);
    let (handle, _events) = run(&agent, shared.owner().without_hints()).await;
    shared.post(request("i", "one"));
    let request = InputEvent::UserRequest("one".into()).with_id("i");
    handle.send(request.clone()).await.unwrap();
    let waiting = handle.run(request).await;
    assert_eq!(waiting, Err(InputError::Known("i".into())));
    handle.wait_for_idle().await;
    assert_eq!((shared.inputs(), shared.receipts()), (vec!["i".to_owned()], vec![ACCEPTED]));

    // The copy gets the refusal, although a message between them would change that.
    shared.post(PostedInput::new("c", InputEvent::Continue(None)).unwrap());
    shared.post(steer("s", "two"));
    let copy = handle.send(InputEvent::Continue(None).with_id("c")).await;
    assert_eq!(copy, Err(InputError::NothingToContinue));
    assert_eq!(shared.receipt("c"), refused(InputError::NothingToContinue));
    handle.close().await;
}

/// C214: the mailbox is read before an input of the owner's own client.
#[tokio::test(start_paused = true)]
async fn what_was_posted_comes_before_a_direct_input() {
    let shared = SharedSession::opened();
    let gate = Gate::new();
    let agent = agent([Script::text("1").gate(&gate), Script::text("2")]);
    let (handle, mut events) = run(&agent, shared.owner().without_hints()).await;
    shared.post(request("p", "one"));
    handle.send(InputEvent::Steer("two".into()).with_id("s")).await.unwrap();
    assert_eq!(shared.inputs(), ["p", "s"], "while idle");
    until(&mut events, |event| matches!(event, AgentEvent::TurnStart { .. })).await;
    shared.post(steer("t", "three"));
    handle.send(InputEvent::FollowUp("four".into()).with_id("f")).await.unwrap();
    assert_eq!(shared.inputs(), ["p", "s", "t", "f"], "during a run");
    gate.open();
    handle.close().await;
}

/// C214: an owner reads its mailbox before it leaves, because the hint can be lost.
#[tokio::test(start_paused = true)]
async fn an_owner_takes_what_was_posted_before_it_leaves() {
    let shared = SharedSession::opened();
    let agent = agent([Script::text("1"), Script::text("2")]);
    let (handle, _events) = run(&agent, shared.owner().without_hints()).await;
    handle.prompt("zero").await.unwrap();
    shared.post(request("i", "one"));
    handle.close().await;
    assert_eq!(shared.receipts(), [ACCEPTED]);
    let ended = |entry: &&LogEntry| matches!(entry, LogEntry::RunEnded { .. });
    assert_eq!(shared.entries().iter().filter(ended).count(), 2, "and it was answered");
}

/// C214: an owner takes posted inputs while it is idle and while its model or tool works, even
/// without any handle. An abort does not wait for the end of the run.
#[tokio::test(start_paused = true)]
async fn an_owner_learns_of_posted_inputs_while_idle_and_during_a_run() {
    let shared = SharedSession::opened();
    let agent = agent([Script::new().hang()]);
    let (handle, mut events) = run(&agent, shared.owner()).await;
    shared.post(request("i", "one"));
    until(&mut events, |event| matches!(event, AgentEvent::TurnStart { .. })).await;
    shared.post(PostedInput::new("c", InputEvent::Continue(None)).unwrap());
    until_receipt(&shared, "c").await;
    assert_eq!(shared.receipt("c"), refused(InputError::Busy));
    let busy = handle.send(InputEvent::Continue(None).with_id("d")).await;
    assert_eq!((busy, shared.receipt("d")), (Err(InputError::Busy), refused(InputError::Busy)));
    drop(handle);
    let abort = InputEvent::Abort(AbortRequest::new().run(RunId(1)));
    shared.post(PostedInput::new("stop", abort).unwrap());
    until(
        &mut events,
        |event| matches!(event, AgentEvent::AgentEnd(end) if end.end == RunStatus::Aborted),
    )
    .await;
    while events.next().await.is_some() {}
    assert_eq!(shared.receipts(), [ACCEPTED, refused(InputError::Busy), ACCEPTED]);
}

/// C214: a steer posted before the end of a run is answered, even if the owner got no hint of it.
#[tokio::test(start_paused = true)]
async fn a_steer_that_was_posted_during_a_run_is_answered() {
    let shared = SharedSession::opened();
    let gate = Gate::new();
    let model = ScriptedModel::new([Script::text("1").gate(&gate), Script::text("2")]);
    let agent = GenericAgent::builder(model.clone(), PiPattern).build().unwrap();
    let (handle, mut events) = run(&agent, shared.owner().without_hints()).await;
    handle.send(InputEvent::UserRequest("one".into())).await.unwrap();
    until(&mut events, |event| matches!(event, AgentEvent::TurnStart { .. })).await;
    shared.post(steer("t", "three"));
    gate.open();
    handle.wait_for_idle().await;
    assert_eq!((model.requests().len(), shared.receipts()), (2, vec![ACCEPTED]));
    handle.close().await;
}

/// C212: a mailbox that temporarily cannot be read is read again.
#[tokio::test(start_paused = true)]
async fn a_failed_read_is_repeated() {
    let shared = SharedSession::opened();
    shared.post(request("i", "one"));
    let agent = agent([Script::text("1")]);
    let (handle, _events) = run(&agent, shared.owner().without_hints().failing_reads(2)).await;
    until_receipt(&shared, "i").await;
    assert_eq!(shared.receipts(), [ACCEPTED]);
    handle.close().await;
}

/// C212: a receipt that is being written does not keep the session from writing another, although
/// the memory writes one at a time.
#[tokio::test(start_paused = true)]
async fn receipts_do_not_wait_for_each_other() {
    let shared = SharedSession::opened();
    let (handle, _events) = run(&agent([]), shared.owner().slow(ms(1))).await;
    shared.post(PostedInput::new("f", InputEvent::FollowUp("one".into())).unwrap());
    while shared.inputs().is_empty() {
        tokio::task::yield_now().await;
    }
    let refused = handle.send(InputEvent::Continue(None).with_id("c"));
    let refused = tokio::time::timeout(ms(1_000), refused).await.expect("an answer");
    assert_eq!(refused, Err(InputError::NothingToContinue));
    handle.close().await;
    assert_eq!(shared.receipts(), [ACCEPTED]);
}

/// C215: a posted abort names its run, and stops no other run. Inputs that could stop another run
/// cannot be posted at all.
#[tokio::test(start_paused = true)]
async fn a_posted_abort_stops_the_run_that_it_names() {
    for event in [InputEvent::Abort(AbortRequest::new()), InputEvent::Reset] {
        let why = PostedInput::new("i", event).unwrap_err();
        assert!(matches!(why, InputError::NotPostable(_)), "{why}");
    }
    let shared = SharedSession::opened();
    let gate = Gate::new();
    let agent = agent([Script::text("1"), Script::text("2").gate(&gate)]);
    let (handle, mut events) = run(&agent, shared.owner()).await;
    handle.prompt("one").await.unwrap();
    handle.send(InputEvent::UserRequest("two".into())).await.unwrap();
    until(&mut events, |event| matches!(event, AgentEvent::AgentEnd(_))).await;
    until(&mut events, |event| matches!(event, AgentEvent::TurnStart { .. })).await;
    let late = InputEvent::Abort(AbortRequest::new().run(RunId(1)));
    shared.post(PostedInput::new("late", late).unwrap());
    until_receipt(&shared, "late").await;
    assert_eq!(shared.receipt("late"), refused(InputError::NothingToAbort(RunId(1))));
    gate.open();
    until(
        &mut events,
        |event| matches!(event, AgentEvent::AgentEnd(end) if end.end == RunStatus::Done),
    )
    .await;
    handle.close().await;
}

async fn until_receipt(shared: &SharedSession, id: &str) {
    while shared.receipt(id).is_none() {
        sleep(ms(1)).await;
    }
}

/// C215: inputs of a handle can be posted, and are refused for the same reasons: requests with an
/// output schema, decisions, continuations, and the withdrawal of queued messages.
#[tokio::test(start_paused = true)]
async fn posted_inputs_do_what_direct_ones_do() {
    let shared = SharedSession::opened();
    let tool = TestTool::new("pay").spec(|spec| spec.approval(Approval::Always));
    let model = ScriptedModel::new([calls(&["pay"]), Script::text("7"), Script::text("8")]);
    let agent = GenericAgent::builder(model.clone(), PiPattern).tool(tool.clone());
    let agent = agent.build().unwrap();
    let (handle, _events) = run(&agent, shared.owner()).await;
    let send = async |input: PostedInput| {
        let id = input.id.clone();
        shared.post(input);
        until_receipt(&shared, &id).await;
        handle.wait_for_idle().await;
        shared.receipt(&id)
    };
    let typed = InputEvent::UserRequest(Prompt::from("one").output::<u32>());
    assert_eq!(send(PostedInput::new("typed", typed).unwrap()).await, ACCEPTED);
    let action = handle.pending().await.unwrap().remove(0);
    let mut wrong = action.clone();
    wrong.digest = "wrong".into();
    let approve = |id| decision(id, &action, Decision::Approve);
    let differs = InputError::DigestDiffers(action.call.clone());
    assert_eq!(send(decision("wrong", &wrong, Decision::Approve)).await, refused(differs));
    assert_eq!(send(approve("yes")).await, ACCEPTED);
    let late = InputError::NotPending(action.call.clone());
    assert_eq!(send(approve("late")).await, refused(late));
    assert_eq!(tool.ran(), 1);
    let state = handle.state().await.unwrap();
    assert_eq!(state.messages.last().unwrap().text(), "7");
    let decided = |entry: &LogEntry| match entry {
        LogEntry::Decided { by, .. } => by.clone(),
        _ => None,
    };
    assert_eq!(shared.entries().iter().find_map(decided).as_deref(), Some("bob"));
    let follow_up = InputEvent::FollowUp("queued".into());
    assert_eq!(send(PostedInput::new("f", follow_up).unwrap()).await, ACCEPTED);
    let clear = PostedInput::new("clear", InputEvent::ClearQueues).unwrap();
    assert_eq!(send(clear).await, ACCEPTED);
    assert!(handle.state().await.unwrap().follow_up_queue.is_empty());
    let more = InputEvent::Continue(Some("go on".into()));
    assert_eq!(send(PostedInput::new("more", more).unwrap()).await, ACCEPTED);
    assert_eq!(model.requests().len(), 3);
    handle.close().await;
}

/// C216: the principal of a posted request is its run's principal, and is in the log. A call that
/// is decided later, in another process, has it too.
#[tokio::test(start_paused = true)]
async fn the_principal_of_a_request_is_durable() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let who = tool_fn("who", "Returns who asks.", async |_: Nothing, cx| {
        Ok::<_, ToolError>(cx.principal().map_or("nobody".into(), |who| who.to_string()))
    });
    let who = Arc::new(who.approval(Approval::Always)) as Arc<dyn Tool>;
    let agent = |replies: Vec<Script>| {
        let builder = GenericAgent::builder(ScriptedModel::new(replies), PiPattern);
        builder.tools([who.clone()]).build().unwrap()
    };
    let shared = SharedSession::opened();
    let (handle, _events) = run(&agent(vec![calls(&["who"])]), shared.owner()).await;
    let prompt = Prompt::from("Who am I?").with(Principal::new("ann"));
    shared.post(PostedInput::new("i", InputEvent::UserRequest(prompt)).unwrap());
    until_receipt(&shared, "i").await;
    handle.wait_for_idle().await;
    let action = handle.pending().await.unwrap().remove(0);
    handle.close().await;

    shared.post(decision("yes", &action, Decision::Approve));
    let other = agent(vec![Script::text("done"), calls(&["who"])]);
    let cx = RunContext::new().session("s").memory(shared.owner()).with(Principal::new("host"));
    let (handle, _events) = other.run(cx).await.unwrap();
    handle.wait_for_idle().await;
    let state = handle.state().await.unwrap();
    let result = state.messages.iter().find_map(|message| message.as_tool_result());
    assert_eq!(result.unwrap().text(), "ann");
    // The next request names nobody, so it is the host's.
    handle.prompt("And now?").await.unwrap();
    let action = handle.pending().await.unwrap().remove(0);
    handle.approve(&action).await.unwrap();
    handle.wait_for_idle().await;
    let state = handle.state().await.unwrap();
    let result = state.messages.iter().rev().find_map(|message| message.as_tool_result());
    assert_eq!(result.unwrap().text(), "host");
    handle.close().await;
}

/// C217: a store without mailboxes reports that, and nothing else changes. The session of a
/// sub-agent takes inputs only through its root.
#[tokio::test(start_paused = true)]
async fn a_mailbox_is_optional_and_belongs_to_roots() {
    struct NoMailboxes(InMemoryStore);

    #[async_trait]
    impl SessionStore for NoMailboxes {
        async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
            self.0.open(session).await
        }

        async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
            self.0.read(session, from).await
        }

        async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
            self.0.sessions().await
        }

        async fn delete(&self, session: &str) -> Result<(), MemoryError> {
            self.0.delete(session).await
        }
    }
    let store = Arc::new(NoMailboxes(InMemoryStore::new()));
    let posted = store.post("s", &request("i", "one")).await;
    assert_eq!(posted, Err(MemoryError::NoMailbox));

    let store = InMemoryStore::new();
    let mut parent = Parent::new("root", "call");
    parent.root = Some("root".into());
    let opened = LogEntry::Opened { epoch: 1, time: 1, parent: Some(parent.into()), owner: None };
    store.open("child").await.unwrap().append(0, [opened].into()).await.unwrap();
    let posted = store.post("child", &request("i", "one")).await;
    assert!(matches!(posted, Err(MemoryError::SubAgent { .. })), "{posted:?}");
}

/// C217: a mailbox that nobody reads does not grow without limit.
#[tokio::test(start_paused = true)]
async fn a_full_mailbox_refuses_more() {
    let store = InMemoryStore::new();
    store.open("s").await.unwrap().append(0, [LogEntry::Reset].into()).await.unwrap();
    for n in 0..MAX_UNREAD_INPUTS {
        assert_eq!(store.post("s", &steer(&n.to_string(), "x")).await, Ok(None));
    }
    let full = MemoryError::MailboxFull { session: "s".into(), unread: MAX_UNREAD_INPUTS };
    assert_eq!(store.post("s", &steer("more", "x")).await, Err(full));
    assert_eq!(store.post("s", &steer("1", "x")).await, Ok(None), "it waits already");
}
