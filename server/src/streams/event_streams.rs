//! [`EventStreams`]: streams whose clients can change the sessions that they follow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use loopwright_core::{Environment, SystemEnvironment};
use loopwright_protocols::{MAX_WHOLE, large_whole_number};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::backlog::Start;
use crate::error::{ApiError, ErrorKind};

/// Maximum number of changes of a stream whose client has not read the earlier frames.
const MAX_CHANGES: usize = 64;

/// The open streams. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct EventStreams(Arc<Streams>);

type Streams = Mutex<HashMap<Arc<str>, mpsc::Sender<Change>>>;

/// A change to the sessions that a stream follows.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Change {
    /// The sessions to follow in addition.
    #[serde(default)]
    pub(crate) follow: Vec<Follow>,
    /// The names of the feeds to end.
    #[serde(default)]
    pub(crate) unfollow: Vec<Arc<str>>,
}

/// A session to follow, and the position to start from.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Follow {
    /// The client's name for this feed, repeated in its frames. An earlier feed with the same name
    /// ends.
    #[schemars(length(min = 1, max = 100))]
    pub(crate) feed: Arc<str>,
    /// The id of the session.
    pub(crate) session: Arc<str>,
    /// The number of the last event that the client has. Without it, all events are sent.
    #[serde(default, deserialize_with = "large_whole_number")]
    #[schemars(range(max = MAX_WHOLE))]
    pub(crate) after: Option<u64>,
    /// Without `after`: about how many of the last events are sent, in whole turns, fewer if they
    /// are long. `GET /api/sessions/{id}/history` returns earlier ones.
    #[serde(default, deserialize_with = "large_whole_number")]
    #[schemars(range(max = MAX_WHOLE))]
    pub(crate) last: Option<u64>,
    /// `true` if new events of sub-agents are sent too.
    #[serde(default)]
    pub(crate) tree: bool,
}

impl Follow {
    /// Returns the start of the feed.
    pub(crate) fn start(&self) -> Start {
        Start::new(self.after, self.last)
    }
}

/// A stream that can be changed until this is dropped.
pub(crate) struct ChangeableStream {
    /// The id, which only the stream's client knows.
    pub(crate) id: Arc<str>,
    pub(crate) changes: mpsc::Receiver<Change>,
    streams: Weak<Streams>,
}

impl EventStreams {
    /// Opens a stream.
    pub(crate) fn open(&self) -> ChangeableStream {
        let random = || SystemEnvironment.random();
        let id: Arc<str> = format!("{:016x}{:016x}", random(), random()).into();
        let (sender, changes) = mpsc::channel(MAX_CHANGES);
        lock(&self.0).insert(id.clone(), sender);
        ChangeableStream { id, changes, streams: Arc::downgrade(&self.0) }
    }

    /// Sends a change to a stream.
    pub(crate) fn change(&self, id: &str, change: Change) -> Result<(), ApiError> {
        let sender = lock(&self.0).get(id).cloned();
        let sent = sender.map(|sender| sender.try_send(change));
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(TrySendError::Full(_))) => Err(ApiError::new(
                ErrorKind::TooMany,
                "The stream has too many changes already: read its frames.",
            )),
            Some(Err(TrySendError::Closed(_))) | None => {
                let why = "There is no such stream of events, or it has ended: open another one.";
                Err(ApiError::new(ErrorKind::NotFound, why))
            }
        }
    }
}

impl Drop for ChangeableStream {
    fn drop(&mut self) {
        if let Some(streams) = self.streams.upgrade() {
            lock(&streams).remove(&self.id);
        }
    }
}

fn lock(streams: &Streams) -> MutexGuard<'_, HashMap<Arc<str>, mpsc::Sender<Change>>> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}
