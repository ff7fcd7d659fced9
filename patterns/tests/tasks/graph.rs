//! Task 8: a state graph with a cycle, a question to the user as an interrupt, and a checkpoint
//! after each node. The nodes are an enum, the edges a `match`.

// [pattern]
use loopwright_core::message::UserMessage;
use loopwright_core::tool::Question;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError, async_trait};
use loopwright_patterns::PiPattern;

#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
enum Node {
    #[default]
    Draft,
    Review,
    Act,
}

#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Graph {
    next: Node,
    drafts: u32,
    text: String,
}

struct Drafting;

#[async_trait]
impl BehaviorPattern for Drafting {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        // [essential]
        loop {
            let mut graph: Graph = step.state("graph").unwrap_or_default();
            let node = graph.next;
            graph.next = match node {
                Node::Draft => {
                    let ask = Ask::detached().key(format!("draft-{}", graph.drafts));
                    let ask = ask.also(UserMessage::from("Draft it."));
                    graph.text = step.ask_with(ask).await?.or_end()?.text();
                    graph.drafts += 1;
                    if graph.drafts < 2 { Node::Draft } else { Node::Review }
                }
                Node::Review => {
                    let question = Question::choice(format!("{} OK?", graph.text), ["yes", "no"]);
                    let key = format!("review-{}", graph.drafts);
                    let answer = step.question(&key, question).await?.answer()?;
                    if answer == Some("no".into()) { Node::Draft } else { Node::Act }
                }
                Node::Act => return PiPattern.next_step(step).await,
            };
            step.set_state("graph", &graph)?;
            step.emit("node", node).await?;
        }
        // [/essential]
    }
}
// [/pattern]

use loopwright_core::event::{Decision, Provided, RunStatus};
use loopwright_core::log::SessionLog;
use loopwright_core::testing::{Harness, Script, ScriptedSession, TestTool};
use serde_json::json;

use crate::kit::{assert_conforms, assert_survives_crashes, scenario, scenarios};

fn replies() -> [Script; 5] {
    let texts = ["d1", "d2", "d3"].map(Script::text);
    let [one, two, three] = texts;
    [one, two, three, Script::calls([("p", "look", json!({}))]), Script::text("Sent.")]
}

fn answer(text: &str) -> Decision {
    Decision::Provide(Provided::Input(json!(text)))
}

/// The second draft is reviewed, declined and rewritten; the third is accepted after a restart.
#[tokio::test(start_paused = true)]
async fn the_graph_waits_at_its_question_and_continues_with_the_answer() {
    let options = |agent: loopwright_core::AgentBuilder| agent.tool(TestTool::new("look"));
    let harness = Harness::new(Drafting, replies(), options).await;
    let outcome = harness.handle.prompt("Write.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    assert_eq!(harness.pending().await[0].question().unwrap().question, "d2 OK?");
    harness.resolve(0, answer("no")).await.unwrap();
    harness.handle.wait_for_idle().await;
    let harness = harness.restart().await;
    assert_eq!(harness.pending().await[0].question().unwrap().question, "d3 OK?");
    harness.resolve(0, answer("yes")).await.unwrap();
    harness.handle.wait_for_idle().await;
    let messages = harness.transcript().await;
    assert_eq!(messages.last().unwrap(), "A:Sent./Stop");
    let events = SessionLog::events("s", &harness.memory.entries());
    let nodes = events.iter().filter_map(|event| match &event.event {
        loopwright_core::AgentEvent::Custom { data, .. } => Some(data.to_string()),
        _ => None,
    });
    let expected = ["\"Draft\"", "\"Draft\"", "\"Review\"", "\"Draft\"", "\"Review\""];
    assert_eq!(nodes.collect::<Vec<_>>(), expected);
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let value = |_: &_| json!(null);
    let declined =
        scenario("a declined draft", value).request("Please look.").decisions(|action| {
            let is_first =
                action.question().is_some_and(|question| question.question.contains("d2"));
            answer(if is_first { "no" } else { "yes" })
        });
    assert_conforms(|| Drafting, scenarios(value).into_iter().chain([declined]).collect()).await;
    let declining = ScriptedSession::new(replies()).request("Write.").decisions(|action| {
        let is_first = action.question().is_some_and(|question| question.question.contains("d2"));
        answer(if is_first { "no" } else { "yes" })
    });
    assert_survives_crashes(|| Drafting, declining).await;
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    crate::cassettes::assert_is_recorded(|| Drafting, replies(), &["Write."]).await;
}
