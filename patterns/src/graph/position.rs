//! [`Position`]: where a graph is, in the session's log.

use std::collections::BTreeMap;

use loopwright_core::message::{MessageId, MessageKind};
use loopwright_core::{StepContext, StepError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::next::Next;

/// The key of the position among the values of the request.
pub(super) const KEY: &str = "graph";

#[derive(Default, Serialize, Deserialize)]
pub(super) struct Position<S> {
    /// The current node. `None` at the end.
    pub(super) node: Option<String>,
    pub(super) state: S,
    /// The last message before each checkpoint was entered.
    entered: BTreeMap<String, MessageId>,
    /// The message to which the conversation is to return before the node runs.
    pub(super) back: Option<MessageId>,
    /// The message that the node before adds to the conversation.
    pub(super) message: Option<MessageKind>,
}

impl<S: Default + Serialize + DeserializeOwned> Position<S> {
    /// Returns the position that the log has, or that of a graph that begins, which is staged.
    pub(super) fn of(step: &mut StepContext<'_>, start: &'static str) -> Result<Self, StepError> {
        if let Some(at) = step.state(KEY) {
            return Ok(at);
        }
        let mut at = Position::default();
        at.enter(Next::To(start), step, &[start])?;
        step.set_state(KEY, &at)?;
        Ok(at)
    }

    /// Continues at another node.
    ///
    /// # Errors
    ///
    /// Fails if the conversation is to return to a node that is no checkpoint.
    pub(super) fn enter(
        &mut self,
        next: Next,
        step: &StepContext<'_>,
        checkpoints: &[&str],
    ) -> Result<(), StepError> {
        let (Next::To(node) | Next::Back(node)) = next else {
            self.node = None;
            return Ok(());
        };
        self.node = Some(node.into());
        if let Next::Back(_) = next {
            let why = || format!("the graph cannot go back to `{node}`, which is no checkpoint");
            let entered = self.entered.get(node).copied();
            self.back = Some(entered.ok_or_else(|| StepError::Pattern(why().into()))?);
        } else if checkpoints.contains(&node) {
            self.entered.insert(node.into(), step.checkpoint());
        }
        Ok(())
    }
}
