//! A recorded session that is replayed through the whole agent.

use std::path::Path;

use loopwright_providers::Recorded;

use crate::kit::*;

/// Runs a session. Returns the types of its events and its outcome.
async fn session(model: impl ChatModel + 'static) -> (Vec<String>, RunOutcome) {
    let tool = TestTool::new("look").effect(Effect::ReadOnly).answers("21 °C");
    let agent = GenericAgent::builder(model, PiPattern)
        .tool(tool)
        .system("You look first.")
        .build()
        .unwrap();
    let (handle, mut events) = agent.run(RunContext::new()).await.unwrap();
    let outcome = handle.prompt("How warm is it?").await.unwrap();
    let mut emitted = Vec::new();
    while let Some(event) = events.next().await {
        emitted.push(event.clone());
        if matches!(event.event, AgentEvent::AgentEnd(_)) {
            break;
        }
    }
    (kinds(&emitted), outcome)
}

fn scripted() -> ScriptedModel {
    let usage = Usage::new(5, 3);
    let look =
        Script::new().think("I should look.", Some("signed")).call("a", "look", "{}").usage(usage);
    ScriptedModel::new([look, Script::text("It is 21 °C.").usage(usage)])
}

#[tokio::test(start_paused = true)]
async fn a_recorded_session_is_replayed_without_its_model() {
    let folder = tempfile::tempdir().unwrap();
    let path: &Path = &folder.path().join("session.jsonl");
    let (emitted, outcome) = session(Recorded::record(scripted(), path).unwrap()).await;
    assert_eq!((outcome.end, outcome.text.as_str()), (RunStatus::Done, "It is 21 °C."));
    let model = Arc::new(Recorded::replay(path).unwrap());
    let (replayed_events, replayed) = session(model.clone()).await;
    assert_eq!((replayed_events, replayed), (emitted, outcome));
    assert_eq!(model.remaining(), 0);
}
