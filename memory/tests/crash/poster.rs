//! A process that shares a session with others. It owns the session from time to time, and sends
//! every input of a list, to the owner or through the mailbox, some of them repeatedly.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{AgentHandle, ToolError};
use loopwright_core::{agent::*, event::*, log::*, message::*, tool::*};
use loopwright_patterns::PiPattern;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::case::next_random;
use crate::child::open_for_append;
use crate::stores::Kind;

/// The environment variable with the [`Orders`] of a process.
pub(crate) const ORDERS: &str = "LOOPWRIGHT_POSTER_ORDERS";

/// Timeout for the receipt of an input before the next one is sent.
const RECEIPT_TIMEOUT: Duration = Duration::from_millis(200);

/// The orders of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) store: Kind,
    /// The directory of the store.
    pub(crate) directory: PathBuf,
    pub(crate) session: String,
    /// The folder of the file `answers`.
    pub(crate) record: PathBuf,
    /// The number of messages.
    pub(crate) messages: u64,
    /// The seed for the order of the inputs and the ways in which they are sent.
    pub(crate) seed: u64,
}

/// A line of the file `answers`: the answer to a sender.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) input: InputId,
    pub(crate) receipt: InputReceipt,
}

/// Returns a message of the list. Every tenth asks for a payment.
fn message(n: u64) -> PostedInput {
    let text = format!("message {n}{}", if n.is_multiple_of(10) { ": pay" } else { "" });
    let event = match n % 5 {
        0 | 1 => InputEvent::UserRequest(text.as_str().into()),
        2 => InputEvent::Steer(Prompt::from(&*text).urgency(Urgency::AfterTurn)),
        3 => InputEvent::Steer(text.as_str().into()),
        _ => InputEvent::FollowUp(text.as_str().into()),
    };
    PostedInput::new(format!("message-{n}"), event).expect("it can be posted")
}

fn agent() -> GenericAgent {
    let model = ScriptedModel::new([]).discard_requests().reply_with(|request| {
        let pays = request.messages.last().is_some_and(|message| message.text().contains("pay"));
        let script = Script::new().stream(["Let ", "me "].map(String::from), ms(1));
        match pays {
            true => script.call("p", "pay", "{}"),
            false => script.say("see."),
        }
    });
    #[derive(Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let pay = tool_fn("pay", "Pays.", async |_: Nothing, _| Ok::<_, ToolError>("done"));
    let pay = pay.approval(Approval::Always);
    GenericAgent::builder(model, PiPattern).tool(pay).build().expect("an agent")
}

const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

/// The handle of the session while this process owns it.
type Owned = Arc<Mutex<Option<AgentHandle>>>;

/// Runs the orders in the environment variable [`ORDERS`].
pub(crate) async fn run() {
    let orders = std::env::var(ORDERS).expect("the process has orders");
    let orders: Orders = serde_json::from_str(&orders).expect("the orders are JSON");
    let store = orders.store.open(&orders.directory).await;
    let owned = Owned::default();
    let owner = tokio::spawn(own(store.clone(), orders.clone(), owned.clone()));
    let answers = open_for_append(&orders.record.join("answers"));
    write_line(&answers, ""); // ends the line that a killed process was writing
    Sender { store, orders, owned, answers }.send_all().await;
    owner.abort(); // it owns the session in between only
    let _ = owner.await;
}

/// Writes a line and flushes it to disk.
fn write_line(mut file: &File, line: &str) {
    file.write_all(format!("{line}\n").as_bytes()).expect("a line is written");
    file.sync_data().expect("a line is flushed");
}

/// Opens the session whenever it is free, and closes it after a while.
async fn own(store: Arc<dyn SessionStore>, orders: Orders, owned: Owned) {
    let mut seed = !orders.seed;
    let agent = agent();
    loop {
        let pause = ms(next_random(&mut seed) % 20);
        let cx = match RunContext::new().stored(&store, &*orders.session).await {
            Err(MemoryError::InUse(_)) => {
                tokio::time::sleep(pause).await;
                continue;
            }
            cx => cx.expect("the session can be opened"),
        };
        let (handle, _events) = agent.run(cx).await.expect("the session is resumed");
        *owned.lock().expect("no task has panicked") = Some(handle.clone());
        let state = handle.state().await.expect("the session is open");
        if state.interrupted_run.is_some() || state.held.is_some() {
            let _ = handle.send(InputEvent::Continue(None)).await; // another input can be first
        }
        tokio::time::sleep(pause * 4).await;
        owned.lock().expect("no task has panicked").take();
        handle.close().await;
    }
}

struct Sender {
    store: Arc<dyn SessionStore>,
    orders: Orders,
    owned: Owned,
    answers: File,
}

impl Sender {
    /// Sends every message until it has an answer. Sends decisions and aborts in between.
    async fn send_all(mut self) {
        while let Err(MemoryError::NoSession(_)) = self.store.session(&self.orders.session).await {
            tokio::time::sleep(ms(1)).await; // a process opens it
        }
        let mut open: Vec<u64> = (0..self.orders.messages).collect();
        while !open.is_empty() {
            let at = self.random() as usize % open.len();
            if self.send(message(open[at])).await && !self.random().is_multiple_of(3) {
                open.swap_remove(at); // else it is sent once more
            }
            self.decide_or_abort().await;
        }
        while let Some(decision) = self.decision().await {
            self.send(decision).await;
        }
    }

    fn random(&mut self) -> u64 {
        next_random(&mut self.orders.seed)
    }

    async fn decide_or_abort(&mut self) {
        let input = match self.random() % 8 {
            0..4 => return,
            4 => self.abort().await,
            _ => self.decision().await,
        };
        if let Some(input) = input {
            self.send(input).await;
        }
    }

    /// Returns an approval of a pending action.
    async fn decision(&self) -> Option<PostedInput> {
        let info = self.store.session(&self.orders.session).await.expect("the session exists");
        let action = &info.pending.first()?.action;
        let result =
            ActionResult::new(action.call.clone(), action.digest.clone(), Decision::Approve);
        let event = InputEvent::ExternalActionResult(result);
        Some(
            PostedInput::new(format!("decision-{}", action.call), event).expect("it can be posted"),
        )
    }

    /// Returns an abort of the run in progress.
    async fn abort(&self) -> Option<PostedInput> {
        let info = self.store.session(&self.orders.session).await.expect("the session exists");
        let run = info.run?;
        let event = InputEvent::Abort(AbortRequest::new().run(run));
        Some(PostedInput::new(format!("abort-{run}"), event).expect("it can be posted"))
    }

    /// Sends an input and records the answer. Returns whether the answer has come.
    async fn send(&mut self, input: PostedInput) -> bool {
        let handle = self.owned.lock().expect("no task has panicked").clone();
        let receipt = match handle.filter(|_| !self.random().is_multiple_of(3)) {
            Some(handle) => {
                match handle.send(input.event.clone().with_id(input.id.clone())).await {
                    Ok(_) => InputReceipt::Accepted,
                    Err(InputError::Gone | InputError::Moved | InputError::Memory(_)) => {
                        return false;
                    }
                    Err(why) => InputReceipt::Refused(why),
                }
            }
            None => {
                let posted = post_and_wait(&self.store, &self.orders.session, &input);
                match tokio::time::timeout(RECEIPT_TIMEOUT, posted).await {
                    Err(_) => return false,
                    Ok(receipt) => receipt.expect("the input is posted"),
                }
            }
        };
        let line = json!(Answer { input: input.id, receipt }).to_string();
        write_line(&self.answers, &line);
        true
    }
}
