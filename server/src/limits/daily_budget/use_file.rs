//! [`UseFiles`]: the usage that no log contains any more, in one file per day. All servers with a
//! store share the files.
//!
//! Lines are added and flushed under the lock of the file. A process that is killed leaves at most
//! one incomplete line. The next process ends that line, and readers skip it.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::Principal;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

/// A day, in milliseconds.
pub(super) const DAY: u64 = 24 * 60 * 60 * 1000;
/// The extension of the files. The name before it is the number of the day since 1970.
const EXTENSION: &str = "jsonl";
/// The number of days that files are kept.
const MAX_DAYS: u64 = 2;

/// Usage: tokens, and a cost in US dollars.
pub(super) type Use = (u64, f64);

/// The files of a directory, one per day.
pub(super) struct UseFiles {
    directory: PathBuf,
    read: Arc<Mutex<ReadFile>>,
}

/// The file of a day, up to the last complete line read.
#[derive(Default)]
struct ReadFile {
    day: u64,
    length: u64,
    uses: HashMap<Principal, StoredUse>,
}

/// The usage of a principal on a day that no log contains.
#[derive(Debug, Clone, Default)]
pub(super) struct StoredUse {
    pub(super) requests: Use,
    /// The usage of deleted sessions. The log of one may still exist, if its deletion failed.
    pub(super) sessions: HashMap<Arc<str>, Use>,
}

/// A line of a file, as JSON.
#[derive(Serialize, Deserialize)]
struct Line {
    principal: Principal,
    /// The deleted session; `None` for a request without a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<Arc<str>>,
    tokens: u64,
    cost: f64,
}

impl UseFiles {
    /// Uses the files of a directory, which is created on demand.
    pub(super) fn new(directory: PathBuf) -> Self {
        UseFiles { directory, read: Arc::default() }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reads the usage of a principal on the day that starts at this time.
    pub(super) async fn of(&self, principal: &Principal, start: u64) -> io::Result<StoredUse> {
        let (path, day) = (self.path(start / DAY), start / DAY);
        let mut read = self.read.clone().lock_owned().await;
        let read = blocking(move || {
            if read.day != day {
                *read = ReadFile { day, ..ReadFile::default() };
            }
            read.update(&path).map(|()| read)
        });
        Ok(read.await?.uses.get(principal).cloned().unwrap_or_default())
    }

    /// Adds the usage of a principal: a request, or a deleted session.
    pub(super) async fn add(
        &self,
        principal: &Principal,
        session: Option<Arc<str>>,
        (tokens, cost): Use,
        start: u64,
    ) -> io::Result<()> {
        let line = Line { principal: principal.clone(), session, tokens, cost };
        let text = serde_json::to_string(&line)? + "\n";
        let (directory, path, day) = (self.directory.clone(), self.path(start / DAY), start / DAY);
        blocking(move || {
            create(&directory)?;
            let is_new = !path.exists();
            append(&path, &text)?;
            if is_new {
                remove_older(&directory, day);
                sync(&directory)?;
            }
            Ok(())
        })
        .await
    }

    fn path(&self, day: u64) -> PathBuf {
        self.directory.join(format!("{day}.{EXTENSION}"))
    }
}

impl ReadFile {
    /// Reads the complete lines that were added to the file since the last read.
    fn update(&mut self, path: &Path) -> io::Result<()> {
        let mut file = match File::open(path) {
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        file.seek(SeekFrom::Start(self.length))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some(text) = line.strip_suffix(b"\n") else { break }; // incomplete
            self.length += line.len() as u64;
            match serde_json::from_slice(text) {
                Ok(line) => self.apply(line),
                Err(why) => {
                    let path = path.display();
                    tracing::warn!(%path, %why, "a line about the use of a day cannot be read");
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, Line { principal, session, tokens, cost }: Line) {
        let stored = self.uses.entry(principal).or_default();
        match session {
            Some(session) => {
                let before = stored.sessions.entry(session).or_default();
                *before = max(*before, (tokens, cost));
            }
            None => stored.requests = (stored.requests.0 + tokens, stored.requests.1 + cost),
        }
    }
}

/// Returns the sum of two usages.
pub(super) fn add(one: Use, other: Use) -> Use {
    (one.0.saturating_add(other.0), one.1 + other.1)
}

/// Returns the greater token count and the greater cost.
pub(super) fn max(one: Use, other: Use) -> Use {
    (one.0.max(other.0), one.1.max(other.1))
}

/// Adds a line to a file.
fn append(path: &Path, text: &str) -> io::Result<()> {
    let mut file = options().read(true).append(true).create(true).open(path)?;
    file.lock()?; // until it is closed
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    let end = if last == [b'\n'] { "" } else { "\n" }; // of a killed process's line
    file.write_all(format!("{end}{text}").as_bytes())?;
    file.sync_data()
}

/// Removes the files of earlier days. A file that cannot be removed does no harm.
fn remove_older(directory: &Path, day: u64) {
    for file in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = file.path();
        let of_day = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        let is_use = path.extension().is_some_and(|extension| extension == EXTENSION);
        if is_use && of_day.is_some_and(|of_day| of_day + MAX_DAYS <= day) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Creates a directory that only the user may access.
fn create(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Flushes the names in a directory, where the system can.
fn sync(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

/// Returns options that create files that only the user may access.
fn options() -> OpenOptions {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "only Unix has modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(run).await.unwrap_or_else(|why| Err(io::Error::other(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C307: Two servers read each other's additions, and skip the line of a killed server. Files
    /// of earlier days are removed.
    #[tokio::test]
    async fn servers_share_the_file_of_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("use");
        let [one, two] = [(); 2].map(|()| UseFiles::new(directory.clone()));
        let ann = Principal::new("ann");
        one.add(&ann, None, (1, 0.0), 5 * DAY).await.unwrap();
        assert_eq!(two.of(&ann, 5 * DAY).await.unwrap().requests, (1, 0.0));
        one.add(&ann, None, (3, 0.5), 8 * DAY).await.unwrap();
        let path = directory.join("8.jsonl");
        let cut = fs::read_to_string(&path).unwrap() + "{\"principal\":\"ann\",\"tok";
        fs::write(&path, cut).unwrap();
        assert_eq!(two.of(&ann, 8 * DAY).await.unwrap().requests, (3, 0.5));
        two.add(&ann, Some("s".into()), (4, 0.25), 8 * DAY).await.unwrap();
        two.add(&ann, Some("s".into()), (2, 0.25), 8 * DAY).await.unwrap();
        two.add(&ann, None, (5, 0.5), 8 * DAY).await.unwrap();
        for files in [&one, &two, &UseFiles::new(directory.clone())] {
            let stored = files.of(&ann, 8 * DAY).await.unwrap();
            assert_eq!(stored.requests, (8, 1.0));
            assert_eq!(stored.sessions, HashMap::from([("s".into(), (4, 0.25))]));
            let bob = files.of(&Principal::new("bob"), 8 * DAY).await.unwrap();
            assert_eq!(bob.requests, (0, 0.0));
        }
        assert!(!directory.join("5.jsonl").exists());
    }
}
