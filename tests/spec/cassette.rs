//! Cassettes: an agent's models and tools, recorded once and replayed without them.

mod divergence;
mod file;
mod sessions;

use std::path::{Path, PathBuf};

use loopwright_core::testing::{Cassette, TestClock};
use serde_json::Value;

use crate::kit::*;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A folder with the file of a cassette.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("cassette.jsonl")
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }
}

/// The events and the log of a session.
#[derive(Debug, PartialEq)]
pub(crate) struct Product {
    pub(crate) events: Vec<Value>,
    pub(crate) log: Vec<LogEntry>,
}

impl Product {
    /// Returns the texts of the conversation.
    pub(crate) fn texts(&self) -> Vec<String> {
        let history = SessionLog::of(&self.log).context();
        history.iter().map(|message| message.text()).collect()
    }
}

/// Runs the session `root` of an agent in a cassette.
pub(crate) async fn session(
    cassette: &Cassette,
    agent: AgentBuilder,
    drive: impl AsyncFnOnce(&AgentHandle),
) -> Product {
    let store = InMemoryStore::new();
    let agent = agent.environment(TestClock::default()).build().unwrap();
    let cx = RunContext::new().stored(&store, "root").await.unwrap();
    let (handle, mut stream) = cassette.agent(agent).run(cx).await.unwrap();
    drive(&handle).await;
    handle.wait_for_idle().await;
    drop(handle);
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(serde_json::to_value(&*event).unwrap());
    }
    Product { events, log: store.read("root", 0).await.unwrap() }
}

/// Returns a model that must not be called.
pub(crate) fn no_model() -> ScriptedModel {
    ScriptedModel::new([])
}

/// Records a session and replays it with a model that has no replies. Asserts that the results are
/// equal and that everything was replayed. Returns the result.
pub(crate) async fn assert_replays(
    path: &Path,
    replies: impl IntoIterator<Item = Script>,
    agent: impl Fn(ScriptedModel) -> AgentBuilder,
    drive: impl AsyncFn(&AgentHandle),
) -> Product {
    let cassette = Cassette::record(path).unwrap();
    let recorded = session(&cassette, agent(ScriptedModel::new(replies)), &drive).await;
    cassette.finish().unwrap();
    let cassette = Cassette::replay(path).unwrap();
    assert!(cassette.remaining() > 0);
    let model = no_model();
    let replayed = session(&cassette, agent(model.clone()), &drive).await;
    cassette.finish().unwrap();
    assert_eq!(cassette.remaining(), 0);
    assert_eq!((model.requests().len(), model.refused().len()), (0, 0));
    assert_eq!(replayed, recorded);
    recorded
}

pub(crate) async fn prompt(handle: &AgentHandle, text: &str) {
    handle.prompt(text).await.unwrap();
}

/// Decides pending actions until the session has none.
pub(crate) async fn decide_all(handle: &AgentHandle, decision: Decision) {
    loop {
        handle.wait_for_idle().await;
        let Some(action) = handle.pending().await.unwrap().into_iter().next() else { return };
        handle.resolve(&action, decision.clone()).await.unwrap();
    }
}

/// C174: Replies, deltas, updates, results and errors of tools, suspensions and terminations are
/// replayed, without a model and without an effect.
#[tokio::test(start_paused = true)]
async fn all_that_a_model_and_tools_do_is_replayed_without_them() {
    let folder = Folder::new();
    let tools = || {
        [
            TestTool::new("look").effect(Effect::ReadOnly).sends_updates(3, ms(20)),
            TestTool::new("fail").effect(Effect::ReadOnly).fails("No such city."),
            TestTool::new("panic").effect(Effect::ReadOnly).panics(),
            TestTool::new("login").effect(Effect::ReadOnly).suspends("login"),
            TestTool::new("finish")
                .effect(Effect::ReadOnly)
                .answers(ToolOutput::text("Finished.").details(json!({"rows": 2})).terminate()),
        ]
    };
    let ran = std::sync::Mutex::new(Vec::new());
    let agent = |model: ScriptedModel| {
        let tools = tools();
        ran.lock().unwrap().push(tools.clone());
        let tools = tools.into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>);
        GenericAgent::builder(model, PiPattern).system("You look first.").tools(tools)
    };
    let replies = [
        Script::new().think("I should look.", Some("signed")).call("a", "look", "{}"),
        calls(&["fail", "panic"]),
        Script::calls([("l", "login", json!({}))]),
        slow(5, ms(30)),
        Script::calls([("f", "finish", json!({}))]),
    ];
    let product = assert_replays(&folder.path(), replies, agent, async |handle| {
        prompt(handle, "Look.").await;
        let login = Decision::Provide(Provided::Input(json!("a token")));
        decide_all(handle, login).await;
        prompt(handle, "Finish.").await;
    })
    .await;
    let kind = |event: &&Value| event["type"] == "tool_execution_update";
    assert_eq!(product.events.iter().filter(kind).count(), 3);
    let texts = product.texts().join(" | ");
    for text in ["look done", "No such city.", "The tool panicked", "w0 w1 w2 w3 w4", "Finished."] {
        assert!(texts.contains(text), "{text}: {texts}");
    }
    let runs: Vec<Vec<usize>> = std::mem::take(&mut *ran.lock().unwrap())
        .iter()
        .map(|tools| tools.iter().map(TestTool::ran).collect())
        .collect();
    assert_eq!(runs, [vec![1; 5], vec![0; 5]]);
}

