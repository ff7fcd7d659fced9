//! Shared resources of sub-agents and the root: budgets, events, steers.

use loopwright_core::{GenericAgent, SessionStore};

use super::{Family, approve, child_replies, pending_calls, results, root_replies};
use crate::kit::*;

/// C162: The usage of sub-agents counts for the root, once, including their usage before a restart.
#[tokio::test(start_paused = true)]
async fn the_use_of_sub_agents_counts_for_the_root() {
    let family = Family::new();
    let usage = |script: Script| script.usage(Usage::new(100, 10));
    let child = ScriptedModel::new([]).reply_with(move |request| usage(child_replies(request)));
    let model = ScriptedModel::new([]).reply_with(move |request| usage(root_replies(request)));
    let family = Family { child, model, ..family };
    let (handle, _events) = family.open().await;
    handle.prompt("Let them pay.").await.unwrap();
    for call in ["a~p", "b~p", "c~p"] {
        approve(&handle, call).await.unwrap();
        handle.wait_for_idle().await;
    }
    family.close(handle).await;
    let info = family.store.session("root").await.unwrap();
    assert_eq!((info.usage.input, info.usage.output), (800, 80));
    let spent = SessionLog::of(&family.log("root").await).spent();
    assert_eq!((spent.turns, spent.tokens), (8, 880));
}

/// C162: Sub-agents that start together divide the rest of the budget. The result of a sub-agent
/// that gets no share says so.
#[tokio::test(start_paused = true)]
async fn sub_agents_share_what_is_left() {
    let family = Family::new();
    let (handle, _events) =
        family.open_with(|builder| builder.limits(Budget::default().turns(3))).await;
    let outcome = handle.prompt("Let them pay.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    assert_eq!(pending_calls(&handle).await, ["a~p", "b~p"]);
    let texts = |results: Vec<(ResultStatus, String)>| -> Vec<String> {
        results.into_iter().map(|(_, text)| text).collect()
    };
    for call in ["a~p", "b~p"] {
        approve(&handle, call).await.unwrap();
        handle.wait_for_idle().await;
    }
    let [a, b, c] = &texts(results(&handle).await)[..] else { panic!("three results") };
    for text in [a, b] {
        let why = "The sub-agent has reached a limit: the sub-agent's share of the turns is \
            reached: 1 of 1 turns are used.";
        assert!(text.starts_with(why), "{text}");
    }
    assert!(c.contains("nothing is left"), "{c}");
    assert_eq!(
        handle.state().await.unwrap().error.as_deref(),
        Some("the limit of turns is reached: 3 of 3 turns are used")
    );
    family.close(handle).await;
}

/// C163: Subscribers to the tree get the events of all sessions, including sessions that already
/// work.
#[tokio::test(start_paused = true)]
async fn the_events_of_sub_agents_can_be_read() {
    let family = Family::new();
    let (handle, _events) = family.open().await;
    let mut tree = handle.subscribe_tree();
    handle.prompt("Let them pay.").await.unwrap();
    let late = handle.subscribe_tree();
    approve(&handle, "b~p").await.unwrap();
    handle.wait_for_idle().await;
    let seen: Vec<_> = std::iter::from_fn(|| tree.try_next()).collect();
    let of = |session: &str| -> Vec<_> {
        seen.iter().filter(|event| *event.session_id == *session).cloned().collect()
    };
    let bob = of("root/m2.2");
    let parent = bob[0].parent.as_ref().unwrap();
    assert_eq!((&*parent.session_id, &*parent.call), ("root", "b"));
    let kinds = kinds(&bob);
    let ends = kinds.iter().filter(|kind| *kind == "agent_end").count();
    assert_eq!((ends, kinds.last().map(String::as_str)), (2, Some("agent_end")));
    assert!(!of("root").is_empty() && !of("root/m2.3").is_empty());
    drop((handle, late));
}

/// C163: A late reader gets the stream of its session from the beginning, and from then on the
/// events of sub-agents that already work.
#[tokio::test(start_paused = true)]
async fn a_late_reader_joins_the_tree() {
    let family = Family::new();
    let gate = Gate::new();
    let model = ScriptedModel::new([Script::text("At last.").gate(&gate)]);
    let dora = GenericAgent::builder(model, PiPattern).build().unwrap();
    let (handle, mut events) = family.open_with(|b| b.child("dora", "Takes long.", dora)).await;
    family.model.push(Script::calls([("d", "dora", json!({ "task": "Wait." }))]));
    handle.send(InputEvent::UserRequest("Go.".into())).await.unwrap();
    let is_progress = |event: &AgentEvent| matches!(event, AgentEvent::ToolExecutionUpdate { .. });
    until(&mut events, is_progress).await;
    let (length, mut tree) = handle.join_tree().await.unwrap();
    assert_eq!(length, family.log("root").await.len() as u64);
    assert!(is_progress(&tree.next().await.unwrap().event));
    gate.open();
    handle.wait_for_idle().await;
    let seen: Vec<_> = std::iter::from_fn(|| tree.try_next()).collect();
    for session in ["root", "root/m2.1"] {
        let ends = |event: &&Arc<Envelope>| {
            *event.session_id == *session && matches!(event.event, AgentEvent::AgentEnd(_))
        };
        assert_eq!(seen.iter().filter(ends).count(), 1, "{session}: {seen:#?}");
    }
}

/// C163: A steer can be sent to a working sub-agent.
#[tokio::test(start_paused = true)]
async fn a_sub_agent_that_works_can_be_steered() {
    let family = Family::new();
    let gate = Gate::new();
    let model = {
        let gate = gate.clone();
        ScriptedModel::new([Script::text("One.").gate(&gate), Script::text("Two.")])
    };
    let dora = GenericAgent::builder(model, PiPattern).build().unwrap();
    let (handle, mut events) = family.open_with(|b| b.child("dora", "Takes long.", dora)).await;
    family.model.push(Script::calls([("d", "dora", json!({ "task": "Wait." }))]));
    let gone = handle.steer_to("d", "Also this.").await;
    assert_eq!(gone, Err(InputError::NoSubAgent("d".into())));
    handle.send(InputEvent::UserRequest("Go.".into())).await.unwrap();
    let is_progress = |event: &AgentEvent| {
        matches!(event, AgentEvent::ToolExecutionUpdate { update: ToolUpdate::Progress(_), .. })
    };
    until(&mut events, is_progress).await;
    handle.steer_to("d", "Also this.").await.unwrap();
    gate.open();
    handle.wait_for_idle().await;
    assert_eq!(results(&handle).await, [(ResultStatus::Ok, "Two.".into())]);
    let log = SessionLog::of(&family.log("root/m2.1").await);
    let texts: Vec<String> = log.messages().iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["Wait.", "One.", "Also this.", "Two."]);
}
