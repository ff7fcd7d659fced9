//! The writer of a store: a thread that receives jobs through a channel. Jobs that arrive during a
//! commit are written in the next transaction.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use loopwright_core::log::MemoryError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, Statement, Transaction, TransactionBehavior};

use super::changes::Changes;
use super::error::{StoreError, not_flushed, write_lock};
use super::job::{Job, Write};
use super::mailbox::MailWatch;
use super::owners::Owners;
use super::wal::{self, Checkpoint};
use crate::lock_holder::{self, RETRY_INTERVAL};

/// Interval at which the writer looks for inputs posted by other processes, while sessions are
/// open.
const MAIL_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of jobs in one transaction.
const MAX_GROUP_JOBS: usize = 256;

/// The number of commits after which the pages in the write-ahead log are counted.
const COMMITS_PER_COUNT: u32 = 32;

/// Delay before a failed release is retried, unless another job is written earlier.
const RELEASE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Timeout for another process that writes, once a store is being closed. No caller waits for the
/// results any more.
const CLOSING_TIMEOUT: Duration = Duration::from_millis(200);

/// Writes jobs until the channel is closed. `is_closing` is set before that.
pub(super) fn run(
    connection: Connection,
    owners: Owners,
    file: PathBuf,
    jobs: Receiver<Job>,
    is_closing: Arc<AtomicBool>,
) -> rusqlite::Result<()> {
    let mut writer = Writer::new(&connection, owners, &file, is_closing)?;
    loop {
        let next = match writer.timeout() {
            None => jobs.recv().map_err(RecvTimeoutError::from),
            Some(timeout) => jobs.recv_timeout(timeout),
        };
        writer.look_for_mail();
        let mut group = writer.due_retries(next.is_ok());
        match next {
            // The sessions are free without a release, since their owner is gone.
            Err(RecvTimeoutError::Disconnected) => break,
            next => group.extend(next),
        }
        group.extend(jobs.try_iter().take(MAX_GROUP_JOBS));
        if !group.is_empty() {
            writer.write(group);
        }
    }
    writer.close();
    connection.close().map_err(|(_, error)| error)
}

/// The reason why a transaction was not written.
enum CommitError {
    /// Another process has locked the file for too long.
    Locked(MemoryError),
    /// SQLite failed.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for CommitError {
    fn from(error: rusqlite::Error) -> Self {
        CommitError::Sqlite(error)
    }
}

struct Writer<'c> {
    connection: &'c Connection,
    changes: Changes<'c>,
    count_pages: Statement<'c>,
    /// The number of commits since the pages were counted.
    commits: u32,
    /// Timeout for readers, so that the write-ahead log starts again.
    restart_timeout: Duration,
    file: &'c Path,
    /// The failed releases. They are retried with the next job, or after [`RELEASE_RETRY_DELAY`].
    retries: Vec<Job>,
    retry_at: Instant,
    mail: MailWatch<'c>,
    looked_for_mail_at: Instant,
    /// `true` if the connection flushes each commit to disk.
    flushes: bool,
    /// The error of all further writes, once they are refused.
    stopped: Option<MemoryError>,
    is_closing: Arc<AtomicBool>,
}

