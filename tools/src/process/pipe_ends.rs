//! [`PipeEnds`]: what a command gets of the pipes between it and its caller.

use std::io::PipeWriter;
use std::process::ChildStdin;

use tokio::sync::oneshot;

/// The ends of the pipes between a command and its caller that the command gets.
pub(super) struct PipeEnds {
    /// Where its standard output goes.
    pub(super) stdout: PipeWriter,
    /// Receives the end that writes its standard input.
    pub(super) stdin: oneshot::Sender<ChildStdin>,
}
