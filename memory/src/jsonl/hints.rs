//! Hints of posted inputs: a file in the directory, to which each poster appends the name of the
//! session. One thread per store watches its length while sessions are open.
//!
//! The mailboxes do not depend on it: a session reads its own when it is opened, before each input,
//! before it is closed, and from time to time.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::private;

/// Interval between two looks for posted inputs.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The time for which a session counts as announced. After that, an input that is posted again and
/// has no receipt is announced again.
const ANNOUNCED_TIME: Duration = Duration::from_secs(1);

/// The length at which the file is emptied.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The hints of a store. Notifies the sessions that are open in this process.
pub(super) struct Hints {
    file: PathBuf,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    sessions: HashMap<String, Weak<Notify>>,
    /// The sessions for which this process has recently announced an input.
    announced: HashMap<String, Instant>,
    is_watching: bool,
}

impl Hints {
    /// Creates the hints of the store in this directory.
    pub(super) fn new(directory: &Path) -> Self {
        Hints { file: directory.join(".posted"), watched: Mutex::default() }
    }

    /// Returns a notifier for inputs posted to this session. Notifications stop when it is dropped.
    pub(super) fn watch(self: &Arc<Self>, session: &str) -> io::Result<Arc<Notify>> {
        let posted = Arc::<Notify>::default();
        let mut watched = self.watched();
        watched.sessions.insert(session.to_owned(), Arc::downgrade(&posted));
        if !watched.is_watching {
            let (hints, length) = (self.clone(), self.length());
            let work = move || hints.run(length);
            thread::Builder::new().name("jsonl mailboxes".into()).spawn(work)?;
            watched.is_watching = true;
        }
        Ok(posted)
    }

    /// Returns whether this process has recently announced an input for this session.
    pub(super) fn is_announced(&self, session: &str) -> bool {
        let is_recent = |at: &Instant| at.elapsed() < ANNOUNCED_TIME;
        self.watched().announced.get(session).is_some_and(is_recent)
    }

    /// Announces an input posted to this session. Requires the lock for changes.
    pub(super) fn announce(&self, session: &str) {
        let mut watched = self.watched();
        watched.announced.retain(|_, at| at.elapsed() < ANNOUNCED_TIME);
        watched.announced.insert(session.to_owned(), Instant::now());
        if let Some(posted) = watched.sessions.get(session).and_then(Weak::upgrade) {
            posted.notify_one();
        }
        drop(watched);
        let add = || {
            let mut file = private::file().append(true).create(true).open(&self.file)?;
            if file.metadata()?.len() >= MAX_FILE_BYTES {
                file.set_len(0)?;
            }
            let name = serde_json::to_string(session)?;
            file.write_all(format!("{name}\n").as_bytes())
        };
        if let Err(error) = add() {
            tracing::warn!(session, %error, "the owner of a session may learn late of an input");
        }
    }

    /// Watches the file until no session is open.
    fn run(&self, mut seen: u64) {
        loop {
            thread::park_timeout(POLL_INTERVAL);
            let mut watched = self.watched();
            watched.sessions.retain(|_, posted| posted.strong_count() > 0);
            if watched.sessions.is_empty() {
                watched.is_watching = false;
                return;
            }
            let length = self.length();
            if length == seen {
                continue;
            }
            // After the file was emptied, or if it cannot be read, every session looks.
            let names = if length > seen { self.names(seen).ok() } else { None };
            seen = length;
            for (session, posted) in &watched.sessions {
                let is_meant = names.as_ref().is_none_or(|names| names.contains(session));
                if let Some(posted) = posted.upgrade().filter(|_| is_meant) {
                    posted.notify_one();
                }
            }
        }
    }

    /// Returns the names that were added after this position.
    fn names(&self, from: u64) -> io::Result<Vec<String>> {
        let mut file = File::open(&self.file)?;
        file.seek(SeekFrom::Start(from))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let names: Result<_, _> = text.lines().map(serde_json::from_str).collect();
        Ok(names?)
    }

    fn length(&self) -> u64 {
        fs::metadata(&self.file).map_or(0, |metadata| metadata.len())
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
