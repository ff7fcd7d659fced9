//! The construction of a [`Graph`].

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use loopwright_core::message::MessageKind;
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::branches::{Branch, Branches};
use super::node::{Node, Outline, Run};
use super::{Graph, Next};

impl<S: Default + Serialize + DeserializeOwned + Send> Graph<S> {
    /// Creates a graph without nodes that begins at `start`.
    pub fn new(start: &'static str) -> Self {
        Graph {
            start,
            nodes: BTreeMap::new(),
            edges: BTreeMap::new(),
            patterns: BTreeMap::new(),
            checkpoints: Vec::new(),
        }
    }

    /// Adds a node, replacing another one of the same name. It returns the message that it adds to
    /// the conversation, if any.
    pub fn node<F>(mut self, name: &'static str, node: F) -> Self
    where
        F: for<'a> Fn(
                &'a mut StepContext<'_>,
                &'a mut S,
            ) -> BoxFuture<'a, Result<Option<MessageKind>, StepError>>
            + Send
            + Sync
            + 'static,
    {
        let node = Node { run: Box::new(node), branches: None };
        self.nodes.insert(name, Arc::new(node));
        self
    }

    /// Adds a node whose branches work at the same time. Its join gets their results in the order
    /// of the list, changes the state, and returns the message that the node adds to the
    /// conversation, if any.
    pub fn branches<B: Branch>(
        mut self,
        name: &'static str,
        branches: Branches<S, B>,
        join: impl Fn(
            &mut S,
            Vec<Result<B::Result, StepError>>,
        ) -> Result<Option<MessageKind>, StepError>
        + Send
        + Sync
        + 'static,
    ) -> Self
    where
        S: Sync + 'static,
    {
        let (terms, list) = (branches.describe(), branches.list.clone());
        let count = Box::new(move |step: &StepContext<'_>, state: &S| list(step, state).len());
        let shared = Arc::new((branches, join));
        let run: Box<Run<S>> = Box::new(move |step, state| {
            let shared = shared.clone();
            Box::pin(async move {
                let (branches, join) = &*shared;
                let results = branches.run(name, step, state).await?;
                join(state, results)
            })
        });
        let node = Node { run, branches: Some(Outline { terms, count }) };
        self.nodes.insert(name, Arc::new(node));
        self
    }

    /// Adds a node that runs another pattern until it is done. The agent has the pattern's prompt
    /// and tools at all nodes.
    pub fn pattern(mut self, name: &'static str, pattern: impl BehaviorPattern + 'static) -> Self {
        let pattern: Arc<dyn BehaviorPattern> = Arc::new(pattern);
        self.patterns.insert(name, pattern.clone());
        self.node(name, move |step, _state| {
            let pattern = pattern.clone();
            Box::pin(async move {
                let end = pattern.next_step(step).await?;
                if end == StepEnd::Done { Ok(None) } else { Err(end.into()) }
            })
        })
    }

    /// Makes a node a checkpoint, to which [`Next::Back`] can return.
    pub fn checkpoint(mut self, node: &'static str) -> Self {
        self.checkpoints.push(node);
        self
    }

    /// Sets the edge after a node, which chooses the next one.
    pub fn edge(
        mut self,
        from: &'static str,
        next: impl Fn(&StepContext<'_>, &mut S) -> Next + Send + Sync + 'static,
    ) -> Self {
        self.edges.entry(from).or_default().choose = Some(Arc::new(next));
        self
    }

    /// Declares all points to which a node leads. With one, it needs no edge; with several, the
    /// edge must choose one of them, otherwise the run fails. [`Graph::to_mermaid`] draws them.
    pub fn leads_to(mut self, from: &'static str, targets: impl IntoIterator<Item = Next>) -> Self {
        let targets = targets.into_iter().collect();
        self.edges.entry(from).or_default().targets = Some(targets);
        self
    }
}
