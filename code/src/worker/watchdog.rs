//! [`Watchdog`]: ends the process of a script that does not check its own time, as in a long
//! calculation with a big number.

use std::io;
use std::process;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crate::protocol::TIME_EXIT_CODE;

/// A thread that ends the process if it is not paused in time.
pub(super) struct Watchdog(Sender<()>);

impl Watchdog {
    pub(super) fn start(time: Duration) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        thread::Builder::new().spawn(move || watch(&receiver, time))?;
        Ok(Watchdog(sender))
    }

    pub(super) fn pause(&self) {
        let _ = self.0.send(());
    }

    pub(super) fn resume(&self) {
        let _ = self.0.send(());
    }
}

/// Each message pauses or resumes, in turn.
fn watch(messages: &Receiver<()>, time: Duration) {
    loop {
        match messages.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => process::exit(TIME_EXIT_CODE.into()),
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(()) => {}
        }
        if messages.recv().is_err() {
            return;
        }
    }
}
