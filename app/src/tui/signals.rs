//! Signals of the operating system: termination, interrupt, and continue after a stop.

use std::io;
#[cfg(unix)]
use std::time::Duration;

#[cfg(unix)]
use tokio::signal::unix::{self, SignalKind, signal};
#[cfg(unix)]
use tokio::time::timeout;

/// Time limit for SIGCONT after SIGTSTP. Without a job-control shell the process does not stop.
#[cfg(unix)]
const SUSPEND_TIMEOUT: Duration = Duration::from_millis(500);

/// A signal that the application handles.
#[cfg_attr(not(unix), allow(dead_code, reason = "only Unix has these signals"))]
pub(crate) enum Signal {
    /// The process must exit with this code.
    Terminate(u8),
    /// SIGINT from another process; Ctrl-C on the keyboard arrives as a key.
    Interrupt,
    /// SIGCONT: the process was stopped, and the terminal's modes may have changed.
    Continue,
}

/// A receiver of signals, active from its creation on.
#[cfg(unix)]
pub(crate) struct Signals {
    terminate: unix::Signal,
    hangup: unix::Signal,
    interrupt: unix::Signal,
    resumed: unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Installs the handlers. Fails if the operating system refuses one.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            resumed: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        })
    }

    /// Returns the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! { biased;
            _ = self.terminate.recv() => Signal::Terminate(143),
            _ = self.hangup.recv() => Signal::Terminate(129),
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.resumed.recv() => Signal::Continue,
        }
    }

    /// Stops the process group, as Ctrl-Z does in a shell. Resolves when it continues.
    pub(crate) async fn suspend(&mut self) {
        if rustix::process::kill_current_process_group(rustix::process::Signal::TSTP).is_ok() {
            let _ = timeout(SUSPEND_TIMEOUT, self.resumed.recv()).await;
        }
    }
}

/// A receiver of Ctrl-C, active from its creation on.
#[cfg(windows)]
pub(crate) struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    /// Installs the handler. Fails if the operating system refuses it.
    pub(crate) fn listen() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Signals)
    }

    /// Returns the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        self.0.recv().await;
        Signal::Interrupt
    }

    /// Does nothing: processes cannot be stopped on this platform.
    pub(crate) async fn suspend(&mut self) {}
}
