//! [`Next`]: the next node of a graph.

/// The point at which a [`Graph`](crate::Graph) continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This node.
    To(&'static str),
    /// This node, which is a checkpoint, with the conversation as it was when the node was last
    /// entered.
    Back(&'static str),
    /// The end: the request is done.
    End,
}
