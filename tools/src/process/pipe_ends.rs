//! [`PipeEnds`]: a command's ends of the pipes between it and its caller.

use std::io::PipeWriter;
use std::process::ChildStdin;

use tokio::sync::oneshot;

/// A command's ends of the pipes between it and its caller.
pub(super) struct PipeEnds {
    /// The destination of the command's standard output.
    pub(super) stdout: PipeWriter,
    /// The channel for the caller's end of the command's standard input.
    pub(super) stdin: oneshot::Sender<ChildStdin>,
}
