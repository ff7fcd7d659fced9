//! What a graph consists of.

use futures_util::future::BoxFuture;
use loopwright_core::message::MessageKind;
use loopwright_core::{StepContext, StepError};

use super::next::Next;

/// Returns the message that it adds to the conversation.
pub(super) type Node<S> = dyn for<'a> Fn(
        &'a mut StepContext<'_>,
        &'a mut S,
    ) -> BoxFuture<'a, Result<Option<MessageKind>, StepError>>
    + Send
    + Sync;

/// Says where the graph continues after a node.
pub(super) type Edge<S> = dyn Fn(&StepContext<'_>, &mut S) -> Next + Send + Sync;
