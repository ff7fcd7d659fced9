//! Requests to models made by running tools. Each is charged before it is sent.

use std::any::Any;
use std::sync::Arc;

use crate::error::{MemoryError, StepError};
use crate::log::entry::LogEntry;
use crate::log::turn::{Estimate, Reservation};
use crate::message::Message;
use crate::session::Session;
use crate::session::request::budget;
use crate::session::request::estimate::{Needed, estimate};
use crate::session::request::in_flight::HeldBudget;
use crate::session::request::model_request::{RequestEnd, RequestStart, ToolRequest};

/// The refusal of a tool's request that would not fit beside other requests.
const OTHERS_IN_PROGRESS: &str =
    "other requests of the session are in progress, and may use what is left of its budget";

/// Handles a report of a tool on its requests.
pub(crate) async fn handle(
    session: &mut Session,
    report: Box<dyn Any + Send>,
) -> Result<(), MemoryError> {
    match report.downcast().map(|report| *report) {
        Ok(ToolRequest::Start(request)) => start(session, request).await,
        Ok(ToolRequest::End(request)) => end(session, request).await,
        Err(_) => Ok(()), // tools report nothing else
    }
}

/// Charges for a request and lets the tool send it, or answers why it must not. If the session
/// shares a budget, the request is reported again when it has its part of that budget.
async fn start(session: &mut Session, start: RequestStart) -> Result<(), MemoryError> {
    let needed = estimate(session, &start.model, &start.request);
    if let Err(why) = check(session, &start, needed) {
        let _ = start.ack.send(Err(why));
        return Ok(());
    }
    if session.tree.shared_budget.is_some() && start.permit.is_none() {
        reserve(session, start, needed);
        return Ok(());
    }
    let id = session.journal.next_message_id();
    let requests = vec![Reservation::new(id, needed.input)];
    session.journal.commit(LogEntry::DetachedStarted { requests }).await?;
    session.stop_if_cancelled().await;
    let held = HeldBudget { output: needed.output, permit: start.permit };
    session.in_flight.start(id, start.model, held);
    if start.ack.send(Ok(id)).is_err() {
        session.in_flight.end(id); // the call has ended meanwhile
        session.journal.commit(LogEntry::NotSent { messages: vec![id] }).await?;
    }
    Ok(())
}

/// Logs the end of a request.
async fn end(session: &mut Session, end: RequestEnd) -> Result<(), MemoryError> {
    let RequestEnd { message, model, reply } = end;
    if !session.in_flight.contains(message) {
        return Ok(()); // the run has ended, and it was charged for
    }
    let permit = session.in_flight.end(message);
    let cost = model.cost(&reply.usage);
    let message = Arc::new(Message::new(message, reply));
    let entry =
        LogEntry::Detached { message, cost, key: None, request_digest: None, speaker: None };
    session.journal.commit(entry).await?;
    drop(permit); // the log has what was used
    Ok(())
}

fn check(session: &Session, start: &RequestStart, needed: Needed) -> Result<(), String> {
    let checked = budget::check_prices(session, &start.model);
    let checked = checked.and_then(|()| budget::check(session, 1, needed));
    checked.map_err(|why: StepError| why.to_string())?;
    match budget::fits_beside(session, needed, Estimate::default()) {
        true => Ok(()),
        false => Err(OTHERS_IN_PROGRESS.into()),
    }
}

/// Reserves a request's part of the shared budget. Runs in a task, because the request may have to
/// wait until others end.
fn reserve(session: &mut Session, mut start: RequestStart, needed: Needed) {
    let Some(shared) = session.tree.shared_budget.clone() else { return };
    let (id, reports) = (session.id.clone(), session.executor.reports());
    tokio::spawn(async move {
        let reserved = tokio::select! { biased;
            () = start.ack.closed() => return,
            reserved = shared.reserve(&id, needed.all()) => reserved,
        };
        match reserved {
            Ok(permit) => {
                start.permit = Some(permit);
                let _ = reports.send(ToolRequest::Start(start).report()).await;
            }
            Err(why) => drop(start.ack.send(Err(why.to_string()))),
        }
    });
}
