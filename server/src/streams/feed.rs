//! [`Feed`]: the events of a session for one reader, from any point on.
//!
//! Earlier events are derived from the session's log, later ones come from the session itself. The
//! session returns the length of its log together with its stream, so no event is lost or
//! duplicated between them. A reader gets the next event only when it has read the previous one, so
//! unread events take no memory.
//!
//! Two kinds of sessions are read from the log alone: sessions that another process has open, which
//! then lack deltas, and sessions whose agent or model this server does not have or allow. When
//! such a session is opened here, or another process takes it over, the reader continues without a
//! gap. It never reopens a session that another process has taken over or asked for.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use loopwright_core::EventStream;
use loopwright_core::event::{Envelope, StreamEnd};
use tokio::time::Instant;

use super::backlog::{Missed, Start};
use super::encoded_events::{EncodedEvent, EncodedEvents};
use super::sse::Numbering;
use crate::cluster::PeerEvents;
use crate::error::ApiError;
use crate::live::{Lease, LeaseGuard};
use crate::server::Server;

/// The interval between questions to the cluster for the worker that has a session open.
const OWNER_INTERVAL: Duration = Duration::from_millis(500);

/// The events of a session that one reader has not seen. A session that is open here stays open as
/// long as the feed.
pub(crate) struct Feed {
    server: Server,
    session: Arc<str>,
    tree: bool,
    source: Source,
    encoded: EncodedEvents,
    numbering: Numbering,
}

/// The source of a session's events.
enum Source {
    /// The session, open in this process.
    Live { missed: Missed, live: EventStream, lease: LeaseGuard },
    /// The worker of the cluster that has the session open.
    Peer { missed: Missed, events: PeerEvents },
    /// The session's log.
    Log { missed: Missed, next_look: Instant },
}

/// The next item of a source.
enum Next {
    Event(Arc<Envelope>),
    /// The session may have another source now.
    Reopen,
    /// Another process has the session, or is about to open it. Events come from the log or from
    /// that process.
    Follow,
    /// No event yet.
    Wait,
    End,
}

impl Feed {
    /// Opens a session for a reader that wants its events from `start` on. With `tree`, new events
    /// of sub-agents follow too.
    pub(crate) async fn open(
        server: &Server,
        session: &str,
        start: Start,
        tree: bool,
    ) -> Result<Self, ApiError> {
        let (source, encoded, after) = Source::open(server, session, start, tree).await?;
        let (server, numbering) = (server.clone(), Numbering(after));
        Ok(Feed { server, session: session.into(), tree, source, encoded, numbering })
    }

    /// Returns the next event, with its number if it has one. Returns `None` when the session was
    /// closed or the reader was too slow.
    ///
    /// # Cancellation
    /// If the future is dropped, an event may be lost.
    pub(crate) async fn next(&mut self) -> Option<(Option<u64>, EncodedEvent)> {
        loop {
            let (number, event) = self.next_event().await?;
            if let Some(encoded) = self.encoded.encode(event) {
                return Some((number, encoded));
            }
        }
    }

    /// Returns the next event like [`next`](Self::next), without its JSON.
    pub(crate) async fn next_event(&mut self) -> Option<(Option<u64>, Arc<Envelope>)> {
        loop {
            match self.source.next(&self.server, &self.session).await {
                Next::Event(event) => return Some((self.numbering.number(&event), event)),
                Next::Reopen => {
                    let start = Start::After(self.numbering.0);
                    let opened = Source::open(&self.server, &self.session, start, self.tree).await;
                    (self.source, self.encoded, _) = opened.ok()?;
                }
                Next::Follow => {
                    let start = Start::After(self.numbering.0);
                    let log = Source::follow(&self.server, &self.session, start, self.tree).await;
                    (self.source, self.encoded, _) = log.ok()?;
                }
                Next::Wait => {}
                Next::End => return None,
            }
        }
    }
}

impl Source {
    /// Returns the source, the JSON that its readers share, and the number of the last event before
    /// its own.
    async fn open(
        server: &Server,
        id: &str,
        start: Start,
        tree: bool,
    ) -> Result<(Self, EncodedEvents, u64), ApiError> {
        let shared = server.shared();
        let lease = match shared.live.lease(id).await {
            Err(error) if error.is_read_only() => None,
            lease => lease?,
        };
        let Some(lease) = lease else { return Self::follow(server, id, start, tree).await };
        let joined = match tree {
            true => lease.handle.join_tree().await,
            false => lease.handle.join().await,
        };
        // The session may have moved to another process since.
        let Ok((length, live)) = joined else {
            return Self::follow(server, id, start, tree).await;
        };
        let Lease { guard, backlog, .. } = lease;
        let (missed, after) = backlog.missed(&*shared.store, id, length, start).await?;
        Ok((Source::Live { missed, live, lease: guard }, backlog.encoded(), after))
    }

    /// Returns the events of a session that is not open here.
    async fn follow(
        server: &Server,
        id: &str,
        start: Start,
        tree: bool,
    ) -> Result<(Self, EncodedEvents, u64), ApiError> {
        let shared = server.shared();
        let backlog = shared.log_backlogs.of(id);
        if let Some((length, events)) = shared.cluster.join_peer(id, tree).await {
            let (missed, after) = backlog.missed(&*shared.store, id, length, start).await?;
            return Ok((Source::Peer { missed, events }, backlog.encoded(), after));
        }
        let (missed, after) = backlog.followed(&*shared.store, id, start).await?;
        let next_look = Instant::now() + OWNER_INTERVAL;
        Ok((Source::Log { missed, next_look }, backlog.encoded(), after))
    }

    async fn next(&mut self, server: &Server, session: &str) -> Next {
        let store = &*server.shared().store;
        match self {
            Source::Live { missed, live, lease } => {
                if let Some(event) = missed.next().await {
                    return Next::Event(event);
                }
                match live.next().await {
                    Some(event) => Next::Event(event),
                    None if lease.reopens() => Next::Reopen,
                    None if live.end() == Some(StreamEnd::Moved) => Next::Follow,
                    None => Next::End,
                }
            }
            Source::Peer { missed, events } => {
                if let Some(event) = missed.next().await {
                    return Next::Event(event);
                }
                match events.next().await {
                    Some(event) => Next::Event(event),
                    None => Next::Reopen,
                }
            }
            Source::Log { missed, next_look } => match missed.follow(store, session).await {
                Ok(Some(event)) => Next::Event(event),
                Ok(None) if server.shared().live.peek(session).await.is_some() => Next::Reopen,
                Ok(None) if Instant::now() >= *next_look => {
                    *next_look = Instant::now() + OWNER_INTERVAL;
                    match server.shared().cluster.is_open_at_peer(session).await {
                        true => Next::Follow,
                        false => Next::Wait,
                    }
                }
                Ok(None) => Next::Wait,
                // The session was deleted, or the reader gets the error when it reconnects.
                Err(_) => Next::End,
            },
        }
    }
}
