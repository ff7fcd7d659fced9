//! Waiting calls in logs whose entries were changed, and under changed rules.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::kit::*;

fn pay() -> TestTool {
    TestTool::new("pay").answers("paid").effect(Effect::AtMostOnce)
}

fn paying() -> Vec<Script> {
    vec![Script::calls([("a", "pay", json!({ "euros": 5 }))]), Script::text("Done.")]
}

/// Changes the amount of the call in the log.
fn change(entries: &mut [LogEntry]) {
    let awaiting = entries.iter_mut().find_map(|entry| match entry {
        LogEntry::CallAwaiting { arguments, .. } => Some(arguments),
        _ => None,
    });
    *awaiting.unwrap() = json!({ "euros": 5_000 }).into();
}

/// C408: The digest of a pending call is computed again when a log is read. An approval of the
/// previous arguments is refused, and an approval of the present ones runs those.
#[tokio::test(start_paused = true)]
async fn an_approval_is_of_what_the_log_has() {
    let tool = pay();
    let harness = pi(paying(), std::slice::from_ref(&tool)).await;
    harness.handle.prompt("go").await.unwrap();
    let before = harness.pending().await.remove(0);
    let mut entries = harness.memory.entries();
    change(&mut entries);
    let harness = harness.restart_from(entries.clone()).await;
    let decide = async |digest: &Arc<str>| {
        harness
            .handle
            .send(ActionResult::new(before.call.clone(), digest.clone(), Decision::Approve))
            .await
    };
    let refused = decide(&before.digest).await.unwrap_err();
    assert!(matches!(refused, InputError::DigestDiffers(_)), "{refused}");
    let now = harness.pending().await.remove(0);
    assert_eq!(*now.arguments, json!({ "euros": 5_000 }));
    let listed = SessionInfo::of("s", &entries).pending.remove(0).action;
    assert_eq!(listed.digest, now.digest, "lists show the same");
    decide(&now.digest).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(tool.ran(), 1);
}

/// C408: A decision in the log only holds for the arguments that it was made for. With others, the
/// call does not run, and is asked for again.
#[tokio::test(start_paused = true)]
async fn a_decision_on_changed_arguments_does_not_hold() {
    let tool = pay();
    let harness = pi(paying(), std::slice::from_ref(&tool)).await;
    harness.handle.prompt("go").await.unwrap();
    let action = harness.pending().await.remove(0);
    let mut entries = harness.memory.entries();
    entries.push(LogEntry::Decided {
        input: "approval".into(),
        call: action.call.clone(),
        name: Some(action.name.clone()),
        digest: Some(action.digest.clone()),
        decision: Arc::new(Decision::Approve),
        by: None,
        source: None,
        change: None,
        time: 0,
    });
    change(&mut entries);
    let info = SessionInfo::of("s", &entries);
    assert_eq!((info.due, info.pending.len()), (None, 1));
    let harness = harness.restart_from(entries.clone()).await;
    harness.handle.wait_for_idle().await;
    assert_eq!((tool.ran(), harness.pending().await.len()), (0, 1));
    assert_ne!(harness.pending().await[0].digest, action.digest);

    // The same without the change: the decision is carried out.
    let LogEntry::CallAwaiting { arguments, .. } =
        entries.iter_mut().find(|entry| matches!(entry, LogEntry::CallAwaiting { .. })).unwrap()
    else {
        unreachable!()
    };
    *arguments = action.arguments.clone();
    let harness = harness.restart_from(entries).await;
    harness.handle.wait_for_idle().await;
    assert_eq!(tool.ran(), 1);
}

/// C408: The approved arguments run, even if the start of the call in the log has others.
#[test]
fn the_approved_arguments_run() {
    let value = |euros: u32| Arc::new(json!({ "euros": euros }));
    let calls = vec![ContentPart::ToolCall(ToolCall::new("a", "pay", "{}"))];
    let reply = Message::new(MessageId(1), AssistantMessage::new(calls));
    let awaiting = LogEntry::CallAwaiting {
        call: "a".into(),
        name: "pay".into(),
        arguments: value(5),
        digest: "another".into(),
        request: None,
        terms: Arc::default(),
        time: 0,
    };
    let replied = LogEntry::Replied { message: reply.into(), cost: None };
    let log = SessionLog::of(&[replied, awaiting]);
    assert_ne!(*log.pending()[0].digest, *"another", "it is computed from the arguments");
}

/// C409: A hook that forbids a waiting call is effective when the call is approved, also in another
/// process. So is the schema of the tool.
#[tokio::test(start_paused = true)]
async fn a_rule_that_forbids_meanwhile_holds_at_the_approval() {
    for restarts in [false, true] {
        let (tool, forbids) = (pay(), Arc::new(AtomicBool::new(false)));
        let rule = forbids.clone();
        let mut harness = pi_with(paying(), std::slice::from_ref(&tool), |agent| {
            agent.before_tool_call(move |_, _| {
                let forbids = rule.load(Ordering::SeqCst);
                async move {
                    match forbids {
                        true => BeforeToolCall::Block("Payments are closed.".into()),
                        false => BeforeToolCall::Proceed,
                    }
                }
            })
        })
        .await;
        harness.handle.prompt("go").await.unwrap();
        forbids.store(true, Ordering::SeqCst);
        if restarts {
            harness = harness.restart().await;
        }
        harness.resolve(0, Decision::Approve).await.unwrap();
        harness.handle.wait_for_idle().await;
        assert_eq!(tool.ran(), 0);
        assert_eq!(statuses(&harness).await, [ResultStatus::Denied]);
        assert_eq!(result_of(&harness, "a").await, "Payments are closed.");
        harness.check().await;
    }
}
