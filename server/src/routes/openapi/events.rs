//! The operations that return events.

use loopwright_core::event::Envelope;
use loopwright_protocols::MAX_WHOLE;
use serde_json::json;

use super::document::Document;
use super::operations::{BAD_BODY, BUSY, DRAINING, NO_SESSION};
use crate::routes::event_streams::StreamFrame;
use crate::routes::events::{History, MAX_PAGE_EVENTS, PAGE_EVENTS};
use crate::routes::inbox::InboxFrame;
use crate::streams::event_streams::Change;

/// Adds the operations to the document.
pub(super) fn describe(document: &mut Document) {
    session_events(document);
    history(document);
    event_streams(document);
    document
        .operation(
            "get",
            "/api/inbox/events",
            "Streams the pending actions of all sessions that the caller may see: first those that \
             are pending, then `ready`, and then each change. The stream does not end.",
        )
        .event_stream::<InboxFrame>(
            "Frames, `pending`, `ready` and `resolved`. An action is `pending` again when it has \
             one more approval. `draining`, whose data is `{}`, means that the server shuts down.",
            &[json!({ "type": "object", "maxProperties": 0 })],
        )
        .errors(&[DRAINING])
        .add();
}

fn session_events(document: &mut Document) {
    let number = json!({ "type": "integer", "minimum": 0, "maximum": MAX_WHOLE });
    document
        .operation(
            "get",
            "/api/sessions/{id}/events",
            "Streams the events of a session, from any point on. The stream does not end. While \
             another process has the session open, there are no deltas and no events of \
             sub-agents.",
        )
        .optional_parameter(
            "query",
            "after",
            number.clone(),
            "The number of the last event that the reader has.",
        )
        .optional_parameter(
            "query",
            "last",
            number.clone(),
            "Without a number to continue after: about how many of the last events are sent, whole \
             turns, fewer if they are long.",
        )
        .optional_parameter(
            "header",
            "Last-Event-ID",
            json!({ "anyOf": [number, { "type": "string", "maxLength": 0 }] }),
            "The same, as browsers send it; it takes precedence over `after`, unless it is empty.",
        )
        .optional_parameter(
            "query",
            "tree",
            json!({ "type": "boolean", "default": false }),
            "Whether the events of sub-agents are sent, too, from here on. They name their session \
             and `parent`, are numbered by it, and have no `id`.",
        )
        .event_stream::<Envelope>(
            "Events; those of the session that have a number carry it as `id`. `draining`, whose \
             data is `{}`, means that the server shuts down.",
            &[json!({ "type": "object", "maxProperties": 0 })],
        )
        .errors(&[
            (400, "A parameter is invalid."),
            NO_SESSION,
            (409, "There is no event of this number."),
            BUSY,
            DRAINING,
        ])
        .add();
}

fn history(document: &mut Document) {
    document
        .operation(
            "get",
            "/api/sessions/{id}/history",
            "Returns earlier events of a session: whole turns, fewer if they are long.",
        )
        .parameter(
            "query",
            "before",
            json!({ "type": "integer", "minimum": 0, "maximum": MAX_WHOLE }),
            "Only events before this number: the first one that the client has.",
        )
        .optional_parameter(
            "query",
            "limit",
            json!({
                "type": "integer", "minimum": 1, "maximum": MAX_PAGE_EVENTS, "default": PAGE_EVENTS,
            }),
            "About how many events.",
        )
        .response::<History>(200, "The events.")
        .errors(&[(400, "A parameter is invalid."), NO_SESSION])
        .add();
}

fn event_streams(document: &mut Document) {
    document
        .operation(
            "post",
            "/api/events",
            "Streams the events of several sessions. Each is a feed, which starts and ends on its \
             own; the stream does not end.",
        )
        .request::<Change>()
        .event_stream::<StreamFrame>(
            "Frames; the first is `stream`, with the id by which the stream can be changed. The \
             events of a feed are in order; `error` and `end` are its last frames.",
            &[],
        )
        .errors(&[BAD_BODY, DRAINING])
        .add();
    document
        .operation(
            "post",
            "/api/events/{stream}",
            "Changes which sessions a stream follows. The stream says when that is done: with \
             `open` or `error`.",
        )
        .request::<Change>()
        .empty_response(204, "The stream has the change.")
        .errors(&[
            BAD_BODY,
            (404, "There is no such stream, or it has ended."),
            (429, "The client has not read the frames after earlier changes."),
        ])
        .add();
}
