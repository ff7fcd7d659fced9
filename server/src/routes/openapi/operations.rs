//! The operations of the document: all routes, except for the files of the page.

use loopwright_core::tool::Question;
use loopwright_host::{SessionSettings, SettingsChange};
use loopwright_protocols::MAX_WHOLE;
use serde_json::json;

use super::document::Document;
use crate::routes::audit::Decisions;
use crate::routes::health::Health;
#[cfg(feature = "long-term")]
use crate::routes::memory::{FactList, Forgotten};
use crate::routes::protocols::agent_chat::ChatRequest;
use crate::routes::sessions::{
    AbortBody, AcceptedInput, ActionPreview, Actions, CompactBody, Compacted, ContinueBody,
    CreatedSession, DecisionBody, ForkBody, MessageBody, Messages, SessionList, SessionStatus,
    SignalBody, SteerBody,
};
use crate::streams::frames::Frame;

pub(super) const BAD_BODY: (u16, &str) = (400, "The body is not valid; `path` says where.");
pub(super) const NO_SESSION: (u16, &str) = (404, "There is no such session.");
const OF_SUB_AGENT: (u16, &str) = (
    409,
    "The session's agent is not one of this server's, or it belongs to a sub-agent: the message \
     names the session at the root, which opens it.",
);
pub(super) const NOT_ALLOWED: (u16, &str) = (
    403,
    "The caller may only read the session, or the operator does not allow its model, so that it \
     can only be read here.",
);
const NOT_WITH_SETTINGS: (u16, &str) = (
    403,
    "The caller may not do this, or the operator does not allow the model, its address, or a tool \
     to run without approval.",
);
const UNANSWERED: (u16, &str) = (
    504,
    "The process that has the session open does not answer. The input waits for it: sent again \
     with the same `id`, it gets the answer.",
);
const NOT_RELEASED: (u16, &str) =
    (504, "The process that has the session open was asked to release it, and has not done so.");
pub(super) const BUSY: (u16, &str) = (
    429,
    "Too many runs are in progress, too many sessions are open, or too many requests are queued.",
);
pub(super) const DRAINING: (u16, &str) = (503, "The server shuts down.");

/// Adds all operations to the document.
pub(super) fn describe(document: &mut Document) {
    chat(document);
    sessions(document);
    inputs(document);
    compaction(document);
    actions(document);
    #[cfg(feature = "long-term")]
    memory(document);
    others(document);
}

fn chat(document: &mut Document) {
    document
        .operation(
            "post",
            "/api/agent-chat",
            "Answers one message. The run ends with the connection, and nothing is stored.",
        )
        .request::<ChatRequest>()
        .event_stream::<Frame>("The frames of the run; the last is `complete`.", &[])
        .errors(&[BAD_BODY, (401, "There is no API key."), NOT_WITH_SETTINGS, BUSY, DRAINING])
        .add();
}

