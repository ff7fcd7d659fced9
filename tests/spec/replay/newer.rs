//! Replays of patterns' work other than requests of the conversation: detached requests with keys,
//! calls, questions and rewinds. Also replays of sub-agents.

use super::*;

/// C181: Keyed requests that are sent together and end in another order.
#[tokio::test(start_paused = true)]
async fn keyed_requests_that_are_sent_together() {
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let asks = ["one", "two", "three"]
                .map(|key| Ask::detached().system(key).key(key).also(UserMessage::from("Which?")));
            let replies = step.ask_all(asks).await?;
            let texts: Vec<String> = replies.iter().map(|reply| reply.text()).collect();
            step.remember(AssistantMessage::from(texts.join(", "))).await?;
            Ok(StepEnd::Done)
        })
    });
    let replies = [(30, "1"), (20, "2"), (10, "3")]
        .map(|(time, text)| Script::new().wait(ms(time)).say(text));
    let harness = Harness::new(pattern.clone(), replies, |agent| agent).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "1, 2, 3");
    replays(&harness, pattern, |agent| agent).await;
}

/// C181: If a process died after one of three replies, the next one sends the other two requests.
#[tokio::test(start_paused = true)]
async fn keyed_requests_of_two_processes() {
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let asks = ["one", "two", "three"].map(|key| {
                Ask::detached().key(key).temperature(0.5).also(UserMessage::from("Which?"))
            });
            let replies = step.ask_all(asks).await?;
            let texts: Vec<String> = replies.iter().map(|reply| reply.text()).collect();
            step.remember(AssistantMessage::from(texts.join(", "))).await?;
            Ok(StepEnd::Done)
        })
    });
    let replies = || ["1", "2", "3"].map(Script::text);
    let harness = Harness::new(pattern.clone(), replies(), |agent| agent).await;
    harness.handle.prompt("go").await.unwrap();
    let mut log = harness.memory.entries();
    let first = log.iter().position(|entry| matches!(entry, LogEntry::Detached { .. })).unwrap();
    log.truncate(first + 1);
    harness.model.set_replies(["4", "5"].map(Script::text));
    let harness = harness.restart_from(log).await;
    assert_eq!(harness.handle.continue_run().await.unwrap().text, "1, 4, 5");
    replays(&harness, pattern, |agent| agent).await;
}

/// C181: An abort while one of two requests is in progress.
#[tokio::test(start_paused = true)]
async fn an_abort_during_requests_that_are_sent_together() {
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let asks = ["one", "two"].map(|key| Ask::detached().key(key).system(key));
            step.ask_all(asks).await?;
            Ok(StepEnd::Done)
        })
    });
    let replies = [Script::text("1"), Script::new().say("2").hang(), Script::text("3")];
    let replies = replies.into_iter().chain([Script::text("4")]);
    let harness = Harness::new(pattern.clone(), replies, |agent| agent).await;
    send(&harness, "go").await;
    sleep(ms(50)).await;
    harness.handle.abort().await.unwrap();
    harness.handle.prompt("again").await.unwrap();
    harness.check().await;
    replays(&harness, pattern, |agent| agent).await;
}

/// C181: Calls of a pattern, one of which needs an approval, are made once per key.
#[tokio::test(start_paused = true)]
async fn calls_of_a_pattern() {
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let calls = ["look", "pay"].map(|tool| Call::new(tool, json!({"n": 1})).key(tool));
            step.call_all(calls).await?.ok_or(StepEnd::AwaitingAction)?;
            step.call(Call::new("look", json!({"n": 2})).hidden()).await?;
            step.ask().await?.finish()
        })
    });
    let harness = Harness::new(pattern.clone(), [Script::text("Paid.")], |agent| {
        agent.tool(TestTool::new("look").effect(Effect::ReadOnly)).tool(asks("pay"))
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    harness.resolve(0, Decision::Approve).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.transcript().await.last().unwrap(), "A:Paid./Stop");
    replays(&harness, pattern, |agent| agent).await;
}

/// C181: A question is answered in another process, another is declined, and a third is superseded.
#[tokio::test(start_paused = true)]
async fn questions_of_a_pattern() {
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let question = Question::choice("Which?", ["red", "blue"]);
            let answer = step.question("colour", question).await?.answer()?;
            let secret = step.question("word", Question::secret("The word?")).await?.answer()?;
            step.remember(UserMessage::from(format!("{answer:?} {}", secret.is_some()))).await?;
            step.ask().await?.finish()
        })
    });
    let replies = ["One.", "Two.", "Three."].map(Script::text);
    let harness = Harness::new(pattern.clone(), replies, |agent| agent).await;
    let answer = |text| Decision::Provide(Provided::Input(json!(text)));
    harness.handle.prompt("go").await.unwrap();
    let harness = harness.restart().await;
    harness.resolve(0, answer("red")).await.unwrap();
    harness.handle.wait_for_idle().await;
    harness.resolve(0, answer("hunter2")).await.unwrap();
    harness.handle.wait_for_idle().await;
    harness.handle.prompt("again").await.unwrap();
    harness.resolve(0, Decision::Deny("no".into())).await.unwrap();
    harness.handle.wait_for_idle().await;
    harness.handle.steer("Leave it.").await.unwrap();
    harness.handle.wait_for_idle().await;
    harness.check().await;
    replays(&harness, pattern, |agent| agent).await;
}

