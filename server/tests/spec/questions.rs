//! Questions to the user over HTTP.

use std::sync::Arc;

use loopwright_core::log::{InMemoryStore, LogEntry};
use loopwright_core::session::QuestionStatus;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::tool::Question;
use loopwright_core::{
    BehaviorPattern, GenericAgent, RunContext, SessionStore, StepContext, StepEnd, StepError,
    async_trait,
};
use serde_json::{Value, json};

use crate::api::{Api, Frame};

fn asks(arguments: Value) -> Script {
    Script::calls([("a", "ask_user", arguments)])
}

/// Returns the pending action, and the path that resolves it.
async fn pending(api: &Api, session: &str) -> (Value, String) {
    let action = api.get("/api/actions").await["actions"][0].clone();
    let path = format!("/api/sessions/{session}/actions/{}", action["call"].as_str().unwrap());
    (action, path)
}

fn provide(action: &Value, data: Value) -> Value {
    json!({ "digest": action["digest"], "decision": "provide", "data": data })
}

/// C158: A question is listed with its options. An invalid answer is refused with a sentence that
/// names the valid ones. The model receives a valid answer.
#[tokio::test(start_paused = true)]
async fn a_question_is_answered_over_http() {
    let question = json!({ "question": "Which?", "options": ["red", "blue"] });
    let api = Api::new([asks(question), Script::text("Blue.")]);
    let id = api.session(json!({})).await;
    api.say(&id, "Paint.").await;
    let frames = api.run(&id, None).await;
    assert_eq!(frames.last().unwrap().data["end"], "awaiting_action");
    let (action, path) = pending(&api, &id).await;
    let expected = json!({
        "kind": "question",
        "data": { "question": "Which?", "form": "choice", "options": ["red", "blue"] },
    });
    assert_eq!(action["request"], expected);
    for wrong in [json!("green"), json!(["red"]), json!({ "choice": "red" })] {
        let (status, refused) = api.post(&path, provide(&action, wrong)).await;
        assert_eq!((status, &refused["error"]["kind"]), (400, &json!("bad_request")));
        let why = refused["error"]["message"].as_str().unwrap();
        assert!(why.starts_with("The answer does not fit the question"), "{why}");
    }
    let (_, refused) = api.post(&path, provide(&action, json!("green"))).await;
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.ends_with("`green` is not one of the options: red, blue."), "{why}");
    let approve = json!({ "digest": action["digest"], "decision": "approve" });
    assert_eq!(api.post(&path, approve).await.0, 400);

    assert_eq!(api.post(&path, provide(&action, json!("blue"))).await.0, 200);
    let rest = api.run(&id, frames.iter().rev().find_map(|frame| frame.id)).await;
    let end = rest.iter().find(|frame| frame.event == "tool_execution_end").unwrap();
    assert_eq!(end.data["result"]["content"][0]["text"], "blue");
    assert_eq!(api.post(&path, provide(&action, json!("red"))).await.0, 409);
}

/// A pattern that asks for a password before it asks the model.
struct Login;

#[async_trait]
impl BehaviorPattern for Login {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        match step.question("password", Question::secret("The password?").shown()).await? {
            QuestionStatus::Waiting => Ok(StepEnd::AwaitingAction),
            _ => step.ask().await?.finish(),
        }
    }
}

/// C158: The answer to a secret question is in no event and in no message.
#[tokio::test(start_paused = true)]
async fn a_secret_is_in_no_event_and_in_no_message() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let agent = GenericAgent::builder(ScriptedModel::new([]), Login).build().unwrap();
    let context = RunContext::new().stored(&store, "s").await.unwrap();
    let context = context.settings(json!({ "agent": "coding" }));
    let (handle, _events) = agent.run(context).await.unwrap();
    handle.prompt("Log in.").await.unwrap();
    handle.close().await;

    // The server's own agent continues the session.
    let api = Api::over(store.clone(), [Script::text("Done.")]);
    let (action, path) = pending(&api, "s").await;
    let (status, accepted) = api.post(&path, provide(&action, json!("hunter2"))).await;
    assert_eq!(status, 200, "{accepted}");
    let mut reader = api.events("s", None).await;
    let mut frames: Vec<Frame> = reader.until("agent_end").await;
    frames.extend(reader.until("agent_end").await);
    assert_eq!(frames.last().unwrap().data["text"], "Done.");
    let is_end = |frame: &&Frame| frame.event == "external_action_end";
    let decision = &frames.iter().find(is_end).unwrap().data["decision"];
    assert_eq!(*decision, json!({ "provide": { "input": null } }));
    assert!(!format!("{frames:?}").contains("hunter2"));
    for path in ["/api/sessions/s", "/api/sessions/s/messages", "/api/sessions", "/api/actions"] {
        let body = api.get(path).await.to_string();
        assert!(!body.contains("hunter2"), "{path}: {body}");
    }
    let (_, refused) = api.post(&path, provide(&action, json!("hunter3"))).await;
    assert!(!refused.to_string().contains("hunter"), "{refused}");
    // Only the log contains it: it must survive a restart.
    let log = store.read("s", 0).await.unwrap();
    let with_secret = log.iter().filter(|entry| format!("{entry:?}").contains("hunter2"));
    assert!(with_secret.clone().all(|entry| matches!(entry, LogEntry::Decided { .. })));
    assert_eq!(with_secret.count(), 1);
}

/// Requests to `/api/agent-chat` have no tool that nobody could answer.
#[tokio::test(start_paused = true)]
async fn nobody_is_asked_while_a_request_streams() {
    let api = Api::new([asks(json!({ "question": "Which?" })), Script::text("Well.")]);
    let config = json!({ "apiKey": "k", "model": "m", "provider": "openai" });
    let body = json!({ "message": "Paint.", "workDir": ".", "llmConfig": config });
    let (status, frames) = api.post("/api/agent-chat", body).await;
    let all = frames.to_string();
    assert_eq!(status, 200, "{all}");
    assert!(all.contains("There is no tool `ask_user`") && all.contains("Well."), "{all}");
}
