//! The nodes and edges of a graph.

use futures_util::future::BoxFuture;
use loopwright_core::message::MessageKind;
use loopwright_core::{StepContext, StepError};

use super::next::Next;

/// A node, which returns the message that it adds to the conversation.
pub(super) type Node<S> = dyn for<'a> Fn(
        &'a mut StepContext<'_>,
        &'a mut S,
    ) -> BoxFuture<'a, Result<Option<MessageKind>, StepError>>
    + Send
    + Sync;

/// An edge, which chooses the next node.
pub(super) type Edge<S> = dyn Fn(&StepContext<'_>, &mut S) -> Next + Send + Sync;