/// C175: Three equal requests that are sent together, and three equal calls, get their replies and
/// results in order, whichever ended first.
#[tokio::test(start_paused = true)]
async fn requests_and_calls_at_the_same_time_may_end_in_any_order() {
    let folder = Folder::new();
    let pattern = || {
        does(|step| {
            Box::pin(async move {
                step.take_input().await?;
                let asks = ["One?", "Two?", "Two?"];
                let asks = asks.map(|text| Ask::detached().also(UserMessage::from(text)));
                let replies = step.ask_all(asks).await?;
                let texts: Vec<String> = replies.iter().map(|reply| reply.text()).collect();
                step.remember(AssistantMessage::from(texts.join(", "))).await?;
                step.call_all(["1", "2", "3"].map(|_| Call::new("wait", json!({})))).await?;
                Ok(StepEnd::Done)
            })
        })
    };
    let agent = |model: ScriptedModel| {
        let wait = tool_fn("wait", "Waits.", async |_: Nothing, cx: ToolContext| {
            let is_first = &**cx.call_id() == "wait";
            sleep(ms(if is_first { 50 } else { 10 })).await;
            Ok::<_, ToolError>(format!("The result of {}.", cx.call_id()))
        });
        GenericAgent::builder(model, pattern()).tool(wait).approve_all()
    };
    let replies = [(30, "1"), (20, "2"), (10, "3")]
        .map(|(time, text)| Script::new().wait(ms(time)).say(text));
    let record = Cassette::record(folder.path()).unwrap();
    let drive = async |handle: &AgentHandle| prompt(handle, "Go.").await;
    let recorded = session(&record, agent(ScriptedModel::new(replies)), drive).await;
    record.finish().unwrap();
    let replay = Cassette::replay(folder.path()).unwrap();
    let replayed = session(&replay, agent(no_model()), drive).await;
    replay.finish().unwrap();
    assert_eq!(replayed.texts(), recorded.texts());
    assert_eq!(recorded.texts()[1], "1, 2, 3");
    assert_eq!(recorded.texts()[3], "The result of wait.");
    // The third reply is the first in the file.
    let numbers: Vec<Value> = folder
        .text()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["type"] == "request")
        .map(|line| line["number"].clone())
        .collect();
    assert_eq!(numbers, [json!(3), json!(2), json!(1)]);
}

