//! The thread of a store's connections.
//!
//! Leases are renewed there, so that no work of the caller's runtime delays them. Operations run to
//! their end there, even if the caller's future is dropped.

use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures::future::join_all;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task;

use super::error::StoreError;

/// Time that a drop waits for the last writes.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(1);

/// A separate thread for the tasks of a store.
pub(super) struct Background {
    runtime: Handle,
    /// Tasks that must finish before the thread ends. They must end by themselves.
    tasks: Vec<task::JoinHandle<()>>,
    stop: Option<oneshot::Sender<Vec<task::JoinHandle<()>>>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (built_tx, built) = mpsc::channel();
        let main = move || {
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(built_tx.send(Err(error))),
            };
            let _ = built_tx.send(Ok(runtime.handle().clone())); // the caller waits for it
            runtime.block_on(async {
                let tasks = stopped.await.unwrap_or_default();
                if tokio::time::timeout(CLOSING_TIMEOUT, join_all(tasks)).await.is_err() {
                    tracing::warn!("the database could not be informed that sessions are free");
                }
            });
            // A lookup of the server's name is not waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("postgres sessions".into()).spawn(main)?;
        let ended = || io::Error::other("the thread has ended");
        let runtime = built.recv().map_err(|_| ended())??;
        let (tasks, stop, thread) = (Vec::new(), Some(stop), Some(thread));
        Ok(Background { runtime, tasks, stop, thread })
    }

    /// Starts a task that must finish before the thread ends.
    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(self.runtime.spawn(task));
    }

    /// Runs an operation to its end, even if the future is dropped, and returns its result.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.runtime.spawn(operation).await.unwrap_or(Err(StoreError::Closed))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(std::mem::take(&mut self.tasks)); // unless the thread has ended
        }
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of a session store has panicked");
        }
    }
}
