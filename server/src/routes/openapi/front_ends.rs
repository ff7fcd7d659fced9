//! The operations of the protocols of front ends: AG-UI and the AI SDK.

use serde_json::{Value, json};

use super::document::Document;
use super::operations::{BAD_BODY, BUSY, DRAINING, NOT_ALLOWED};
use crate::routes::protocols::ai_sdk::UiMessages;
use crate::routes::sessions::{AbortBody, AcceptedInput};

const NO_AGENT: (u16, &str) = (404, "There is no such agent.");
const NO_CONVERSATION: (u16, &str) = (404, "There is no such agent, or no such conversation.");
const REFUSED: (u16, &str) =
    (409, "The session belongs to another agent, or it refuses the input; nothing was changed.");
const UNANSWERED: (u16, &str) = (504, "The process that has the session open does not answer.");

/// Adds the operations to the document.
pub(super) fn describe(document: &mut Document) {
    ag_ui(document);
    ai_sdk(document);
}

fn ag_ui(document: &mut Document) {
    let id = json!({ "type": "string", "minLength": 1, "maxLength": 200 });
    document
        .operation("post", "/ag-ui/{agent}", "Runs an agent, or follows its run, with AG-UI.")
        .foreign_request(object(
            "A `RunAgentInput` of AG-UI 1.0.",
            json!({
                "threadId": id, "runId": id, "messages": { "type": "array" },
                "resume": { "type": ["array", "null"] },
            }),
            &["threadId", "runId", "messages"],
        ))
        .event_stream::<Value>("The events of the run, as AG-UI has them.", &[])
        .errors(&[BAD_BODY, NOT_ALLOWED, NO_AGENT, REFUSED, BUSY, DRAINING, UNANSWERED])
        .add();
    stop(document, "/ag-ui/{agent}/{thread}/stop");
}

fn ai_sdk(document: &mut Document) {
    document
        .operation("post", "/ai-sdk/{agent}", "Continues a chat of the AI SDK.")
        .foreign_request(object(
            "What `DefaultChatTransport` sends.",
            json!({
                "id": { "type": "string", "minLength": 1, "maxLength": 200 },
                "messages": { "type": "array" },
                "trigger": { "enum": ["submit-message", null] },
                "messageId": {},
            }),
            &["id", "messages"],
        ))
        .event_stream::<Value>("A UI message stream of the AI SDK.", &[])
        .ended_by("[DONE]")
        .errors(&[BAD_BODY, NOT_ALLOWED, NO_AGENT, REFUSED, BUSY, DRAINING, UNANSWERED])
        .add();
    document
        .operation("get", "/ai-sdk/{agent}/{chat}/stream", "Resumes the reply in progress.")
        .event_stream::<Value>("A UI message stream, from the start of the reply.", &[])
        .ended_by("[DONE]")
        .empty_response(204, "No reply is in progress.")
        .errors(&[NO_AGENT, REFUSED, DRAINING])
        .add();
    document
        .operation("get", "/ai-sdk/{agent}/{chat}/messages", "Returns the messages of a chat.")
        .response::<UiMessages>(200, "The messages, none if there is no such chat.")
        .errors(&[NO_AGENT, REFUSED])
        .add();
    stop(document, "/ai-sdk/{agent}/{chat}/stop");
}

fn stop(document: &mut Document, path: &'static str) {
    document
        .operation("post", path, "Stops the run in progress.")
        .request::<AbortBody>()
        .response::<AcceptedInput>(202, "The run is stopped.")
        .errors(&[BAD_BODY, NOT_ALLOWED, NO_CONVERSATION, REFUSED, BUSY, UNANSWERED])
        .add();
}

fn object(description: &str, properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object", "description": description, "properties": properties,
        "required": required,
    })
}
