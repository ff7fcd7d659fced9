//! A session's events, as text or as lines of JSON.

use std::io;

use loopwright_core::AgentEvent;
use loopwright_core::event::{Envelope, RunOutcome};

use super::format::shortened;
use super::json::json_line;
use super::printer::Printer;
use super::streams::{error, info};
use super::verbosity::Verbosity;
use crate::wording::{Failure, failure};

/// A view of a session's events.
pub(crate) enum EventView {
    /// Text: see [`Printer`].
    Text(Printer),
    /// Each event as a line of JSON on standard output; failures on standard error.
    Json(Verbosity),
}

impl EventView {
    /// Shows an event. Fails if standard output cannot be written.
    pub(crate) fn show(&mut self, event: &Envelope) -> io::Result<()> {
        match self {
            EventView::Text(printer) => {
                printer.show(&event.event)?;
                if let AgentEvent::AgentEnd(outcome) = &event.event {
                    report_failure(outcome, printer.verbosity());
                    printer.show_usage(outcome)?;
                }
            }
            EventView::Json(verbosity) => {
                json_line(event)?;
                if let AgentEvent::AgentEnd(outcome) = &event.event {
                    report_failure(outcome, *verbosity);
                }
            }
        }
        Ok(())
    }
}

/// Reports on standard error why a run did not complete, and which messages were not delivered.
fn report_failure(outcome: &RunOutcome, verbosity: Verbosity) {
    let note = |text: &str| {
        if verbosity.notes() {
            info(text)
        }
    };
    match failure(outcome) {
        None => {}
        Some(Failure::Aborted) => note("Aborted."),
        Some(Failure::Turns(why)) => {
            error(&format!("{why} The work so far is stored; allow more turns with --max-turns N."))
        }
        Some(Failure::Answered(why)) => error(&format!("{why} The answer says what is left.")),
        Some(Failure::Limit(why) | Failure::Incomplete(why) | Failure::Error(why)) => error(&why),
    }
    for text in &outcome.handed_back {
        note(&format!("Not delivered: {}", shortened(text)));
    }
}
