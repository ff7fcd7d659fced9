//! The nodes and edges of a graph.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use loopwright_core::message::MessageKind;
use loopwright_core::{StepContext, StepError};

use super::next::Next;

/// A node, which returns the message that it adds to the conversation.
pub(super) struct Node<S> {
    pub(super) run: Box<Run<S>>,
    /// The branches of the node, if it has any.
    pub(super) branches: Option<Outline<S>>,
}

pub(super) type Run<S> = dyn for<'a> Fn(
        &'a mut StepContext<'_>,
        &'a mut S,
    ) -> BoxFuture<'a, Result<Option<MessageKind>, StepError>>
    + Send
    + Sync;

/// The facts about branches that drawings and front ends show.
pub(super) struct Outline<S> {
    /// Their terms, such as "at most 4 at once".
    pub(super) terms: String,
    /// Returns their number.
    pub(super) count: Box<Count<S>>,
}

pub(super) type Count<S> = dyn Fn(&StepContext<'_>, &S) -> usize + Send + Sync;

/// The edges after a node.
pub(super) struct Edge<S> {
    /// Chooses the next node. `None` if there is only one target.
    pub(super) choose: Option<Arc<Choose<S>>>,
    /// All targets, if they were declared.
    pub(super) targets: Option<Vec<Next>>,
}

type Choose<S> = dyn Fn(&StepContext<'_>, &mut S) -> Next + Send + Sync;

impl<S> Default for Edge<S> {
    fn default() -> Self {
        Edge { choose: None, targets: None }
    }
}

impl<S> Clone for Edge<S> {
    fn clone(&self) -> Self {
        Edge { choose: self.choose.clone(), targets: self.targets.clone() }
    }
}

impl<S> Edge<S> {
    /// Returns the next node.
    ///
    /// # Errors
    ///
    /// Fails if the chosen one is not declared, or if several are declared and none is chosen.
    pub(super) fn next(
        &self,
        from: &str,
        step: &StepContext<'_>,
        state: &mut S,
    ) -> Result<Next, StepError> {
        let next = match (&self.choose, self.targets.as_deref()) {
            (Some(choose), _) => choose(step, state),
            (None, None) => Next::End,
            (None, Some([only])) => *only,
            (None, Some(targets)) => {
                let count = targets.len();
                let why = format!("`{from}` leads to {count} nodes, and no edge chooses one");
                return Err(StepError::Pattern(why.into()));
            }
        };
        match &self.targets {
            Some(targets) if !targets.contains(&next) => {
                let why = format!("the edge after `{from}` chose {next:?}, which is not declared");
                Err(StepError::Pattern(why.into()))
            }
            _ => Ok(next),
        }
    }
}
