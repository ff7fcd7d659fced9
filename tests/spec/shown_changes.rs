//! Approvals of the change that was shown: the call makes that one or none.

use std::future::pending;
use std::sync::Mutex;

use loopwright_core::Tool;
use serde_json::Value;

use crate::kit::*;

const SHOWN: &str = "--- f\n+++ f\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
const MOVED: &str = "--- f\n+++ f\n@@ -7,2 +7,2 @@\n other\n-two\n+2\n";
const OTHER: &str = "--- f\n+++ f\n@@ -1,2 +1,2 @@\n one\n-two, theirs\n+2, theirs\n";

/// The answer of the tool's preview.
#[derive(Clone, Copy)]
enum Now {
    Change(&'static str),
    Nothing,
    Fails,
    Panics,
    Hangs,
}

/// A tool whose call would make the change `now`.
#[derive(Clone)]
struct Edit {
    now: Arc<Mutex<Now>>,
    tool: TestTool,
}

impl Edit {
    fn new() -> Self {
        let tool = TestTool::new("edit").effect(Effect::AtMostOnce);
        Edit { now: Arc::new(Mutex::new(Now::Change(SHOWN))), tool }
    }

    fn would(&self, now: Now) {
        *self.now.lock().unwrap() = now;
    }
}

#[async_trait::async_trait]
impl Tool for Edit {
    fn spec(&self) -> &Arc<ToolSpec> {
        Tool::spec(&self.tool)
    }

    async fn call(&self, arguments: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        Tool::call(&self.tool, arguments, cx).await
    }

