//! The operations that look something up: agents, models, messages with certain words.

use loopwright_protocols::NOT_BLANK;
use serde_json::json;

use super::document::Document;
use super::operations::NO_SESSION;
use crate::routes::agents::{AgentDescription, AgentList, ModelList};
use crate::routes::search::{MAX_HITS, MAX_PAGE_HITS, MAX_QUERY_CHARS, PAGE_HITS, SearchResults};

const NOT_BUILT: (u16, &str) = (409, "The agent cannot be built; the message says why.");

/// Adds the operations to the document.
pub(super) fn describe(document: &mut Document) {
    document
        .operation("get", "/api/agents", "Lists the agents of the server, the default one first.")
        .response::<AgentList>(200, "The agents.")
        .add();
    document
        .operation(
            "get",
            "/api/agents/{name}",
            "Describes an agent as a session without settings has it: its model and its tools.",
        )
        .response::<AgentDescription>(200, "The agent.")
        .errors(&[
            (403, "The caller may not use the agent, or the operator does not allow its model."),
            (404, "There is no such agent."),
            NOT_BUILT,
        ])
        .add();
    document
        .operation(
            "get",
            "/api/sessions/{id}/agent",
            "Describes the agent of a session: its model, its tools, and which need approval.",
        )
        .response::<AgentDescription>(200, "The agent.")
        .errors(&[(403, "The operator does not allow the session's model."), NO_SESSION, NOT_BUILT])
        .add();
    document
        .operation("get", "/api/models", "Lists the models that sessions can name.")
        .response::<ModelList>(200, "The models.")
        .add();
    search(document);
}

fn search(document: &mut Document) {
    document
        .operation(
            "get",
            "/api/search",
            "Returns a page of the messages that contain all these words, ignoring case: those of \
             the session that changed last first.",
        )
        .parameter(
            "query",
            "q",
            json!({ "type": "string", "pattern": NOT_BLANK, "maxLength": MAX_QUERY_CHARS }),
            "The words.",
        )
        .optional_parameter(
            "query",
            "after",
            json!({ "type": "integer", "minimum": 0, "maximum": MAX_HITS - 1, "default": 0 }),
            "The `next` of the page before. If sessions change meanwhile, a message can be on both \
             pages.",
        )
        .optional_parameter(
            "query",
            "limit",
            json!({
                "type": "integer", "minimum": 1, "maximum": MAX_PAGE_HITS, "default": PAGE_HITS,
            }),
            "The maximum number of messages.",
        )
        .response::<SearchResults>(200, "The messages, with excerpts of their texts.")
        .errors(&[(400, "A parameter is invalid.")])
        .add();
}
