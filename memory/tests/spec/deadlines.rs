//! Deadlines of pending actions, with the clocks and the mailboxes of the stores on disk.

use std::time::Duration;

use loopwright_core::agent::{AgentBuilder, InputError};
use loopwright_core::event::{ActionResult, AgentEvent, Decision, InputEvent};
use loopwright_core::log::{AuditQuery, InputReceipt, PendingQuery, PostedInput, post_and_wait};
use loopwright_core::testing::{Script, ScriptedModel, TestTool};
use loopwright_core::tool::{ActionOptions, Approval};
use loopwright_core::{GenericAgent, RunContext, SessionStore};
use loopwright_memory::{Jsonl, Sqlite};
use loopwright_patterns::PiPattern;
use serde_json::json;

fn agent(deadline: Duration) -> AgentBuilder {
    let pay = TestTool::new("pay").spec(|spec| {
        let options = ActionOptions::new().deadline(deadline);
        spec.approval(Approval::Always).action_options(options)
    });
    let replies = [Script::calls([("a", "pay", json!({}))]), Script::text("ok")];
    GenericAgent::builder(ScriptedModel::new(replies), PiPattern).tool(pay)
}

/// C236 C237: with a store on disk, an idle owner takes the default after the deadline. A later
/// decision, through another opening of the store, gets an answer that reports it.
async fn the_default_is_taken<S: SessionStore + Clone + 'static>(store: &S, other: &S) {
    let agent = agent(Duration::from_millis(100)).build().unwrap();
    let cx = RunContext::new().stored(store, "s").await.unwrap();
    let (handle, mut events) = agent.run(cx).await.unwrap();
    handle.prompt("go").await.unwrap();
    let decided = async {
        loop {
            let event = events.next().await.unwrap();
            if let AgentEvent::ExternalActionEnd { by, .. } = &event.event {
                return by.clone();
            }
        }
    };
    let by = tokio::time::timeout(Duration::from_secs(30), decided).await.unwrap();
    assert_eq!(by.as_deref(), Some("system"));
    assert!(other.pending(&PendingQuery::all()).await.unwrap().actions.is_empty());
    let record = other.decisions(&AuditQuery::new(9)).await.unwrap().decisions.remove(0);
    assert_eq!((record.by.as_deref(), record.tool.as_deref()), (Some("system"), Some("pay")));
    let late = ActionResult::new("a", record.digest.unwrap(), Decision::Approve);
    let late = PostedInput::new("late", InputEvent::ExternalActionResult(late)).unwrap();
    let receipt = post_and_wait(other, "s", &late).await.unwrap();
    assert_eq!(receipt, InputReceipt::Refused(InputError::NotPending("a".into())));
    handle.wait_for_idle().await;
    assert_eq!(handle.state().await.unwrap().messages.last().unwrap().text(), "ok");
}

#[tokio::test]
async fn stores_on_disk_have_deadlines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sessions.db");
    let [one, two] = [0; 2].map(|_| Sqlite::open(&file).unwrap());
    the_default_is_taken(&one, &two).await;
    let files = folder.path().join("sessions");
    let [one, two] = [0; 2].map(|_| Jsonl::open(&files).unwrap());
    the_default_is_taken(&one, &two).await;
}
