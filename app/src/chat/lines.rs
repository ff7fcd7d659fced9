//! What the user types.

use std::io::{self, BufRead};

use tokio::sync::mpsc;

use crate::agent::StartError;

/// Lines that are read ahead.
const AHEAD: usize = 64;

/// The lines of standard input, read on a thread of their own: a read that waits for the keyboard
/// cannot be cancelled, and ends with the process.
pub(super) fn read() -> Result<mpsc::Receiver<String>, StartError> {
    let (to_chat, lines) = mpsc::channel(AHEAD);
    let read = move || {
        let (mut stdin, mut line) = (io::stdin().lock(), Vec::new());
        while matches!(stdin.read_until(b'\n', &mut line), Ok(1..)) {
            if to_chat.blocking_send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    };
    let thread = std::thread::Builder::new().name("stdin".into()).spawn(read);
    thread.map_err(|why| StartError(format!("Standard input cannot be read: {why}.")))?;
    Ok(lines)
}
