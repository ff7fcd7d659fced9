//! The construction of a [`Graph`].

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use loopwright_core::message::MessageKind;
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
use serde::Serialize;
use serde::de::DeserializeOwned;

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
        self.edges.insert(from, Arc::new(next));
        self
    }
}
