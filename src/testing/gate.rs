//! [`Gate`]: a point where a reply or a tool waits until the test lets it continue.

use std::sync::Arc;

use tokio::sync::watch;

/// A gate in a [`Script`](super::Script) or a [`TestTool`](super::TestTool), which blocks until the
/// test opens it.
///
/// Clones share one state. An open gate stays open.
///
/// ```
/// use loopwright_core::testing::Gate;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let gate = Gate::new();
/// let waiting = tokio::spawn({
///     let gate = gate.clone();
///     async move { gate.wait().await }
/// });
/// assert!(!waiting.is_finished());
/// gate.open();
/// waiting.await.unwrap();
/// # }
/// ```
#[derive(Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Default for Gate {
    fn default() -> Self {
        Gate(Arc::new(watch::Sender::new(false)))
    }
}

impl Gate {
    /// Creates a closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the gate for all current and future waiters.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until the gate is open. Dropping the future has no effect on the gate.
    pub async fn wait(&self) {
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}
