//! Checks of mailboxes, of stores that have them.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use futures::future::{Either, select};
use loopwright_core::agent::InputError;
use loopwright_core::event::{ActionResult, Decision, InputEvent, Prompt};
use loopwright_core::log::{
    Due, InputReceipt, LogEntry, Mailbox, MemoryError, PostedInput, SessionInfo,
};
use loopwright_core::{Memory, Principal, SessionStore};
use serde_json::json;

use super::expect::{Checked, append, broken, expect_absent, expect_eq, ids, open_session};
use super::samples;

/// Timeout for a session to notice a posted input.
const POSTED_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn check(store: &dyn SessionStore) -> Checked {
    if store.post("missing", &steer("i", "x")?).await == Err(MemoryError::NoMailbox) {
        return Ok(()); // a mailbox is optional
    }
    missing(store).await?;
    posted(store).await?;
    acknowledged(store).await?;
    known(store).await?;
    removed(store).await
}

fn steer(id: &str, text: &str) -> Result<PostedInput, String> {
    input(id, InputEvent::Steer(text.into()))
}

fn input(id: &str, event: InputEvent) -> Result<PostedInput, String> {
    PostedInput::new(id, event).map_err(|e| broken("a steer, a request or a decision is posted", e))
}

/// Returns the mailbox of an open session.
fn mailbox(memory: &dyn Memory) -> Result<&dyn Mailbox, String> {
    let rule = "a store that takes posted inputs opens sessions with a mailbox";
    memory.mailbox().ok_or_else(|| broken(rule, "`Memory::mailbox` returns None"))
}

async fn post(store: &dyn SessionStore, session: &str, input: &PostedInput) -> Checked {
    expect_post(store, session, input, None, "a new input is posted and has no receipt").await
}

async fn expect_post(
    store: &dyn SessionStore,
    session: &str,
    input: &PostedInput,
    receipt: Option<InputReceipt>,
    rule: &str,
) -> Checked {
    let observed = store.post(session, input).await;
    expect_eq(&observed, &Ok(receipt), rule)
}

async fn expect_unread(memory: &dyn Memory, expected: &[&PostedInput], rule: &str) -> Checked {
    let unread = mailbox(memory)?.unread().await.map_err(|e| broken(rule, e))?;
    let text = |input: &PostedInput| json!({ "id": input.id, "event": input.event }).to_string();
    let times: Vec<Option<u64>> = unread.iter().map(|input| input.time).collect();
    let is_timed = times.is_sorted() && times.iter().all(Option::is_some);
    expect_eq(&is_timed, &true, "a posted input has the time of its posting")?;
    let observed: Vec<String> = unread.iter().map(text).collect();
    let expected: Vec<String> = expected.iter().map(|input| text(input)).collect();
    expect_eq(&observed, &expected, rule)
}

/// Waits until the session notices a posted input.
async fn expect_posted(memory: &dyn Memory, rule: &str) -> Checked {
    let (done, timeout) = oneshot::channel::<()>();
    thread::spawn(move || {
        let start = Instant::now();
        while start.elapsed() < POSTED_TIMEOUT && !done.is_canceled() {
            thread::park_timeout(POSTED_TIMEOUT / 100);
        }
    });
    match select(mailbox(memory)?.posted(), timeout).await {
        Either::Left(_) => Ok(()),
        Either::Right(_) => Err(broken(rule, format_args!("nothing after {POSTED_TIMEOUT:?}"))),
    }
}

async fn info(store: &dyn SessionStore, session: &str) -> Result<SessionInfo, String> {
    store.session(session).await.map_err(|e| broken("`session` describes a session", e))
}

/// Opens a session and appends an entry.
async fn opened(store: &dyn SessionStore, session: &str) -> Result<Arc<dyn Memory>, String> {
    let memory = open_session(store, session).await?;
    append(&*memory, 0, &[samples::remembered("first")]).await?;
    Ok(memory)
}