fn sessions(document: &mut Document) {
    document
        .operation(
            "get",
            "/api/sessions",
            "Returns a page of the sessions, the last changed first.",
        )
        .page("^[0-9]{1,15}:")
        .response::<SessionList>(200, "The sessions.")
        .errors(&[(400, "A parameter is invalid.")])
        .add();
    document
        .operation("post", "/api/sessions", "Creates a session.")
        .request::<SessionSettings>()
        .response::<CreatedSession>(201, "The session.")
        .errors(&[BAD_BODY, NOT_WITH_SETTINGS, BUSY, DRAINING])
        .add();
    document
        .operation(
            "get",
            "/api/sessions/{id}",
            "Returns a session, and whether a run is in progress.",
        )
        .response::<SessionStatus>(200, "The session.")
        .errors(&[NO_SESSION])
        .add();
    document
        .operation(
            "patch",
            "/api/sessions/{id}",
            "Changes settings of a session, which its next run uses.",
        )
        .request::<SettingsChange>()
        .response::<SessionStatus>(200, "The session, with the change in its log.")
        .errors(&[
            BAD_BODY,
            NOT_WITH_SETTINGS,
            NO_SESSION,
            (
                409,
                "A run is in progress (`run_in_progress`), its agent is not one of this server's, \
                 or it belongs to a sub-agent.",
            ),
            BUSY,
            DRAINING,
            NOT_RELEASED,
        ])
        .add();
    document
        .operation(
            "post",
            "/api/sessions/{id}/fork",
            "Creates a session that begins with the conversation of this one, up to a message.",
        )
        .request::<ForkBody>()
        .response::<CreatedSession>(201, "The new session, with the same settings.")
        .errors(&[
            BAD_BODY,
            NOT_WITH_SETTINGS,
            (404, "There is no such session, or it has no such message."),
            OF_SUB_AGENT,
            BUSY,
            DRAINING,
        ])
        .add();
    document
        .operation("delete", "/api/sessions/{id}", "Deletes a session.")
        .empty_response(204, "The session was deleted.")
        .errors(&[
            (403, "The caller may only read the session."),
            NO_SESSION,
            (
                409,
                "A run is in progress (`run_in_progress`), sessions share its log, or it belongs \
                 to a sub-agent.",
            ),
            NOT_RELEASED,
        ])
        .add();
    document
        .operation(
            "get",
            "/api/sessions/{id}/messages",
            "Returns a page of the messages: the latest ones, or those before a message.",
        )
        .optional_parameter(
            "query",
            "before",
            json!({ "type": "string", "pattern": "^m[0-9]{1,15}$" }),
            "Only messages before this one; none if there is no such message.",
        )
        .optional_parameter(
            "query",
            "limit",
            json!({ "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 }),
            "The maximum number of messages. A page has fewer if they are long.",
        )
        .response::<Messages>(200, "The messages.")
        .errors(&[(400, "A parameter is invalid."), NO_SESSION])
        .add();
}

fn inputs(document: &mut Document) {
    document
        .operation(
            "post",
            "/api/sessions/{id}/prompt",
            "Sends a message. During a run it is queued.",
        )
        .request::<MessageBody>()
        .response::<AcceptedInput>(202, "It is in the session's log.")
        .errors(&[BAD_BODY, NOT_ALLOWED, NO_SESSION, OF_SUB_AGENT, BUSY, DRAINING, UNANSWERED])
        .add();
    document
        .operation(
            "post",
            "/api/sessions/{id}/steer",
            "Sends a message that changes the run in progress, also that of a sub-agent.",
        )
        .request::<SteerBody>()
        .response::<AcceptedInput>(202, "It is in the session's log.")
        .errors(&[
            BAD_BODY,
            NOT_ALLOWED,
            NO_SESSION,
            (409, "No sub-agent works for the call."),
            BUSY,
            DRAINING,
            UNANSWERED,
        ])
        .add();
    document
        .operation(
            "post",
            "/api/sessions/{id}/signal",
            "Sends an event for which the agent waits, or will wait.",
        )
        .request::<SignalBody>()
        .response::<AcceptedInput>(202, "It is in the session's log.")
        .errors(&[BAD_BODY, NOT_ALLOWED, NO_SESSION, OF_SUB_AGENT, BUSY, DRAINING, UNANSWERED])
        .add();
    document
        .operation(
            "post",
            "/api/sessions/{id}/follow-up",
            "Sends a message that is delivered when the agent would otherwise stop.",
        )
        .request::<MessageBody>()
        .response::<AcceptedInput>(202, "It is in the session's log.")
        .errors(&[BAD_BODY, NOT_ALLOWED, NO_SESSION, OF_SUB_AGENT, BUSY, UNANSWERED])
        .add();
    document
        .operation(
            "post",
            "/api/sessions/{id}/continue",
            "Continues after an error, an interruption or an abort.",
        )
        .request::<ContinueBody>()
        .response::<AcceptedInput>(202, "The run continues.")
        .errors(&[
            BAD_BODY,
            NOT_ALLOWED,
            NO_SESSION,
            (409, "There is nothing to continue, or a run is in progress."),
            BUSY,
            DRAINING,
            UNANSWERED,
        ])
        .add();
    document
        .operation("post", "/api/sessions/{id}/abort", "Aborts the run in progress.")
        .request::<AbortBody>()
        .response::<AcceptedInput>(202, "The run is being aborted.")
        .errors(&[BAD_BODY, NOT_ALLOWED, NO_SESSION, (409, "The run has ended."), BUSY, UNANSWERED])
        .add();
}

fn compaction(document: &mut Document) {
    document
        .operation(
            "post",
            "/api/sessions/{id}/compact",
            "Replaces older messages by a summary, and returns when that is done.",
        )
        .request::<CompactBody>()
        .response::<Compacted>(200, "The compactions.")
        .errors(&[
            BAD_BODY,
            NOT_ALLOWED,
            NO_SESSION,
            (409, "The agent has no compaction, or it has failed."),
            BUSY,
            DRAINING,
            UNANSWERED,
        ])
        .add();
}

fn actions(document: &mut Document) {
    let text = json!({ "type": "string" });
    document
        .operation(
            "get",
            "/api/actions",
            "Returns a page of the pending actions of all sessions, the oldest first.",
        )
        .page("^[0-9]{1,15}:1:..")
        .optional_parameter("query", "tool", text.clone(), "Only calls of this tool.")
        .optional_parameter(
            "query",
            "role",
            text.clone(),
            "Only actions that the holder of this role may decide: those whose `terms` name it, or \
             no role.",
        )
        .response::<Actions>(
            200,
            "The actions, with those of sub-agents. If the `kind` of an action's `request` is \
             `question`, its `data` is a `Question`.",
        )
        .errors(&[(400, "A parameter is invalid.")])
        .add();
    let time = json!({ "type": "integer", "minimum": 0, "maximum": MAX_WHOLE });
    document
        .operation(
            "get",
            "/api/audit",
            "Returns a page of the decisions in all sessions, the latest first: who decided what, \
             when, and from where.",
        )
        .page("^[0-9]{1,15}:[0-9]{1,15}:")
        .optional_parameter("query", "session", text.clone(), "Only decisions in this session.")
        .optional_parameter("query", "by", text, "Only decisions of this principal.")
        .optional_parameter(
            "query",
            "since",
            time.clone(),
            "Only decisions at this time or later, in milliseconds since 1970.",
        )
        .optional_parameter(
            "query",
            "until",
            time,
            "Only decisions before this time, in milliseconds since 1970.",
        )
        .response::<Decisions>(200, "The decisions. Those of deleted sessions are gone.")
        .errors(&[(400, "A parameter is invalid.")])
        .add();
    document.can_be::<Question>("ActionRequest", "data");
    document
        .operation("get", "/api/sessions/{id}/actions", "Lists the pending actions of a session.")
        .response::<Actions>(200, "The actions.")
        .errors(&[NO_SESSION])
        .add();
    document
        .operation(
            "get",
            "/api/sessions/{id}/actions/{call}/preview",
            "Returns the change that a pending call would make to a file, for who decides on it.",
        )
        .response::<ActionPreview>(200, "The change, if the call is one that has a preview.")
        .errors(&[
            (403, "The operator does not allow the session's model."),
            (404, "There is no such session, or no such pending call."),
            OF_SUB_AGENT,
        ])
        .add();
    let not_pending =
        (409, "It is not pending any more, or its arguments are not those that were shown.");
    document
        .operation(
            "post",
            "/api/sessions/{id}/actions/{call}",
            "Resolves a pending action. The first decision counts.",
        )
        .request::<DecisionBody>()
        .response::<AcceptedInput>(200, "The decision is in the session's log.")
        .errors(&[
            BAD_BODY,
            NOT_ALLOWED,
            (404, "There is no such session, or no such call."),
            not_pending,
            BUSY,
            DRAINING,
            UNANSWERED,
        ])
        .add();
}

#[cfg(feature = "long-term")]
fn memory(document: &mut Document) {
    const NO_MEMORY: (u16, &str) = (404, "The server remembers no facts.");
    const UNKNOWN: (u16, &str) = (403, "It is not known who the user is.");
    document
        .operation("get", "/api/memory", "Returns facts that agents remember about the user.")
        .optional_parameter(
            "query",
            "query",
            json!({ "type": "string" }),
            "Words: the facts that fit them, the best first. By default all facts.",
        )
        .optional_parameter(
            "query",
            "after",
            json!({ "type": "integer", "minimum": 0, "maximum": MAX_WHOLE }),
            "Only facts with a greater id. It has no effect with `query`.",
        )
        .optional_parameter(
            "query",
            "limit",
            json!({ "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 }),
            "The maximum number of facts.",
        )
        .response::<FactList>(
            200,
            "The facts: those that fit, the best first, or all in the order of their ids.",
        )
        .errors(&[(400, "A parameter is invalid."), UNKNOWN, NO_MEMORY])
        .add();
    document
        .operation("delete", "/api/memory", "Deletes all facts about the user.")
        .response::<Forgotten>(200, "The facts were deleted.")
        .errors(&[UNKNOWN, NO_MEMORY])
        .add();
    document
        .operation("delete", "/api/memory/{id}", "Deletes a fact.")
        .empty_response(204, "The fact was deleted.")
        .errors(&[UNKNOWN, (404, "There is no such fact, or the server remembers none.")])
        .add();
}

fn others(document: &mut Document) {
    document
        .operation("get", "/healthz", "Returns that the server is alive.")
        .response::<Health>(200, "It is alive.")
        .add();
    document
        .operation("get", "/readyz", "Returns whether the server accepts work.")
        .response::<Health>(200, "It accepts work.")
        .response::<Health>(503, "It shuts down, or sessions cannot be stored.")
        .add();
    document
        .operation("get", "/metrics", "Returns metrics for Prometheus.")
        .text_response("text/plain", "Metrics in Prometheus' text format.")
        .errors(&[(403, "The caller may not read them.")])
        .add();
    document
        .operation("get", "/api/openapi.json", "Returns this document.")
        .response::<serde_json::Value>(200, "The document.")
        .add();
}
