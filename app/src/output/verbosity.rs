//! The amount of output on standard error.

/// The amount of output on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Verbosity {
    /// Errors only; the answer is printed when it is complete.
    Quiet,
    /// A line for each tool call; on a terminal also the model's thinking.
    #[default]
    Normal,
    /// Also the model's thinking, whole results, tokens and costs.
    Verbose,
}

impl Verbosity {
    /// Returns whether notes that need no action are written.
    pub(crate) fn notes(self) -> bool {
        self != Verbosity::Quiet
    }
}