    async fn preview(&self, _: &Value) -> Result<Option<String>, ToolError> {
        let now = *self.now.lock().unwrap();
        match now {
            Now::Change(diff) => Ok(Some(diff.to_owned())),
            Now::Nothing => Ok(None),
            Now::Fails => Err(ToolError::Failed("it does not occur".into())),
            Now::Panics => panic!("no preview"),
            Now::Hangs => pending().await,
        }
    }
}

async fn asked(edit: &Edit, options: ActionOptions) -> Harness {
    asked_for(edit, &["edit"], options).await
}

async fn asked_for(edit: &Edit, tools: &[&str], options: ActionOptions) -> Harness {
    let replies = [calls(tools), Script::text("ok")];
    let tool = edit.tool.clone().spec(|spec| spec.action_options(options).sequential());
    let tool: Arc<dyn Tool> = Arc::new(Edit { tool, ..edit.clone() });
    let mut harness = Harness::new(PiPattern, replies, |agent| agent.tools([tool])).await;
    send(&harness, "go").await;
    harness.run_end().await;
    harness
}

async fn approve(harness: &Harness, shown: &str, by: &str) {
    let action = harness.pending().await.remove(0);
    let result = ActionResult::new(action.call, action.digest, Decision::Approve);
    harness.handle.send(result.by(by).change(change_digest(shown))).await.unwrap();
}

/// C485: what counts are the lines that go and come when the call is about to start. A preview that
/// fails, panics or never ends is no change that was shown.
#[tokio::test(start_paused = true)]
async fn a_call_makes_the_change_that_was_shown_or_none() {
    for (now, runs) in [
        (Now::Change(SHOWN), true),
        (Now::Change(MOVED), true),
        (Now::Change(OTHER), false),
        (Now::Change(""), false),
        (Now::Nothing, true),
        (Now::Fails, false),
        (Now::Panics, false),
        (Now::Hangs, false),
    ] {
        let edit = Edit::new();
        let mut harness = asked(&edit, ActionOptions::new()).await;
        edit.would(now);
        approve(&harness, SHOWN, "ann").await;
        assert_eq!(end_of(&harness.run_end().await), RunStatus::Done);
        assert_eq!(edit.tool.ran(), usize::from(runs));
        let (status, result) = (statuses(&harness).await, result_of(&harness, "a").await);
        assert_eq!(status == [ResultStatus::Ok], runs, "{result}");
        let why = if let Now::Hangs = now { "without an end" } else { "It has not run" };
        assert_eq!(result.contains(why), !runs, "{result}");
        harness.check().await;
    }
}

/// C485: an approval that names no change is of the arguments, whatever they change.
#[tokio::test(start_paused = true)]
async fn an_approval_without_a_change_is_not_checked() {
    let edit = Edit::new();
    let mut harness = asked(&edit, ActionOptions::new()).await;
    edit.would(Now::Hangs);
    harness.resolve(0, Decision::Approve).await.unwrap();
    harness.run_end().await;
    assert_eq!(edit.tool.ran(), 1);
}

/// C485: the call of another process, after a crash between the decision and the start, is checked.
#[tokio::test(start_paused = true)]
async fn a_restart_does_not_forget_what_was_shown() {
    for (now, runs) in [(SHOWN, 1), (OTHER, 0)] {
        let edit = Edit::new();
        let harness = asked(&edit, ActionOptions::new()).await;
        edit.would(Now::Hangs); // the process ends before the call starts
        approve(&harness, SHOWN, "ann").await;
        let entries = harness.memory.entries();
        let at = entries.iter().position(|entry| matches!(entry, LogEntry::Decided { .. }));
        edit.would(Now::Change(now));
        let next = harness.restart_from(entries[..=at.unwrap()].to_vec()).await;
        next.handle.wait_for_idle().await;
        assert_eq!(edit.tool.ran(), runs);
        assert_eq!(statuses(&next).await.len(), 1);
        next.check().await;
    }
}

/// C485: each of several who approve has seen the change that is made.
#[tokio::test(start_paused = true)]
async fn all_who_approve_have_seen_the_same_change() {
    for (second, runs) in [(MOVED, 1), (OTHER, 0)] {
        let edit = Edit::new();
        let mut harness = asked(&edit, ActionOptions::new().quorum(2)).await;
        approve(&harness, SHOWN, "ann").await;
        let approval = harness.pending().await[0].approvals[0].clone();
        assert_eq!(approval.change, Some(change_digest(SHOWN)));
        edit.would(Now::Change(second));
        approve(&harness, second, "bob").await;
        harness.run_end().await;
        assert_eq!(edit.tool.ran(), runs);
        harness.check().await;
    }
}

/// C485: two calls of one reply are each checked when their turn comes.
#[tokio::test(start_paused = true)]
async fn each_call_of_a_batch_is_checked_when_its_turn_comes() {
    let edit = Edit::new();
    let mut harness = asked_for(&edit, &["edit", "edit", "edit"], ActionOptions::new()).await;
    edit.would(Now::Change(OTHER));
    for shown in [SHOWN, OTHER, SHOWN] {
        approve(&harness, shown, "ann").await;
        harness.handle.wait_for_idle().await;
    }
    harness.drain_events();
    let ends = [ResultStatus::Error, ResultStatus::Ok, ResultStatus::Error];
    assert_eq!((edit.tool.ran(), statuses(&harness).await), (1, ends.to_vec()));
    harness.check().await;
}

/// C485: a call that a crash has interrupted may have made its change: it is not said to have not
/// run.
#[tokio::test(start_paused = true)]
async fn a_call_that_had_started_may_have_made_the_change() {
    let mut edit = Edit::new();
    edit.tool = edit.tool.effect(Effect::Idempotent).spec(|spec| spec.approval(Approval::Always));
    let harness = asked(&edit, ActionOptions::new()).await;
    approve(&harness, SHOWN, "ann").await;
    harness.handle.wait_for_idle().await;
    let entries = harness.memory.entries();
    let at = entries.iter().position(|entry| matches!(entry, LogEntry::CallStarted { .. }));
    edit.would(Now::Change(""));
    let next = harness.restart_from(entries[..=at.unwrap()].to_vec()).await;
    next.handle.send(InputEvent::Continue(None)).await.unwrap();
    next.handle.wait_for_idle().await;
    assert_eq!((edit.tool.ran(), statuses(&next).await), (1, vec![ResultStatus::Error]));
    assert!(result_of(&next, "a").await.contains("it may have run"));
    next.check().await;
}

/// C485: of lines that end with `\r` alone, each counts.
#[test]
fn lines_that_a_carriage_return_ends_are_no_context() {
    let mixed = |last: &str| change_digest(&format!("@@ -1,3 +1,3 @@\n a\r-b\r+{last}\r c\n"));
    assert_ne!(mixed("x"), mixed("y"));
    let crlf = |last: &str| change_digest(&format!("@@ -1 +1 @@\r\n a\r\n-b\r\n+{last}\r\n"));
    assert_ne!(crlf("x"), crlf("y"));
    assert_eq!(crlf("x"), change_digest("@@ -9 +9 @@\r\n z\r\n-b\r\n+x\r\n"));
}

/// C485: a hook that runs the tool twice does not run a refused call the second time. It runs an
/// allowed one again, whatever the first run has changed.
#[tokio::test(start_paused = true)]
async fn a_hook_that_repeats_a_call_does_not_get_around_the_check() {
    for (first, second, runs) in [(OTHER, OTHER, 0), (SHOWN, "", 2)] {
        let edit = Edit::new();
        let tool: Arc<dyn Tool> = Arc::new(edit.clone());
        let now = edit.clone();
        let replies = [calls(&["edit"]), Script::text("ok")];
        let mut harness = Harness::new(PiPattern, replies, |agent| {
            agent.tools([tool]).around_tool_call(move |_, _, next| {
                let now = now.clone();
                Box::pin(async move {
                    next.run().await;
                    now.would(Now::Change(second));
                    next.run().await
                })
            })
        })
        .await;
        send(&harness, "go").await;
        harness.run_end().await;
        edit.would(Now::Change(first));
        approve(&harness, SHOWN, "ann").await;
        harness.run_end().await;
        assert_eq!(edit.tool.ran(), runs);
        harness.check().await;
    }
}

/// C485: an abort ends the wait for a preview.
#[tokio::test(start_paused = true)]
async fn an_abort_ends_a_check_that_hangs() {
    let edit = Edit::new();
    let mut harness = asked(&edit, ActionOptions::new()).await;
    edit.would(Now::Hangs);
    approve(&harness, SHOWN, "ann").await;
    let began = Instant::now();
    harness.handle.abort().await.unwrap();
    assert_eq!(end_of(&harness.run_end().await), RunStatus::Aborted);
    assert_eq!((edit.tool.ran(), began.elapsed()), (0, ms(0)));
    harness.check().await;
}
