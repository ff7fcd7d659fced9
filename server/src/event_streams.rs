//! [`EventStreams`]: the streams whose clients can change which sessions they follow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use loopwright_core::agent::{Environment, SystemEnvironment};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::backlog::Start;
use crate::error::{ApiError, ErrorKind};
use crate::json::{MAX_POSITION, position};

/// How many changes a stream can have whose client has not read the frames before them.
const MAX_CHANGES: usize = 64;

/// The streams that are open. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct EventStreams(Arc<Streams>);

type Streams = Mutex<HashMap<Arc<str>, mpsc::Sender<Change>>>;

/// What a stream follows from now on.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Change {
    /// The sessions that are followed, too.
    #[serde(default)]
    pub(crate) follow: Vec<Follow>,
    /// The names of feeds that end.
    #[serde(default)]
    pub(crate) unfollow: Vec<Arc<str>>,
}

/// A session, and from where on it is followed.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Follow {
    /// The client's name of this feed, which its frames have. A feed of the same name ends.
    #[schemars(length(min = 1, max = 100))]
    pub(crate) feed: Arc<str>,
    /// The session.
    pub(crate) session: Arc<str>,
    /// The number of the last event that the client has; all events are sent if it is missing.
    #[serde(default, deserialize_with = "position")]
    #[schemars(range(max = MAX_POSITION))]
    pub(crate) after: Option<u64>,
    /// Without `after`: about how many of the last events are sent, whole turns, fewer if they are
    /// long. `GET /api/sessions/{id}/history` returns those before them.
    #[serde(default, deserialize_with = "position")]
    #[schemars(range(max = MAX_POSITION))]
    pub(crate) last: Option<u64>,
    /// Whether the events of sub-agents are sent, too, from here on.
    #[serde(default)]
    pub(crate) tree: bool,
}

impl Follow {
    /// Returns where the feed starts.
    pub(crate) fn start(&self) -> Start {
        Start::new(self.after, self.last)
    }
}

/// A stream that can be changed until this is dropped.
pub(crate) struct ChangeableStream {
    /// Its id, which only its client knows.
    pub(crate) id: Arc<str>,
    pub(crate) changes: mpsc::Receiver<Change>,
    streams: Weak<Streams>,
}

impl EventStreams {
    /// Registers a stream.
    pub(crate) fn open(&self) -> ChangeableStream {
        let random = || SystemEnvironment.random();
        let id: Arc<str> = format!("{:016x}{:016x}", random(), random()).into();
        let (sender, changes) = mpsc::channel(MAX_CHANGES);
        lock(&self.0).insert(id.clone(), sender);
        ChangeableStream { id, changes, streams: Arc::downgrade(&self.0) }
    }

    /// Passes a change to a stream.
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
