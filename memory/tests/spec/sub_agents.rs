//! Sub-agents with sessions in files: each pays once, for every two logs that a crash can leave.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use loopwright_core::event::{Decision, ExternalAction};
use loopwright_core::log::LogEntry;
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{Script, ScriptedModel, TreeInput, crash_tree};
use loopwright_core::tool::{Approval, Effect, ToolSpec};
use loopwright_core::{GenericAgent, SessionStore, Tool, ToolContext, ToolError, ToolOutput};
use loopwright_memory::{Jsonl, Sqlite};
use loopwright_patterns::PiPattern;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::directory;

/// The sub-agents, each with the call for which it works.
const SUB_AGENTS: [(&str, &str); 3] = [("a", "alice"), ("b", "bob"), ("c", "carol")];

/// The sessions that have paid since the last crash.
type Paid = Arc<Mutex<Vec<Arc<str>>>>;

/// A tool that pays, with approval, once.
struct Pay {
    spec: Arc<ToolSpec>,
    paid: Paid,
}

#[async_trait]
impl Tool for Pay {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, _: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.paid.lock().unwrap().push(cx.session_id().into());
        Ok("paid".into())
    }
}

fn child_replies(request: &ChatRequest) -> Script {
    match request.messages.last().and_then(|message| message.as_tool_result()) {
        Some(result) => Script::text(&format!("{:?}", result.status)),
        None => Script::calls([("p", "pay", json!({}))]),
    }
}

fn root_replies(request: &ChatRequest) -> Script {
    match request.messages.iter().any(|message| message.as_tool_result().is_some()) {
        true => Script::text("They have paid."),
        false => Script::calls(SUB_AGENTS.map(|(id, name)| (id, name, json!({ "task": "Pay." })))),
    }
}

fn agent(paid: &Paid) -> GenericAgent {
    let spec = ToolSpec::with_schema("pay", "Pays.", json!({ "type": "object" }));
    let spec = spec.effect(Effect::AtMostOnce).approval(Approval::Always);
    let spec = Arc::new(spec);
    let child = || {
        let model = ScriptedModel::new([]).reply_with(child_replies);
        let pay = Pay { spec: spec.clone(), paid: paid.clone() };
        GenericAgent::builder(model, PiPattern).tool(pay).build().unwrap()
    };
    let builder = GenericAgent::builder(ScriptedModel::new([]).reply_with(root_replies), PiPattern);
    let add =
        |builder, (_, name)| loopwright_core::AgentBuilder::child(builder, name, "Pays.", child());
    SUB_AGENTS.into_iter().fold(builder, add).build().unwrap()
}

/// Counts in the logs how often each sub-agent has started to pay.
async fn payments(store: &impl SessionStore) -> Vec<usize> {
    let root = store.read("root", 0).await.unwrap();
    let mut counts = Vec::new();
    for session in root.iter().filter_map(LogEntry::sub_agent) {
        let log = store.read(session, 0).await.unwrap_or_default();
        let starts = log.iter().filter(|entry| matches!(entry, LogEntry::CallStarted { .. }));
        counts.push(starts.count());
    }
    counts
}

/// Crashes at every pair of cuts, with a new store for each crash, and checks the number of
/// payments after each.
async fn crash<S: SessionStore + Clone + 'static>(
    open: impl Fn(&Path) -> S,
    react: fn(&ExternalAction) -> Option<TreeInput>,
    expected: &[usize],
) {
    let paid = Paid::default();
    let last: RefCell<Option<(TempDir, S)>> = RefCell::default();
    let check = async || {
        let ran = std::mem::take(&mut *paid.lock().unwrap());
        let once: BTreeSet<_> = ran.iter().collect();
        assert_eq!(once.len(), ran.len(), "a session pays twice: {ran:?}");
        if let Some((_directory, store)) = last.take() {
            assert_eq!(payments(&store).await, expected);
        }
    };
    let store = async || {
        check().await;
        let directory = directory();
        let store = open(directory.path());
        *last.borrow_mut() = Some((directory, store.clone()));
        store
    };
    let report = crash_tree(|| agent(&paid), "Let them pay.", react, store).await.unwrap();
    check().await;
    assert_eq!(report.sessions, 4);
    assert!(report.crashes > 2 * report.appends, "{report:?}");
}

fn approve(_: &ExternalAction) -> Option<TreeInput> {
    Some(Decision::Approve.into())
}

/// Approves the action of alice, and aborts at the next one.
fn abort_after_alice(action: &ExternalAction) -> Option<TreeInput> {
    match &*action.path[0] {
        "alice" => Some(Decision::Approve.into()),
        _ => Some(TreeInput::Abort),
    }
}

/// C165: with sessions in one SQLite file, no pair of cuts loses a payment or repeats one.
#[tokio::test]
async fn sub_agents_in_sqlite_survive_a_crash_at_every_pair_of_cuts() {
    let open = |folder: &Path| Sqlite::open(folder.join("sessions.db")).unwrap();
    crash(open, approve, &[1, 1, 1]).await;
    crash(open, abort_after_alice, &[1, 0, 0]).await;
}

/// C165: with a file for each session, no pair of cuts loses a payment or repeats one.
#[tokio::test]
async fn sub_agents_in_files_survive_a_crash_at_every_pair_of_cuts() {
    let open = |folder: &Path| Jsonl::open(folder).unwrap();
    crash(open, approve, &[1, 1, 1]).await;
    crash(open, abort_after_alice, &[1, 0, 0]).await;
}
