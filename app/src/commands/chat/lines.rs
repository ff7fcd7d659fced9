//! The lines of standard input.

use std::io::{self, BufRead};
use std::thread;

use tokio::sync::mpsc;

use crate::error::StartError;

/// Maximum number of lines that are read ahead.
const MAX_LINES_AHEAD: usize = 64;

/// Reads the lines of standard input on a separate thread: a read that waits for the keyboard
/// cannot be cancelled, and ends with the process.
pub(super) fn read() -> Result<mpsc::Receiver<String>, StartError> {
    let (sender, lines) = mpsc::channel(MAX_LINES_AHEAD);
    let read = move || {
        let mut stdin = io::stdin().lock();
        let mut line = Vec::new();
        while matches!(stdin.read_until(b'\n', &mut line), Ok(1..)) {
            if sender.blocking_send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    };
    let thread = thread::Builder::new().name("stdin".into()).spawn(read);
    thread.map_err(|why| StartError(format!("Standard input cannot be read: {why}.")))?;
    Ok(lines)
}