async fn missing(store: &dyn SessionStore) -> Checked {
    let rule = "an input for a missing session is refused with NoSession, and creates none";
    let none = Err(MemoryError::NoSession("missing".into()));
    expect_eq(&store.post("missing", &steer("i", "x")?).await, &none, rule)?;
    let memory = open_session(store, "missing").await?;
    expect_eq(&store.post("missing", &steer("i", "x")?).await, &none, rule)?;
    drop(memory);
    expect_absent(store, "missing", rule).await
}

/// Checks that inputs are posted once each, in order and unchanged, and that they are due.
async fn posted(store: &dyn SessionStore) -> Checked {
    let memory = opened(store, "mail").await?;
    let now = async || {
        let now = mailbox(&*memory)?.now().await;
        now.map_err(|e| broken("the owner reads the clock of the store", e))
    };
    let before = now().await?;
    let rule = "a mailbox has the posted inputs in order, once each, and unchanged";
    expect_unread(&*memory, &[], rule).await?;
    let odd = (*samples::odd_json()).clone();
    let decision = ActionResult::new(samples::ODD, "d", Decision::ApproveWith(odd));
    let all = [
        steer("z", samples::ODD)?,
        input("a", InputEvent::ExternalActionResult(decision.by("ann")))?,
        input(
            samples::ODD,
            InputEvent::UserRequest(Prompt::from("").with(Principal::new(samples::ODD))),
        )?,
    ];
    for input in &all {
        post(store, "mail", input).await?;
        expect_post(store, "mail", input, None, rule).await?;
    }
    expect_unread(&*memory, &all.iter().collect::<Vec<_>>(), rule).await?;
    let unread = mailbox(&*memory)?.unread().await.map_err(|e| broken(rule, e))?;
    let (first, after) = (unread.first().and_then(|input| input.time), now().await?);
    let last = unread.last().and_then(|input| input.time);
    let rule = "the times of posted inputs are those of the clock of the store";
    expect_eq(&(Some(before) <= first && last <= Some(after)), &true, rule)?;
    expect_posted(&*memory, "an open session learns of posted inputs").await?;
    let rule = "inputs without a receipt are counted, and due";
    let described = info(store, "mail").await?;
    expect_eq(&(described.unread, described.due), &(3, Some(Due::Inbox)), rule)?;
    append(&*memory, 1, &[samples::remembered("second")]).await?;
    let listed = store.sessions().await.map_err(|e| broken(rule, e))?;
    let listed = listed.iter().find(|info| *info.id == *"mail").map(|info| (info.unread, info.due));
    expect_eq(&listed, &Some((3, Some(Due::Inbox))), rule)?;
    drop(memory);
    let memory = open_session(store, "mail").await?;
    let rule = "the next owner finds the inputs that have no receipt";
    expect_unread(&*memory, &all.iter().collect::<Vec<_>>(), rule).await
}

async fn acknowledged(store: &dyn SessionStore) -> Checked {
    let refused = || InputReceipt::Refused(InputError::Full(32));
    let memory = opened(store, "receipts").await?;
    let mail = mailbox(&*memory)?;
    let (one, two, three) = (steer("one", "x")?, steer("two", "x")?, steer("three", "x")?);
    for input in [&one, &two] {
        post(store, "receipts", input).await?;
    }
    let acknowledge = async |id: &str, receipt: InputReceipt| {
        let written = mail.acknowledge(&id.into(), &receipt).await;
        written.map_err(|e| broken("the owner writes receipts", e))
    };
    acknowledge("one", InputReceipt::Accepted).await?;
    acknowledge("two", refused()).await?;
    let rule = "a receipt is returned to whoever posts its input again, and never replaced";
    acknowledge("one", refused()).await?;
    acknowledge("two", InputReceipt::Accepted).await?;
    expect_post(store, "receipts", &one, Some(InputReceipt::Accepted), rule).await?;
    expect_post(store, "receipts", &two, Some(refused()), rule).await?;
    expect_eq(&mail.receipt(&"two".into()).await, &Ok(Some(refused())), rule)?;
    expect_unread(&*memory, &[], "an input with a receipt is not unread").await?;
    let described = info(store, "receipts").await?;
    expect_eq(&(described.unread, described.due), &(0, None), "no input is unread")?;
    let rule = "the refusal of an input that was not posted is recorded, its acceptance is not";
    acknowledge("three", InputReceipt::Accepted).await?;
    expect_eq(&mail.receipt(&"three".into()).await, &Ok(None), rule)?;
    acknowledge("three", refused()).await?;
    expect_post(store, "receipts", &three, Some(refused()), rule).await?;
    expect_unread(&*memory, &[], rule).await?;
    memory.close().await;
    let Ok(next) = store.open("receipts").await else { return Ok(()) };
    let rule = "an owner that was replaced writes no receipt";
    let stale = mail.acknowledge(&"four".into(), &refused()).await;
    let is_lost = stale.as_ref().is_err_and(MemoryError::is_lost);
    drop(next);
    if is_lost { Ok(()) } else { Err(broken(rule, format_args!("{stale:?}"))) }
}

