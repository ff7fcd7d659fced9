//! All routes, one by one; but for the files of the page, which are no interface.

use loopwright_core::event::Envelope;
use serde_json::json;

use super::Document;
use crate::agent_chat::ChatRequest;
use crate::frames::Frame;
use crate::health::Health;
use crate::sessions::{
    Accepted, Actions, Answer, Compact, Compacted, Created, Decided, Listed, Messages, Nothing,
    Said, Session, Settings, Steered,
};

const BAD: (u16, &str) = (400, "The body is not what is asked for; `path` says where.");
const NO_SESSION: (u16, &str) = (404, "There is no such session.");
const IN_USE: (u16, &str) = (409, "The session is in use by another process.");
const BUSY: (u16, &str) =
    (429, "Too many runs go on, too many sessions are open, or too many requests wait.");
const DRAINING: (u16, &str) = (503, "The server is about to end.");

pub(super) fn all(document: &mut Document) {
    chat(document);
    sessions(document);
    inputs(document);
    compaction(document);
    actions(document);
    others(document);
}

fn chat(document: &mut Document) {
    document
        .operation(
            "post",
            "/api/agent-chat",
            "Answers one message; the run ends with the connection, nothing is kept.",
        )
        .takes::<ChatRequest>()
        .streams::<Frame>("The frames of the run, the last of which is `complete`.", &[])
        .refuses(&[
            BAD,
            (401, "There is no API key."),
            (403, "The token is missing or wrong."),
            BUSY,
            DRAINING,
        ])
        .add();
}

fn sessions(document: &mut Document) {
    document
        .operation("get", "/api/sessions", "All sessions.")
        .gives::<Listed>(200, "The sessions.")
        .add();
    document
        .operation("post", "/api/sessions", "Begins a session.")
        .takes::<Settings>()
        .gives::<Created>(201, "The session.")
        .refuses(&[BAD, BUSY, DRAINING])
        .add();
    document
        .operation("get", "/api/sessions/{id}", "One session, and whether a run goes on in it.")
        .gives::<Session>(200, "The session.")
        .refuses(&[NO_SESSION])
        .add();
    document
        .operation("delete", "/api/sessions/{id}", "Removes a session for good.")
        .gives_nothing(204, "It is gone.")
        .refuses(&[
            NO_SESSION,
            (409, "A run goes on in it, or others share its past, or another process has it open."),
        ])
        .add();
    document
        .operation("get", "/api/sessions/{id}/messages", "Everything that was said.")
        .gives::<Messages>(200, "The messages.")
        .refuses(&[NO_SESSION])
        .add();
    let number = json!({ "type": "integer", "minimum": 0 });
    document
        .operation("get", "/api/sessions/{id}/events", "What happens in a session, from any point on; it does not end.")
        .may_take("query", "after", number.clone(), "The number of the last event that the reader has.")
        .may_take("header", "Last-Event-ID", number, "The same, as browsers send it; it comes before `after`.")
        .streams::<Envelope>(
            "Events; those with a number of their own have it as `id`. `draining`, whose data is `{}`, tells that the \
             server is about to end.",
            &[json!({ "type": "object", "maxProperties": 0 })],
        )
        .refuses(&[
            (400, "`after` is no number."),
            NO_SESSION,
            (409, "There is no event of this number."),
            BUSY,
            DRAINING,
        ])
        .add();
}

fn inputs(document: &mut Document) {
    document
        .operation(
            "post",
            "/api/sessions/{id}/prompt",
            "Says something; during a run it waits its turn.",
        )
        .takes::<Said>()
        .gives::<Accepted>(202, "It is in the session's log.")
        .refuses(&[BAD, NO_SESSION, IN_USE, BUSY, DRAINING])
        .add();
    document
        .operation(
            "post",
            "/api/sessions/{id}/steer",
            "Says something that should change the run that goes on.",
        )
        .takes::<Steered>()
        .gives::<Accepted>(202, "It is in the session's log.")
        .refuses(&[BAD, NO_SESSION, IN_USE, BUSY, DRAINING])
        .add();
    document
        .operation(
            "post",
            "/api/sessions/{id}/follow-up",
            "Says something for when the agent would otherwise stop.",
        )
        .takes::<Said>()
        .gives::<Accepted>(202, "It is in the session's log.")
        .refuses(&[BAD, NO_SESSION, IN_USE, BUSY])
        .add();
    document
        .operation(
            "post",
            "/api/sessions/{id}/continue",
            "Goes on after an error, an interruption or an abort.",
        )
        .takes::<Nothing>()
        .gives::<Accepted>(202, "It goes on.")
        .refuses(&[
            NO_SESSION,
            (409, "There is nothing to continue, or a run goes on."),
            BUSY,
            DRAINING,
        ])
        .add();
    document
        .operation("post", "/api/sessions/{id}/abort", "Stops the run that goes on.")
        .takes::<Nothing>()
        .gives::<Accepted>(202, "It stops.")
        .refuses(&[NO_SESSION, IN_USE, BUSY])
        .add();
}

fn compaction(document: &mut Document) {
    document
        .operation(
            "post",
            "/api/sessions/{id}/compact",
            "Replaces older messages by a summary; done when it answers.",
        )
        .takes::<Compact>()
        .gives::<Compacted>(200, "What was replaced.")
        .refuses(&[
            BAD,
            NO_SESSION,
            (409, "The agent has no compaction, or it was not done."),
            BUSY,
            DRAINING,
        ])
        .add();
}

fn actions(document: &mut Document) {
    document
        .operation(
            "get",
            "/api/actions",
            "The actions of all sessions that wait for an answer, the oldest first.",
        )
        .gives::<Actions>(200, "The actions.")
        .add();
    document
        .operation(
            "get",
            "/api/sessions/{id}/actions",
            "The actions of a session that wait for an answer.",
        )
        .gives::<Actions>(200, "The actions.")
        .refuses(&[NO_SESSION])
        .add();
    let gone = (
        409,
        "It does not wait for an answer any more, or its arguments are not those that were shown.",
    );
    document
        .operation(
            "post",
            "/api/sessions/{id}/actions/{call}",
            "Answers an action: the first answer counts.",
        )
        .takes::<Answer>()
        .gives::<Decided>(200, "The answer is in the session's log.")
        .refuses(&[BAD, (404, "There is no such session, or no such call."), gone, BUSY, DRAINING])
        .add();
}

fn others(document: &mut Document) {
    document
        .operation("get", "/healthz", "Whether the server takes work.")
        .gives::<Health>(200, "It does.")
        .gives::<Health>(503, "It is about to end.")
        .add();
    document
        .operation("get", "/metrics", "What the server has done, for Prometheus.")
        .gives_text("text/plain", "Metrics in Prometheus' text format.")
        .add();
    document
        .operation("get", "/api/openapi.json", "This document.")
        .gives::<serde_json::Value>(200, "The document.")
        .add();
}
