//! Events that close sub-agents: aborts, and messages instead of decisions.

use loopwright_core::GenericAgent;

use super::{Family, results};
use crate::kit::*;

/// C161: An abort closes waiting and working sub-agents. No further request is sent.
#[tokio::test(start_paused = true)]
async fn an_abort_closes_all_of_them() {
    let family = Family::new();
    let hanging = ScriptedModel::new([]).reply_with(|_| Script::new().say("Hm").hang());
    let dora = GenericAgent::builder(hanging.clone(), PiPattern).build().unwrap();
    let (handle, mut events) = family.open_with(|b| b.child("dora", "Takes long.", dora)).await;
    family.model.push(Script::calls([
        ("a", "alice", json!({ "task": "Pay." })),
        ("d", "dora", json!({ "task": "Wait." })),
    ]));
    handle.send(InputEvent::UserRequest("Let them pay.".into())).await.unwrap();
    until(&mut events, |event| matches!(event, AgentEvent::ExternalAction(_))).await;
    handle.abort().await.unwrap();
    handle.wait_for_idle().await;
    let statuses: Vec<_> = results(&handle).await.into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [ResultStatus::Aborted, ResultStatus::Aborted]);
    assert!(results(&handle).await[1].1.contains("Hm"), "{:?}", results(&handle).await);
    let asked = (family.child.requests().len(), hanging.requests().len(), family.pay.ran());
    assert_eq!(asked, (1, 1, 0));
    assert!(handle.pending().await.unwrap().is_empty());
    family.close(handle).await;
    for n in 1..=2 {
        let log = family.log(&format!("root/m2.{n}")).await;
        check_log(&log).unwrap();
        assert!(SessionLog::of(&log).run().is_none() && SessionLog::of(&log).pending().is_empty());
    }
}

/// C161: An abort also closes them while all wait, and a later decision comes too late.
#[tokio::test(start_paused = true)]
async fn an_abort_at_rest_closes_those_that_wait() {
    let family = Family::new();
    let (handle, _events) = family.open().await;
    handle.prompt("Let them pay.").await.unwrap();
    let action = handle.pending().await.unwrap()[0].clone();
    handle.abort().await.unwrap();
    let late = handle.approve(&action).await;
    assert_eq!(late, Err(InputError::NotPending("a~p".into())));
    let statuses: Vec<_> = results(&handle).await.into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [ResultStatus::Aborted; 3]);
    family.close(handle).await;
    assert!(SessionLog::of(&family.log("root/m2.3").await).pending().is_empty());
}

/// C161: A message instead of decisions closes the waiting sub-agents, except where a decision was
/// made.
#[tokio::test(start_paused = true)]
async fn a_message_closes_those_that_wait_for_decisions() {
    let family = Family::new();
    let (handle, _events) = family.open().await;
    handle.prompt("Let them pay.").await.unwrap();
    let actions = handle.pending().await.unwrap();
    // Both arrive before the run that carries out the decision begins.
    let decision =
        handle.send(ActionResult::new("b~p", actions[1].digest.clone(), Decision::Approve));
    let message = handle.send(InputEvent::UserRequest("Stop that.".into()));
    let (decision, message) = tokio::join!(decision, message);
    decision.and(message).unwrap();
    handle.wait_for_idle().await;
    let statuses: Vec<_> = results(&handle).await.into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [ResultStatus::Denied, ResultStatus::Ok, ResultStatus::Denied]);
    assert_eq!(family.pay.ran(), 1);
    let transcript = handle.state().await.unwrap().messages;
    assert_eq!(transcript[transcript.len() - 2].text(), "Stop that.");
    family.close(handle).await;
    check_log(&family.log("root").await).unwrap();
}

/// C161: Decisions after a message that replaces them come too late.
#[tokio::test(start_paused = true)]
async fn a_decision_after_a_message_is_refused() {
    let family = Family::new();
    let (handle, _events) = family.open().await;
    handle.prompt("Let them pay.").await.unwrap();
    let action = handle.pending().await.unwrap().remove(0);
    let message = handle.send(InputEvent::UserRequest("Stop that.".into()));
    let decision = handle.approve(&action);
    let (message, decision) = tokio::join!(message, decision);
    message.unwrap();
    handle.wait_for_idle().await;
    let paid = usize::from(decision.is_ok());
    assert_eq!(family.pay.ran(), paid, "an accepted decision is carried out: {decision:?}");
    let late = handle.send(ActionResult::new("b~p", "?", Decision::Approve)).await;
    assert_eq!(late, Err(InputError::NotPending("b~p".into())));
}

/// C161: Once an abort is acknowledged, no sub-agent sends a request or starts a call, even if the
/// abort has not reached it yet.
#[tokio::test(start_paused = true)]
async fn nothing_starts_after_an_abort_is_acknowledged() {
    let family = Family::new();
    let (gate, note) = (Gate::new(), TestTool::new("note"));
    let model = {
        let gate = gate.clone();
        ScriptedModel::new([])
            .reply_with(move |_| Script::calls([("n", "note", json!({}))]).gate(&gate))
    };
    let inner = GenericAgent::builder(model.clone(), PiPattern).tool(note.clone());
    let passes_on = |name: &'static str| {
        ScriptedModel::new([Script::calls([("x", name, json!({ "task": "Note it." }))])])
    };
    let middle = GenericAgent::builder(passes_on("inner"), PiPattern).child(
        "inner",
        "",
        inner.build().unwrap(),
    );
    let (handle, mut events) =
        family.open_with(|b| b.child("middle", "", middle.build().unwrap())).await;
    family.model.push(Script::calls([("m", "middle", json!({ "task": "Note it." }))]));
    let mut tree = handle.subscribe_tree();
    handle.send(InputEvent::UserRequest("Go.".into())).await.unwrap();
    while tree.next().await.is_none_or(|event| &*event.session_id != "root/m2.1/m2.1") {}
    until(&mut events, |event| matches!(event, AgentEvent::ToolExecutionUpdate { .. })).await;
    while model.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    handle.abort().await.unwrap();
    gate.open();
    handle.wait_for_idle().await;
    assert_eq!((model.requests().len(), note.ran()), (1, 0));
}