/// Checks that an id in the log needs no posting.
async fn known(store: &dyn SessionStore) -> Checked {
    let rule = "an input whose id is in the log is accepted already";
    let memory = opened(store, "known").await?;
    let entries = [
        LogEntry::Handled { input: "handled".into() },
        LogEntry::AbortRequested { input: "aborted".into() },
        samples::run(1, 1, "x")[0].clone(), // the request `i1`
    ];
    append(&*memory, 1, &entries).await?;
    for id in ["handled", "aborted", "i1"] {
        let accepted = Some(InputReceipt::Accepted);
        expect_post(store, "known", &steer(id, "x")?, accepted, rule).await?;
    }
    expect_unread(&*memory, &[], rule).await
}

/// Checks that a mailbox is deleted with its session, and stays with it when it is forked.
async fn removed(store: &dyn SessionStore) -> Checked {
    let one = steer("one", "x")?;
    let memory = open_session(store, "mailed").await?;
    append(&*memory, 0, &samples::run(1, 1, "x")).await?;
    post(store, "mailed", &one).await?;
    let rule = "a fork does not have the mailbox of its parent";
    store.fork("mailed", None, "forked").await.map_err(|e| broken(rule, e))?;
    expect_eq(&info(store, "forked").await?.unread, &0, rule)?;
    let fork = open_session(store, "forked").await?;
    expect_unread(&*fork, &[], rule).await?;
    post(store, "forked", &one).await?;
    expect_unread(&*memory, &[&one], rule).await?;
    drop((memory, fork));
    let rule = "a mailbox is deleted with its session";
    for session in ["forked", "mailed"] {
        store.delete(session).await.map_err(|e| broken(rule, e))?;
    }
    let memory = opened(store, "mailed").await?;
    expect_unread(&*memory, &[], rule).await?;
    post(store, "mailed", &one).await
}

/// Checks that an input posted through one opening of a store reaches the owner in another one, and
/// is kept. `reopened` opens the store once more.
pub(super) async fn check_reopened<S: SessionStore>(
    reopened: impl AsyncFn() -> Result<S, String>,
) -> Checked {
    let first = reopened().await?;
    let memory = opened(&first, "mail").await?;
    let second = reopened().await?;
    let one = steer("one", "x")?;
    if second.post("mail", &one).await == Err(MemoryError::NoMailbox) {
        return Ok(());
    }
    let rule = "an input that another opening of the store has posted reaches the owner";
    expect_posted(&*memory, rule).await?;
    expect_unread(&*memory, &[&one], rule).await?;
    drop((memory, first, second));
    let third = reopened().await?;
    expect_eq(&info(&third, "mail").await?.unread, &1, "posted inputs are kept")?;
    let listed = third.sessions().await.map_err(|e| broken("sessions can be listed", e))?;
    expect_eq(
        &ids(listed.iter().map(|info| &*info.id)),
        &ids(["mail"]),
        "a mailbox is no session",
    )?;
    third.delete("mail").await.map_err(|e| broken("a session with mail can be deleted", e))
}
