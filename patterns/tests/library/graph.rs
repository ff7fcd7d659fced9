//! Graphs.

use loopwright_core::event::{Decision, Provided, RunStatus};
use loopwright_core::message::UserMessage;
use loopwright_core::testing::{Harness, Script, TestTool};
use loopwright_core::tool::Question;
use loopwright_core::{Ask, StepContext};
use loopwright_patterns::{Graph, Next, PiPattern};
use serde_json::json;

use crate::kit::{assert_conforms, scenario, scenarios};
use crate::values::value;

/// Returns the agent node, the tools node, and the conditional edges between them. The state is
/// `true` if results ask for the end.
fn agent_and_tools() -> Graph<bool> {
    let has_calls = |step: &StepContext<'_>| step.last_reply().is_some_and(|r| r.has_calls());
    Graph::new("agent")
        .node("agent", |step, _| {
            Box::pin(async move {
                step.take_messages().await?;
                step.ask().await?.or_end()?;
                Ok(None)
            })
        })
        .edge("agent", move |step, _| if has_calls(step) { Next::To("tools") } else { Next::End })
        .node("tools", |step, ends| {
            Box::pin(async move {
                if let Some(reply) = step.last_reply() {
                    *ends = !step.call_tools(&reply).await?.or_end()?.wants_reply();
                }
                Ok(None)
            })
        })
        .edge("tools", |_, ends| if std::mem::take(ends) { Next::End } else { Next::To("agent") })
}

#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Story {
    drafts: Vec<String>,
    rounds: u32,
    verdict: String,
}

/// Returns a graph with two drafts at once, joined, and a review by the user. It leads back to
/// before the drafts, or on to a pattern that answers.
fn story() -> Graph<Story> {
    Graph::<Story>::new("draft")
        .checkpoint("draft")
        .node("draft", |step, story| {
            Box::pin(async move {
                let round = story.rounds;
                let ask = |n| Ask::detached().key(format!("draft-{round}-{n}"));
                let replies = step.ask_all((0..2).map(ask)).await?;
                let texts = replies.into_iter().map(|reply| Ok(reply.or_end()?.text()));
                story.drafts = texts.collect::<Result<_, loopwright_core::StepError>>()?;
                let joined = UserMessage::from(format!("Drafts: {}", story.drafts.join(" | ")));
                Ok(Some(joined.into()))
            })
        })
        .edge("draft", |_, _| Next::To("review"))
        .node("review", |step, story| {
            Box::pin(async move {
                let question = format!("Round {}: on?", story.rounds);
                let question = Question::choice(question, ["on", "again"]);
                let key = format!("review-{}", story.rounds);
                let answer = step.question(&key, question).await?.answer()?;
                story.verdict =
                    answer.and_then(|a| Some(a.as_str()?.to_owned())).unwrap_or_default();
                Ok(None)
            })
        })
        .edge("review", |_, story| {
            story.rounds += 1;
            if story.verdict == "again" { Next::Back("draft") } else { Next::To("answer") }
        })
        .pattern("answer", PiPattern)
}

fn answer(text: &str) -> Decision {
    Decision::Provide(Provided::Input(json!(text)))
}

#[tokio::test(start_paused = true)]
async fn an_agent_node_and_a_tools_node_are_a_cycle() {
    let call = Script::calls([("c", "look", json!({}))]);
    let replies = [call, Script::text("Done.")];
    let options = |agent: loopwright_core::AgentBuilder| agent.tool(TestTool::new("look"));
    let harness = Harness::new(agent_and_tools(), replies, options).await;
    assert_eq!(harness.handle.prompt("Look.").await.unwrap().text, "Done.");
    assert_eq!(
        harness.transcript().await,
        ["U:Look.", "A:[c]/ToolCalls", "R:c/Ok", "A:Done./Stop"]
    );
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_question_interrupts_and_the_conversation_returns_to_a_checkpoint() {
    let replies = ["a", "b", "c", "d", "The end."].map(Script::text);
    let harness = Harness::new(story(), replies, |agent| agent).await;
    let outcome = harness.handle.prompt("A story.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    let harness = harness.restart().await;
    harness.resolve(0, answer("again")).await.unwrap();
    harness.handle.wait_for_idle().await;
    harness.resolve(0, answer("on")).await.unwrap();
    harness.handle.wait_for_idle().await;
    let last = harness.model.requests().pop().unwrap();
    let texts: Vec<String> = last.messages.iter().map(|message| message.text()).collect();
    // The first drafts are no longer part of the conversation.
    assert_eq!(texts, ["A story.", "Drafts: c | d"]);
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_edge_to_a_node_that_does_not_exist_is_an_error() {
    let graph = Graph::<()>::new("start").node("start", |_, ()| Box::pin(async { Ok(None) }));
    let graph = graph.edge("start", |_, ()| Next::To("nowhere"));
    let harness = Harness::new(graph, [], |agent| agent).await;
    let outcome = harness.handle.prompt("Go.").await.unwrap();
    assert!(outcome.error.unwrap().contains("there is no node `nowhere`"));
}

/// A message of the node before a checkpoint stays when the graph returns to it.
#[tokio::test(start_paused = true)]
async fn going_back_keeps_what_was_there_when_the_node_began() {
    let graph = Graph::<u32>::new("plan")
        .checkpoint("try")
        .node("plan", |_, _| Box::pin(async { Ok(Some(UserMessage::from("The plan.").into())) }))
        .edge("plan", |_, _| Next::To("try"))
        .node("try", |step, _| {
            Box::pin(async move {
                step.ask().await?.or_end()?;
                Ok(None)
            })
        })
        .edge("try", |_, tries| {
            *tries += 1;
            if *tries == 1 { Next::Back("try") } else { Next::End }
        });
    let harness = Harness::new(graph, ["No.", "Yes."].map(Script::text), |agent| agent).await;
    assert_eq!(harness.handle.prompt("Do it.").await.unwrap().text, "Yes.");
    let last = harness.model.requests().pop().unwrap();
    let texts: Vec<String> = last.messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["Do it.", "The plan."]);
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn going_back_to_a_node_that_is_no_checkpoint_is_an_error() {
    let graph = Graph::<()>::new("a").node("a", |_, ()| Box::pin(async { Ok(None) }));
    let graph =
        graph.edge("a", |_, ()| Next::To("b")).node("b", |_, ()| Box::pin(async { Ok(None) }));
    let harness = Harness::new(graph.edge("b", |_, ()| Next::Back("b")), [], |agent| agent).await;
    let outcome = harness.handle.prompt("Go.").await.unwrap();
    assert!(outcome.error.unwrap().contains("`b`, which is no checkpoint"));
}

/// C195: A graph keeps its position, even if results ask for the end after a crash.
#[tokio::test(start_paused = true)]
async fn the_graph_of_an_agent_conforms() {
    assert_conforms(agent_and_tools, scenarios(value)).await;
}

#[tokio::test(start_paused = true)]
async fn a_graph_that_asks_and_goes_back_conforms() {
    let decide = |action: &loopwright_core::event::ExternalAction| match action.question() {
        Some(_) => answer("on"),
        None => Decision::Approve,
    };
    let back = scenario("back", value).request("Please look.").decisions(move |action| {
        let first = action.question().is_some_and(|question| question.question.contains("0"));
        if first { answer("again") } else { decide(action) }
    });
    let all = scenarios(value).into_iter();
    let all = all.map(move |s| s.decisions(decide)).chain([back]);
    assert_conforms(story, all.collect()).await;
}
