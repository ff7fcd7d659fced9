//! The operations of A2A.

use loopwright_protocols::a2a::AgentCard;
use serde_json::Value;

use super::document::Document;
use super::operations::{BUSY, DRAINING};

const NO_AGENT: (u16, &str) = (404, "There is no agent of this name.");

/// Adds the operations to the document.
pub(super) fn describe(document: &mut Document) {
    document
        .operation("post", "/a2a/{agent}", "Calls a method of A2A 1.0, as JSON-RPC.")
        .request::<Value>()
        .response::<Value>(200, "The response of JSON-RPC; a stream of them for some methods.")
        .event_stream::<Value>("", &[])
        .errors(&[(403, "The caller may not use this agent."), NO_AGENT, BUSY, DRAINING])
        .add();
    document
        .operation(
            "get",
            "/a2a/{agent}/.well-known/agent-card.json",
            "Returns the card of an agent for A2A.",
        )
        .response::<AgentCard>(200, "The card.")
        .errors(&[NO_AGENT])
        .add();
    document
        .operation(
            "get",
            "/.well-known/agent-card.json",
            "Returns the card of the first agent for A2A.",
        )
        .response::<AgentCard>(200, "The card.")
        .add();
}
