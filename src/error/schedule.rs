//! [`InvalidSchedule`]: the error of a schedule that cannot be carried out.

use super::InputError;

/// The reason why a schedule cannot be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSchedule {
    /// The cron expression is not valid.
    #[error("`{expression}` is no cron expression: {why}; an example is `0 9 * * MON-FRI`")]
    Cron {
        /// The expression as given.
        expression: String,
        /// The reason why it is invalid.
        why: String,
    },
    /// The program was built without cron expressions.
    #[error(
        "this program does not know cron expressions: build it with the feature `cron`, or \
         schedule a single time"
    )]
    NoCron,
    /// This machine does not know the time zone.
    #[error("there is no time zone `{0}` on this machine: an example is `Europe/Berlin`")]
    TimeZone(String),
    /// A time zone without a cron expression.
    #[error("a time zone needs a cron expression: leave it out for a single time")]
    NeedsCron,
    /// The cron expression has no time in the future.
    #[error("`{0}` has no time in the future: an example that does is `0 9 * * MON-FRI`")]
    NeverDue(String),
    /// The time of the schedule has passed.
    #[error("the time of the schedule has passed: choose a later one")]
    Past,
    /// The id is empty or too long.
    #[error("the id of a schedule has 1 to {max} bytes, and this one has {bytes}: choose another")]
    Id {
        /// Length of the id in bytes.
        bytes: usize,
        /// Maximum length in bytes.
        max: usize,
    },
    /// A part of the schedule is too long.
    #[error("the {part} has {bytes} bytes, and a schedule holds {max}: shorten it")]
    TooLong {
        /// The part: the cron expression, the time zone or the input.
        part: &'static str,
        /// Length of the part in bytes.
        bytes: usize,
        /// Maximum length in bytes.
        max: usize,
    },
    /// The input is neither a request nor a signal.
    #[error("a schedule sends a request or a signal, and no other input")]
    Event,
    /// The input cannot be posted.
    #[error(transparent)]
    Input(#[from] InputError),
}
