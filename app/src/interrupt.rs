//! Ctrl-C and SIGTERM.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{CtrlC as Signal, ctrl_c};

use crate::error::StartError;

/// A listener for a signal. From its creation on, the signal no longer ends the process.
pub(crate) struct Interrupt(Signal);

impl Interrupt {
    /// Listens for Ctrl-C.
    pub(crate) fn listen() -> Result<Self, StartError> {
        let error =
            |why: io::Error| StartError(format!("The handler for Ctrl-C cannot be set: {why}."));
        #[cfg(unix)]
        let signal = signal(SignalKind::interrupt());
        #[cfg(windows)]
        let signal = ctrl_c();
        signal.map(Interrupt).map_err(error)
    }

    /// Listens for SIGTERM, with which service managers stop a process.
    #[cfg(unix)]
    pub(crate) fn terminate() -> Result<Self, StartError> {
        let error =
            |why: io::Error| StartError(format!("The handler for SIGTERM cannot be set: {why}."));
        signal(SignalKind::terminate()).map(Interrupt).map_err(error)
    }

    /// Listens for Ctrl-C: Windows has no SIGTERM.
    #[cfg(windows)]
    pub(crate) fn terminate() -> Result<Self, StartError> {
        Interrupt::listen()
    }

    /// Waits for the next signal. Returns immediately if one arrived since the last call.
    pub(crate) async fn pressed(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await // the signal can no longer arrive
        }
    }
}
