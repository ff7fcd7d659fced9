//! Ctrl-C, and SIGTERM.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{CtrlC as Signal, ctrl_c};

use crate::agent::StartError;

/// Hears Ctrl-C from the moment it is made; the process no longer ends by it.
pub(crate) struct Interrupt(Signal);

impl Interrupt {
    /// Begins to listen.
    pub(crate) fn listen() -> Result<Self, StartError> {
        let why = |why: io::Error| StartError(format!("Ctrl-C cannot be listened for: {why}."));
        #[cfg(unix)]
        let heard = signal(SignalKind::interrupt());
        #[cfg(windows)]
        let heard = ctrl_c();
        heard.map(Interrupt).map_err(why)
    }

    /// The same for SIGTERM, by which services are stopped.
    #[cfg(unix)]
    pub(crate) fn terminate() -> Result<Self, StartError> {
        let why = |why: io::Error| StartError(format!("SIGTERM cannot be listened for: {why}."));
        signal(SignalKind::terminate()).map(Interrupt).map_err(why)
    }

    /// There is no SIGTERM here.
    #[cfg(windows)]
    pub(crate) fn terminate() -> Result<Self, StartError> {
        Interrupt::listen()
    }

    /// Resolves at the next Ctrl-C, or at one since the last time.
    pub(crate) async fn pressed(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await // no more will come
        }
    }
}
