//! Signals: those that end the process, Ctrl-C from elsewhere, and going on after a stop.

use std::io;
#[cfg(unix)]
use std::time::Duration;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What was heard.
pub(crate) enum Heard {
    /// The process is to end with this code.
    End(u8),
    /// SIGINT, which somebody has sent: the keyboard's Ctrl-C is a key.
    Interrupt,
    /// It goes on after it was stopped; the terminal may be as somebody else has left it.
    GoOn,
}

/// Hears signals from the moment it is made.
#[cfg(unix)]
pub(crate) struct Signals {
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
    go_on: Signal,
}

#[cfg(unix)]
impl Signals {
    /// Begins to listen.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            go_on: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Heard {
        tokio::select! { biased;
            _ = self.terminate.recv() => Heard::End(143),
            _ = self.hangup.recv() => Heard::End(129),
            _ = self.interrupt.recv() => Heard::Interrupt,
            _ = self.go_on.recv() => Heard::GoOn,
        }
    }

    /// Stops the process, with all of its pipeline, as Ctrl-Z does elsewhere. Resolves when it goes
    /// on.
    pub(crate) async fn suspend(&mut self) {
        if rustix::process::kill_current_process_group(rustix::process::Signal::TSTP).is_ok() {
            // Without a shell that could let it go on, it is not stopped.
            let _ = tokio::time::timeout(Duration::from_millis(500), self.go_on.recv()).await;
        }
    }
}

/// Hears Ctrl-C from the moment it is made.
#[cfg(windows)]
pub(crate) struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    /// Begins to listen.
    pub(crate) fn listen() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Signals)
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Heard {
        self.0.recv().await;
        Heard::Interrupt
    }

    /// Nothing can be stopped here.
    pub(crate) async fn suspend(&mut self) {}
}
