//! The resource limits of clients. [`Limits`] has their values, by default and as configured; each
//! file below enforces one of them.

pub(crate) mod body_limit;
pub(crate) mod bounded_reads;
pub(crate) mod daily_budget;
pub(crate) mod long_reads;
pub(crate) mod quota;
pub(crate) mod run_quota;

use std::time::Duration;

pub(crate) const RUNS_PER_CLIENT: usize = 32;
pub(crate) const RUNS: usize = 4096;
pub(crate) const CONNECTIONS_PER_CLIENT: usize = 1024;
pub(crate) const BODY_BYTES: usize = 4 * 1024 * 1024;
pub(crate) const OPEN_SESSIONS: usize = 4096;

/// The resource limits of clients.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Maximum size of a request body, in bytes.
    pub(crate) body: usize,
    /// Maximum size of all bodies that are read or handled at a time, in bytes.
    pub(crate) bodies: usize,
    /// Maximum number of connections per address.
    pub(crate) connections_per_client: usize,
    /// Maximum number of runs per address.
    pub(crate) runs_per_client: usize,
    /// Maximum number of runs of all addresses.
    pub(crate) runs: usize,
    /// Maximum number of open sessions.
    pub(crate) open_sessions: usize,
    /// The grace period for runs in progress at a shutdown.
    pub(crate) grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: BODY_BYTES,
            bodies: 256 * 1024 * 1024,
            connections_per_client: CONNECTIONS_PER_CLIENT,
            runs_per_client: RUNS_PER_CLIENT,
            runs: RUNS,
            open_sessions: OPEN_SESSIONS,
            grace: Duration::from_secs(10),
        }
    }
}
