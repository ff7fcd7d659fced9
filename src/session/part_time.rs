//! [`PartTime`], the end of the time of a part of the work.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep_until};

use crate::error::StepError;
use crate::limits::{Limit, LimitReached, Resource, deadline};
use crate::session::Session;
use crate::session::budget_part::Part;

/// Becomes ready once, when the time of a part of the work is up.
pub(crate) struct PartTime(Option<Pin<Box<Sleep>>>);

impl PartTime {
    /// Returns the end of the time of the parts that the session is in. Without one whose time is
    /// limited, it never comes.
    pub(crate) fn of(session: &Session) -> Self {
        let left = session.budget_parts.iter().filter_map(|part| left(session, part)).min();
        PartTime(left.map(|left| Box::pin(sleep_until(deadline(left)))))
    }

    pub(crate) fn poll_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(sleep) = &mut self.0 else { return Poll::Pending };
        ready!(sleep.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(())
    }
}

/// Fails if the time of a part of the work is up. When the time of the whole run is, the engine
/// ends it.
pub(crate) fn check(session: &Session) -> Result<(), StepError> {
    for part in &session.budget_parts {
        if let (Some(Duration::ZERO), Some(max)) = (left(session, part), part.budget.time) {
            let used = part.spent(&session.spent()).time;
            let reached = LimitReached::time(Limit::Part(Resource::Time), max, used);
            return Err(StepError::Limit(reached));
        }
    }
    Ok(())
}

fn left(session: &Session, part: &Part) -> Option<Duration> {
    part.budget.left(&part.spent(&session.spent())).time
}
