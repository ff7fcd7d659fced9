//! The process with sub-agents that is killed. Three sub-agents pay with approval, one of them
//! through a sub-agent of its own. Each payment is a line of a ledger, which is flushed to disk.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{AgentHandle, ToolError};
use loopwright_core::{agent::*, event::*, message::*, tool::*};
use loopwright_patterns::PiPattern;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::case::next_random;
use crate::child::open_for_append;
use crate::stores::Kind;

/// The environment variable with the [`Orders`] of a process.
pub(crate) const ORDERS: &str = "LOOPWRIGHT_FAMILY_ORDERS";

/// The sub-agents of the root.
const CHILDREN: [&str; 3] = ["alice", "bob", "carol"];

/// The orders of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) store: Kind,
    /// The directory of the store.
    pub(crate) directory: PathBuf,
    pub(crate) session: String,
    /// The folder of the files `ledger` and `receipts`.
    pub(crate) record: PathBuf,
    pub(crate) user: User,
    /// The seed for the order of decisions, and for whether they come while other sub-agents work.
    pub(crate) seed: u64,
}

/// The reaction of the user to pending actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum User {
    Approves,
    /// Denies the action of bob.
    Denies,
    /// Aborts the run at the action of carol's sub-agent.
    Aborts,
}

impl User {
    pub(crate) const ALL: [User; 3] = [User::Approves, User::Denies, User::Aborts];

    /// Returns the input for an action, and its id.
    fn react(self, action: &ExternalAction) -> (String, InputEvent) {
        let id = format!("decision-{}", action.call);
        let decision = match (self, &*action.path[0]) {
            (User::Aborts, "carol") => {
                return ("abort".into(), InputEvent::Abort(AbortRequest::new()));
            }
            (User::Denies, "bob") => Decision::Deny("no".into()),
            _ => Decision::Approve,
        };
        let result = ActionResult::new(action.call.clone(), action.digest.clone(), decision);
        (id, InputEvent::ExternalActionResult(result.by("the user")))
    }
}

/// A tool whose effect is a line of the ledger.
struct Pay {
    spec: Arc<ToolSpec>,
    ledger: Arc<File>,
}

#[async_trait]
impl Tool for Pay {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, _: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        write_line(&self.ledger, cx.session_id());
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok("paid".into())
    }
}

/// Writes a line and flushes it to disk.
fn write_line(mut file: &File, line: &str) {
    file.write_all(format!("{line}\n").as_bytes()).expect("a line is written");
    file.sync_data().expect("a line is flushed");
}

/// Returns a model that makes these calls, and then replies with their results.
fn model(calls: &[(&'static str, &'static str)]) -> ScriptedModel {
    let calls = calls.to_vec();
    let pause = Duration::from_millis(1);
    ScriptedModel::new([]).discard_requests().reply_with(move |request| {
        let results = request.messages.iter().filter_map(|message| message.as_tool_result());
        let texts: Vec<String> = results.map(|result| result.text()).collect();
        let script = Script::new().stream(["Let ", "me "].map(String::from), pause);
        let script = match texts.is_empty() {
            false => script.say(&texts.join(",")),
            true => calls.iter().fold(script, |script, (id, name)| {
                script.call(id, name, &json!({ "task": "Pay." }).to_string()).wait(pause)
            }),
        };
        script.usage(Usage::new(100, 10))
    })
}

fn agent(ledger: &Arc<File>) -> GenericAgent {
    let spec = ToolSpec::with_schema("pay", "Pays.", json!({ "type": "object" }));
    let spec = Arc::new(spec.effect(Effect::AtMostOnce).approval(Approval::Always));
    let payer = || {
        let pay = Pay { spec: spec.clone(), ledger: ledger.clone() };
        let builder = GenericAgent::builder(model(&[("p", "pay")]), PiPattern).tool(pay);
        builder.build().expect("an agent")
    };
    let indirect = GenericAgent::builder(model(&[("d", "dora")]), PiPattern);
    let indirect = indirect.child("dora", "Pays.", payer()).build().expect("an agent");
    let calls: Vec<_> = CHILDREN.into_iter().map(|name| (&name[..1], name)).collect();
    let root = GenericAgent::builder(model(&calls), PiPattern);
    let root = root.child("alice", "Pays.", payer()).child("bob", "Pays.", payer());
    root.child("carol", "Lets another one pay.", indirect).build().expect("an agent")
}

/// Runs the orders in the environment variable [`ORDERS`].
pub(crate) async fn run() {
    let orders = std::env::var(ORDERS).expect("the process has orders");
    let mut orders: Orders = serde_json::from_str(&orders).expect("the orders are JSON");
    let ledger = Arc::new(open_for_append(&orders.record.join("ledger")));
    let receipts = Arc::new(open_for_append(&orders.record.join("receipts")));
    for file in [&ledger, &receipts] {
        write_line(file, ""); // ends the line that a killed process was writing
    }
    let store = orders.store.open(&orders.directory).await;
    let cx = RunContext::new().stored(&store, &*orders.session).await;
    let cx = cx.expect("the session can be opened");
    let (handle, _events) = agent(&ledger).run(cx).await.expect("the session is resumed");
    let user = UserOf { user: orders.user, handle: handle.clone(), receipts };
    let decides_first = next_random(&mut orders.seed).is_multiple_of(2);
    let at_once = next_random(&mut orders.seed).is_multiple_of(2).then(|| {
        let (user, mut events) = (user.clone(), handle.subscribe());
        tokio::spawn(async move {
            while let Some(envelope) = events.next().await {
                if let AgentEvent::ExternalAction(action) = &envelope.event {
                    user.react(action).await;
                }
            }
        })
    });
    if decides_first {
        user.react_to_one(&mut orders.seed).await;
    }
    user.continue_run().await;
    user.send("request", InputEvent::UserRequest("Let them pay.".into())).await;
    loop {
        handle.wait_for_idle().await;
        if !user.react_to_one(&mut orders.seed).await && !user.continue_run().await {
            break;
        }
    }
    if let Some(task) = at_once {
        task.abort(); // it has a handle
        let _ = task.await;
    }
    handle.close().await;
}

/// A user of the session.
#[derive(Clone)]
struct UserOf {
    user: User,
    handle: AgentHandle,
    receipts: Arc<File>,
}

impl UserOf {
    /// Continues an interrupted run, or a run that is held after several interruptions. Returns
    /// `false` if no run can continue.
    async fn continue_run(&self) -> bool {
        let state = self.handle.state().await.expect("the session is open");
        if state.interrupted_run.is_none() && state.held.is_none() {
            return false;
        }
        match self.handle.continue_run().await {
            Ok(_) | Err(InputError::Busy) => true,
            Err(error) => panic!("an interrupted run does not continue: {error}"),
        }
    }

    /// Reacts to one of the pending actions. Returns `false` if no action is pending.
    async fn react_to_one(&self, seed: &mut u64) -> bool {
        let pending = self.handle.pending().await.expect("the session is open");
        if pending.is_empty() {
            return false;
        }
        let at = next_random(seed) as usize % pending.len();
        self.react(&pending[at]).await;
        true
    }

    async fn react(&self, action: &ExternalAction) {
        let (id, event) = self.user.react(action);
        self.send(&id, event).await;
    }

    async fn send(&self, id: &str, event: InputEvent) {
        match self.handle.send(event.with_id(id)).await {
            Ok(_) => write_line(&self.receipts, id),
            Err(InputError::NotPending(_)) => {} // decided, or aborted, in the meantime
            Err(error) => panic!("{id} is refused: {error}"),
        }
    }
}
