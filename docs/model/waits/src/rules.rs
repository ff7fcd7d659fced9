//! The rules of the model. Each can be left out.

#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// An append of an owner that has lost the session fails.
    pub(crate) fenced: bool,
    /// A timer rings only if it waits, according to the owner's view of the log.
    pub(crate) compares: bool,
    /// A timer rings in the append that starts its run.
    pub(crate) starts: bool,
    /// Sweeps open sessions whose timer has passed.
    pub(crate) due: bool,
    /// An owner registers the wake-up before it leaves.
    pub(crate) registers: bool,
    /// The abort of a sleeping session cancels its timer.
    pub(crate) cancels: bool,
    /// A timer does not ring while a run is in progress.
    pub(crate) rests: bool,
    /// A signal that arrives before the session waits for it is kept.
    pub(crate) keeps: bool,
    /// Sweeps open sessions whose signal has arrived.
    pub(crate) due_signal: bool,
    /// A wait that is cancelled before it has ended gives its signal back.
    pub(crate) returns: bool,
}

pub(crate) const ALL: Rules = Rules {
    fenced: true,
    compares: true,
    starts: true,
    due: true,
    registers: true,
    cancels: true,
    rests: true,
    keeps: true,
    due_signal: true,
    returns: true,
};
