//! Capture of standard error while the app owns the terminal, so that nothing is written across the
//! screen.

use std::io;
#[cfg(unix)]
use std::io::{BufRead, BufReader, Read};

use tokio::sync::mpsc;

/// Maximum number of queued lines; further ones are dropped.
const MAX_QUEUED_LINES: usize = 256;
/// Maximum length of a line; longer lines are split.
#[cfg(unix)]
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// A redirection of standard error into lines for the transcript.
pub(crate) struct StderrCapture {
    #[cfg(unix)]
    pipe: Option<(std::os::fd::OwnedFd, io::PipeWriter)>,
}

impl StderrCapture {
    /// Returns the capture and its lines. Standard error that is not a terminal is left alone.
    pub(crate) fn new() -> io::Result<(Self, mpsc::Receiver<String>)> {
        let (send, lines) = mpsc::channel(MAX_QUEUED_LINES);
        #[cfg(unix)]
        {
            use std::os::fd::AsFd;
            if !std::io::IsTerminal::is_terminal(&io::stderr()) {
                return Ok((StderrCapture { pipe: None }, lines));
            }
            let original = io::stderr().as_fd().try_clone_to_owned()?;
            let (from, to) = io::pipe()?;
            std::thread::Builder::new()
                .name("stderr".into())
                .spawn(move || forward_lines(from, &send))?;
            Ok((StderrCapture { pipe: Some((original, to)) }, lines))
        }

        #[cfg(not(unix))]
        {
            drop(send);
            Ok((StderrCapture {}, lines))
        }
    }

    /// Starts capturing.
    pub(super) fn catch(&self) {
        #[cfg(unix)]
        if let Some((_, to)) = &self.pipe {
            let _ = rustix::stdio::dup2_stderr(to);
        }
    }

    /// Stops capturing.
    pub(super) fn release(&self) {
        #[cfg(unix)]
        if let Some((original, _)) = &self.pipe {
            let _ = rustix::stdio::dup2_stderr(original);
        }
    }
}

/// Forwards lines until the pipe is closed. It keeps reading even when nobody takes the lines,
/// since writers would otherwise block or fail.
#[cfg(unix)]
fn forward_lines(from: impl Read, to: &mpsc::Sender<String>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                let _ = to.try_send(text.trim_end_matches(['\n', '\r']).to_owned());
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn invalid_text_long_lines_and_a_full_queue_do_not_stop_the_capture() {
        let mut bytes = b"one\xff\r\n".to_vec();
        bytes.extend(vec![b'x'; MAX_LINE_BYTES as usize + 1]);
        bytes.extend(b"\n".repeat(MAX_QUEUED_LINES));
        let (send, mut lines) = mpsc::channel(MAX_QUEUED_LINES);
        forward_lines(&*bytes, &send);
        drop(send);
        assert_eq!(lines.try_recv().unwrap(), "one\u{fffd}");
        assert_eq!(
            (lines.try_recv().unwrap().len(), lines.try_recv().unwrap().as_str()),
            (MAX_LINE_BYTES as usize, "x")
        );
        let mut rest = 0;
        while lines.try_recv().is_ok() {
            rest += 1;
        }
        assert_eq!(rest, MAX_QUEUED_LINES - 3, "further lines are dropped");
    }
}
