//! [`Limits`]: how much clients may use, by default and as configured.

use std::time::Duration;

pub(crate) const RUNS_PER_CLIENT: usize = 32;
pub(crate) const RUNS: usize = 4096;
pub(crate) const CONNECTIONS_PER_CLIENT: usize = 1024;
pub(crate) const BODY_BYTES: usize = 4 * 1024 * 1024;
pub(crate) const OPEN_SESSIONS: usize = 4096;

/// How much clients may use.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Bytes of a request's body.
    pub(crate) body: usize,
    /// Bytes of all bodies that are read or handled at a time.
    pub(crate) bodies: usize,
    /// Connections of one address.
    pub(crate) connections_per_client: usize,
    /// Runs of one address.
    pub(crate) runs_per_client: usize,
    /// Runs of all addresses.
    pub(crate) runs: usize,
    /// Sessions that are open.
    pub(crate) open_sessions: usize,
    /// How long runs in progress may take to end at a shutdown.
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
