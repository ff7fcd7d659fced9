//! Answers from passages that are retrieved.

use loopwright_core::message::MessageKind;
use loopwright_core::retrieval::{Passage, RetrievalError, Retriever};
use loopwright_core::testing::{Harness, Script};
use loopwright_core::{AgentBuilder, async_trait};
use loopwright_patterns::{PiPattern, Rag, search_tool};
use serde_json::json;

use crate::kit::{assert_conforms, scenario, scenarios};
use crate::values::value;

/// A retriever that finds the lines with a word of the query.
struct Lines;

#[async_trait]
impl Retriever for Lines {
    async fn retrieve(&self, query: &str, limit: usize) -> Result<Vec<Passage>, RetrievalError> {
        let lines = [("a.md", "Sheep eat grass."), ("b.md", "Wolves eat sheep."), ("", "No name.")];
        let fits = |text: &str| query.to_lowercase().split(' ').any(|word| text.contains(word));
        let found = lines.into_iter().filter(|(_, text)| fits(&text.to_lowercase()));
        Ok(found.map(|(source, text)| Passage::new(text).source(source)).take(limit).collect())
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_followed_by_the_passages_that_it_cites() {
    let replies = [
        Script::text("Grass [a.md]."),
        Script::calls([("c", "search", json!({ "query": "wolves" }))]),
        Script::text("Sheep [b.md]."),
        Script::text("Nobody knows."),
    ];
    let options = |agent: AgentBuilder| agent.system("You know animals.");
    let harness = Harness::new(Rag::new(Lines, PiPattern), replies, options).await;
    for text in ["sheep", "name", "cows?"] {
        harness.handle.prompt(text).await.unwrap();
    }
    let messages = harness.handle.state().await.unwrap().messages;
    let cited = messages.iter().filter_map(|message| match &message.body {
        MessageKind::Custom(message) => Some(message.data.clone()),
        _ => None,
    });
    let cited: Vec<Vec<Passage>> =
        cited.map(|data| serde_json::from_value(data).unwrap()).collect();
    let sources = cited.iter().map(|c| c.iter().map(|p| &*p.source).collect::<Vec<_>>());
    assert_eq!(sources.collect::<Vec<_>>(), [vec!["a.md"], vec!["b.md"], vec![]]);
    let results = messages.iter().filter_map(|message| message.as_tool_result());
    let results: Vec<String> = results.map(|result| result.text()).collect();
    let expected = [
        "[a.md]\nSheep eat grass.\n\n[b.md]\nWolves eat sheep.",
        "[1]\nNo name.",
        "[b.md]\nWolves eat sheep.",
        "No passage was found.",
    ];
    assert_eq!(results, expected);
    let request = &harness.model.requests()[0];
    assert!(request.system.starts_with("You know animals.\n\nAnswer from the passages"));
    assert!(request.tools.iter().any(|tool| &*tool.name == "search"));
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let own = scenario("two requests", value).request("Please look.").request("Please pay.");
    let all = scenarios(value).into_iter().chain([own]).collect();
    assert_conforms(|| Rag::new(Lines, PiPattern), all).await;
    let renamed = || Rag::with_tool(search_tool("find", Lines, 1), PiPattern);
    assert_conforms(renamed, vec![scenario("another name", value).request("sheep")]).await;
}
