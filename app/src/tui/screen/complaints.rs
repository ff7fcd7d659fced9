//! What is written to standard error while the screen is ours: it would be written across it.

use std::io;
#[cfg(unix)]
use std::io::{BufRead, BufReader, Read};

use tokio::sync::mpsc;

/// The most lines that wait to be shown; what comes beyond them is lost.
const LINES: usize = 256;
/// The longest line in bytes; what is longer is cut into several.
#[cfg(unix)]
const LONGEST: u64 = 64 * 1024;

/// Standard error, led into lines for the transcript while the screen is taken.
pub(crate) struct Complaints {
    #[cfg(unix)]
    ends: Option<(std::os::fd::OwnedFd, io::PipeWriter)>,
}

impl Complaints {
    /// What is to be caught, and its lines. Where standard error is no terminal it is left alone.
    pub(crate) fn new() -> io::Result<(Self, mpsc::Receiver<String>)> {
        let (send, lines) = mpsc::channel(LINES);
        #[cfg(unix)]
        {
            use std::os::fd::AsFd;
            if !std::io::IsTerminal::is_terminal(&io::stderr()) {
                return Ok((Complaints { ends: None }, lines));
            }
            let ours = io::stderr().as_fd().try_clone_to_owned()?;
            let (from, to) = io::pipe()?;
            std::thread::Builder::new()
                .name("stderr".into())
                .spawn(move || pass_on(from, &send))?;
            Ok((Complaints { ends: Some((ours, to)) }, lines))
        }

        #[cfg(not(unix))]
        {
            drop(send);
            Ok((Complaints {}, lines))
        }
    }

    /// From here on lines are caught.
    pub(super) fn catch(&self) {
        #[cfg(unix)]
        if let Some((_, to)) = &self.ends {
            let _ = rustix::stdio::dup2_stderr(to);
        }
    }

    /// From here on they are written as ever.
    pub(super) fn release(&self) {
        #[cfg(unix)]
        if let Some((ours, _)) = &self.ends {
            let _ = rustix::stdio::dup2_stderr(ours);
        }
    }
}

/// Reads to the end, whatever is written: if nobody read any more, whoever writes there would fail
/// by it.
#[cfg(unix)]
fn pass_on(from: impl Read, to: &mpsc::Sender<String>) {
    let (mut from, mut line) = (BufReader::new(from), Vec::new());
    loop {
        line.clear();
        match from.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
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
    fn lines_that_are_no_text_or_have_no_end_or_that_nobody_reads_end_nothing() {
        let mut bytes = b"one\xff\r\n".to_vec();
        bytes.extend(vec![b'x'; LONGEST as usize + 1]);
        bytes.extend(b"\n".repeat(LINES));
        let (send, mut lines) = mpsc::channel(LINES);
        pass_on(&*bytes, &send);
        drop(send);
        assert_eq!(lines.try_recv().unwrap(), "one\u{fffd}");
        assert_eq!(
            (lines.try_recv().unwrap().len(), lines.try_recv().unwrap().as_str()),
            (LONGEST as usize, "x")
        );
        let mut rest = 0;
        while lines.try_recv().is_ok() {
            rest += 1;
        }
        assert_eq!(rest, LINES - 3, "the others are lost");
    }
}
