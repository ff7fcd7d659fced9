//! [`ProcessLimit`]: a limit of the running commands of MCP servers.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::time::Instant;

/// A server whose command may be ended while idle.
pub(super) trait Process: Send + Sync {
    /// Returns whether the command runs or is being started.
    fn has_process(&self) -> bool;
    /// Returns when the connection was last used, or `None` while it is in use.
    fn idle_since(&self) -> Option<Instant>;
    /// Ends the command, unless it is in use.
    fn close_idle(&self);
}

/// A limit of the commands of MCP servers that run at a time, in total and per owner. Clones share
/// the limit.
///
/// At the limit, the command that has been idle for the longest time is ended. It is started again
/// when needed.
#[derive(Clone)]
pub struct ProcessLimit {
    max_total: usize,
    max_per_owner: usize,
    running: Arc<Mutex<Vec<Running>>>,
}

struct Running {
    owner: Option<String>,
    server: Weak<dyn Process>,
}

impl ProcessLimit {
    /// Allows this many commands in total, and per owner.
    pub fn new(max_total: usize, max_per_owner: usize) -> Self {
        ProcessLimit { max_total, max_per_owner, running: Arc::default() }
    }

    /// Admits the command of a server, and ends an idle command if necessary. The error is a
    /// sentence without a full stop.
    pub(super) fn admit(&self, owner: Option<&str>, own: Weak<dyn Process>) -> Result<(), String> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|known| {
            let is_running = || known.server.upgrade().is_some_and(|server| server.has_process());
            !known.server.ptr_eq(&own) && is_running()
        });
        let is_own = |known: &Running| known.owner.as_deref() == owner;
        loop {
            let is_full_for_owner =
                running.iter().filter(|known| is_own(known)).count() >= self.max_per_owner;
            if !is_full_for_owner && running.len() < self.max_total {
                break;
            }
            let candidates = running.iter().enumerate();
            let idle = candidates.filter(|(_, known)| !is_full_for_owner || is_own(known));
            let idle =
                idle.filter_map(|(at, known)| Some((known.server.upgrade()?.idle_since()?, at)));
            let Some((_, at)) = idle.min() else {
                return Err(
                    "too many MCP servers are running, and none of them is idle: try again \
                            when another session has ended its run"
                        .into(),
                );
            };
            if let Some(server) = running.remove(at).server.upgrade() {
                server.close_idle();
            }
        }
        running.push(Running { owner: owner.map(str::to_owned), server: own });
        Ok(())
    }
}
