//! The flags for the amount of output.

use clap::Args;

use crate::output::Verbosity;

/// The flags for the amount of output on standard error.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct VerbosityArgs {
    /// Print the answer when it is complete, and only errors otherwise.
    #[arg(long, short)]
    quiet: bool,
    /// Print the model's thinking, whole results of tools, tokens and costs on standard error.
    #[arg(long, short, conflicts_with_all = ["quiet", "json"])]
    verbose: bool,
}

impl VerbosityArgs {
    /// Returns the verbosity that the flags select.
    pub(crate) fn verbosity(self) -> Verbosity {
        match self {
            VerbosityArgs { quiet: true, .. } => Verbosity::Quiet,
            VerbosityArgs { verbose: true, .. } => Verbosity::Verbose,
            _ => Verbosity::Normal,
        }
    }
}
