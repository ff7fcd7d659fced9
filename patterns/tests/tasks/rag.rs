//! Task 4: retrieval-augmented generation with citations. The pattern searches before it asks, and
//! adds the sources that the answer cites.

// [pattern]
use loopwright_core::message::{CustomMessage, MessageKind};
use loopwright_core::session::Call;
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError, async_trait};
use serde_json::json;

struct Rag;

#[async_trait]
impl BehaviorPattern for Rag {
    fn system_instruction(&self, header: &str) -> String {
        format!("{header} Answer from the lines that `search` returns only, and cite them as [n].")
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            // [essential]
            let history = step.history();
            let asked = history.iter().rev().find(|m| matches!(m.body, MessageKind::User(_)));
            let asked = asked.ok_or(StepError::NothingToAnswer)?;
            let search = Call::new("search", json!({ "query": asked.text() }));
            let Some(found) = step.call(search.key(format!("search-{}", asked.id.0))).await? else {
                return Ok(StepEnd::AwaitingAction);
            };
            if step.has_messages() && !step.is_answered() {
                step.take_messages().await?;
                continue; // the last one is searched for
            }
            let reply = step.ask().await?.or_end()?;
            let batch = step.call_tools(&reply).await?.or_end()?;
            if step.history().last() == reply.message() {
                let (answer, sources) = (reply.text(), found.text());
                let cited =
                    sources.lines().zip(1..).filter(|(_, n)| answer.contains(&format!("[{n}]")));
                let cited: Vec<&str> = cited.map(|(source, _)| source).collect();
                step.remember(CustomMessage::new("citations", json!(cited))).await?;
            }
            // [/essential]
            if !batch.wants_reply() && !step.has_messages() {
                return Ok(StepEnd::Done);
            }
            step.take_messages().await?;
        }
    }
}
// [/pattern]

use loopwright_core::AgentBuilder;
use loopwright_core::testing::{Harness, Script, TestTool};
use loopwright_patterns::conformance;

use crate::kit::assert_conforms;

const SOURCES: &str = "a.md: Sheep eat grass.\nb.md: Wolves eat sheep.";

fn with_search(agent: AgentBuilder) -> AgentBuilder {
    agent.tool(TestTool::new("search").answers(SOURCES))
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_followed_by_the_sources_that_it_cites() {
    let replies = ["Grass [1].", "Nobody knows."].map(Script::text);
    let harness = Harness::new(Rag, replies, with_search).await;
    harness.handle.prompt("What do sheep eat?").await.unwrap();
    harness.handle.prompt("And cows?").await.unwrap();
    let expected = [
        "U:What do sheep eat?",
        "A:[search]/ToolCalls",
        "R:search/Ok",
        "A:Grass [1]./Stop",
        "C:citations",
        "U:And cows?",
        "A:[search_2]/ToolCalls",
        "R:search_2/Ok",
        "A:Nobody knows./Stop",
        "C:citations",
    ];
    assert_eq!(harness.transcript().await, expected);
    let cited = harness
        .handle
        .state()
        .await
        .unwrap()
        .messages
        .iter()
        .filter_map(|message| {
            let MessageKind::Custom(message) = &message.body else { return None };
            Some(message.data.clone())
        })
        .collect::<Vec<_>>();
    assert_eq!(cited, [json!(["a.md: Sheep eat grass."]), json!([])]);
    assert!(harness.model.requests()[0].system.contains("cite them"));
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let all = conformance::scenarios().into_iter();
    let all = all.map(|scenario| scenario.agent(|agent, _| with_search(agent)));
    assert_conforms(|| Rag, all.collect()).await;
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    let agent = |model| with_search(loopwright_core::GenericAgent::builder(model, Rag));
    let replies = ["Grass [1].", "Nobody knows."].map(Script::text);
    crate::cassettes::assert_agent_is_recorded(
        agent,
        replies,
        &["What do sheep eat?", "And cows?"],
    )
    .await;
}