/// C179: An aborted reply, a reply interrupted by a steer, and a cancelled call end in the replay
/// as in the recording.
#[tokio::test(start_paused = true)]
async fn aborts_and_interrupts_in_the_middle_are_replayed() {
    let folder = Folder::new();
    let agent = |model: ScriptedModel| {
        let wait = TestTool::new("wait").effect(Effect::ReadOnly).takes(ms(60_000));
        let stubborn =
            TestTool::new("stubborn").effect(Effect::ReadOnly).takes_ignoring_cancel(ms(60_000));
        GenericAgent::builder(model, PiPattern).tool(wait).tool(stubborn)
    };
    let replies = [
        slow(10, ms(20)),
        slow(10, ms(20)),
        Script::text("Shorter."),
        calls(&["wait", "stubborn"]),
        Script::text("Never mind."),
    ];
    let product = assert_replays(&folder.path(), replies, agent, async |handle| {
        let mut stream = handle.subscribe();
        handle.send(InputEvent::UserRequest("A story.".into())).await.unwrap();
        until(&mut stream, |event| is_text_delta(event, "w3 ")).await;
        handle.abort().await.unwrap();
        handle.send(InputEvent::UserRequest("Another one.".into())).await.unwrap();
        until(&mut stream, |event| is_text_delta(event, "w5 ")).await;
        let steer = Prompt::from("Short!").urgency(Urgency::Interrupt);
        handle.steer(steer).await.unwrap();
        handle.wait_for_idle().await;
        handle.send(InputEvent::UserRequest("Wait.".into())).await.unwrap();
        until(&mut stream, starts).await;
        until(&mut stream, starts).await;
        handle.abort().await.unwrap();
        prompt(handle, "Thanks.").await;
    })
    .await;
    let texts = product.texts();
    assert!(texts.iter().any(|text| text == "w0 w1 w2 w3 "), "{texts:?}");
    assert!(texts.iter().any(|text| text == "w0 w1 w2 w3 w4 w5 "), "{texts:?}");
    assert_eq!(texts.last().unwrap(), "Never mind.");
    assert!(folder.text().contains(r#""end":"cut_off""#), "the stubborn call was dropped");
}

/// C179: If the reply is not cut off in the replay, the request fails after a minute and says why.
#[tokio::test(start_paused = true)]
async fn a_reply_that_is_not_cut_off_once_more_fails() {
    let folder = Folder::new();
    let agent = |model| GenericAgent::builder(model, PiPattern);
    let record = Cassette::record(folder.path()).unwrap();
    session(&record, agent(ScriptedModel::new([slow(10, ms(20))])), async |handle| {
        let mut stream = handle.subscribe();
        handle.send(InputEvent::UserRequest("A story.".into())).await.unwrap();
        until(&mut stream, |event| is_text_delta(event, "w3 ")).await;
        handle.abort().await.unwrap();
    })
    .await;
    record.finish().unwrap();
    let replay = Cassette::replay(folder.path()).unwrap();
    session(&replay, agent(no_model()), async |handle| {
        let outcome = handle.prompt("A story.").await.unwrap();
        let error = outcome.error.unwrap();
        assert!(error.contains("which was aborted or interrupted"), "{error}");
    })
    .await;
}

/// C179: An error of the model, and an attempt that was withdrawn and retried, are replayed.
#[tokio::test(start_paused = true)]
async fn errors_and_retries_are_replayed() {
    let folder = Folder::new();
    let agent = |model| {
        let model = loopwright_providers::Retry::new(model);
        GenericAgent::builder(model, PiPattern)
    };
    let overloaded = || Script::new().say("Hm").fail(ModelErrorKind::Overloaded, "busy");
    let replies = [
        overloaded(),
        Script::text("Hello."),
        Script::new().fail(ModelErrorKind::Auth, "the key is not valid"),
    ];
    let product = assert_replays(&folder.path(), replies, agent, async |handle| {
        prompt(handle, "Hello?").await;
        let outcome = handle.prompt("And?").await.unwrap();
        assert_eq!(outcome.end, RunStatus::Error);
    })
    .await;
    assert!(product.events.iter().any(|event| event["type"] == "retry"));
    assert_eq!(product.texts(), ["Hello?", "Hello.", "And?"]);
}

/// C174: No key is needed: the model is only built to record.
#[tokio::test(start_paused = true)]
async fn a_replay_builds_no_model() {
    let folder = Folder::new();
    let built = std::sync::atomic::AtomicUsize::new(0);
    for _ in 0..3 {
        let cassette = Cassette::auto(folder.path()).unwrap();
        let model = cassette.model(|| {
            built.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let model = ScriptedModel::new([Script::text("Hello.")]);
            Ok::<_, ()>(model.info(ModelInfo::new("test/real")))
        });
        let agent = GenericAgent::builder(model.unwrap(), PiPattern);
        let product = session(&cassette, agent, async |handle| {
            assert_eq!(handle.prompt("Hello?").await.unwrap().text, "Hello.");
        })
        .await;
        cassette.finish().unwrap();
        let models = product.log.iter().filter_map(|entry| match entry {
            LogEntry::RequestStarted { model, .. } => Some(&**model),
            _ => None,
        });
        assert_eq!(models.collect::<Vec<_>>(), ["test/real"]);
    }
    assert_eq!(built.into_inner(), 1);
}
