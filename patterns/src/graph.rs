//! [`Graph`]: nodes, parallel branches, conditional edges, cycles, and returns to checkpoints.

mod branches;
mod builder;
mod mermaid;
mod next;
mod node;
mod position;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError, Tool};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use branches::{Branch, Branches};
pub use next::Next;
use node::{Edge, Node};
use position::{KEY, Position};

/// A pattern that runs nodes connected by edges, from a first node to the end.
///
/// ```text
/// take_input ─▶ node ─▶ edge ── to another node ─▶ node ─▶ …
///                        ├── back to a checkpoint: the conversation returns to that point
///                        └── end ─▶ messages? ── no ─▶ done
/// ```
///
/// A node is an async function of the step and the state `S` of the graph, or another pattern. It
/// may do everything that a pattern does: ask, call tools, ask the user and wait for the answer
/// ([`StepContext::question`]). A node can also be [branches](Graph::branches): one for each value
/// of a list, which work at the same time, and a function that joins their results.
///
/// An edge is a function of the step and the state that chooses the next node. A node that
/// [leads to](Graph::leads_to) only one other needs none. Without either, the graph ends after the
/// node. [`Graph::to_mermaid`] draws the graph.
///
/// - The position and the state are in the session's log. After a restart, or a decision, the graph
///   continues with its current node, from that node's beginning. This includes a question, which
///   ends the run until it is answered.
/// - **Paid work and side effects of a node need a key** ([`Ask::key`](loopwright_core::Ask::key),
///   [`Call::key`](loopwright_core::session::Call::key)) that differs from visit to visit, such as
///   `format!("draft-{}", state.round)`: a key finds the record under it.
/// - A node returns the message that it adds to the conversation. So the message is added once,
///   even if the process crashes.
/// - Calls of a reply that have no result at a restart are made before the graph continues. An edge
///   that depends on a reply should look at the conversation ([`StepContext::last_reply`]), not at
///   a state that was set before.
/// - [`Next::Back`] leads to a node that is a [checkpoint](Graph::checkpoint), and removes from the
///   conversation everything added since the node was last entered. The history keeps it. The state
///   stays as the edge leaves it, so that it can record what was tried.
/// - At the end, messages that the user has sent in the meantime are delivered, and the graph
///   restarts at the first node with its state. The same happens after a message of a pattern
///   around it.
///
/// From: LangGraph's `StateGraph`.
///
/// **Use it** where the flow is known and people should be able to read it as a graph.
/// **Do not use it** for a loop that is clearer as async code: a pattern may simply contain a
/// `loop` and an `if`.
///
/// The graph of an agent: a node that asks the model, a node that calls its tools, and conditional
/// edges between them. The state is `true` if the results ask for the end.
///
/// ```
/// use loopwright_core::testing::{Harness, Script, TestTool};
/// use loopwright_patterns::{Graph, Next};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let graph = Graph::<bool>::new("agent")
///     .node("agent", |step, _| Box::pin(async move {
///         step.take_messages().await?;
///         step.ask().await?.or_end()?;
///         Ok(None)
///     }))
///     .edge("agent", |step, _| match step.last_reply() {
///         Some(reply) if reply.has_calls() => Next::To("tools"),
///         _ => Next::End,
///     })
///     .node("tools", |step, ends| Box::pin(async move {
///         if let Some(reply) = step.last_reply() {
///             *ends = !step.call_tools(&reply).await?.or_end()?.wants_reply();
///         }
///         Ok(None)
///     }))
///     .edge("tools", |_, ends| if std::mem::take(ends) { Next::End } else { Next::To("agent") });
/// let call = Script::calls([("c1", "clock", serde_json::json!({}))]);
/// let clock = TestTool::new("clock").answers("12:00");
/// let replies = [call, Script::text("It is noon.")];
/// let harness = Harness::new(graph, replies, |agent| agent.tool(clock)).await;
/// assert_eq!(harness.handle.prompt("The time?").await.unwrap().text, "It is noon.");
/// # }
/// ```
#[derive(Clone)]
pub struct Graph<S> {
    start: &'static str,
    nodes: BTreeMap<&'static str, Arc<Node<S>>>,
    edges: BTreeMap<&'static str, Edge<S>>,
    patterns: BTreeMap<&'static str, Arc<dyn BehaviorPattern>>,
    checkpoints: Vec<&'static str>,
}

#[async_trait]
impl<S: Default + Serialize + DeserializeOwned + Send> BehaviorPattern for Graph<S> {
    fn system_instruction(&self, header: &str) -> String {
        let add = |header: String, pattern: &Arc<dyn BehaviorPattern>| {
            pattern.system_instruction(&header)
        };
        self.patterns.values().fold(header.to_owned(), add)
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.patterns.values().flat_map(|pattern| pattern.tools()).collect()
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            let mut at: Position<S> = Position::of(step, self.start)?;
            // The rest of the last transition. Each is one append with the position.
            if let Some(to) = at.back.take() {
                step.set_state(KEY, &at)?;
                step.rewind(to).await?;
            }
            if let Some(message) = at.message.take() {
                step.set_state(KEY, &at)?;
                step.remember(message).await?;
            }
            let next = match at.node.clone() {
                Some(name) => {
                    let unknown =
                        || StepError::Pattern(format!("there is no node `{name}`").into());
                    let node = self.nodes.get(&*name).ok_or_else(unknown)?;
                    let is_checkpoint = self.checkpoints.contains(&&*name);
                    at.begin(&name, step, is_checkpoint, node).await?;
                    at.message = (node.run)(step, &mut at.state).await?;
                    let edge = self.edges.get(&*name).cloned().unwrap_or_default();
                    edge.next(&name, step, &mut at.state)?
                }
                None if step.has_messages() => {
                    at.enter(Next::To(self.start))?;
                    step.set_state(KEY, &at)?;
                    step.take_messages().await?; // one append with the position
                    continue;
                }
                None if at.is_after(step) => Next::To(self.start),
                None => return Ok(StepEnd::Done),
            };
            at.enter(next)?;
            at.end(step)?;
            step.set_state(KEY, &at)?;
        }
    }
}
