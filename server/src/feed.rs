//! [`Feed`]: the events of a session for one reader, from any point on.
//!
//! Earlier events are derived from the session's log, later ones come from the session itself. The
//! session returns the length of its log together with its stream, so no event is lost or doubled
//! between them. A reader gets the next event when it has read the one before, so what it does not
//! read takes no memory.

use std::sync::Arc;

use loopwright_core::EventStream;
use loopwright_core::event::Envelope;

use crate::backlog::{Missed, Start};
use crate::error::ApiError;
use crate::live::LeaseGuard;
use crate::server::Server;
use crate::sse::Numbering;

/// The events of a session that one reader has not seen. It keeps the session open.
pub(crate) struct Feed {
    missed: Missed,
    live: EventStream,
    numbering: Numbering,
    _lease: LeaseGuard,
}

impl Feed {
    /// Opens a session for a reader that wants its events from `start` on. With `tree`, the events
    /// of sub-agents follow, too, from here on.
    pub(crate) async fn open(
        server: &Server,
        session: &str,
        start: Start,
        tree: bool,
    ) -> Result<Self, ApiError> {
        let shared = server.shared();
        let lease = shared.live.lease(session).await?;
        let (length, live) = match tree {
            true => lease.handle.join_tree().await?,
            false => lease.handle.join().await?,
        };
        let (missed, after) = lease.backlog.missed(&*shared.store, session, length, start).await?;
        Ok(Feed { missed, live, numbering: Numbering(after), _lease: lease.guard })
    }

    /// Returns the next event, with its number if it has one of its own, or `None` when the session
    /// was closed or the reader was too slow. If the future is dropped, an event may be lost.
    pub(crate) async fn next(&mut self) -> Option<(Option<u64>, Arc<Envelope>)> {
        let event = match self.missed.next().await {
            Some(event) => event,
            None => self.live.next().await?,
        };
        Some((self.numbering.number(&event), event))
    }
}