/// C181: The first attempt is removed from the conversation, the second stays.
#[tokio::test(start_paused = true)]
async fn rewinds() {
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let start = step.checkpoint();
            let attempts: u32 = step.state("attempts").unwrap_or(0);
            for attempt in attempts..3 {
                let reply = step.ask().await?;
                step.call_tools(&reply).await?;
                if attempt == 2 {
                    return reply.finish();
                }
                step.set_state("attempts", attempt + 1)?;
                step.rewind(start).await?;
            }
            Ok(StepEnd::Done)
        })
    });
    let replies = || [calls(&["x"]), Script::text("Two."), Script::text("Three.")];
    let all = replies().into_iter().chain(replies());
    let harness = Harness::new(pattern.clone(), all, |agent| agent.tool(TestTool::new("x"))).await;
    harness.handle.prompt("go").await.unwrap();
    harness.handle.prompt("again").await.unwrap();
    assert_eq!(sent(&harness, 3), ["go", "Three.", "again"]);
    replays(&harness, pattern, |agent| agent).await;
}

fn sub_agent(replies: impl IntoIterator<Item = Script>, tool: TestTool) -> GenericAgent {
    GenericAgent::builder(ScriptedModel::new(replies), PiPattern).tool(tool).build().unwrap()
}

/// Runs a session of an agent with the sub-agent `helper`, in which all actions are approved.
/// Returns the logs of both.
async fn logs(helper: GenericAgent, replies: [Script; 2]) -> [Vec<LogEntry>; 2] {
    let store = InMemoryStore::new();
    let agent = GenericAgent::builder(ScriptedModel::new(replies), PiPattern)
        .child("helper", "Helps.", helper)
        .build()
        .unwrap();
    let cx = RunContext::new().stored(&store, "root").await.unwrap();
    let (handle, _events) = agent.run(cx).await.unwrap();
    handle.prompt("go").await.unwrap();
    for action in handle.pending().await.unwrap() {
        handle.approve(&action).await.unwrap();
    }
    handle.wait_for_idle().await;
    handle.close().await;
    [store.read("root", 0).await.unwrap(), store.read("root/m2.1", 0).await.unwrap()]
}

fn with_helper() -> [Script; 2] {
    let task = Script::calls([("h", "helper", json!({"task": "Help."}))]);
    [task, Script::text("It helped.")]
}

async fn replay(log: &[LogEntry]) -> Result<(), String> {
    let replay = Replay::from_entries(log.iter().cloned());
    let agent = GenericAgent::builder(replay.model(), PiPattern).tools(replay.tools());
    replay.run(&agent.build().unwrap()).await.map_err(|difference| difference.to_string())
}

/// C181: In the log of the root, a sub-agent that does not wait is a tool. Its own log is like any
/// session's.
#[tokio::test(start_paused = true)]
async fn sub_agents() {
    let helper = sub_agent([calls(&["x"]), Script::text("Done.")], TestTool::new("x"));
    for log in logs(helper, with_helper()).await {
        assert_eq!(replay(&log).await, Ok(()));
    }
}

/// C181: A sub-agent that waited is refused, with advice. Its own log is accepted.
#[tokio::test(start_paused = true)]
async fn sub_agents_that_wait() {
    let helper = sub_agent([calls(&["x"]), Script::text("Done.")], asks("x"));
    let [root, child] = logs(helper, with_helper()).await;
    assert_eq!(replay(&child).await, Ok(()));
    let at = root.iter().position(|e| matches!(e, LogEntry::ChildAwaits { .. })).unwrap();
    let expected = format!(
        "the sub-agent of call h waits for a decision in entry {at} of the log, which cannot be \
         replayed: replay the log of its session `root/m2.1` instead, or record the agent in a \
         `Cassette`"
    );
    assert_eq!(replay(&root).await, Err(expected));
}

/// C181: A sub-agent that was working when its process died is refused too.
#[tokio::test(start_paused = true)]
async fn sub_agents_that_were_cut_off() {
    let helper = sub_agent([calls(&["x"]), Script::text("Done.")], TestTool::new("x"));
    let [mut root, _] = logs(helper, with_helper()).await;
    let at = root.iter().position(|e| matches!(e, LogEntry::ChildStarted { .. })).unwrap();
    root.truncate(at + 2);
    let expected = format!(
        "the sub-agent of call h, which started in entry {at} of the log, was cut off, which \
         cannot be replayed: replay the log of its session `root/m2.1` instead, or record the \
         agent in a `Cassette`"
    );
    assert_eq!(replay(&root).await, Err(expected));
}
