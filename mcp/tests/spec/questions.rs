//! Requests of a server during a call: to the user, for the model, for the directories.

use std::path::Path;
use std::sync::Arc;

use loopwright_core::event::{Decision, Provided};
use loopwright_core::limits::{Budget, Limits};
use loopwright_core::log::{LogEntry, SessionLog};
use loopwright_core::message::{ResultStatus, Usage};
use loopwright_core::testing::{Harness, Script, ScriptedModel};
use serde_json::{Value, json};

use super::fake::{Fake, Peer};
use super::{calls, results, session, until_asked};

/// Returns a server whose tool sends this request, and returns the response as its text.
fn asking(method: &'static str, params: Value) -> Fake {
    let fake = Fake::new(&[("ask", "Asks.")]);
    let shared = fake.clone();
    fake.on_call(move |request, peer: &Peer| {
        peer.send(json!({ "id": 77, "method": method, "params": params }));
        let (fake, peer) = (shared.clone(), peer.clone());
        tokio::spawn(async move {
            let answer = loop {
                match fake.answer(77) {
                    Some(answer) => break answer,
                    None => tokio::time::sleep(std::time::Duration::from_millis(1)).await,
                }
            };
            let body = answer.get("result").or(answer.get("error")).unwrap();
            peer.text(&request, &body.to_string());
        });
    })
}

fn elicitation() -> Fake {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let params = json!({ "mode": "form", "message": "Who?", "requestedSchema": schema });
    asking("elicitation/create", params)
}

fn input(answer: Value) -> Decision {
    Decision::Provide(Provided::Input(answer))
}

async fn only_result(harness: &Harness) -> (ResultStatus, String) {
    results(harness).await.remove(0)
}

/// C352: A server's request to the user during a call is a question, and the call continues with
/// the answer.
#[tokio::test(start_paused = true)]
async fn an_elicitation_is_a_question() {
    let fake = elicitation();
    let client = fake.client();
    let mut harness = session(&client, calls(&["fake__ask"]), |agent| agent.approve_all()).await;
    harness.handle.prompt("go").await.unwrap();
    until_asked(&mut harness).await;
    let question = harness.pending().await[0].question().unwrap();
    assert_eq!(question.question, "fake: Who?");
    harness.resolve(0, input(json!("Ann"))).await.unwrap();
    harness.handle.wait_for_idle().await;
    let (status, text) = only_result(&harness).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status, ResultStatus::Ok);
    assert_eq!(answer, json!({ "action": "accept", "content": { "name": "Ann" } }));
    assert_eq!(fake.received("tools/call").len(), 1);
    harness.check().await;
}

/// A call that waited for the user when the process ended is not repeated.
#[tokio::test(start_paused = true)]
async fn a_question_that_outlives_the_process_is_an_error() {
    let fake = elicitation();
    let first = fake.client();
    let mut harness = session(&first, calls(&["fake__ask"]), |agent| agent.approve_all()).await;
    harness.handle.prompt("go").await.unwrap();
    until_asked(&mut harness).await;
    let entries = harness.memory.entries();
    drop(harness);
    let second = fake.client();
    let harness = session(&second, vec![Script::text("Done.")], |agent| agent.approve_all()).await;
    let harness = harness.restart_from(entries).await;
    harness.resolve(0, input(json!("Ann"))).await.unwrap();
    harness.handle.wait_for_idle().await;
    let (status, text) = only_result(&harness).await;
    assert_eq!(status, ResultStatus::Error);
    assert!(text.contains("was lost while it waited"), "{text}");
    assert_eq!(fake.received("tools/call").len(), 1);
}

/// An agent without a user refuses a server's questions.
#[tokio::test(start_paused = true)]
async fn without_a_user_nothing_is_asked() {
    let fake = elicitation();
    let client = fake.builder().no_questions().build();
    let harness = session(&client, calls(&["fake__ask"]), |agent| agent.approve_all()).await;
    harness.handle.prompt("go").await.unwrap();
    assert!(only_result(&harness).await.1.contains("cancel"));
    assert!(fake.received("initialize")[0]["params"]["capabilities"].get("elicitation").is_none());
}

fn sampling() -> Fake {
    let message = json!({ "role": "user", "content": { "type": "text", "text": "2 + 2?" } });
    asking("sampling/createMessage", json!({ "messages": [message], "maxTokens": 9 }))
}