impl<'c> Writer<'c> {
    fn new(
        connection: &'c Connection,
        owners: Owners,
        file: &'c Path,
        is_closing: Arc<AtomicBool>,
    ) -> rusqlite::Result<Self> {
        connection.pragma_update(None, "secure_delete", true)?; // overwrites deleted data
        connection.busy_timeout(Duration::ZERO)?; // `Writer::begin` waits
        // Closing would move pages to the file unchecked.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        Ok(Writer {
            connection,
            changes: Changes::new(connection, owners, file)?,
            count_pages: connection.prepare(wal::COUNT_PAGES)?,
            commits: 0,
            restart_timeout: wal::RESTART_TIMEOUT,
            file,
            retries: Vec::new(),
            retry_at: Instant::now(),
            mail: MailWatch::new(connection)?,
            looked_for_mail_at: Instant::now(),
            flushes: false,
            stopped: None,
            is_closing,
        })
    }

    /// Returns the time to wait for the next job, or `None` to wait until it comes.
    fn timeout(&self) -> Option<Duration> {
        let retry = (!self.retries.is_empty())
            .then(|| self.retry_at.saturating_duration_since(Instant::now()));
        let poll = (!self.changes.live_owners.is_empty()).then_some(MAIL_POLL_INTERVAL);
        retry.into_iter().chain(poll).min()
    }

    /// Returns the failed releases if it is time to retry them.
    fn due_retries(&mut self, with_job: bool) -> Vec<Job> {
        if with_job || Instant::now() >= self.retry_at {
            return std::mem::take(&mut self.retries);
        }
        Vec::new()
    }

    /// Notifies the sessions for which another process has posted inputs.
    fn look_for_mail(&mut self) {
        let is_waiting = !self.changes.live_owners.is_empty();
        if !is_waiting || self.looked_for_mail_at.elapsed() < MAIL_POLL_INTERVAL {
            return;
        }
        self.looked_for_mail_at = Instant::now();
        match self.mail.poll(self.connection) {
            Ok(sessions) => self.notify(&sessions),
            // The next look finds the inputs that this one missed.
            Err(error) => tracing::debug!(%error, "the mailboxes of sessions cannot be read"),
        }
    }

    /// Notifies the owners of the sessions with these numbers, if they are in this store.
    fn notify(&self, sessions: &[i64]) {
        for (number, posted) in self.changes.live_owners.values() {
            if sessions.contains(number) {
                posted.notify_one();
            }
        }
    }

    fn write(&mut self, jobs: Vec<Job>) {
        if let Some(why) = &self.stopped {
            jobs.into_iter().for_each(|job| drop(job.done.send(Err(why.clone()))));
            return;
        }
        let error = match self.commit(&jobs) {
            Ok(results) => {
                for (job, result) in jobs.into_iter().zip(results) {
                    let _ = job.done.send(result); // the caller may have been dropped
                }
                let posted = std::mem::take(&mut self.changes.posted);
                if !posted.is_empty() {
                    self.notify(&posted);
                }
                return self.checkpoint_if_long();
            }
            Err(CommitError::Locked(error)) => error,
            Err(CommitError::Sqlite(error)) if wal::is_flush_failure(&error) => self.stop(&error),
            // One failing job must not fail the others.
            Err(CommitError::Sqlite(_)) if jobs.len() > 1 => {
                return jobs.into_iter().for_each(|job| self.write(vec![job]));
            }
            Err(CommitError::Sqlite(error)) => {
                StoreError::Sqlite(error).into_memory_error(self.file)
            }
        };
        for job in jobs {
            if matches!(job.write, Write::Release { .. }) && self.stopped.is_none() {
                let session = &*job.session;
                tracing::warn!(session, %error, "a session could not be released yet");
                self.retries.push(job);
                self.retry_at = Instant::now() + RELEASE_RETRY_DELAY;
            } else {
                let _ = job.done.send(Err(error.clone()));
            }
        }
    }

    /// Refuses all further writes, since the content of the disk is unknown.
    fn stop(&mut self, error: &rusqlite::Error) -> MemoryError {
        let why = not_flushed(self.file, &error.to_string());
        tracing::error!("{why}");
        if let Err(error) = wal::rewrite(self.connection, self.file) {
            let file = self.file.display();
            tracing::error!(%error, "the write-ahead log of {file} cannot be written once more");
        }
        self.stopped = Some(why.clone());
        why
    }

    /// Moves all pages to the file, unless another process has it open. Then SQLite removes the
    /// write-ahead log when the connection is closed.
    fn close(mut self) {
        if self.stopped.is_some() || !self.changes.owners.is_only_one() {
            return;
        }
        let checkpoint = wal::checkpoint(self.connection, Checkpoint::Truncate);
        if self.check(checkpoint) {
            let config = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            let _ = self.connection.set_db_config(config, false); // else the log stays, empty
        }
    }

    /// Moves pages to the file if the write-ahead log has many.
    fn checkpoint_if_long(&mut self) {
        self.commits += 1;
        if self.commits < COMMITS_PER_COUNT {
            return;
        }
        self.commits = 0;
        let checkpoint = match wal::due(&mut self.count_pages, self.restart_timeout) {
            Ok(Some(mode)) => wal::checkpoint(self.connection, mode),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        self.check(checkpoint);
    }

    /// Stops if a checkpoint has failed. Returns `true` if it has moved all pages.
    fn check(&mut self, checkpoint: rusqlite::Result<bool>) -> bool {
        match checkpoint {
            Ok(moved_all) => moved_all,
            // The pages stay in the log, and the next checkpoint moves them.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => false,
            Err(error) => {
                self.stop(&error);
                false
            }
        }
    }

    /// Writes all jobs in one transaction, except refused ones.
    fn commit(&mut self, jobs: &[Job]) -> Result<Vec<Result<(), MemoryError>>, CommitError> {
        self.set_flushes(jobs.iter().any(|job| job.durable))?;
        let transaction = self.begin()?;
        let mut results = Vec::with_capacity(jobs.len());
        let mut has_deleted = false;
        self.changes.posted.clear();
        for job in jobs {
            results.push(match self.changes.perform(job) {
                Ok(()) => {
                    has_deleted |= matches!(job.write, Write::Delete);
                    Ok(())
                }
                Err(StoreError::Refused(why)) => Err(why),
                Err(StoreError::Sqlite(error)) => return Err(error.into()),
            });
        }
        transaction.commit()?;
        if has_deleted {
            self.truncate_wal();
        }
        Ok(results)
    }

    /// Begins a transaction, waiting for another process that writes.
    fn begin(&self) -> Result<Transaction<'c>, CommitError> {
        let start = Instant::now();
        loop {
            match Transaction::new_unchecked(self.connection, TransactionBehavior::Immediate) {
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {}
                transaction => return Ok(transaction?),
            }
            let waited = start.elapsed();
            let (lock, byte) = write_lock(self.file);
            let advice = match self.is_closing.load(Ordering::Relaxed) {
                true if waited > CLOSING_TIMEOUT => Some("another process has locked it".into()),
                _ => lock_holder::advice(&lock, Some(byte), waited),
            };
            if let Some(advice) = advice {
                let file = self.file.display();
                let why = format!("{file} cannot be written: {advice}");
                return Err(CommitError::Locked(MemoryError::Failed(why.into())));
            }
            thread::park_timeout(RETRY_INTERVAL);
        }
    }

    fn set_flushes(&mut self, flushes: bool) -> rusqlite::Result<()> {
        if flushes != self.flushes {
            let level = if flushes { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.flushes = flushes;
        }
        Ok(())
    }

    /// Removes deleted data from SQLite's write-ahead log; in the file it is overwritten already.
    ///
    /// Does not wait for readers and writers. If any are active, the log is emptied later, when it
    /// restarts or the last process closes the file.
    fn truncate_wal(&mut self) {
        let checkpoint = wal::checkpoint(self.connection, Checkpoint::Truncate);
        if !self.check(checkpoint) {
            let file = self.file.display();
            tracing::warn!("deleted data may still be in the write-ahead log of {file}");
        }
    }
}

#[cfg(test)]
mod tests;
