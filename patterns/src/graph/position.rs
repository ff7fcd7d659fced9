//! [`Position`]: the position of a graph, in the session's log.

use std::collections::BTreeMap;

use loopwright_core::log::Stage;
use loopwright_core::message::{MessageId, MessageKind};
use loopwright_core::{StepContext, StepError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::next::Next;
use super::node::Node;

/// The key of the position among the values of the request.
pub(super) const KEY: &str = "graph";

#[derive(Default, Serialize, Deserialize)]
pub(super) struct Position<S> {
    /// The current node. `None` at the end.
    pub(super) node: Option<String>,
    pub(super) state: S,
    /// The number of visits to each node with branches, whose results are named after it. Visits to
    /// other nodes are counted in their stages only, since a crash may save one: open calls run
    /// before the pattern continues.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    visits: BTreeMap<String, u32>,
    /// `true` until the current node has started.
    is_new: bool,
    /// The last message before each checkpoint began.
    started: BTreeMap<String, MessageId>,
    /// The message to which the conversation must return before the node runs.
    pub(super) back: Option<MessageId>,
    /// The message that the previous node adds to the conversation.
    pub(super) message: Option<MessageKind>,
    /// The last reply of the conversation when the graph ended.
    last_reply: Option<MessageId>,
}

impl<S: Default + Serialize + DeserializeOwned> Position<S> {
    /// Returns the position in the log, or the first one.
    pub(super) fn of(step: &StepContext<'_>, start: &'static str) -> Result<Self, StepError> {
        if let Some(at) = step.state(KEY) {
            return Ok(at);
        }
        let mut at = Position::default();
        at.enter(Next::To(start))?;
        Ok(at)
    }

    /// Notes the start of a node, and shows it.
    pub(super) async fn begin(
        &mut self,
        name: &str,
        step: &mut StepContext<'_>,
        is_checkpoint: bool,
        node: &Node<S>,
    ) -> Result<(), StepError> {
        if !std::mem::take(&mut self.is_new) {
            return Ok(());
        }
        if is_checkpoint {
            self.started.insert(name.into(), step.checkpoint());
        }
        let branches = node.branches.as_ref().map(|outline| (outline.count)(step, &self.state));
        let known = step.stages().into_iter().find(|stage| *stage.name == *name);
        let mut stage = Stage::new(name).visit(known.map_or(1, |stage| stage.visits + 1));
        if let Some(branches) = branches {
            let visit = self.visits.entry(name.into()).or_default();
            *visit += 1;
            stage = stage.branches(branch_key(name, *visit), branches);
        }
        step.set_state(KEY, &*self)?;
        step.begin_stage(stage).await
    }

    /// Continues at another node.
    ///
    /// # Errors
    ///
    /// Fails if the conversation must return to a node that is not a checkpoint.
    pub(super) fn enter(&mut self, next: Next) -> Result<(), StepError> {
        (self.node, self.is_new) = match next {
            Next::To(node) | Next::Back(node) => (Some(node.into()), true),
            Next::End => (None, false),
        };
        if let Next::Back(node) = next {
            let why = || format!("the graph cannot go back to `{node}`, which is no checkpoint");
            let started = self.started.get(node).copied();
            self.back = Some(started.ok_or_else(|| StepError::Pattern(why().into()))?);
        }
        Ok(())
    }

    /// Notes the end of the graph, if it is reached.
    pub(super) fn end(&mut self, step: &mut StepContext<'_>) -> Result<(), StepError> {
        self.last_reply = last_reply(step).filter(|_| self.node.is_none());
        if self.node.is_none() { step.end_stage() } else { Ok(()) }
    }

    /// Returns whether a message of the pattern around the graph follows its end.
    pub(super) fn is_after(&self, step: &StepContext<'_>) -> bool {
        self.last_reply.is_some() && last_reply(step) != self.last_reply
    }
}

/// Returns the start of the keys of the branches of a visit to a node.
pub(super) fn branch_key(node: &str, visit: u32) -> String {
    format!("{KEY}/{node}/{visit}/")
}

/// Returns the number of visits to this node, the current one included.
pub(super) fn visit(step: &StepContext<'_>, node: &str) -> u32 {
    let at = step.state::<Position<serde_json::Value>>(KEY);
    at.and_then(|at| at.visits.get(node).copied()).unwrap_or_default()
}

fn last_reply(step: &StepContext<'_>) -> Option<MessageId> {
    step.last_reply()?.message().map(|message| message.id)
}