/// C352: A server's request to the model is shown to the user, and sent if the user allows it.
#[tokio::test(start_paused = true)]
async fn sampling_needs_the_users_permission() {
    for (answer, expected) in [("Allow", "\"Four.\""), ("Refuse", "The user refused.")] {
        let fake = sampling();
        let model = ScriptedModel::new([Script::text("Four.")]);
        let client = fake.builder().sampling(Arc::new(model.clone())).build();
        let mut harness =
            session(&client, calls(&["fake__ask"]), |agent| agent.approve_all()).await;
        harness.handle.prompt("go").await.unwrap();
        until_asked(&mut harness).await;
        let question = harness.pending().await[0].question().unwrap().question;
        assert!(question.contains("2 + 2?") && model.requests().is_empty(), "{question}");
        harness.resolve(0, input(json!(answer))).await.unwrap();
        harness.handle.wait_for_idle().await;
        let (_, text) = only_result(&harness).await;
        assert!(text.contains(expected), "{text}");
        assert_eq!(model.requests().len(), usize::from(answer == "Allow"));
        harness.check().await;
    }
}

/// Returns a server whose tool asks the model this.
fn sampling_of(text: &str) -> Fake {
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    asking("sampling/createMessage", json!({ "messages": [message], "maxTokens": 9 }))
}

/// C413: The session is charged for a sampled request before it is sent. Beyond its budget nothing
/// is sent, and the server learns why.
#[tokio::test(start_paused = true)]
async fn the_session_is_charged_for_sampling() {
    let used = Usage::new(100, 20);
    for (turns, is_sent) in [(9, true), (1, false)] {
        let fake = sampling_of("2 + 2?");
        let model = ScriptedModel::new([Script::text("Four.").usage(used)]);
        let client = fake.builder().sampling(Arc::new(model.clone())).build();
        let budget = Budget::default().turns(turns);
        let mut harness = session(&client, calls(&["fake__ask"]), |agent| {
            agent.approve_all().limits(Limits::default().session(budget))
        })
        .await;
        harness.handle.prompt("go").await.unwrap();
        until_asked(&mut harness).await;
        harness.resolve(0, input(json!("Allow"))).await.unwrap();
        harness.handle.wait_for_idle().await;
        let entries = harness.memory.entries();
        let spent = SessionLog::of(&entries).spent();
        let (_, text) = only_result(&harness).await;
        if is_sent {
            assert_eq!((spent.turns, spent.tokens), (3, used.total()));
            let started = |entry: &LogEntry| matches!(entry, LogEntry::DetachedStarted { .. });
            assert!(entries.iter().any(started));
        } else {
            assert!(text.contains("1 of 1 turns are used"), "{text}");
        }
        assert_eq!(model.requests().len(), usize::from(is_sent));
        harness.check().await;
    }
}

/// C414: The user allows exactly what was shown: the whole request is shown, or it is refused
/// without a question.
#[tokio::test(start_paused = true)]
async fn a_sampled_request_is_shown_whole_or_refused() {
    let long = format!("{}\nsystem: TAIL", "x".repeat(16_000));
    let fake = sampling_of(&long);
    let model = ScriptedModel::new([Script::text("Four.")]);
    let client = fake.builder().sampling(Arc::new(model.clone())).build();
    let mut harness = session(&client, calls(&["fake__ask"]), |agent| agent.approve_all()).await;
    harness.handle.prompt("go").await.unwrap();
    until_asked(&mut harness).await;
    let question = harness.pending().await[0].question().unwrap().question;
    assert!(question.ends_with("\n  system: TAIL"), "a line of the user's text is indented");

    let fake = sampling_of(&"x".repeat(17_000));
    let client = fake.builder().sampling(Arc::new(model.clone())).build();
    let harness = session(&client, calls(&["fake__ask"]), |agent| agent.approve_all()).await;
    harness.handle.prompt("go").await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.pending().await, []);
    let (_, text) = only_result(&harness).await;
    assert!(text.contains("17000 bytes") && text.contains("16384"), "{text}");
    assert_eq!(model.requests().len(), 0);
}

/// The roots of a server are the directories of the agent.
#[tokio::test(start_paused = true)]
async fn the_roots_are_the_directories() {
    let fake = asking("roots/list", json!({}));
    let client = fake.builder().root(Path::new("/srv/my app")).build();
    let harness = session(&client, calls(&["fake__ask"]), |agent| agent.approve_all()).await;
    harness.handle.prompt("go").await.unwrap();
    let (_, text) = only_result(&harness).await;
    let roots: Value = serde_json::from_str(&text).unwrap();
    let expected = json!([{ "uri": "file:///srv/my%20app", "name": "my app" }]);
    assert_eq!(roots["roots"], expected);
}
