//! The operations on schedules.

use loopwright_core::log::Schedule;

use super::document::Document;
use super::operations::{BAD_BODY, DRAINING, NO_SESSION};
use crate::routes::schedules::{ScheduleBody, ScheduleList};

const ONLY_READ: (u16, &str) = (403, "The caller may only read the session.");
const NO_SCHEDULE: (u16, &str) = (404, "There is no such session, or it has no such schedule.");

/// Adds the operations to the document.
pub(super) fn describe(document: &mut Document) {
    document
        .operation(
            "get",
            "/api/schedules",
            "Returns a page of the schedules of all sessions, the next one first.",
        )
        .page("^[0-9]{1,15}:[0-9]{1,3}:")
        .response::<ScheduleList>(200, "The schedules.")
        .errors(&[(400, "A parameter is invalid."), (404, "The store has no schedules.")])
        .add();
    document
        .operation(
            "get",
            "/api/sessions/{id}/schedules",
            "Returns the schedules of a session, sorted by id.",
        )
        .response::<ScheduleList>(200, "The schedules.")
        .errors(&[NO_SESSION])
        .add();
    document
        .operation("get", "/api/sessions/{id}/schedules/{schedule}", "Returns a schedule.")
        .response::<Schedule>(200, "The schedule.")
        .errors(&[NO_SCHEDULE])
        .add();
    document
        .operation(
            "put",
            "/api/sessions/{id}/schedules/{schedule}",
            "Sends a message at a time, or at the times of a cron expression. Replaces the \
             session's schedule with the same id.",
        )
        .request::<ScheduleBody>()
        .response::<Schedule>(200, "The schedule, with its next time.")
        .errors(&[
            BAD_BODY,
            ONLY_READ,
            NO_SESSION,
            (
                409,
                "It belongs to a sub-agent, or the session, its owner or the store has as many \
                 schedules as it may have.",
            ),
            DRAINING,
        ])
        .add();
    document
        .operation("delete", "/api/sessions/{id}/schedules/{schedule}", "Removes a schedule.")
        .empty_response(204, "The schedule was removed.")
        .errors(&[ONLY_READ, NO_SCHEDULE])
        .add();
}
