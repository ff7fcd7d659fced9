//! [`Next`]: where a graph continues.

/// Says where a [`Graph`](crate::Graph) continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At this node.
    To(&'static str),
    /// At this node, which is a checkpoint, with the conversation as it was when the node was last
    /// entered.
    Back(&'static str),
    /// Nowhere: the request is done.
    End,
}
