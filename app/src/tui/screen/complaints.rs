//! What is written to standard error while the screen is ours: it would be written across it.

use std::io;

use tokio::sync::mpsc;

/// Standard error, led into lines for the transcript while the screen is taken.
pub(crate) struct Complaints {
    #[cfg(unix)]
    ends: Option<(std::os::fd::OwnedFd, io::PipeWriter)>,
}

impl Complaints {
    /// What is to be caught, and its lines. Where standard error is no terminal it is left alone.
    pub(crate) fn new() -> io::Result<(Self, mpsc::UnboundedReceiver<String>)> {
        let (send, lines) = mpsc::unbounded_channel();
        #[cfg(unix)]
        {
            use std::io::{BufRead, BufReader};
            use std::os::fd::AsFd;
            if !std::io::IsTerminal::is_terminal(&io::stderr()) {
                return Ok((Complaints { ends: None }, lines));
            }
            let ours = io::stderr().as_fd().try_clone_to_owned()?;
            let (from, to) = io::pipe()?;
            std::thread::Builder::new().name("stderr".into()).spawn(move || {
                for line in BufReader::new(from).lines().map_while(Result::ok) {
                    let _ = send.send(line);
                }
            })?;
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
